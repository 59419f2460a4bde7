//! A running load: tasks that take the next request from the source until it ends.

use crate::busy::Busy;
use crate::data::{Data, Mismatch};
use crate::generator::Generator;
use crate::intervals::Intervals;
use crate::plan::{Load, LoadError, RunOptions};
use crate::record::{End, Record};
use crate::source::{Source, Step};
use crate::staging::Staged;
use block::{Buf, Request, Stack};
use lane::Event;
use std::cell::RefCell;
use std::rc::Rc;
use trace::Operation;

/// After this number of answers without a step of the clock, the device counts as taking no time.
const TIMELESS: u64 = 1 << 20;

/// A running load.
#[derive(Clone)]
pub struct Running {
    state: Rc<RefCell<State>>,
    /// Notified when a step may be allowed to start that was not allowed before.
    allowed: Rc<Event>,
}

pub(crate) struct State {
    source: Box<dyn Source>,
    /// A step taken from the source early, for a worker that makes its data before it is due.
    drawn: Option<Step>,
    run_options: RunOptions,
    record: Record,
    /// Number of requests started.
    started: u64,
    /// The end of starting requests, on the lane's clock.
    until_ns: u64,
    /// Workers that have not ended.
    workers: u32,
    stopped: bool,
    done: bool,
    intervals: Intervals,
    busy: Busy,
    /// The time of the clock's last step, and the answers since.
    moved_ns: u64,
    unmoved: u64,
}

/// The next request of a worker.
#[derive(Clone, Copy)]
pub(crate) struct Errand {
    pub(crate) step: Step,
    /// The number of steps before it.
    pub(crate) number: u64,
    /// On the lane's clock.
    pub(crate) due_ns: u64,
    /// It was due before a worker was free, or before its source let it start.
    pub(crate) waited: bool,
    /// Its source did not let it start when it was due.
    pub(crate) held: bool,
}

impl Running {
    /// Starts a load on the stack's lane. It proceeds whenever that lane is driven.
    ///
    /// # Errors
    /// The part of the load that the stack does not support.
    ///
    /// # Panics
    /// If the lane has no room for the load's tasks.
    pub fn start(stack: &Stack, load: Load) -> Result<Running, LoadError> {
        // Before the generator is made, which assumes a valid load.
        load.check(stack.limits())?;
        Running::of(stack, Generator::new(&load), load.run_options())
    }

    /// Starts a load with data in its writes, and compares its reads.
    ///
    /// # Errors
    /// As [`Running::start`].
    ///
    /// # Panics
    /// As [`Running::start`].
    pub fn start_with(stack: &Stack, load: Load, data: &Data) -> Result<Running, LoadError> {
        load.check(stack.limits())?;
        Running::with(stack, Generator::new(&load), load.run_options(), Some(data))
    }

    /// Starts the requests of a source on the stack's lane. It proceeds whenever that lane is
    /// driven.
    ///
    /// # Errors
    /// The part of the source or of the terms that the stack does not support.
    ///
    /// # Panics
    /// If the lane has no room for the load's tasks.
    pub fn of(
        stack: &Stack,
        source: impl Source + 'static,
        run_options: RunOptions,
    ) -> Result<Running, LoadError> {
        Running::with(stack, source, run_options, None)
    }

    /// Starts a source with data in its writes, and compares its reads.
    ///
    /// # Errors
    /// As [`Running::of`].
    ///
    /// # Panics
    /// As [`Running::of`].
    pub fn with(
        stack: &Stack,
        source: impl Source + 'static,
        run_options: RunOptions,
        data: Option<&Data>,
    ) -> Result<Running, LoadError> {
        source.check(stack.limits())?;
        run_options.check()?;
        // The lane's clock stood still while the source was made and checked, which takes seconds
        // if it has millions of steps: its first steps would be late.
        let now = stack.lane().stopwatch_ns();
        let state = State::new(Box::new(source), run_options, now);
        let running = Running { state: Rc::new(RefCell::new(state)), allowed: Rc::default() };
        for _ in 0..run_options.depth_max {
            let worker = work(stack.clone(), running.clone(), data.cloned());
            stack.lane().spawn(worker).expect("the lane has room for a load");
        }
        Ok(running)
    }

    /// Whether everything has been answered, including the final flush.
    pub fn is_done(&self) -> bool {
        self.state.borrow().done
    }

    /// Stops starting requests; those under way, and the final flush, are waited for.
    pub fn stop(&self) {
        self.state.borrow_mut().stop();
        self.allowed.notify();
    }

    /// Ends the load without the missing answers: it does not wait for them, and does not count
    /// them if they come.
    pub fn give_up(&self, now_ns: u64) {
        self.state.borrow_mut().give_up(now_ns);
    }

    /// Returns the progress: time or requests, whichever is further, as a share of the limit.
    pub fn share_done(&self, now_ns: u64) -> f64 {
        self.state.borrow().share_done(now_ns)
    }

    /// Returns the results.
    ///
    /// # Panics
    /// If it is not done.
    pub fn record(self) -> Record {
        self.state.borrow_mut().take_record()
    }

    fn next(&self, now_ns: u64) -> Option<Errand> {
        self.state.borrow_mut().next(now_ns)
    }

    /// Starts to make the data of the next request, if that is known.
    fn stage(&self, data: &Data, spare: &mut Buf) -> Option<Staged> {
        let step = self.state.borrow_mut().upcoming()?;
        room(spare, step.buffer_sectors());
        Staged::new(data, step, spare)
    }

    fn answered(&self, now_ns: u64, started_ns: u64, errand: &Errand, result: block::Result) {
        let frees = self.state.borrow_mut().answered(now_ns, started_ns, errand, result);
        if frees {
            self.allowed.notify();
        }
    }

    /// Waits until the source lets the step start. False: the load was stopped.
    async fn may_start(&self, errand: &mut Errand) -> bool {
        loop {
            let seen = self.allowed.seen();
            let (is_stopped, may_start) = {
                let mut state = self.state.borrow_mut();
                let may_start = state.may_start(errand);
                (state.stopped, may_start)
            };
            if may_start || is_stopped {
                return may_start;
            }
            self.allowed.after(seen).await;
        }
    }
}

impl State {
    pub(crate) fn new(source: Box<dyn Source>, run_options: RunOptions, now: u64) -> State {
        State {
            source,
            drawn: None,
            record: Record::new(now),
            started: 0,
            until_ns: now.saturating_add(run_options.limit.time_ns),
            workers: run_options.depth_max,
            stopped: false,
            done: false,
            intervals: Intervals::new(now, run_options.interval_ns),
            busy: Busy::default(),
            moved_ns: now,
            unmoved: 0,
            run_options,
        }
    }

    pub(crate) fn flushes(&self) -> bool {
        self.run_options.flush
    }

    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    fn give_up(&mut self, now_ns: u64) {
        self.stopped = true;
        self.finish(now_ns, 0, Ok(()));
    }

    pub(crate) fn share_done(&self, now_ns: u64) -> f64 {
        let limit = self.run_options.limit;
        let time = (now_ns - self.record.start_ns.min(now_ns)) as f64 / limit.time_ns.max(1) as f64;
        (self.started as f64 / limit.requests.max(1) as f64).max(time).min(1.0)
    }

    pub(crate) fn take_record(&mut self) -> Record {
        assert!(self.done, "the load is under way");
        std::mem::replace(&mut self.record, Record::new(0))
    }

    pub(crate) fn ahead(&self) -> &[Step] {
        self.source.ahead()
    }

    /// Whether a due step may start. A step that may not is counted.
    pub(crate) fn may_start(&mut self, errand: &mut Errand) -> bool {
        let may_start = self.source.may_start(errand.number);
        if !may_start && !errand.held {
            self.record.held_starts += 1;
            (errand.held, errand.waited) = (true, true);
        }
        may_start
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn next(&mut self, now: u64) -> Option<Errand> {
        if self.stopped || self.started >= self.run_options.limit.requests {
            return None;
        }
        let step = self.drawn.take().or_else(|| self.source.next())?;
        let due_ns = step.due_ns.map_or(now, |ns| self.record.start_ns.saturating_add(ns));
        if due_ns >= self.until_ns {
            return None;
        }
        let number = self.started;
        self.started += 1;
        // A request that is due before it is taken had to wait for a free worker.
        let waited = now > due_ns;
        self.record.late_starts += u64::from(waited);
        Some(Errand { step, number, due_ns, waited, held: false })
    }

    /// Returns the next step, if it is known and has no due time: the load has one request at a
    /// time.
    fn upcoming(&mut self) -> Option<Step> {
        let goes_on = !self.stopped && self.started < self.run_options.limit.requests;
        if self.drawn.is_none() && goes_on && self.run_options.depth_max == 1 {
            self.drawn = self.source.next();
        }
        self.drawn.filter(|step| step.due_ns.is_none())
    }

    /// Ends the load: a read returned data that was not written.
    fn record_mismatch(&mut self, mismatch: Mismatch) {
        if !matches!(self.record.end, End::Failed(_)) {
            self.record.end = End::Wrong(mismatch);
        }
        self.stopped = true;
    }

    /// Records an answer. True: waiting steps may start now, or need not wait any more.
    pub(crate) fn answered(
        &mut self,
        now: u64,
        started_ns: u64,
        errand: &Errand,
        result: block::Result,
    ) -> bool {
        let frees = self.source.answered(errand.number);
        if let Err(error) = result {
            self.record.end = End::Failed(error);
            self.stopped = true;
            return true;
        }
        self.intervals.go_on(now, &mut self.record);
        self.busy.add(started_ns, now);
        self.record.in_flight_ns += u128::from(now - started_ns);
        let latency_ns = now - errand.due_ns;
        let latencies = match errand.step.operation {
            Operation::Read => &mut self.record.reads,
            Operation::Write { .. } => &mut self.record.writes,
            Operation::Flush => &mut self.record.flushes,
            Operation::Discard | Operation::Zero { .. } | Operation::Advise => {
                &mut self.record.trims
            }
        };
        latencies.record(latency_ns);
        if errand.step.due_ns.is_some() {
            self.record.served.record(now - started_ns);
            if !errand.waited {
                self.record.lateness.record(started_ns - errand.due_ns);
            }
        }
        let moves_data = matches!(errand.step.operation, Operation::Read | Operation::Write { .. });
        self.intervals.count(&mut self.record, moves_data.then_some(latency_ns));
        self.mark(now, errand.step.bytes());
        self.check_clock(now);
        frees || self.stopped
    }

    /// Records the time of each mark.
    fn mark(&mut self, now: u64, bytes: u64) {
        self.record.bytes += bytes;
        let marks =
            self.record.bytes.checked_div(self.run_options.mark_bytes).unwrap_or(0) as usize;
        if marks > self.record.marks_ns.len() {
            self.record.marks_ns.resize(marks, now - self.record.start_ns);
        }
    }

    fn check_clock(&mut self, now: u64) {
        if now > self.moved_ns {
            (self.moved_ns, self.unmoved) = (now, 0);
            return;
        }
        self.unmoved += 1;
        if self.unmoved >= TIMELESS {
            self.record.end = End::Timeless;
            self.stopped = true;
        }
    }

    /// Ends a worker. True: it was the last one.
    fn leave(&mut self) -> bool {
        self.workers -= 1;
        self.workers == 0
    }

    pub(crate) fn finish(&mut self, now: u64, flush_ns: u64, flushed: block::Result) {
        if self.done {
            return;
        }
        self.intervals.close(&mut self.record);
        self.record.end_ns = now;
        self.record.busy_ns = self.busy.ns();
        self.record.flush_ns = flush_ns;
        if self.stopped && self.record.end == End::Limit {
            self.record.end = End::Stopped;
        }
        if let Err(error) = flushed
            && !matches!(self.record.end, End::Failed(_) | End::Wrong(_))
        {
            self.record.end = End::Failed(error);
        }
        self.done = true;
    }
}

/// Sends a request, waits for its answer, and returns the start time, the end time and the result.
/// The clock is read when a request starts, and when it is answered without a wait; any other
/// answer has the time of the round that found it. The data of the next request is made during the
/// wait.
async fn answer(
    stack: &Stack,
    request: Request,
    next: Option<&mut Staged>,
) -> (u64, u64, block::Result) {
    let lane = stack.lane();
    let (started_ns, polls) = (lane.stopwatch_ns(), lane.polls());
    let result = match (stack.try_now(&request), next) {
        (Some(result), _) => result,
        (None, None) => stack.run(request).await,
        (None, Some(next)) => next.make_while_waiting(lane, stack.run(request)).await,
    };
    let now = if lane.polls() == polls { lane.stopwatch_ns() } else { lane.now() };
    (started_ns, now.max(started_ns), result)
}

/// Ensures that a buffer has at least this number of sectors.
fn room(buffer: &mut Buf, sectors: u32) {
    if buffer.sectors() < sectors {
        *buffer = Buf::new(sectors, buffer.grain());
    }
}

async fn work(stack: Stack, running: Running, data: Option<Data>) {
    let lane = stack.lane().clone();
    let grain = stack.limits().grain;
    let (mut buffer, mut spare) = (Buf::new(0, grain), Buf::new(0, grain));
    let mut staged: Option<Staged> = None;
    while let Some(mut errand) = running.next(lane.now()) {
        if staged.is_some() {
            std::mem::swap(&mut buffer, &mut spare);
        }
        let sectors = errand.step.buffer_sectors();
        room(&mut buffer, sectors);
        let part = buffer.part(0, sectors);
        // Before the request is due: the time to make the data is not part of its latency.
        let made = staged.take().map(|staged| staged.finish(&errand.step));
        let begun = data.as_ref().map(|data| data.begin(&errand.step, &part, made));
        staged = data.as_ref().and_then(|data| running.stage(data, &mut spare));
        lane.sleep_until(errand.due_ns).await;
        if !running.may_start(&mut errand).await {
            break;
        }
        let polls = lane.polls();
        let (started_ns, now, result) =
            answer(&stack, errand.step.request(part.clone()), staged.as_mut()).await;
        if errand.step.due_ns.is_none() {
            errand.due_ns = started_ns;
        }
        running.answered(now, started_ns.max(errand.due_ns), &errand, result);
        if let (Some(data), Some(begun)) = (&data, begun)
            && let Err(mismatch) = data.end(begun, &part, result.is_ok())
        {
            running.state.borrow_mut().record_mismatch(mismatch);
            running.allowed.notify();
        }
        // After an answer without a wait, lets other tasks run: timers and writeback.
        if lane.polls() == polls {
            lane.rest().await;
        }
    }
    if !running.state.borrow_mut().leave() {
        return;
    }
    let before = lane.now();
    let flush = running.state.borrow().run_options.flush;
    let flushed = if flush { stack.run(Request::Flush).await } else { Ok(()) };
    running.state.borrow_mut().finish(lane.now(), lane.now() - before, flushed);
}
