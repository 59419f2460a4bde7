//! A volume's cache as one lane sees it: the state and functions that its requests and its tasks
//! share.

use crate::BLOCK_SECTORS;
use crate::admission::Rules;
use crate::backing::in_flight::RequestKind;
use crate::blocks::blocks_of;
use crate::compressed::decoder::Decoder;
use crate::dirty::level::Level;
use crate::planted::{Bug, planted};
use crate::rest_buffers::RestBuffers;
use crate::shared::Shared;
use alloc::sync::Arc;
use block::{Error, Extent, Request, Result, Stack};
use core::cell::Cell;
use lane::atomic::Ordering;
use lane::{Event, Lane};

/// A volume's cache as one lane sees it.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lane: Lane,
    pub(crate) below: Stack,
    /// Whether the backing answered the lane's last read immediately.
    pub(crate) answers_immediately: Cell<bool>,
    /// Whether the backing answered the lane's last write immediately.
    pub(crate) answers_writes: Cell<bool>,
    pub(crate) advisers: Advisers,
    pub(crate) rests: RestBuffers,
    pub(crate) decoder: Decoder,
}

/// The advice that a lane follows.
#[derive(Default)]
pub(crate) struct Advisers {
    /// The number of pieces that are being fetched.
    pub(crate) followed: Cell<u32>,
    /// Notified when a piece of advice is done.
    pub(crate) ended: Event,
}

impl Handle {
    /// Makes a handle over this lane's connection to the backing.
    pub(crate) fn new(shared: &Arc<Shared>, lane: &Lane, below: Stack) -> Handle {
        assert_eq!(shared.limits.sectors, below.limits().sectors, "another volume's cache");
        let (shared, lane) = (shared.clone(), lane.clone());
        let advisers = Advisers::default();
        let rests = RestBuffers::new(&shared.settings.now(), &shared.geometry, shared.limits.grain);
        let (answers_immediately, answers_writes) = (Cell::new(true), Cell::new(false));
        let decoder = Decoder::new(shared.limits.grain);
        Handle {
            shared,
            lane,
            below,
            answers_immediately,
            answers_writes,
            advisers,
            rests,
            decoder,
        }
    }

    /// The fill level of the write buffer.
    pub(crate) fn level(&self) -> Level {
        Level::of(&self.shared.gauges, self.shared.settings.dirty_blocks_max(), 0)
    }

    /// The number of write-throughs in progress.
    pub(crate) fn writing_through(&self) -> u32 {
        let changes = self.shared.backing.in_flight.waiting(RequestKind::Change);
        changes.saturating_sub(self.shared.writeback.estimator.in_flight())
    }

    /// Whether a flush of the backing is in progress.
    pub(crate) fn is_flushing(&self) -> bool {
        self.shared.backing.in_flight.waiting(RequestKind::Flush) > 0
    }
}

/// The link to the server of the backing, if it has one.
impl Handle {
    /// Lets the link follow the setting.
    pub(crate) fn apply_link_policy(&self) {
        if let Some(link) = self.below.link() {
            link.set_policy(self.shared.settings.link_down());
        }
    }
}

/// Requests to the backing.
impl Handle {
    /// Returns the rules for data that will be read from the blocks of these sectors.
    pub(crate) fn rules_of_read(&self, at: &Extent) -> Rules {
        let (first, blocks) = blocks_of(at);
        let sectors = u64::from(BLOCK_SECTORS);
        let all = Extent::new(first * sectors, blocks * BLOCK_SECTORS);
        let is_unsettled = !self.below.may_keep(all);
        Rules { is_unsettled, ..self.shared.bypass.rules(self.shared.settings.write()) }
    }

    /// Sends a change or a flush to the backing and waits for its answer, under the watchdog.
    /// Counts an error.
    pub(crate) async fn send_below(&self, request: Request) -> Result {
        let errors = self.shared.backing.health.errors_of(&request);
        let result = self.send_below_uncounted(request).await;
        if result.is_err() {
            errors.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// [`Handle::send_below`], without counting an error.
    pub(crate) async fn send_below_uncounted(&self, request: Request) -> Result {
        if matches!(request, Request::Write { fua: false, .. }) {
            // It shows whether later writes can be direct (`request/direct.rs`).
            let answer = self.below.try_now(&request);
            self.answers_writes.set(answer.is_some());
            if let Some(result) = answer {
                return result;
            }
        }
        let is_flush = matches!(request, Request::Flush);
        let kind = if is_flush { RequestKind::Flush } else { RequestKind::Change };
        let sent = self.shared.backing.in_flight.note_sent(kind);
        let result = self.below.run(request).await;
        self.shared.backing.in_flight.note_answered(sent);
        result
    }

    /// Makes everything durable that the backing has received, by a flush that begins after this
    /// call.
    pub(crate) async fn flush_below(&self) -> Result {
        self.shared.backing.flushes.run(&self.lane, async || self.send_flush().await).await
    }

    /// Sends a flush to the backing. The arena records the start and the result: after a kill in
    /// between, the successor sees that the result is unknown.
    async fn send_flush(&self) -> Result {
        let shared = &self.shared;
        shared.stats.count_flush_of_backing();
        if !planted(Bug::ForgetSentFlush) {
            shared.arena.note_flush_sent();
        }
        shared.gauges.note_flush_sent();
        let unkept = shared.backing.health.unkept();
        let result = self.send_below(Request::Flush).await;
        match result {
            Ok(()) => {
                shared.gauges.note_flush_succeeded();
                shared.backing.health.flush_succeeded(unkept);
            }
            Err(_) => shared.backing.health.flush_failed(),
        }
        shared.arena.note_flush_answered(result.is_ok());
        result
    }

    /// Records an error of the backing. The volume fails when errors have lasted for
    /// `retry_time_ns`, without a loss of the backing's link in that time (C8).
    pub(crate) async fn backing_failed(&self, error: Error, retry_time_ns: u64) {
        let from_ns = self.below.link().map_or(0, |link| link.errors_count_from_ns());
        self.judge_error(error, retry_time_ns, from_ns).await;
    }

    /// Records a failed flush of the backing. The volume fails immediately if something was
    /// written that cannot be written again, also while the backing's link is lost: the next flush
    /// would succeed, and no client would know of the loss.
    pub(crate) async fn flush_failed(&self, error: Error) {
        match self.shared.backing.health.take_lost() {
            true => self.judge_error(error, 0, 0).await,
            false => self.backing_failed(error, self.shared.settings.retry_time_ns()).await,
        }
    }

    /// Lets the volume fail if errors since `from_ns` have lasted for `retry_time_ns`.
    async fn judge_error(&self, error: Error, retry_time_ns: u64, from_ns: u64) {
        let shared = &self.shared;
        self.lane.turn().await;
        let now = self.lane.now();
        let goes_on = shared.epochs.with(|epochs| {
            let goes_on = epochs.backing_failed(now, retry_time_ns, from_ns);
            if !goes_on {
                shared.backing.health.fail(epochs, error);
            }
            goes_on
        });
        if !goes_on {
            shared.wake_all();
        }
    }
}
