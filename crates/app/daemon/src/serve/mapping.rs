//! A volume's map of files: a separate process makes one now and then, and the cache gets it as
//! hints.

use super::captive::either;
use super::warmth::{now_s, reason};
use crate::device::blocking;
use crate::hot_lists::HotLists;
use crate::mapping::{Call, Ended, Life, MapSummary, Mapped};
use block::{Files, Rules};
use cache::{BLOCK_SECTORS, Cache};
use hints::{FileRules, hints};
use hotlist::{ClassList, Description};
use lane::{Event, Lane};
use policy::Hints;
use stack::{Attached, Exit, Failure, Volume};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Shortest time from the end of a map to the beginning of the next, in nanoseconds, if any block
/// was written.
const PAUSE_NS: u64 = 60_000_000_000;
/// The same if metadata was written, by which the files have probably changed.
const PAUSE_AFTER_METADATA_NS: u64 = 10_000_000_000;
/// A map takes at most one part in this many of the time.
const TIME_ONE_IN: u64 = 100;

/// Longest time that the end of a volume waits for the process that was killed, in nanoseconds.
const END_NS: u64 = 5_000_000_000;

/// Returns the time when the next map is due, after one that took some time and has ended now.
fn due_ns(now_ns: u64, took_ns: u64, pause_ns: u64) -> u64 {
    now_ns.saturating_add(pause_ns.max(took_ns.saturating_mul(TIME_ONE_IN)))
}

/// Returns the hints of classes. A large map takes a moment: not on a lane.
fn hints_of(list: &ClassList, rules: &Rules, blocks: u64) -> Result<Arc<Hints>, String> {
    // They were checked.
    let rules = FileRules::new(rules).unwrap_or_default();
    hints(list, &rules, blocks).map(Arc::new).map_err(|error| error.to_string())
}

/// The map of a volume's files while the volume is served.
pub(crate) struct Mapping {
    name: String,
    cache: Cache,
    control: PathBuf,
    /// Where maps are saved, and the identity of the volume's contents. None: nowhere.
    saved: Option<(HotLists, String)>,
    /// The volume's blocks, also a last one that is not whole.
    blocks: u64,
    memory_bytes: u64,
    rules: RefCell<Rules>,
    /// The last map that this process has made.
    last: RefCell<Option<MapSummary>>,
    /// The last reason why there is no new map, which was reported.
    reported: RefCell<Option<String>>,
    /// Whether a map is due at once: the rules have changed.
    is_due: Cell<bool>,
    /// The process that makes a map now.
    life: RefCell<Option<Arc<Life>>>,
    /// The time at which a read by an observer was last answered: progress of the process.
    progressed_ns: Cell<u64>,
    has_ended: Cell<bool>,
    /// Signalled when the volume ends, or one of its settings has changed.
    changed: Event,
}

impl Mapping {
    /// Returns the map of a volume. None: the volume has no cache, or its contents were lost.
    pub(crate) fn new(
        name: &str,
        volume: &Volume,
        attached: &Attached,
        lists: Option<HotLists>,
        control: PathBuf,
    ) -> Option<Rc<Mapping>> {
        let cache = attached.cache.clone().filter(|_| volume.loss().is_none())?;
        let rules = volume.spec().chain().find_map(|part| match part {
            block::Spec::Cache { cache, .. } => Some(cache.rules.clone()),
            _ => None,
        });
        let slots = u64::from(cache.shared().geometry().slots);
        let memory_bytes = slots * u64::from(BLOCK_SECTORS) * block::SECTOR;
        Some(Rc::new(Mapping {
            name: name.to_owned(),
            control,
            saved: lists.zip(volume.lasting_identity()),
            blocks: attached.stack.limits().sectors.div_ceil(u64::from(BLOCK_SECTORS)),
            memory_bytes,
            rules: RefCell::new(rules.unwrap_or_default()),
            last: RefCell::default(),
            reported: RefCell::default(),
            is_due: Cell::new(false),
            life: RefCell::default(),
            progressed_ns: Cell::new(0),
            has_ended: Cell::new(false),
            changed: Event::new(),
            cache,
        }))
    }

    fn lane(&self) -> Lane {
        self.cache.lane()
    }

    /// Has the volume's files mapped, until the end.
    pub(crate) fn start(self: &Rc<Mapping>) {
        let mapping = self.clone();
        // If the lane is full, there are no hints.
        let _ = self.lane().spawn(async move {
            mapping.load().await;
            mapping.map_periodically().await;
        });
    }

    /// Ends its task and its process.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.changed.notify();
        self.life.borrow().iter().for_each(|life| life.end(Ended::Unwanted));
    }

    /// Waits until no process of it runs, some seconds at most: one that cannot die, because the
    /// kernel waits for a device, must not hold up the end of its volume.
    pub(crate) async fn process_ended(&self) {
        let (lane, life) = (self.lane(), self.life.borrow().clone());
        if let Some(life) = life {
            either(life.over(), lane.sleep_until(lane.now().saturating_add(END_NS))).await;
        }
    }

    /// Notes that a read by an observer was answered.
    pub(super) fn note_observed(&self) {
        self.progressed_ns.set(self.lane().now());
    }

    /// Lets changed settings take effect.
    pub(crate) fn apply_settings(&self) {
        self.changed.notify();
    }

    /// The rules that it follows.
    pub(crate) fn rules(&self) -> Rules {
        self.rules.borrow().clone()
    }

    /// Replaces the rules. A map by the new ones follows.
    pub(crate) fn set_rules(&self, rules: Rules) {
        if self.rules.replace(rules.clone()) != rules {
            self.is_due.set(true);
            self.changed.notify();
        }
    }

    /// The last map that this process has made.
    pub(crate) fn last(&self) -> Option<MapSummary> {
        self.last.borrow().clone()
    }

    fn is_on(&self) -> bool {
        self.cache.shared().settings().files == Files::Auto
    }

    /// Returns the number of changes of the volume since the daemon serves it.
    fn changes(&self) -> u64 {
        self.cache.shared().counters(self.lane().now()).changes
    }

    /// Follows the map of an earlier process, until there is a new one.
    async fn load(&self) {
        let Some((lists, identity)) = self.saved.clone().filter(|_| self.is_on()) else { return };
        let (blocks, rules) = (self.blocks, self.rules());
        let load = move || {
            let saved = lists.load_classes(&identity, blocks)?;
            saved.map(|saved| hints_of(&saved.list, &rules, blocks)).transpose()
        };
        match blocking(load).await {
            Ok(Ok(Some(hints))) => self.cache.set_hints(Some(hints)).await,
            Ok(Ok(None)) => {}
            Ok(Err(why)) => self.report(Some(why)),
            Err(failure) => self.report(Some(failure.message)),
        }
    }

    async fn map_periodically(&self) {
        let (lane, shared) = (self.lane(), self.cache.shared().clone());
        let writes = shared.map_writes();
        let mut changes = None;
        // When a map is due if any block was written, and if metadata was.
        let (mut usual_ns, mut soon_ns) = (lane.now(), lane.now());
        loop {
            let (seen, noted) = (self.changed.seen(), writes.noted().seen());
            if self.has_ended.get() {
                return;
            }
            if !self.is_on() {
                self.cache.set_hints(None).await;
                self.changed.after(seen).await;
                (changes, usual_ns, soon_ns) = (None, lane.now(), lane.now());
                continue;
            }
            let next_ns = if writes.are_noted() { soon_ns } else { usual_ns };
            if lane.now() < next_ns && !self.is_due.get() {
                let woken = either(self.changed.after(seen), writes.noted().after(noted));
                either(woken, lane.sleep_deferrable_until(next_ns)).await;
                continue;
            }
            // Those before the map: it has them.
            writes.take();
            let now = self.changes();
            let mut took_ns = 0;
            if self.is_due.replace(false) || changes != Some(now) {
                let begun_ns = lane.now();
                let why = self.map().await.err().map(|failure| failure.message);
                // Without a map there is another attempt, also if nothing is written.
                changes = why.is_none().then_some(now);
                self.report(why);
                took_ns = lane.now() - begun_ns;
            }
            usual_ns = due_ns(lane.now(), took_ns, PAUSE_NS);
            soon_ns = due_ns(lane.now(), took_ns, PAUSE_AFTER_METADATA_NS);
        }
    }

    /// Has the files mapped once, and follows the map.
    async fn map(&self) -> Result<(), Failure> {
        let life = Arc::new(Life::default());
        let call = Call {
            control: self.control.clone(),
            volume: self.name.clone(),
            volume_blocks: self.blocks,
            rules: self.rules(),
            memory_bytes: self.memory_bytes,
            life: life.clone(),
        };
        let make = move || {
            let Mapped { summary, list, bytes } = call.run()?;
            let hints = hints_of(&list, &call.rules, call.volume_blocks);
            hints.map(|hints| (summary, hints, bytes)).map_err(|why| Failure::new(Exit::Io, why))
        };
        *self.life.borrow_mut() = Some(life.clone());
        let made = Cell::new(None);
        let is_wanted = || !self.has_ended.get() && self.is_on();
        let lane = self.lane();
        let guard = life.guard(&lane, &self.changed, is_wanted, &self.progressed_ns);
        either(async { made.set(Some(blocking(make).await)) }, guard).await;
        *self.life.borrow_mut() = None;
        if !is_wanted() || life.ended() == Some(Ended::Unwanted) {
            // It may be wanted again since.
            self.is_due.set(true);
            return Ok(());
        }
        let (summary, hints, bytes) = made.take().expect("the guard never ends")??;
        self.cache.set_hints(Some(hints)).await;
        crate::detail!(
            volume = self.name,
            "overdrive: {}: {} files were mapped",
            self.name,
            summary.files
        );
        *self.last.borrow_mut() = Some(summary);
        let Some((lists, identity)) = self.saved.clone() else { return Ok(()) };
        let of = Description { identity, volume_blocks: self.blocks, saved_s: now_s() };
        let why = reason(blocking(move || lists.save_classes(&of, &bytes)).await);
        self.report(why.map(|why| format!("the classes of its blocks cannot be saved ({why})")));
        Ok(())
    }

    /// Reports why there is no new map, once for each reason in a row.
    fn report(&self, why: Option<String>) {
        let was_reported = self.reported.replace(why.clone()) == why;
        if let Some(why) = why.filter(|_| !was_reported && !self.has_ended.get()) {
            crate::complain!(
                volume = self.name,
                "overdrive: {}: {why}; the cache goes on without a new map of its files",
                self.name
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_after_writes_of_metadata_are_due_sooner_but_take_a_hundredth_of_the_time() {
        let soon = due_ns(7, 50_000_000, PAUSE_AFTER_METADATA_NS);
        assert_eq!(soon, 7 + 10_000_000_000);
        assert!(soon < due_ns(7, 50_000_000, PAUSE_NS));
        for pause_ns in [PAUSE_NS, PAUSE_AFTER_METADATA_NS] {
            assert_eq!(due_ns(7, 2_000_000_000, pause_ns), 7 + 200_000_000_000);
        }
    }
}
