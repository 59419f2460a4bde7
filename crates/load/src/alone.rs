//! A load without a lane: for a device that says at once when a request will be answered, as a modelled
//! drive does. What is asked for when, and what is noted, is what it is on a lane.

use crate::generator::Generator;
use crate::plan::{Load, LoadError};
use crate::record::Record;
use crate::running::{Errand, State};
use crate::source::Step;
use block::Limits;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// What happens next to a worker: its request is answered, or due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Answer { started_ns: u64 },
    Start,
}

/// When, which of the events of one time, of which worker, and what.
type Event = Reverse<(u64, u64, u32, Next)>;

/// A load under way on a device that foresees.
pub struct Alone {
    state: State,
    events: BinaryHeap<Event>,
    /// What each worker does.
    errands: Vec<Option<Errand>>,
    /// Counts events, so that those of one time keep their order.
    count: u64,
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
        let workers = terms.depth_max as usize;
        let events = BinaryHeap::with_capacity(workers);
        let mut alone = Alone { state, events, errands: vec![None; workers], count: 0, now_ns };
        (0..terms.depth_max).for_each(|worker| alone.ask(worker));
        Ok(alone)
    }

    /// Lets so many things happen. False: everything has been answered.
    pub fn go_on(&mut self, device: &mut dyn Foresees, steps: u32) -> bool {
        for _ in 0..steps {
            let Some(Reverse((now, _, worker, next))) = self.events.pop() else {
                return false;
            };
            self.now_ns = now;
            let errand = self.errands[worker as usize].expect("a worker has an errand");
            match next {
                Next::Start => self.submit(device, worker, &errand),
                Next::Answer { started_ns } => {
                    self.state.answered(now, started_ns, &errand, Ok(()));
                    self.go_on_with(device, worker);
                }
            }
        }
        true
    }

    /// What an answered worker does next. If that is due and nothing else happens at this time before,
    /// it does not go through the queue.
    fn go_on_with(&mut self, device: &mut dyn Foresees, worker: u32) {
        self.errands[worker as usize] = self.state.next(self.now_ns);
        let Some(errand) = self.errands[worker as usize] else { return };
        let now = self.now_ns;
        let is_first = self.events.peek().is_none_or(|Reverse((at, ..))| *at > now);
        if errand.due_ns <= now && is_first {
            self.submit(device, worker, &errand);
        } else {
            self.push(errand.due_ns.max(now), worker, Next::Start);
        }
    }

    fn ask(&mut self, worker: u32) {
        self.errands[worker as usize] = self.state.next(self.now_ns);
        if let Some(errand) = self.errands[worker as usize] {
            self.push(errand.due_ns.max(self.now_ns), worker, Next::Start);
        }
    }

    fn submit(&mut self, device: &mut dyn Foresees, worker: u32, errand: &Errand) {
        let started_ns = self.now_ns;
        match device.submit(started_ns, &errand.step, self.state.ahead()) {
            Ok(end) => self.push(end, worker, Next::Answer { started_ns }),
            Err(error) => {
                self.state.answered(started_ns, started_ns, errand, Err(error));
            }
        }
    }

    fn push(&mut self, at: u64, worker: u32, next: Next) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, worker, next)));
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
