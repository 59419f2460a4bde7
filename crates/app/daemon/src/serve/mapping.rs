//! A volume's map of files: a separate process makes one now and then, and the cache gets it as
//! hints.

use super::captive::either;
use super::warmth::{now_s, reason};
use crate::device::blocking;
use crate::hot_lists::HotLists;
use crate::mapping::{Call, MapSummary, Mapped};
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

/// Shortest time from the end of a map to the beginning of the next, in nanoseconds.
const PAUSE_NS: u64 = 60_000_000_000;
/// A map takes at most one part in this many of the time.
const TIME_ONE_IN: u64 = 100;

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
    /// The volume's whole blocks.
    blocks: u64,
    memory_bytes: u64,
    rules: RefCell<Rules>,
    /// The last map that this process has made.
    last: RefCell<Option<MapSummary>>,
    /// The last reason why there is no new map, which was reported.
    reported: RefCell<Option<String>>,
    /// Whether a map is due at once: the rules have changed.
    is_due: Cell<bool>,
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
            blocks: attached.stack.limits().sectors / u64::from(BLOCK_SECTORS),
            memory_bytes,
            rules: RefCell::new(rules.unwrap_or_default()),
            last: RefCell::default(),
            reported: RefCell::default(),
            is_due: Cell::new(false),
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

    /// Ends its task.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.changed.notify();
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
        let lane = self.lane();
        let (mut due_ns, mut changes) = (lane.now(), None);
        loop {
            let seen = self.changed.seen();
            if self.has_ended.get() {
                return;
            }
            if !self.is_on() {
                self.cache.set_hints(None).await;
                self.changed.after(seen).await;
                due_ns = lane.now();
                continue;
            }
            if lane.now() < due_ns && !self.is_due.get() {
                either(self.changed.after(seen), lane.sleep_deferrable_until(due_ns)).await;
                continue;
            }
            let now = self.changes();
            let mut took_ns = 0;
            if self.is_due.replace(false) || changes != Some(now) {
                changes = Some(now);
                let begun_ns = lane.now();
                let why = self.map().await.err().map(|failure| failure.message);
                self.report(why);
                took_ns = lane.now() - begun_ns;
            }
            due_ns = lane.now().saturating_add(PAUSE_NS.max(took_ns.saturating_mul(TIME_ONE_IN)));
        }
    }

    /// Has the files mapped once, and follows the map.
    async fn map(&self) -> Result<(), Failure> {
        let call = Call {
            control: self.control.clone(),
            volume: self.name.clone(),
            volume_blocks: self.blocks,
            rules: self.rules(),
            memory_bytes: self.memory_bytes,
        };
        let make = move || {
            let Mapped { summary, list, bytes } = call.run()?;
            let hints = hints_of(&list, &call.rules, call.volume_blocks);
            hints.map(|hints| (summary, hints, bytes)).map_err(|why| Failure::new(Exit::Io, why))
        };
        let (summary, hints, bytes) = blocking(make).await??;
        if self.has_ended.get() || !self.is_on() {
            return Ok(());
        }
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
