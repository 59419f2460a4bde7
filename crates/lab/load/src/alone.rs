//! A load without a lane: for a device that says at once when a request will be answered, as a modelled
//! drive does. What is asked for when, and what is noted, is what it is on a lane.

use crate::generator::Generator;
use crate::next::NextEvents;
use crate::plan::{Load, LoadError};
use crate::record::Record;
use crate::running::{Errand, State};
use crate::source::Step;
use block::Limits;

/// A device that says at once when a request will be answered.
pub trait Foresees {
    /// Takes a request at a time, not before the last one's; returns when it is answered. `ahead` are
    /// some that come later, where they are known: what they need may be brought nearer, and nothing else
    /// may follow from them.
    ///
    /// # Errors
    /// What the request is answered with instead.
    fn submit(&mut self, now_ns: u64, step: &Step, ahead: &[Step]) -> block::Result<u64>;

    /// The same for a flush.
    ///
    /// # Errors
    /// What it is answered with instead.
    fn flush(&mut self, now_ns: u64) -> block::Result<u64>;
}

/// What a worker does.
#[derive(Clone, Copy)]
struct Worker {
    errand: Errand,
    /// When its request was started; None: it is not due yet.
    started_ns: Option<u64>,
}

/// A load under way on a device that foresees.
pub struct Alone {
    state: State,
    events: NextEvents,
    /// None: it has ended.
    workers: Vec<Option<Worker>>,
    now_ns: u64,
}

impl Alone {
    /// Begins a load at a time of the device.
    ///
    /// # Errors
    /// What of the load the device cannot take.
    pub fn start(limits: &Limits, load: &Load, now_ns: u64) -> Result<Alone, LoadError> {
        load.check(limits)?;
        let terms = load.terms();
        let state = State::new(Box::new(Generator::new(load)), terms, now_ns);
        let (events, workers) =
            (NextEvents::new(terms.depth_max), vec![None; terms.depth_max as usize]);
        let mut alone = Alone { state, events, workers, now_ns };
        (0..terms.depth_max).for_each(|number| alone.ask(number));
        Ok(alone)
    }

    /// Lets so many things happen. False: everything has been answered.
    pub fn go_on(&mut self, device: &mut dyn Foresees, steps: u32) -> bool {
        for _ in 0..steps {
            let Some((now, number)) = self.events.take() else {
                return false;
            };
            self.now_ns = now;
            let worker = self.workers[number as usize].as_ref().expect("its event");
            match worker.started_ns {
                None => self.submit(device, number),
                Some(started_ns) => {
                    self.state.answered(now, started_ns, &worker.errand, Ok(()));
                    self.go_on_with(device, number);
                }
            }
        }
        true
    }

    /// What an answered worker does next. If that is due and nothing else happens at this time before,
    /// it does not go through the queue.
    fn go_on_with(&mut self, device: &mut dyn Foresees, number: u32) {
        let Some(due_ns) = self.next(number) else { return };
        let now = self.now_ns;
        if due_ns <= now && self.events.first_ns() > now {
            self.submit(device, number);
        } else {
            self.events.note(due_ns.max(now), number);
        }
    }

    fn ask(&mut self, number: u32) {
        if let Some(due_ns) = self.next(number) {
            self.events.note(due_ns.max(self.now_ns), number);
        }
    }

    /// Gives a worker its next errand; when that is due, if there is one.
    fn next(&mut self, number: u32) -> Option<u64> {
        let errand = self.state.next(self.now_ns);
        self.workers[number as usize] = errand.map(|errand| Worker { errand, started_ns: None });
        errand.map(|errand| errand.due_ns)
    }

    fn submit(&mut self, device: &mut dyn Foresees, number: u32) {
        let worker = self.workers[number as usize].as_mut().expect("what is submitted");
        worker.started_ns = Some(self.now_ns);
        match device.submit(self.now_ns, &worker.errand.step, self.state.ahead()) {
            Ok(end_ns) => self.events.note(end_ns, number),
            Err(error) => {
                self.state.answered(self.now_ns, self.now_ns, &worker.errand, Err(error));
            }
        }
    }

    /// The device's time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Starts no more requests.
    pub fn stop(&mut self) {
        self.state.stop();
    }

    /// How far it has come: time or requests, whichever is further, as a share of the limit.
    pub fn share_done(&self) -> f64 {
        self.state.share_done(self.now_ns)
    }

    /// The final flush, if there is one, and what became of the load.
    ///
    /// # Panics
    /// If not everything has been answered.
    pub fn finish(mut self, device: &mut dyn Foresees) -> Record {
        assert!(self.events.is_empty(), "the load is under way");
        let before = self.now_ns;
        let flushed = match self.state.flushes() {
            true => device.flush(before),
            false => Ok(before),
        };
        let (end, result) = match flushed {
            Ok(end) => (end, Ok(())),
            Err(error) => (before, Err(error)),
        };
        self.state.finish(end, end - before, result);
        self.state.take_record()
    }
}
