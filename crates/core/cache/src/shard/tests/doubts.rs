use super::super::*;
#[cfg(feature = "laboratory")]
use crate::planted::{observe_stores, watch_stores};
use crate::settings::Settings;
use crate::shared::Shared;
use alloc::sync::Arc;
#[cfg(feature = "laboratory")]
use alloc::{boxed::Box, rc::Rc};
use block::{Block, Buf, Durability, Extent, Memory, Ram, WriteMode};
#[cfg(feature = "laboratory")]
use core::cell::Cell;

const GRAIN: u32 = 16;
const GEOMETRY: Geometry = Geometry {
    slots: 32,
    shards: 1,
    region_blocks: 64,
    extents: 4,
    fills: 2,
    run_blocks: 8,
    slice_blocks: 256,
    ..Geometry::SMALLEST
};

/// A volume of one shard, of which the test is worker, commit and backing.
struct Scene {
    shared: Arc<Shared>,
    load: Load,
}

impl Scene {
    fn new() -> Scene {
        let ram = Ram::new(64 * 8, GRAIN);
        let settings = Settings {
            write: WriteMode::BackNow,
            durability: Durability::Flush,
            dirty_blocks_max: 16,
            dirty_age_ns: 1_000_000,
            flush_target_ns: 0,
            retry_time_ns: 1_000_000,
            workers: 1,
            absorb_blocks_max: 8,
            ..Settings::default()
        };
        let memory = Arc::new(Memory::heap(Arena::bytes(&GEOMETRY, GRAIN)));
        let shared = Shared::new(ram.limits(), GEOMETRY, settings, 7, memory).expect("fresh");
        shared.gauges.early.store(true, Ordering::SeqCst);
        let load = Load::new(&shared.arena, GEOMETRY.run_blocks);
        Scene { shared, load }
    }

    fn shard<T>(&self, section: impl FnOnce(&mut Shard, &Gauges) -> T) -> T {
        self.shared.shards[0].shard.peek(|shard| section(shard, &self.shared.gauges))
    }

    /// A write of a whole block asks for admission.
    fn ask(&self, block: u64, barred: Option<Reason>, end: impl FnOnce(&mut Shard, &Change)) {
        let (from, settings) = (Buf::new(8, GRAIN), self.shared.settings());
        let at = Extent::new(block * 8, 8);
        let source = Source::Data(&from);
        let change = Change { at, source, fua: false, barred, now_ns: 0, lined_up: false };
        self.shard(|shard, gauges| {
            let admit = shard.admit(gauges, &settings, &change);
            assert_eq!(barred.is_some(), matches!(admit, Admit::WriteThrough { .. }), "{admit:?}");
            end(shard, &change);
        });
    }

    fn write(&self, block: u64) {
        self.ask(block, None, |_, _| ());
    }

    /// A write goes past the cache, and fails.
    fn fail_to_pass(&self, block: u64) {
        let gauges = &self.shared.gauges;
        let end = WriteThroughEnd {
            good: false,
            durable: false,
            keeps: Keeps::Yes,
            holds_max: 16,
            copies: true,
        };
        self.ask(block, Some(Reason::Large), |shard, change| {
            _ = shard.write_through_done(gauges, change, block..block + 1, end)
        });
    }

    /// A change of one block goes past the cache, and succeeds. A copy may be held.
    fn pass(&self, at: Extent, source: Source) {
        let barred = Some(Reason::Large);
        let change = Change { at, source, fua: false, barred, now_ns: 0, lined_up: false };
        let end = WriteThroughEnd {
            good: true,
            durable: false,
            keeps: Keeps::No,
            holds_max: 16,
            copies: true,
        };
        let (settings, block) = (self.shared.settings(), at.first / 8);
        self.shard(|shard, gauges| {
            let admit = shard.admit(gauges, &settings, &change);
            assert!(matches!(admit, Admit::WriteThrough { .. }), "{admit:?}");
            _ = shard.write_through_done(gauges, &change, block..block + 1, end);
        });
    }

    /// Counts the stores in `work` after which a successor would find neither these sectors of a
    /// block nor a note that something may be lost.
    #[cfg(feature = "laboratory")]
    fn unknown_in(&self, block: u64, mask: u8, work: impl FnOnce(&Scene)) -> u32 {
        let unknown = Rc::new(Cell::new(0));
        let (arena, counted) = (self.shared.arena.clone(), unknown.clone());
        observe_stores(Some(Box::new(move || {
            let is_there = |header: Header| {
                let counts = header.state.is_dirty() || arena.is_unflushed(&header);
                header.block == block && header.mask & mask == mask && counts
            };
            let found = (0..GEOMETRY.slots).any(|slot| arena.verified(slot).is_some_and(is_there));
            counted.set(counted.get() + u32::from(!found && !arena.must_outlive_process(false)));
            1
        })));
        watch_stores(1);
        work(self);
        watch_stores(0);
        observe_stores(None);
        unknown.get()
    }

    /// Everything that may be written out is.
    fn write_out(&mut self) {
        let Scene { shared, load } = self;
        shared.shards[0].shard.peek(|shard| {
            while matches!(shard.next_run(&shared.gauges, load, 8), Next::Blocks) {
                shard.run_done(&shared.gauges, &load.blocks, true);
            }
        });
    }
}

#[test]
fn what_a_pass_has_failed_over_is_no_copy_though_an_epoch_was_released_meanwhile() {
    let mut scene = Scene::new();
    scene.write(0);
    scene.write(2);
    scene.shard(|shard, gauges| {
        shard.close(gauges);
        shard.begin(gauges);
    });
    scene.write_out();
    // That epoch is durable. The next one is written out early beside its release.
    assert!(scene.shard(|shard, gauges| shard.release(gauges, 1)), "one is left");
    scene.write(4);
    scene.write(6);
    scene.write_out();
    scene.fail_to_pass(4);
    assert!(!scene.shard(|shard, gauges| shard.release(gauges, 8)));
    scene.shard(|shard, gauges| {
        shard.begin_settling();
        assert!(!shard.settle_written(gauges, 8));
    });
    let held = scene.shard(|shard, _| [0, 2, 4, 6].map(|block| shard.presence(block)));
    assert_eq!(held, [0xff, 0xff, 0, 0xff], "what the backing holds of the third is not known");
    assert_eq!(scene.shared.dirty_blocks(), 0);
    scene.shared.check();
}

#[test]
#[cfg(feature = "laboratory")]
fn killed_between_two_stores_a_successor_knows_of_every_change_that_was_answered() {
    let zeros = Source::Zeros { may_unmap: false, discard: false };
    let (whole, half) = (Buf::new(8, GRAIN), Buf::new(4, GRAIN));
    let [first_half, second_half] = [Extent::new(24, 4), Extent::new(28, 4)];
    let block = Extent::new(24, 8);
    let held = || {
        let scene = Scene::new();
        scene.shared.arena.note_flush_sent();
        scene.pass(first_half, Source::Data(&half));
        scene
    };
    let beside = |scene: &Scene| scene.pass(second_half, Source::Data(&half));
    assert_eq!(held().unknown_in(3, 0x0f, beside), 0, "a copy in part, beside it the rest");
    let over = |scene: &Scene| scene.pass(block, zeros);
    assert_eq!(held().unknown_in(3, 0x0f, over), 0, "a copy, over it what is not held");
    let dirty = Scene::new();
    dirty.shared.arena.note_flush_sent();
    dirty.write(3);
    let over = |scene: &Scene| scene.pass(block, Source::Data(&whole));
    assert_eq!(dirty.unknown_in(3, 0xff, over), 0, "a dirty block, over it what is held");
}

#[test]
fn where_an_order_is_promised_a_later_epoch_does_not_stand_for_a_held_copy() {
    let whole = Buf::new(8, GRAIN);
    for (is_ordered, closed) in [(false, 1), (true, 0), (true, 1)] {
        let scene = Scene::new();
        let (arena, gauges) = (&scene.shared.arena, &scene.shared.gauges);
        arena.note_flush_sent();
        scene.pass(Extent::new(24, 8), Source::Data(&whole));
        assert!(!arena.must_outlive_process(false), "a copy is held");
        if is_ordered {
            gauges.begin_order(arena);
        }
        gauges.show_closed(closed, 0);
        scene.write(3);
        let expected = is_ordered && closed > 0;
        assert_eq!(arena.must_outlive_process(false), expected, "{is_ordered}, {closed} closed");
    }
}
