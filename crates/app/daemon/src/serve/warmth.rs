//! A volume's list of hot blocks: read back at the start, saved every few minutes and at the end.
//!
//! Files are read and written on a separate thread. A list that is still being read back names more
//! than the cache holds, so it is not replaced before that has ended.

use super::captive::either;
use super::volume_service::VolumeService;
use crate::device::blocking;
use crate::hot_lists::HotLists;
use block::Warm;
use cache::{BLOCK_SECTORS, Shared};
use hotlist::Description;
use lane::Event;
use stack::{Exit, Failure, Volume};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Time between two saves, in nanoseconds.
const PERIOD_NS: u64 = 180_000_000_000;
/// A list is replaced once accesses to one block in this number of the cached ones were counted.
const CHANGED_ONE_IN: u64 = 16;
/// Longest time that the end of a volume waits for its list, in nanoseconds.
const LAST_NS: u64 = 10_000_000_000;

/// Where a volume's list is, and its state.
pub(crate) struct Warmth {
    /// None: the volume's contents end with this process, or there is no state directory.
    place: Option<(HotLists, String)>,
    /// Block accesses when the list was saved.
    saved_at: Cell<u64>,
    is_saving: Cell<bool>,
    saved: Event,
    /// The last reason why a list could not be saved, which was reported.
    reported: RefCell<Option<String>>,
}

impl Warmth {
    /// Returns the place of a volume's list in these lists.
    pub(crate) fn new(volume: &Volume, lists: Option<HotLists>) -> Warmth {
        Warmth {
            place: lists.zip(volume.lasting_identity()),
            saved_at: Cell::new(0),
            is_saving: Cell::new(false),
            saved: Event::new(),
            reported: RefCell::new(None),
        }
    }
}

/// Returns the number of whole blocks of a cached volume.
fn blocks_of(service: &VolumeService) -> u64 {
    service.attached.stack.limits().sectors / u64::from(BLOCK_SECTORS)
}

/// Returns the time in seconds since 1970; 0 if the clock is before that.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

impl VolumeService {
    /// Has the volume's list read back, and saves it from time to time.
    pub(crate) fn start_warmth(self: &Rc<Self>) {
        if self.shared().is_none() || self.warmth.place.is_none() || self.volume.loss().is_some() {
            return;
        }
        let service = self.clone();
        // If the lane is full, the cache starts empty.
        let _ = self.ring.lane().spawn(async move {
            service.load_list().await;
            service.save_periodically().await;
        });
    }

    fn is_warm(shared: &Shared) -> bool {
        shared.settings().warm == Warm::List
    }

    async fn load_list(&self) {
        let (Some(shared), Some((lists, identity))) = (self.shared(), self.warmth.place.clone())
        else {
            return;
        };
        if !Self::is_warm(shared) {
            return;
        }
        let blocks = blocks_of(self);
        match blocking(move || lists.load(&identity, blocks)).await {
            Ok(Ok(Some(list))) if !self.has_ended() => shared.warm(list, self.ring.lane().now()),
            Ok(Ok(_)) => {}
            Ok(Err(why)) => crate::complain!("overdrive: {}: {why}", self.name),
            Err(failure) => crate::complain!("overdrive: {}: {failure}", self.name),
        }
    }

    async fn save_periodically(&self) {
        let lane = self.ring.lane();
        loop {
            let seen = self.ended.seen();
            let next = lane.sleep_deferrable_until(lane.now() + PERIOD_NS);
            either(self.ended.after(seen), next).await;
            if self.has_ended() || self.lane_volume.stop.is_asked() {
                return;
            }
            if self.has_changed(CHANGED_ONE_IN) {
                self.save_list().await;
            }
        }
    }

    /// Whether accesses to one block in `one_in` of the cached ones were counted since the last
    /// save.
    fn has_changed(&self, one_in: u64) -> bool {
        let Some(shared) = self.shared() else { return false };
        let counted = shared.counters(self.ring.lane().now());
        let new = counted.block_accesses.saturating_sub(self.warmth.saved_at.get());
        new > 0 && new.saturating_mul(one_in) >= counted.blocks_held
    }

    /// Saves the list at the end of the volume or of the program, unless nothing was accessed since
    /// the last save. Waits some seconds at most.
    pub(crate) async fn save_last_list(&self) {
        let lane = self.ring.lane();
        let until_ns = lane.now() + LAST_NS;
        let saving = async {
            loop {
                let seen = self.warmth.saved.seen();
                if !self.warmth.is_saving.get() {
                    break;
                }
                self.warmth.saved.after(seen).await;
            }
            if self.has_changed(u64::MAX) {
                self.save_list().await;
            }
        };
        either(saving, lane.sleep_until(until_ns)).await;
    }

    /// Replaces the list.
    async fn save_list(&self) {
        let (Some(cache), Some((lists, identity))) =
            (&self.attached.cache, self.warmth.place.clone())
        else {
            return;
        };
        let shared: &Arc<Shared> = cache.shared();
        if !Self::is_warm(shared) || shared.is_warming() || self.volume.loss().is_some() {
            return;
        }
        self.warmth.is_saving.set(true);
        let accesses = shared.counters(self.ring.lane().now()).block_accesses;
        let entries = cache.hot_blocks().await;
        let of = Description { identity, volume_blocks: blocks_of(self), saved_s: now_s() };
        let saved = blocking(move || lists.save(&of, entries).map_err(|error| error.to_string()));
        let why = match saved.await {
            Ok(saved) => saved.err(),
            Err(failure) => Some(failure.message),
        };
        if why.is_none() {
            self.warmth.saved_at.set(accesses);
        }
        let was_reported = self.warmth.reported.replace(why.clone()) == why;
        if let Some(why) = why.filter(|_| !was_reported) {
            crate::complain!(
                "overdrive: {}: the list of hot blocks cannot be saved ({why}); after a restart, \
                 the cache starts with an older list or empty",
                self.name
            );
        }
        self.warmth.is_saving.set(false);
        self.warmth.saved.notify();
    }

    /// Removes the list. Returns whether there was one.
    pub(crate) async fn forget_list(&self) -> Result<bool, Failure> {
        if let Some(shared) = self.shared() {
            shared.stop_warming(self.ring.lane().now());
        }
        let Some((lists, identity)) = self.warmth.place.clone() else { return Ok(false) };
        let removed = blocking(move || lists.forget(&identity)).await?;
        removed.map_err(|error| {
            let message =
                format!("{}: the list of hot blocks cannot be removed: {error}", self.name);
            Failure::new(Exit::Io, message)
        })
    }
}
