//! The top layer of every served stack: each request of a client passes it first.
//!
//! It has four parts. In the order in which a request passes them:
//!
//! 1. [`RecorderSwitch`]: requests are recorded while a recorder is on, as clients sent them.
//! 2. [`UnalignedShared`]: a change of whole blocks is counted, or waits while parts of blocks are
//!    being changed. Requests for parts of blocks become requests for whole blocks (`merge.rs`).
//! 3. A [`Sampler`] of the cache's hits; [`Counts`] of all requests if there is no cache.
//! 4. [`ValveShared`]: changes wait while the volume is frozen.
//!
//! They are parts of one layer because every hop between layers costs a hit an erased call. Waits
//! are in the files of the parts; this file has the order.

use crate::counts::Counts;
use crate::record::{LaneRecorder, RecorderSwitch};
use crate::sampler::Sampler;
use crate::unaligned::UnalignedShared;
use crate::valve::ValveShared;
use crate::wanted::Since;
use alloc::sync::Arc;
use block::{Extent, Layer, Limits, Padding, Request, Result, Stack};

/// The part of the layer that all lanes share.
pub struct TopShared {
    pub(crate) unaligned: UnalignedShared,
    recorder: Arc<RecorderSwitch>,
    counts: Counts,
    valve: Arc<ValveShared>,
}

impl TopShared {
    /// For a stack with these limits.
    pub fn new(below: &Limits) -> Arc<TopShared> {
        Arc::new(TopShared {
            unaligned: UnalignedShared::new(below),
            recorder: Arc::default(),
            counts: Counts::default(),
            valve: ValveShared::new(),
        })
    }

    /// Returns the switch for a recorder of clients' requests.
    pub fn recorder(&self) -> &Arc<RecorderSwitch> {
        &self.recorder
    }

    /// Returns the counts of requests. They stay 0 on lanes that have a [`Sampler`].
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the valve that holds changes back.
    pub fn valve(&self) -> &Arc<ValveShared> {
        &self.valve
    }
}

/// One lane's handle.
pub struct Top {
    pub(crate) shared: Arc<TopShared>,
    recorder: LaneRecorder,
    sampler: Option<Sampler>,
    pub(crate) below: Stack,
    pub(crate) limits: Limits,
}

impl Top {
    /// Creates one lane's handle on the layer, on top of `below`. Without a `sampler`, requests are
    /// counted.
    pub fn attach(shared: &Arc<TopShared>, sampler: Option<Sampler>, below: Stack) -> Top {
        let limits = Limits { unaligned: true, ..below.limits().clone() };
        let recorder = LaneRecorder::new(&shared.recorder);
        Top { shared: shared.clone(), recorder, sampler, below, limits }
    }

    #[inline]
    fn try_unrecorded(&self, request: &Request) -> Option<Result> {
        if request.is_change() { self.try_change(request) } else { self.try_measured(request) }
    }

    /// Separate from [`Layer::try_now`], which is short while no recorder is on.
    #[inline(never)]
    fn try_recorded(&self, request: &Request) -> Option<Result> {
        let answer = || self.try_unrecorded(request);
        self.recorder.record_now(request, self.below.lane(), answer)
    }

    /// Separate from [`Layer::try_now`], so that for requests without changes that is a single
    /// jump.
    #[inline(never)]
    fn try_change(&self, request: &Request) -> Option<Result> {
        if !self.shared.unaligned.enter() {
            return None;
        }
        let answer = self.try_below(request);
        self.shared.unaligned.leave();
        answer
    }

    /// Tries a request of whole blocks. For a change: one that no change of a part of a block can
    /// meet.
    pub(crate) fn try_below(&self, request: &Request) -> Option<Result> {
        if !request.is_change() {
            return self.try_measured(request);
        }
        if !self.shared.valve.enter() {
            return None;
        }
        let answer = self.try_measured(request);
        self.shared.valve.leave();
        answer
    }

    #[inline]
    fn try_measured(&self, request: &Request) -> Option<Result> {
        match &self.sampler {
            Some(sampler) if sampler.is_due(request) => {
                sampler.time(|| self.below.try_now(request))
            }
            Some(_) => self.below.try_now(request),
            None => {
                let answer = self.below.try_now(request);
                if let Some(result) = &answer {
                    self.shared.counts.count(request, result);
                }
                answer
            }
        }
    }

    /// Serves a request of whole blocks. For a change: one that no change of a part of a block can
    /// meet.
    pub(crate) async fn serve_below(&self, request: Request) -> Result {
        let lane = self.below.lane();
        let is_counted = self.sampler.is_none();
        let counting = is_counted.then(|| self.shared.counts.begin(&request, lane)).flatten();
        let result = if request.is_change() {
            self.change_below(request).await
        } else {
            self.below.run(request).await
        };
        if let Some(counting) = counting {
            counting.end(&result, lane);
        }
        result
    }

    async fn change_below(&self, request: Request) -> Result {
        let valve = &self.shared.valve;
        if !valve.enter() {
            valve.wait(&self.below).await?;
        }
        let result = self.below.run(request).await;
        valve.leave();
        result
    }

    async fn change_whole(&self, at: Extent, request: Request) -> Result {
        if !self.shared.unaligned.enter() {
            return self.change_in_turn(at, request).await;
        }
        let result = self.serve_below(request).await;
        self.shared.unaligned.leave();
        result
    }
}

impl Layer for Top {
    fn lower(&self) -> &Stack {
        &self.below
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        match self.recorder.is_on() {
            false => self.try_unrecorded(request),
            true => self.try_recorded(request),
        }
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        let begun = self.recorder.begin(&request, self.below.lane());
        let result = self.serve_unrecorded(request, padding).await;
        if let Some(begun) = begun {
            begun.end(result, self.below.lane());
        }
        result
    }
}

impl Top {
    async fn serve_unrecorded(&self, request: Request, padding: Padding) -> Result {
        let is_whole = padding == Padding::NONE;
        match request.extent() {
            Some(at) if request.is_change() && is_whole => self.change_whole(at, request).await,
            Some(at) if request.is_change() => self.change_part(at, request, padding).await,
            Some(_) if !is_whole => self.send(&request, Since::now(&self.below)).await,
            _ => self.serve_below(request).await,
        }
    }
}
