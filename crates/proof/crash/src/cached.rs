//! The product's engine as a subject: honest, or with one of its planted bugs.

use crate::midway;
use crate::setup::Setup;
use crate::subject::{
    self, Admission, Changing, Connection, Discarding, Fence, Hinting, Objects, Observing, Process,
    Subject, Warming,
};
use block::{Block, Buf, Extent, Limits, LinkDown, Memory, Stack, WriteMode};
use cache::planted::{self, Admitted, Bug};
use cache::{Arena, Cache, Changes, CleanBlocks, Geometry, Settings, Shared};
use hotlist::{CLASSES, Description, Entry, HotList, StartList, encode, encode_start};
use lane::{Lane, Random};
use policy::{
    CLASSES_MAX, ClassAdmission, ClassExtent, ClassMap, Hints, Treatment, Treatments, Weight,
};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// Identity of the simulated disk.
const IDENTITY: u64 = 0xd15c;

/// The cache engine.
pub struct Engine {
    /// A bug planted in it.
    pub bug: Option<Bug>,
    /// A bug planted in the layers on top of it.
    pub layer: Option<layers::planted::Bug>,
    /// Whether its disk is the export of a server.
    pub over_link: bool,
    /// A bug planted in the fence of its link.
    pub fence: Option<nbd::fence::planted::Bug>,
}

fn geometry(setup: &Setup) -> Geometry {
    let engine = &setup.engine;
    let slots = engine.slots.next_multiple_of(engine.shards);
    let slots_max = engine.slots_max.next_multiple_of(engine.shards);
    Geometry {
        format: engine.format,
        slots,
        slots_spare: slots_max - slots,
        shards: engine.shards,
        region_blocks: engine.region_blocks,
        extents: engine.extents,
        zeros_blocks: engine.zeros_blocks,
        fills: engine.fills,
        run_blocks: engine.run_blocks,
        slice_blocks: engine.slice_blocks,
    }
}

/// Returns the geometry for taking over the arena: with the configured slots, if possible.
fn takeover_geometry(setup: &Setup, arena: &Arc<Memory>) -> Geometry {
    let wanted = geometry(setup);
    let Some(found) = Arena::found(arena) else { return wanted };
    let is_bug = planted::planted(Bug::LeaveDirtySlots);
    let kept = match found.resized(wanted.slots) {
        Some(resized) => resized,
        None if is_bug => wanted,
        None => found.geometry,
    };
    Geometry { slots: kept.slots, slots_spare: kept.slots_spare, ..wanted }
}

#[allow(clippy::needless_update, reason = "a setting that is new has its default here")]
fn settings(setup: &Setup) -> Settings {
    let engine = &setup.engine;
    Settings {
        policy: engine.policy,
        write: engine.mode,
        durability: engine.durability,
        dirty_blocks_max: engine.dirty_blocks_max,
        dirty_age_ns: engine.dirty_age_ns,
        flush_target_ns: engine.flush_target_ns,
        retry_time_ns: engine.retry_time_ns,
        stall_time_ns: engine.stall_time_ns,
        workers: engine.workers,
        readers: engine.readers,
        readahead: engine.readers > 0,
        stream_blocks_max: engine.stream_blocks_max,
        absorb_blocks_max: engine.absorb_blocks_max,
        fill_cost_ns: engine.fill_cost_ns,
        compress: engine.compress,
        link_down: setup.link.map_or(LinkDown::Fail, |plan| plan.policy),
        // Stamps are hardly compressible.
        compressed_percent_max: 100,
        ..Settings::default()
    }
}

fn note(admitted: Admitted) {
    subject::note_admission(|operation| Admission {
        operation,
        first: admitted.first as u32,
        count: admitted.sectors,
        epoch: admitted.epoch as u32,
        dirty_blocks: admitted.dirty_blocks,
        dirty_blocks_max: admitted.dirty_blocks_max,
        debt_blocks: admitted.debt_blocks,
        allowance_blocks: admitted.allowance_blocks,
    });
}

impl Subject for Engine {
    fn prepare(&self) {
        planted::plant(self.bug);
        layers::planted::plant(self.layer);
        nbd::fence::planted::plant(self.fence);
        planted::observe(Some(Box::new(note)));
        planted::observe_stores(Some(Box::new(midway::saw_store)));
    }

    fn arena_bytes(&self, setup: &Setup) -> usize {
        Arena::bytes(&geometry(setup), setup.model.grain())
    }

    fn start(
        &self,
        setup: &Setup,
        below: &Limits,
        arena: &Arc<Memory>,
    ) -> Result<Box<dyn Process>, String> {
        let clean = match setup.engine.keeps_clean {
            true => CleanBlocks::Keep,
            false => CleanBlocks::Drop,
        };
        let shared = Shared::take_over(
            below,
            takeover_geometry(setup, arena),
            settings(setup),
            IDENTITY,
            arena.clone(),
            clean,
        );
        match shared {
            Ok(shared) => {
                shared.force_window_share(setup.engine.window_share);
                Ok(Box::new(Running { shared, lanes: RefCell::default() }))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn serves_bytes(&self) -> bool {
        true
    }

    fn refuses_cut(&self) -> bool {
        true
    }

    fn fence(&self) -> Fence {
        match self.bug {
            Some(Bug::SkipFence) => Fence::None,
            Some(Bug::FenceFirstRing) => Fence::FirstRing,
            _ => Fence::EveryRing,
        }
    }

    fn waits_for_owner(&self) -> bool {
        self.bug != Some(Bug::TwoOwners)
    }

    fn watch_stores(&self, stores: u32) {
        planted::watch_stores(stores);
    }

    fn has_link(&self) -> bool {
        self.over_link
    }

    fn note_changes_lost(&self, arena: &Arc<Memory>) {
        if let Some(found) = Arena::found(arena) {
            found.note_changes_lost();
        }
    }

    fn mends_failed_flushes(&self) -> bool {
        true
    }

    fn has_durabilities(&self) -> bool {
        true
    }

    fn notices_hangs(&self) -> bool {
        true
    }

    fn failure_outlives_kill(&self) -> bool {
        true
    }

    fn headers(&self, setup: &Setup, arena: &Arc<Memory>) -> Range<usize> {
        let geometry = geometry(setup);
        let arena = Arena::from_memory(arena.clone(), &geometry, setup.model.grain());
        arena.header_at(0)..arena.header_at(geometry.slots + geometry.slots_spare)
    }
}

struct Running {
    shared: Arc<Shared>,
    /// Its caches, by the number of their lane.
    lanes: RefCell<Vec<(usize, Cache)>>,
}

impl Running {
    fn cache_on(&self, lane: &Lane) -> Option<Cache> {
        let lanes = self.lanes.borrow();
        let (_, cache) = lanes.iter().find(|(number, _)| *number == lane.number())?;
        Some(cache.clone())
    }
}

impl Process for Running {
    fn attach(&self, lane: &Lane, below: Stack) -> Stack {
        let cache = Cache::attach(&self.shared, lane, below);
        self.lanes.borrow_mut().push((lane.number(), cache.clone()));
        Stack::new(lane, cache)
    }

    fn connect(&self) -> Box<dyn Connection> {
        let lanes = self.lanes.borrow();
        let now_ns = lanes.first().map_or(0, |(_, cache)| cache.lane().now());
        Box::new(Client(self.shared.client(now_ns)))
    }

    fn set_mode(&self, mode: WriteMode) {
        self.shared.set_write_mode(mode);
    }

    fn has_failed(&self) -> bool {
        self.shared.has_failed()
    }

    fn refuses_changes(&self) -> bool {
        self.shared.refuses_changes()
    }

    fn is_in_doubt(&self) -> bool {
        self.shared.is_in_doubt()
    }

    fn errors(&self) -> Option<[u64; 3]> {
        let all = self.shared.counters(0);
        let changes = all.errors_write + all.errors_zero + all.errors_discard;
        Some([all.errors_read, changes, all.errors_flush])
    }

    fn clear_error(&self) {
        self.shared.clear_error();
    }

    fn set(&self, lane: &Lane, changes: &Changes) -> Option<Changing> {
        let (cache, changes) = (self.cache_on(lane)?, *changes);
        Some(Box::pin(async move { cache.set(&changes).await.is_ok() }))
    }

    fn observe(&self, lane: &Lane, at: Extent, into: Buf) -> Option<Observing> {
        let cache = self.cache_on(lane)?;
        Some(Box::pin(async move { cache.observe(at, into).await }))
    }

    fn force_bypass(&self, lane: &Lane, reads: bool, writes: bool) {
        self.shared.force_bypass(reads, writes, lane.now());
    }

    fn force_window_share(&self, share: u32) {
        self.shared.force_window_share(share);
    }

    fn warm(&self, lane: &Lane, seed: u64) -> Option<Warming> {
        let (cache, mut random) = (self.cache_on(lane)?, Random::new(seed));
        Some(Box::pin(async move {
            let volume_blocks = cache.limits().sectors / u64::from(cache::BLOCK_SECTORS);
            let mut entries = cache.hot_blocks().await;
            for block in 0..volume_blocks {
                if random.one_in(2) {
                    entries.push(Entry::new(block, random.below(CLASSES.into()) as u32));
                }
            }
            let of = Description { identity: String::new(), volume_blocks, saved_s: 0 };
            if random.one_in(2) {
                // Blocks may be named twice, and clients may read none of them.
                let count = random.below(2 * volume_blocks);
                let start = (0..count).map(|_| random.below(volume_blocks)).collect();
                let starts = StartList::parse(&encode_start(&of, vec![start])).expect("a list");
                cache.shared().begin_start_up();
                cache.shared().follow_start_up(starts);
                return;
            }
            let list = HotList::parse(&encode(&of, entries)).expect("a list");
            cache.order_retained(&list).await;
            cache.shared().warm(list, cache.lane().now());
        }))
    }

    fn set_hints(&self, lane: &Lane, seed: u64) -> Option<Hinting> {
        let (cache, mut random) = (self.cache_on(lane)?, Random::new(seed));
        Some(Box::pin(async move {
            let blocks = cache.limits().sectors.div_ceil(u64::from(cache::BLOCK_SECTORS));
            let hints = (!random.one_in(8)).then(|| Arc::new(hints(&mut random, blocks)));
            cache.set_hints(hints).await;
            let (mut held, mut next) = (Vec::new(), Some(0));
            while let Some(from) = next {
                next = cache.list_held_blocks(from, &mut held).await;
            }
            let end = cache.limits().sectors.div_ceil(u64::from(cache::BLOCK_SECTORS));
            assert!(held.iter().all(|held| held.block < end), "a block behind the volume's end");
        }))
    }

    fn discard_dirty(&self, lane: &Lane) -> Option<Discarding> {
        let cache = self.cache_on(lane)?;
        Some(Box::pin(async move { cache.discard_dirty().await.is_ok() }))
    }

    fn orders_changes(&self) -> bool {
        true
    }

    fn dirty_blocks(&self) -> u32 {
        self.shared.dirty_blocks()
    }

    fn closed_epochs(&self) -> u32 {
        self.shared.closed_epochs()
    }

    fn objects(&self) -> Objects {
        let counters = self.shared.counters(0);
        Objects { found: counters.compressed_retained, read: counters.compressed_used }
    }

    fn buffers(&self) -> bool {
        true
    }

    fn takes_fua(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        self.shared.counters(0).each(|name, value| {
            if value > 0 {
                text += &format!(" {name} {value}");
            }
        });
        text
    }

    fn check_step(&self) {
        self.shared.check_gauges();
    }

    fn check(&self) {
        self.shared.check();
    }
}

struct Client(cache::Client);

impl Connection for Client {
    fn record_flush(&self) {
        self.0.flushed();
    }

    fn take_doubt(&self) -> block::Result {
        self.0.take_doubt()
    }
}

/// Returns hints about a volume of this many blocks: extents and treatments are drawn, and do not
/// fit to what the clients do.
fn hints(random: &mut Random, blocks: u64) -> Hints {
    let (mut extents, mut first) = (Vec::new(), random.below(3));
    while first < blocks {
        let most = (blocks - first).min(1 + random.below(24));
        let class = random.below(CLASSES_MAX as u64) as u8;
        extents.push(ClassExtent { first, blocks: most as u32, class });
        first += most + random.below(3);
    }
    let map = ClassMap::new(extents, blocks).expect("they are sorted");
    let mut treatments = Treatments::default();
    for class in 0..CLASSES_MAX as u8 {
        let weight = 2f64.powi(random.below(9) as i32 - 4);
        treatments.set(
            class,
            Treatment {
                weight: Weight::new(weight).expect("it is from 1/16 to 16"),
                admission: ClassAdmission::ALL[random.below(3) as usize],
            },
        );
    }
    Hints { map, treatments }
}
