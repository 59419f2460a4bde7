//! A volume's list of hot blocks: read back at the start, saved every few minutes and at the end.
//! Its start-up list: see `start_up.rs`. The state of its policy: see `policy_state.rs`.
//!
//! Files are read and written on a separate thread. A list that is still being read back names more
//! than the cache holds, so it is not replaced before that has ended.

use super::captive::either;
use crate::device::blocking;
use crate::hot_lists::HotLists;
use block::Warm;
use cache::{BLOCK_SECTORS, Cache};
use hotlist::Description;
use lane::{Event, Lane};
use stack::{Attached, Exit, Failure, Volume};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Time between two checks of a list that is being read back, in nanoseconds.
const NUDGE_NS: u64 = 1_000_000_000;
/// A list is replaced once accesses to one block in this number of the cached ones were counted.
const CHANGED_ONE_IN: u64 = 16;
/// The name of the list in messages.
pub(super) const LIST: &str = "the list of hot blocks";
/// Longest time that the end of a volume waits for its list, in nanoseconds.
const LAST_NS: u64 = 10_000_000_000;

/// The lists of a volume while it is served.
pub(crate) struct Warmth {
    pub(super) name: String,
    pub(super) cache: Cache,
    pub(super) lists: HotLists,
    /// Identity of the volume's contents.
    pub(super) identity: String,
    /// The volume's whole blocks.
    pub(super) blocks: u64,
    /// Block accesses when the list was saved.
    saved_at: Cell<u64>,
    is_saving: Cell<bool>,
    saved: Event,
    /// Whether the policy's state was read: an earlier save would replace what was not read yet.
    pub(super) is_policy_read: Cell<bool>,
    /// The last reason why a list could not be saved, which was reported.
    reported: RefCell<Option<String>>,
    pub(super) has_ended: Cell<bool>,
    /// Signalled when the volume ends, or one of its settings has changed.
    pub(super) changed: Event,
}

/// Returns the time in seconds since 1970; 0 if the clock is before that.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// Returns the reason why a list could not be saved.
pub(super) fn reason(saved: Result<io::Result<()>, Failure>) -> Option<String> {
    match saved {
        Ok(Ok(())) => None,
        // The confinement permits the directory that was there at the start.
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => Some(format!(
            "{error}: if its directory was removed since the daemon started, restart the daemon"
        )),
        Ok(Err(error)) => Some(error.to_string()),
        Err(failure) => Some(failure.message),
    }
}

impl Warmth {
    /// Returns the list of a volume. None: the volume has no cache, its contents end with this
    /// process or were lost, or there is no place for lists.
    pub(crate) fn new(
        name: &str,
        volume: &Volume,
        attached: &Attached,
        lists: Option<HotLists>,
    ) -> Option<Rc<Warmth>> {
        if volume.loss().is_some() {
            return None;
        }
        Some(Rc::new(Warmth {
            name: name.to_owned(),
            cache: attached.cache.clone()?,
            lists: lists?,
            identity: volume.lasting_identity()?,
            blocks: attached.stack.limits().sectors / u64::from(BLOCK_SECTORS),
            saved_at: Cell::new(0),
            is_saving: Cell::new(false),
            saved: Event::new(),
            is_policy_read: Cell::new(false),
            reported: RefCell::new(None),
            has_ended: Cell::new(false),
            changed: Event::new(),
        }))
    }

    pub(super) fn lane(&self) -> Lane {
        self.cache.lane()
    }

    /// Has the lists read back, and saves them, until the end.
    pub(crate) fn start(self: &Rc<Warmth>) {
        self.start_start_up();
        let warmth = self.clone();
        // If the lane is full, the cache starts empty.
        let _ = self.lane().spawn(async move {
            warmth.load_policy().await;
            warmth.load().await;
            warmth.save_periodically().await;
        });
    }

    /// Ends its task.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.changed.notify();
    }

    /// Lets its tasks wait as long as the settings are now, from the beginning of their waits.
    pub(crate) fn apply_settings(&self) {
        self.changed.notify();
    }

    pub(super) fn is_on(&self) -> bool {
        self.cache.shared().settings().warm == Warm::List
    }

    async fn load(&self) {
        if !self.is_on() {
            return;
        }
        let (lists, identity, blocks) = (self.lists.clone(), self.identity.clone(), self.blocks);
        match blocking(move || lists.load(&identity, blocks)).await {
            Ok(Ok(Some(list))) if !self.has_ended.get() => {
                self.cache.order_retained(&list).await;
                self.cache.shared().warm(list, self.lane().now());
                self.watch().await;
            }
            Ok(Ok(_)) => {}
            Ok(Err(why)) => crate::complain!(volume = self.name, "overdrive: {}: {why}", self.name),
            Err(failure) => {
                crate::complain!(volume = self.name, "overdrive: {}: {failure}", self.name)
            }
        }
    }

    /// Lets reading the list go on after each wait, until it has ended.
    async fn watch(&self) {
        let (lane, shared) = (self.lane(), self.cache.shared());
        let mut saved_ns = lane.now();
        loop {
            let seen = self.changed.seen();
            if self.has_ended.get() || !shared.is_warming() {
                return;
            }
            either(self.changed.after(seen), lane.sleep_until(lane.now() + NUDGE_NS)).await;
            shared.nudge_warming();
            // The policy's state is saved meanwhile.
            let due_ns = saved_ns + shared.settings().warm_save_ns;
            if lane.now() >= due_ns && !self.has_ended.get() && self.has_changed(CHANGED_ONE_IN) {
                self.save().await;
                saved_ns = lane.now();
            }
        }
    }

    /// Saves the lists after each interval in which enough has changed. After an interval without
    /// accesses, the next wait wakes no lane; the one after that does, so that the last accesses
    /// before a pause are saved as well.
    async fn save_periodically(&self) {
        let lane = self.lane();
        let mut began_ns = lane.now();
        let (mut is_idle, mut accesses) = (false, self.block_accesses());
        loop {
            let seen = self.changed.seen();
            if self.has_ended.get() {
                return;
            }
            let due_ns = began_ns.saturating_add(self.cache.shared().settings().warm_save_ns);
            if lane.now() < due_ns {
                let changed = self.changed.after(seen);
                match is_idle {
                    true => either(changed, lane.sleep_deferrable_until(due_ns)).await,
                    false => either(changed, lane.sleep_until(due_ns)).await,
                };
                continue;
            }
            if self.has_changed(CHANGED_ONE_IN) {
                self.save().await;
            }
            let before = std::mem::replace(&mut accesses, self.block_accesses());
            is_idle = !is_idle && accesses == before;
            began_ns = lane.now();
        }
    }

    fn block_accesses(&self) -> u64 {
        self.cache.shared().counters(self.lane().now()).block_accesses
    }

    /// Whether accesses to one block in `one_in` of the cached ones were counted since the last
    /// save.
    fn has_changed(&self, one_in: u64) -> bool {
        let counted = self.cache.shared().counters(self.lane().now());
        let new = counted.block_accesses.saturating_sub(self.saved_at.get());
        new > 0 && new.saturating_mul(one_in) >= counted.blocks_held
    }

    /// Saves the lists at the end of the volume or of the program, unless nothing was accessed
    /// since the last save. Waits some seconds at most.
    pub(crate) async fn save_last(&self) {
        let lane = self.lane();
        let saving = async {
            self.save_start_up(false).await;
            loop {
                let seen = self.saved.seen();
                if !self.is_saving.get() {
                    break;
                }
                self.saved.after(seen).await;
            }
            if self.has_changed(u64::MAX) {
                self.save().await;
            }
        };
        either(saving, lane.sleep_until(lane.now() + LAST_NS)).await;
    }

    /// Replaces the list, unless it is being read back, and the policy's state.
    async fn save(&self) {
        if !self.is_on() {
            return;
        }
        self.is_saving.set(true);
        let is_list_saved = !self.cache.shared().is_warming();
        let why = if is_list_saved { self.save_list().await } else { None };
        let why_policy = self.save_policy().await;
        match why {
            Some(why) => self.report(LIST, Some(why)),
            None => self.report("the state of the policy", why_policy),
        }
        self.is_saving.set(false);
        self.saved.notify();
    }

    /// Replaces the list. Returns the reason why it could not be saved.
    async fn save_list(&self) -> Option<String> {
        let accesses = self.block_accesses();
        let entries = self.cache.hot_blocks().await;
        let (lists, of) = (self.lists.clone(), self.description());
        let why = reason(blocking(move || lists.save(&of, entries)).await);
        if why.is_none() {
            self.saved_at.set(accesses);
            crate::detail!(
                volume = self.name,
                "overdrive: {}: the list of hot blocks was saved",
                self.name
            );
        }
        why
    }

    /// Describes the volume for a file that is saved now.
    pub(super) fn description(&self) -> Description {
        let (identity, volume_blocks) = (self.identity.clone(), self.blocks);
        Description { identity, volume_blocks, saved_s: now_s() }
    }

    /// Reports why `name` could not be saved, once for each reason in a row.
    pub(super) fn report(&self, name: &str, why: Option<String>) {
        let was_reported = self.reported.replace(why.clone()) == why;
        if let Some(why) = why.filter(|_| !was_reported) {
            crate::complain!(
                volume = self.name,
                "overdrive: {}: {name} cannot be saved ({why}); after a restart, the cache starts \
                 with an older one or empty",
                self.name
            );
        }
    }

    /// Removes the lists. Returns whether there was one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) async fn forget(&self) -> Result<bool, Failure> {
        self.cache.shared().stop_warming(self.lane().now());
        let (lists, identity) = (self.lists.clone(), self.identity.clone());
        let removed = blocking(move || lists.forget(&identity)).await?;
        removed.map_err(|error| {
            let message =
                format!("{}: the list of hot blocks cannot be removed: {error}", self.name);
            Failure::new(Exit::Io, message)
        })
    }
}
