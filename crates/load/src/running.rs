//! A load under way: tasks that ask for the next request until there is none.

use crate::order::Picker;
use crate::plan::{Arrival, Load, LoadError};
use crate::record::{End, Record};
use block::{Buf, Extent, Request, Stack};
use std::cell::RefCell;
use std::rc::Rc;

/// So many answers while the clock stands still mean that the device takes no time at all.
const TIMELESS: u64 = 1 << 20;

/// A load under way.
#[derive(Clone)]
pub struct Running(Rc<RefCell<State>>);

struct State {
    load: Load,
    picker: Picker,
    record: Record,
    /// Requests started.
    started: u64,
    /// The end of starting, on the lane's clock.
    until_ns: u64,
    /// Workers that have not ended.
    workers: u32,
    stopped: bool,
    done: bool,
    /// Bytes done.
    bytes: u64,
    /// The interval that answers fall into now, and the time of its end.
    interval_end_ns: u64,
    /// When the clock was last seen to move, and answers since.
    moved_ns: u64,
    unmoved: u64,
}

/// What a worker does next.
#[derive(Clone, Copy)]
struct Errand {
    at: Extent,
    read: bool,
    due_ns: u64,
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
        load.check(stack.limits())?;
        let now = stack.lane().now();
        let depth = load.depth_max();
        let state = State {
            picker: Picker::new(&load),
            record: Record::new(now, load.block_bytes()),
            started: 0,
            until_ns: now.saturating_add(load.limit.time_ns),
            workers: depth,
            stopped: false,
            done: false,
            bytes: 0,
            interval_end_ns: now.saturating_add(load.interval_ns.max(1)),
            moved_ns: now,
            unmoved: 0,
            load,
        };
        let running = Running(Rc::new(RefCell::new(state)));
        for _ in 0..depth {
            let worker = work(stack.clone(), running.clone());
            stack.lane().spawn(worker).expect("the lane has room for a load");
        }
        Ok(running)
    }

    /// Whether everything has been answered, the final flush included.
    pub fn is_done(&self) -> bool {
        self.0.borrow().done
    }

    /// Starts no more requests; those under way, and the final flush, are waited for.
    pub fn stop(&self) {
        self.0.borrow_mut().stopped = true;
    }

    /// How far it has come: time or requests, whichever is further, as a share of the limit.
    pub fn share_done(&self, now_ns: u64) -> f64 {
        let state = self.0.borrow();
        let limit = state.load.limit;
        let time =
            (now_ns - state.record.start_ns.min(now_ns)) as f64 / limit.time_ns.max(1) as f64;
        (state.started as f64 / limit.requests.max(1) as f64).max(time).min(1.0)
    }

    /// What became of it.
    ///
    /// # Panics
    /// If it is not done.
    pub fn record(self) -> Record {
        let mut state = self.0.borrow_mut();
        assert!(state.done, "the load is under way");
        let empty = Record::new(0, state.record.block_bytes);
        std::mem::replace(&mut state.record, empty)
    }

    fn next(&self, now_ns: u64) -> Option<Errand> {
        self.0.borrow_mut().next(now_ns)
    }

    fn answered(&self, now_ns: u64, started_ns: u64, errand: &Errand, result: block::Result) {
        self.0.borrow_mut().answered(now_ns, started_ns, errand, result);
    }
}

impl State {
    fn next(&mut self, now: u64) -> Option<Errand> {
        if self.stopped || self.started >= self.load.limit.requests {
            return None;
        }
        let due_ns = match self.load.arrival {
            Arrival::Closed { .. } => now,
            Arrival::Open { interval_ns, .. } => {
                self.record.start_ns.saturating_add(self.started.saturating_mul(interval_ns))
            }
        };
        if due_ns >= self.until_ns {
            return None;
        }
        self.started += 1;
        // A request that is due now and begins only now had to wait for a free worker.
        self.record.late_starts += u64::from(now > due_ns);
        let (block, read) = self.picker.next();
        Some(Errand { at: self.load.at(block), read, due_ns })
    }

    fn answered(&mut self, now: u64, started_ns: u64, errand: &Errand, result: block::Result) {
        if let Err(error) = result {
            self.record.end = End::Failed(error);
            self.stopped = true;
            return;
        }
        let latency = if errand.read { &mut self.record.reads } else { &mut self.record.writes };
        latency.record(now - errand.due_ns);
        if let Arrival::Open { .. } = self.load.arrival {
            self.record.served.record(now - started_ns);
        }
        self.count(now);
        self.look_at_clock(now);
    }

    /// Counts an answer in its interval, and notes the time of each mark.
    fn count(&mut self, now: u64) {
        let interval = self.load.interval_ns.max(1);
        if now >= self.interval_end_ns || self.record.by_interval.is_empty() {
            let index = (now - self.record.start_ns) / interval;
            self.record.by_interval.resize(index as usize + 1, 0);
            self.interval_end_ns = self.record.start_ns + (index + 1).saturating_mul(interval);
        }
        if let Some(last) = self.record.by_interval.last_mut() {
            *last += 1;
        }
        self.bytes += self.record.block_bytes;
        let marks = self.bytes.checked_div(self.load.mark_bytes).unwrap_or(0) as usize;
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

    fn finish(&mut self, now: u64, flush_ns: u64, flushed: block::Result) {
        self.record.end_ns = now;
        self.record.flush_ns = flush_ns;
        if self.stopped && self.record.end == End::Limit {
            self.record.end = End::Stopped;
        }
        if let Err(error) = flushed {
            self.record.end = End::Failed(error);
        }
        self.done = true;
    }
}

async fn work(stack: Stack, running: Running) {
    let lane = stack.lane().clone();
    let sectors = running.0.borrow().load.block_sectors;
    let buffer = Buf::new(sectors, stack.limits().grain);
    while let Some(errand) = running.next(lane.now()) {
        lane.sleep_until(errand.due_ns).await;
        let (started_ns, polls) = (lane.now(), lane.polls());
        let request = match errand.read {
            true => Request::Read { at: errand.at, into: buffer.clone() },
            false => Request::Write { at: errand.at, from: buffer.clone(), fua: false },
        };
        let result = match stack.try_now(&request) {
            Some(result) => result,
            None => stack.run(request).await,
        };
        running.answered(lane.now(), started_ns, &errand, result);
        // A task that was answered without a wait lets others go first: timers, and whatever writes out.
        if lane.polls() == polls {
            lane.rest().await;
        }
    }
    if !running.0.borrow_mut().leave() {
        return;
    }
    let before = lane.now();
    let flush = running.0.borrow().load.flush;
    let flushed = if flush { stack.run(Request::Flush).await } else { Ok(()) };
    running.0.borrow_mut().finish(lane.now(), lane.now() - before, flushed);
}
