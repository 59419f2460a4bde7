//! Runs a load without a lane, on a device that returns the completion time of a request when it is
//! submitted, as a modelled drive does. Requests and records are the same as on a lane.

use crate::generator::Generator;
use crate::next::NextEvents;
use crate::plan::{Load, LoadError, RunOptions};
use crate::record::Record;
use crate::running::{Errand, State};
use crate::source::{Source, Step};
use block::Limits;

/// A device that returns the completion time of a request when it is submitted.
pub trait Foresees {
    /// Submits a request at `now_ns`, which never decreases from call to call; returns the time of
    /// its completion. `ahead` holds some later requests, where they are known: the device may
    /// prefetch memory for them, but they must not change any result.
    ///
    /// # Errors
    /// The error that the request fails with.
    fn submit(&mut self, now_ns: u64, step: &Step, ahead: &[Step]) -> block::Result<u64>;

    /// Submits a flush, like [`Foresees::submit`].
    ///
    /// # Errors
    /// The error that the flush fails with.
    fn flush(&mut self, now_ns: u64) -> block::Result<u64>;
}

/// The current request of a worker.
#[derive(Clone, Copy)]
struct Worker {
    errand: Errand,
    /// The time when its request was started. None: it is not due yet.
    started_ns: Option<u64>,
}

/// A running load on a device that foresees its answers.
pub struct Alone {
    state: State,
    events: NextEvents,
    /// None: the worker has ended.
    workers: Vec<Option<Worker>>,
    /// Workers whose request is due, but waits for the answers of earlier ones; earliest first.
    held: Vec<u32>,
    now_ns: u64,
}

impl Alone {
    /// Starts a load at a time of the device.
    ///
    /// # Errors
    /// The part of the load that the device does not support.
    pub fn start(limits: &Limits, load: &Load, now_ns: u64) -> Result<Alone, LoadError> {
        load.check(limits)?;
        Ok(Alone::with(Box::new(Generator::new(load)), load.run_options(), now_ns))
    }

    /// Starts the requests of a source at a time of the device.
    ///
    /// # Errors
    /// The part of the source or of the terms that the device does not support.
    pub fn of(
        limits: &Limits,
        source: impl Source + 'static,
        run_options: RunOptions,
        now_ns: u64,
    ) -> Result<Alone, LoadError> {
        source.check(limits)?;
        run_options.check()?;
        Ok(Alone::with(Box::new(source), run_options, now_ns))
    }

    fn with(source: Box<dyn Source>, run_options: RunOptions, now_ns: u64) -> Alone {
        let state = State::new(source, run_options, now_ns);
        let (events, workers) =
            (NextEvents::new(run_options.depth_max), vec![None; run_options.depth_max as usize]);
        let mut alone = Alone { state, events, workers, held: Vec::new(), now_ns };
        (0..run_options.depth_max).for_each(|number| alone.schedule_next(number));
        alone
    }

    /// Processes up to `steps` events. False: everything has been answered.
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
                    if self.state.answered(now, started_ns, &worker.errand, Ok(())) {
                        self.release();
                    }
                    self.go_on_with(device, number);
                }
            }
        }
        true
    }

    /// Gives an answered worker its next request. If that is due, and no other event has the same
    /// time, it is submitted without the queue.
    fn go_on_with(&mut self, device: &mut dyn Foresees, number: u32) {
        let Some(due_ns) = self.next(number) else { return };
        let now = self.now_ns;
        if due_ns <= now && self.events.first_ns() > now {
            self.submit(device, number);
        } else {
            self.events.add(due_ns.max(now), number);
        }
    }

    fn schedule_next(&mut self, number: u32) {
        if let Some(due_ns) = self.next(number) {
            self.events.add(due_ns.max(self.now_ns), number);
        }
    }

    /// Gives a worker its next errand. Returns the time when that is due; None: there is none.
    fn next(&mut self, number: u32) -> Option<u64> {
        let errand = self.state.next(self.now_ns);
        self.workers[number as usize] = errand.map(|errand| Worker { errand, started_ns: None });
        errand.map(|errand| errand.due_ns)
    }

    fn submit(&mut self, device: &mut dyn Foresees, number: u32) {
        let worker = self.workers[number as usize].as_mut().expect("what is submitted");
        if !self.state.may_start(&mut worker.errand) {
            return self.held.push(number);
        }
        worker.started_ns = Some(self.now_ns);
        // A request without a due time is due when it starts.
        if worker.errand.step.due_ns.is_none() {
            worker.errand.due_ns = self.now_ns;
        }
        match device.submit(self.now_ns, &worker.errand.step, self.state.ahead()) {
            Ok(end_ns) => self.events.add(end_ns, number),
            Err(error) => {
                self.state.answered(self.now_ns, self.now_ns, &worker.errand, Err(error));
                self.release();
            }
        }
    }

    /// Submits the held requests that may start now, as events of this time. After a stop, held
    /// requests are not started.
    fn release(&mut self) {
        let is_stopped = self.state.is_stopped();
        let mut held = std::mem::take(&mut self.held);
        held.retain(|number| {
            let worker = &mut self.workers[*number as usize];
            if is_stopped {
                *worker = None;
                return false;
            }
            let worker = worker.as_mut().expect("it holds a request");
            let may_start = self.state.may_start(&mut worker.errand);
            if may_start {
                self.events.add(self.now_ns, *number);
            }
            !may_start
        });
        self.held = held;
    }

    /// Returns the time of the device.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Stops starting requests.
    pub fn stop(&mut self) {
        self.state.stop();
        self.release();
    }

    /// Returns the progress: time or requests, whichever is further, as a share of the limit.
    pub fn share_done(&self) -> f64 {
        self.state.share_done(self.now_ns)
    }

    /// Runs the final flush, if there is one, and returns the results.
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
