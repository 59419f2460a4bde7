//! A volume's start-up list: read at the start and followed, saved some minutes after the first
//! read.
//!
//! ```text
//!   start --> first read --- warm_save ---> saved: all former starts are one start older
//!        \              \
//!         \              '--- end, upgrade ---> saved: it was the first part of such a start
//!          '--- end ---> not saved
//! ```
//!
//! A start that takes cached blocks over is none: its clients go on where they were. Its list is
//! followed all the same, and stays as it is.

use super::captive::either;
use super::warmth::{LIST, Warmth, reason};
use crate::device::blocking;
use std::rc::Rc;

impl Warmth {
    /// Begins to note what clients read, has the list followed, and saves it.
    pub(super) fn start_start_up(self: &Rc<Warmth>) {
        if !self.is_on() {
            return;
        }
        self.cache.shared().begin_start_up();
        let warmth = self.clone();
        // If the lane is full, nothing is learnt.
        let _ = self.lane().spawn(async move {
            warmth.load_start_up().await;
            if warmth.have_first_minutes_passed().await {
                warmth.save_start_up(true).await;
            }
        });
    }

    async fn load_start_up(&self) {
        let (lists, identity, blocks) = (self.lists.clone(), self.identity.clone(), self.blocks);
        match blocking(move || lists.load_start(&identity, blocks)).await {
            Ok(Ok(Some(list))) if !self.has_ended.get() => {
                self.cache.shared().follow_start_up(list)
            }
            Ok(Ok(_)) => {}
            Ok(Err(why)) => crate::complain!(volume = self.name, "overdrive: {}: {why}", self.name),
            Err(failure) => {
                crate::complain!(volume = self.name, "overdrive: {}: {failure}", self.name)
            }
        }
    }

    /// Waits until some minutes after the first read have passed. Returns false if the volume ends
    /// before.
    async fn have_first_minutes_passed(&self) -> bool {
        let (lane, shared) = (self.lane(), self.cache.shared());
        loop {
            let (_, began) = shared.start_up_began();
            let (seen, seen_change) = (began.seen(), self.changed.seen());
            if self.has_ended.get() {
                return false;
            }
            let changed = self.changed.after(seen_change);
            let Some(first_ns) = shared.start_up_began().0 else {
                either(changed, began.after(seen)).await;
                continue;
            };
            let until_ns = first_ns.saturating_add(shared.settings().warm_save_ns);
            if lane.now() >= until_ns {
                return true;
            }
            either(changed, lane.sleep_deferrable_until(until_ns)).await;
        }
    }

    /// Saves the list, with all of this start's first minutes if it `is_whole`. Does nothing if
    /// that was done, or nothing was learnt.
    pub(super) async fn save_start_up(&self, is_whole: bool) {
        let shared = self.cache.shared();
        let Some(read) = shared.end_start_up().filter(|read| !read.is_empty()) else { return };
        if !self.is_on() || shared.counters(self.lane().now()).blocks_retained > 0 {
            return;
        }
        let (lists, of) = (self.lists.clone(), self.description());
        let read = read.into_iter().filter(|block| *block < of.volume_blocks).collect();
        self.report(LIST, reason(blocking(move || lists.save_start(&of, read, is_whole)).await));
    }
}
