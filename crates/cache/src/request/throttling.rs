//! What a change waits for before it is answered: by how full the buffer is, and what the backing takes.

use crate::backing::in_flight::RequestKind;
use crate::dirty::level::{Level, ONE};
use crate::dirty::throttle::{PRICE_MAX, ThrottleWait};
use crate::shared::Shared;
use crate::writeback::estimator::DRAIN_ASSUMED;
use core::sync::atomic::Ordering;

impl Shared {
    /// When the answer of a change may go that has brought so many new blocks.
    pub(crate) fn turn(&self, new: u32, now_ns: u64) -> ThrottleWait {
        let block_ns = self.estimator.block_ns().unwrap_or(1_000_000_000 / DRAIN_ASSUMED);
        let flush_ns = self.estimator.flush_ns.load(Ordering::Relaxed);
        let level = Level::of(&self.gauges, &self.settings.now());
        let price = match self.gauges.is_ordered() {
            true => level.filling(),
            false => level.price(flush_ns / block_ns),
        };
        let price = price.min(PRICE_MAX) * u64::from(new);
        let takes_ns = |block_ns: u64| block_ns.saturating_mul(price) / ONE;
        match price {
            0 => ThrottleWait::Come,
            // Every epoch ends with a flush, in which nothing is written out, the open one behind the closed
            // ones too: each block that is dirty has its share of those.
            _ if self.gauges.is_ordered() => {
                let blocks = u64::from(level.dirty.max(1));
                let epochs = u64::from(level.closed + u32::from(level.closed > 0));
                let flush_ns = flush_ns.saturating_mul(epochs.min(blocks)) / blocks;
                self.throttle.claim_time(takes_ns(block_ns + flush_ns), now_ns)
            }
            _ if self.throttle.is_working() => self.throttle.claim(price),
            // The backing flushes, for as long as it takes, or the workers have not begun yet.
            _ => self.throttle.claim_time(takes_ns(block_ns), now_ns),
        }
    }

    /// What waits for blocks to be written out goes on, if none are any more.
    pub(crate) fn end_work(&self) {
        if self.estimator.in_flight() <= self.throttle.zeros_under_way() {
            self.throttle.work_ends();
        }
    }

    /// Changes that are on their way past the cache.
    pub(crate) fn writing_through(&self) -> u32 {
        self.in_flight.waiting(RequestKind::Change).saturating_sub(self.estimator.in_flight())
    }
}
