//! A load under way: tasks that ask for the next request until there is none.

use crate::data::{Data, Mismatch};
use crate::generator::Generator;
use crate::intervals::Intervals;
use crate::plan::{Load, LoadError, Terms};
use crate::record::{End, Record};
use crate::source::{Source, Step};
use crate::staging::Staged;
use block::{Buf, Request, Stack};
use lane::Event;
use std::cell::RefCell;
use std::rc::Rc;
use trace::Operation;

/// So many answers while the clock stands still mean that the device takes no time at all.
const TIMELESS: u64 = 1 << 20;

/// A load under way.
#[derive(Clone)]
pub struct Running {
    state: Rc<RefCell<State>>,
    /// A step may be allowed to start that was not before.
    allowed: Rc<Event>,
}

pub(crate) struct State {
    source: Box<dyn Source>,
    /// What the source has given already, to a worker that has its data made before it is due.
    drawn: Option<Step>,
    terms: Terms,
    record: Record,
    /// Requests started.
    started: u64,
    /// The end of starting, on the lane's clock.
    until_ns: u64,
    /// Workers that have not ended.
    workers: u32,
    stopped: bool,
    done: bool,
    intervals: Intervals,
    /// When the clock was last seen to move, and answers since.
    moved_ns: u64,
    unmoved: u64,
}

/// What a worker does next.
#[derive(Clone, Copy)]
pub(crate) struct Errand {
    pub(crate) step: Step,
    /// How many were given before it.
    pub(crate) number: u64,
    /// On the lane's clock.
    pub(crate) due_ns: u64,
    /// It was due before there was a free worker for it.
    pub(crate) waited: bool,
}

impl Running {
    /// Starts a load on the stack's lane. It goes on whenever that lane is driven.
    ///
    /// # Errors
    /// What of the load the stack cannot take.
    ///
    /// # Panics
    /// If the lane has no room for the load's tasks.
    pub fn start(stack: &Stack, load: Load) -> Result<Running, LoadError> {
        // Before the generator is made: it takes a sound load for granted.
        load.check(stack.limits())?;
        Running::of(stack, Generator::new(&load), load.terms())
    }

    /// The same with data in what is written, and a look at what is read.
    ///
    /// # Errors
    /// As [`Running::start`].
    ///
    /// # Panics
    /// As [`Running::start`].
    pub fn start_with(stack: &Stack, load: Load, data: &Data) -> Result<Running, LoadError> {
        load.check(stack.limits())?;
        Running::with(stack, Generator::new(&load), load.terms(), Some(data))
    }

    /// Starts what a source asks for on the stack's lane. It goes on whenever that lane is driven.
    ///
    /// # Errors
    /// What of the source or of the terms the stack cannot take.
    ///
    /// # Panics
    /// If the lane has no room for the load's tasks.
    pub fn of(
        stack: &Stack,
        source: impl Source + 'static,
        terms: Terms,
    ) -> Result<Running, LoadError> {
        Running::with(stack, source, terms, None)
    }

    /// The same with data in what is written, and a look at what is read.
    ///
    /// # Errors
    /// As [`Running::of`].
    ///
    /// # Panics
    /// As [`Running::of`].
    pub fn with(
        stack: &Stack,
        source: impl Source + 'static,
        terms: Terms,
        data: Option<&Data>,
    ) -> Result<Running, LoadError> {
        source.check(stack.limits())?;
        terms.check()?;
        let now = stack.lane().now();
        let state = State::new(Box::new(source), terms, now);
        let running = Running { state: Rc::new(RefCell::new(state)), allowed: Rc::default() };
        for _ in 0..terms.depth_max {
            let worker = work(stack.clone(), running.clone(), data.cloned());
            stack.lane().spawn(worker).expect("the lane has room for a load");
        }
        Ok(running)
    }

    /// Whether everything has been answered, the final flush included.
    pub fn is_done(&self) -> bool {
        self.state.borrow().done
    }

    /// Starts no more requests; those under way, and the final flush, are waited for.
    pub fn stop(&self) {
        self.state.borrow_mut().stop();
        self.allowed.notify();
    }

    /// Ends it without the answers that are missing: they are not waited for, nor counted should they come.
    pub fn give_up(&self, now_ns: u64) {
        self.state.borrow_mut().give_up(now_ns);
    }

    /// How far it has come: time or requests, whichever is further, as a share of the limit.
    pub fn share_done(&self, now_ns: u64) -> f64 {
        self.state.borrow().share_done(now_ns)
    }

    /// What became of it.
    ///
    /// # Panics
    /// If it is not done.
    pub fn record(self) -> Record {
        self.state.borrow_mut().take_record()
    }

    fn next(&self, now_ns: u64) -> Option<Errand> {
        self.state.borrow_mut().next(now_ns)
    }

    /// Begins with the data of what comes next, if it is known.
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

    /// Waits until the source lets the step start. False: it is not wanted any more.
    async fn may_start(&self, errand: &Errand) -> bool {
        loop {
            let seen = self.allowed.seen();
            let (is_stopped, may_start) = {
                let state = self.state.borrow();
                (state.stopped, state.source.may_start(errand.number))
            };
            if may_start || is_stopped {
                return may_start;
            }
            self.allowed.after(seen).await;
        }
    }
}

impl State {
    pub(crate) fn new(source: Box<dyn Source>, terms: Terms, now: u64) -> State {
        State {
            source,
            drawn: None,
            record: Record::new(now),
            started: 0,
            until_ns: now.saturating_add(terms.limit.time_ns),
            workers: terms.depth_max,
            stopped: false,
            done: false,
            intervals: Intervals::new(now, terms.interval_ns),
            moved_ns: now,
            unmoved: 0,
            terms,
        }
    }

    pub(crate) fn flushes(&self) -> bool {
        self.terms.flush
    }

    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    fn give_up(&mut self, now_ns: u64) {
        self.stopped = true;
        self.finish(now_ns, 0, Ok(()));
    }

    pub(crate) fn share_done(&self, now_ns: u64) -> f64 {
        let limit = self.terms.limit;
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

    pub(crate) fn next(&mut self, now: u64) -> Option<Errand> {
        if self.stopped || self.started >= self.terms.limit.requests {
            return None;
        }
        let step = self.drawn.take().or_else(|| self.source.next())?;
        let due_ns = step.due_ns.map_or(now, |ns| self.record.start_ns.saturating_add(ns));
        if due_ns >= self.until_ns {
            return None;
        }
        let number = self.started;
        self.started += 1;
        // What is due now and is asked for only now had to wait for a free worker.
        let waited = now > due_ns;
        self.record.late_starts += u64::from(waited);
        Some(Errand { step, number, due_ns, waited })
    }

    /// The step that comes next, where that is known and has no time of its own: the load has one request at a time.
    fn upcoming(&mut self) -> Option<Step> {
        let goes_on = !self.stopped && self.started < self.terms.limit.requests;
        if self.drawn.is_none() && goes_on && self.terms.depth_max == 1 {
            self.drawn = self.source.next();
        }
        self.drawn.filter(|step| step.due_ns.is_none())
    }

    /// What was read is not what was written.
    fn mistaken(&mut self, mismatch: Mismatch) {
        if !matches!(self.record.end, End::Failed(_)) {
            self.record.end = End::Wrong(mismatch);
        }
        self.stopped = true;
    }

    /// Notes an answer. True: waiting steps may start for it, or need not any more.
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
        self.look_at_clock(now);
        frees || self.stopped
    }

    /// Notes the time of each mark.
    fn mark(&mut self, now: u64, bytes: u64) {
        self.record.bytes += bytes;
        let marks = self.record.bytes.checked_div(self.terms.mark_bytes).unwrap_or(0) as usize;
        if marks > self.record.marks_ns.len() {
            self.record.marks_ns.resize(marks, now - self.record.start_ns);
        }
    }

    fn look_at_clock(&mut self, now: u64) {
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

    /// A worker has ended; true if it is the last.
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

/// Sends a request and waits for its answer, whose time is returned with it. The clock is read anew where a
/// request starts, and where it is answered without a wait; any other answer has the time of the round that found it.
/// The data of the next request are made meanwhile.
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
        (None, Some(next)) => next.beside(lane, stack.run(request)).await,
    };
    let now = if lane.polls() == polls { lane.stopwatch_ns() } else { lane.now() };
    (started_ns, now.max(started_ns), result)
}

/// A buffer of so many sectors at least, made anew where this one is too small.
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
        // Before it is due: making the data is no part of its time.
        let made = staged.take().map(|staged| staged.finish(&errand.step));
        let begun = data.as_ref().map(|data| data.begin(&errand.step, &part, made));
        staged = data.as_ref().and_then(|data| running.stage(data, &mut spare));
        lane.sleep_until(errand.due_ns).await;
        if !running.may_start(&errand).await {
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
            running.state.borrow_mut().mistaken(mismatch);
            running.allowed.notify();
        }
        // What was answered without a wait lets others go first: timers, and whatever writes out.
        if lane.polls() == polls {
            lane.rest().await;
        }
    }
    if !running.state.borrow_mut().leave() {
        return;
    }
    let before = lane.now();
    let flush = running.state.borrow().terms.flush;
    let flushed = if flush { stack.run(Request::Flush).await } else { Ok(()) };
    running.state.borrow_mut().finish(lane.now(), lane.now() - before, flushed);
}
