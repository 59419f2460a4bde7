//! The simulated disk as a block device of a lane.

use crate::disk::State;
use crate::midway;
use crate::model::{Faults, Model};
use block::{Block, Error, Extent, Kind, Limits, Request, Result, Stretch};
use lane::{Lane, Lock};
use std::sync::Arc;

/// A simulated disk. Clones share it.
#[derive(Clone)]
pub struct Disk {
    state: Arc<Lock<State>>,
    limits: Limits,
}

impl Disk {
    /// Returns a disk full of initial stamps; `seed` determines its latencies and its random
    /// choices.
    pub fn new(model: Model, faults: Faults, seed: u64) -> Disk {
        Disk::of(State::new(model, faults, seed))
    }

    /// Returns a disk that continues from a state.
    pub fn of(state: State) -> Disk {
        Disk { limits: state.model.limits(), state: Arc::new(Lock::new(state)) }
    }

    /// Returns the same disk as later processes see it, with the size of this model.
    pub(crate) fn with_size_of(&self, model: &Model) -> Disk {
        self.with(|state| state.model.absent = model.absent);
        Disk { limits: model.limits(), state: self.state.clone() }
    }

    /// Returns the disk as `lane` sees it.
    pub fn on(&self, lane: &Lane) -> DiskLane {
        self.on_ring(lane, 0)
    }

    /// Returns the disk as `lane` sees it through this ring of its process.
    pub(crate) fn on_ring(&self, lane: &Lane, ring: u32) -> DiskLane {
        DiskLane { disk: self.clone(), lane: lane.clone(), ring }
    }

    /// Returns its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Answers a request at once, if the disk does so.
    pub(crate) fn answer_now(&self, request: &Request, now_ns: u64) -> Option<Result> {
        self.answer_now_on_ring(request, 0, now_ns)
    }

    fn answer_now_on_ring(&self, request: &Request, ring: u32, now_ns: u64) -> Option<Result> {
        self.with(|state| {
            let is_plain =
                matches!(request, Request::Read { .. } | Request::Write { fua: false, .. });
            if !(state.model.instant || state.model.answers_now && is_plain) {
                return None;
            }
            let flight = state.send(request, ring, now_ns);
            state.serve_read(request, flight.fails, None);
            state.apply(flight, request, true);
            state.complete(flight, request);
            state.record_delivery(flight, request);
            if state.model.answers_now && request.is_change() {
                midway::disk_changed();
            }
            Some(answer(request, flight.fails))
        })
    }

    /// Reads or changes its state.
    ///
    /// The disk is hardware: its sections are not steps of the program, so they are not counted.
    pub fn with<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        self.state.peek(look)
    }
}

/// A lane's handle on a [`Disk`].
pub struct DiskLane {
    disk: Disk,
    lane: Lane,
    ring: u32,
}

fn answer(request: &Request, fails: bool) -> Result {
    match request {
        _ if !fails => Ok(()),
        Request::Read { .. } => Err(Error::new(Kind::Io, "read")),
        Request::Flush => Err(Error::new(Kind::Io, "flush")),
        _ => Err(Error::new(Kind::Io, "write")),
    }
}

impl Block for DiskLane {
    fn limits(&self) -> &Limits {
        &self.disk.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        if let Request::Advise { .. } = request {
            return Some(Ok(()));
        }
        self.disk.answer_now_on_ring(request, self.ring, self.lane.now())
    }

    async fn run(&self, request: Request) -> Result {
        assert_eq!(self.disk.limits.check(&request), Ok(()), "{request:?}");
        if let Some(result) = self.try_now(&request) {
            return result;
        }
        // Between a decision and the departure of its request, any event can happen; a kill in the
        // middle of that decision (`midway.rs`) finds nothing sent.
        let asks = u32::from(matches!(request, Request::Flush));
        self.disk.with(|state| state.flushes_asked += asks);
        self.lane.rest().await;
        let now = self.lane.now();
        let flight = self.disk.with(|state| state.send(&request, self.ring, now));
        for second in [false, true] {
            self.lane.sleep_until(flight.instants[usize::from(second)]).await;
            self.disk.with(|state| {
                state.serve_read(&request, flight.fails, Some(second));
                state.apply(flight, &request, second);
            });
        }
        self.lane.sleep_until(flight.instants[2]).await;
        self.disk.with(|state| state.complete(flight, &request));
        self.lane.turn().await;
        self.disk.with(|state| {
            state.record_delivery(flight, &request);
            state.flushes_asked -= asks;
        });
        answer(&request, flight.fails)
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        let now = self.lane.now();
        let [asked, _, answered] = self.disk.with(|state| state.plan_instants(now));
        self.lane.sleep_until(asked).await;
        self.lane.turn().await;
        let stretches = self.disk.with(|state| state.status(at));
        self.lane.sleep_until(answered + 8 * (answered - now)).await;
        self.lane.turn().await;
        Ok(stretches)
    }
}
