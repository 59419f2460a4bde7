use super::super::*;
use crate::CleanBlocks;
use crate::admission::Rules;
#[cfg(feature = "laboratory")]
use crate::planted::{observe_stores, watch_stores};
use crate::settings::Settings;
use crate::shared::Shared;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
#[cfg(feature = "laboratory")]
use alloc::{boxed::Box, rc::Rc};
use block::{Block, Buf, Durability, Extent, Memory, Ram, WriteMode};
#[cfg(feature = "laboratory")]
use core::cell::Cell;

const GRAIN: u32 = 16;
const KEEP_NOTHING: Rules = Rules { write: WriteMode::None, ..Rules::KEEP };
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

/// A volume of one shard. The test acts as worker, commit and backing.
struct Scene {
    shared: Arc<Shared>,
    load: Load,
}

/// Returns a buffer of this number of sectors, filled with this byte.
fn filled(sectors: u32, byte: u8) -> Buf {
    let buffer = Buf::new(sectors, GRAIN);
    buffer.write(&vec![byte; buffer.bytes()]);
    buffer
}

impl Scene {
    fn new() -> Scene {
        Scene::on(Arc::new(Memory::heap(Arena::bytes(&GEOMETRY, GRAIN))), 16)
    }

    /// Kills the process, and lets another one take over.
    fn killed(self) -> Scene {
        Scene::on(self.shared.arena.memory().clone(), 16)
    }

    /// Kills the process, and lets another one take over with its clean blocks.
    fn retained(self) -> Scene {
        Scene::take_over(self.shared.arena.memory().clone(), 16, CleanBlocks::Keep)
    }

    fn on(memory: Arc<Memory>, dirty_blocks_max: u32) -> Scene {
        Scene::take_over(memory, dirty_blocks_max, CleanBlocks::Drop)
    }

    fn take_over(memory: Arc<Memory>, dirty_blocks_max: u32, clean: CleanBlocks) -> Scene {
        let ram = Ram::new(64 * 8, GRAIN);
        let settings = Settings {
            write: WriteMode::BackNow,
            durability: Durability::Flush,
            dirty_blocks_max,
            dirty_age_ns: 1_000_000,
            flush_target_ns: 0,
            retry_time_ns: 1_000_000,
            workers: 1,
            absorb_blocks_max: 8,
            ..Settings::default()
        };
        let shared = Shared::take_over(ram.limits(), GEOMETRY, settings, 7, memory, clean);
        let shared = shared.expect("ours");
        shared.gauges.set_early(true, 0);
        let load = Load::new(&shared.arena, GEOMETRY.run_blocks);
        Scene { shared, load }
    }

    fn shard<T>(&self, section: impl FnOnce(&mut Shard, &Gauges) -> T) -> T {
        self.shared.shards[0].shard.peek(|shard| section(shard, &self.shared.gauges))
    }

    /// Absorbs a write of a whole block.
    fn write(&self, block: u64) {
        let (from, settings) = (Buf::new(8, GRAIN), self.shared.settings());
        let (at, source) = (Extent::new(block * 8, 8), Source::Data(&from));
        let change = Change { barred: None, ..Scene::change(at, source) };
        let admit = self.shard(|shard, gauges| shard.admit(gauges, &settings, &change));
        assert!(matches!(admit, Admit::Absorbed { .. }), "{admit:?}");
    }

    /// Sends a write-through, which fails.
    fn fail_to_pass(&self, block: u64) {
        let whole = Buf::new(8, GRAIN);
        let at = Extent::new(block * 8, 8);
        assert!(self.send(at, Source::Data(&whole), Rules::KEEP));
        self.answer(at, Source::Data(&whole), false);
    }

    /// Sends a write-through of one block, which succeeds. A copy may be held.
    fn pass(&self, at: Extent, source: Source) {
        assert_eq!(self.send(at, source, KEEP_NOTHING), matches!(source, Source::Data(_)));
        self.answer(at, source, true);
    }

    fn change<'a>(at: Extent, source: Source<'a>) -> Change<'a> {
        let barred = Some(Reason::Large);
        Change { at, source, fua: false, barred, now_ns: 0, lined_up: false }
    }

    /// Sends a write-through of one block. Returns whether a copy is held.
    fn send(&self, at: Extent, source: Source, rules: Rules) -> bool {
        let (settings, block) = (self.shared.settings(), at.first / 8);
        let change = Scene::change(at, source);
        let copies = WriteThroughCopies {
            durable: false,
            rules,
            keeps_old: true,
            keeps_new: true,
            holds_max: settings.dirty_blocks_max,
            holds_unkept: true,
        };
        self.shard(|shard, gauges| {
            let admit = shard.admit(gauges, &settings, &change);
            assert!(matches!(admit, Admit::WriteThrough { .. }), "{admit:?}");
            shard.begin_copies(gauges, &change, block..block + 1, copies).is_held
        })
    }

    /// Answers it.
    fn answer(&self, at: Extent, source: Source, good: bool) {
        let end = WriteThroughEnd { good, durable: false, is_sampled: false };
        let block = at.first / 8;
        self.shard(|shard, gauges| {
            let change = Scene::change(at, source);
            _ = shard.write_through_done(gauges, &change, block..block + 1, end);
        });
    }

    /// Returns the first byte of every sector of a block that a read finds in memory; None: it
    /// finds none.
    fn read(&self, block: u64) -> Option<Vec<u8>> {
        let into = Buf::new(8, GRAIN);
        let at = Extent::new(block * 8, 8);
        let look = self.shard(|shard, _| shard.look(Rules::KEEP, Reader::Client, None, &at, &into));
        match look {
            Look::Hit => Some(firsts(&into)),
            Look::Wait => panic!("nothing else is under way"),
            Look::Fetch(fetch) => {
                self.shard(|shard, gauges| shard.end_fetch(gauges, &fetch));
                None
            }
        }
    }

    /// Counts the stores in `work` after which a successor would find neither these sectors of a
    /// block nor a note of a possible loss.
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

    /// Flushes the backing.
    fn flush(&self) {
        self.shared.arena.note_flush_sent();
        self.shared.gauges.note_flush_sent();
        self.shared.gauges.note_flush_succeeded();
        self.shared.arena.note_flush_answered(true);
    }

    /// Writes back everything that may be written back.
    fn write_out(&mut self) {
        let Scene { shared, load } = self;
        shared.shards[0].shard.peek(|shard| {
            while matches!(shard.next_run(&shared.gauges, load, 8, 0), Next::Blocks) {
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
    // The epoch is durable. The next one is written back early during its release.
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
fn a_change_that_was_sent_is_taken_over_though_it_was_not_answered() {
    let (older, newer) = (filled(8, 1), filled(4, 2));
    let part = Extent::new(28, 4);
    let scene = Scene::new();
    scene.pass(Extent::new(24, 8), Source::Data(&older));
    assert!(scene.send(part, Source::Data(&newer), Rules::KEEP));
    assert_eq!(scene.read(3), Some(vec![1; 8]), "it is not answered yet");
    scene.shared.check();
    let scene = scene.killed();
    assert_eq!(scene.read(3), Some(vec![1, 1, 1, 1, 2, 2, 2, 2]));
    assert_eq!(scene.shared.dirty_blocks(), 1);
    scene.shared.check();
}

/// Returns the first byte of every sector.
fn firsts(buffer: &Buf) -> Vec<u8> {
    let mut bytes = vec![0; buffer.bytes()];
    buffer.read(&mut bytes);
    bytes.chunks(GRAIN as usize).map(|sector| sector[0]).collect()
}

#[test]
fn a_read_shows_no_part_of_an_unanswered_change_that_a_successor_would_take_back() {
    let [old, newest, into] = [1, 3, 3].map(|byte| filled(8, byte));
    let (newer, at) = (filled(7, 2), Extent::new(24, 8));
    let scene = Scene::new();
    let fetch = |rules| {
        let look = scene.shard(|shard, _| shard.look(rules, Reader::Client, None, &at, &into));
        let Look::Fetch(fetch) = look else { panic!("nothing is cached, nothing joined") };
        fetch
    };
    let (late, first) = (fetch(KEEP_NOTHING), fetch(Rules::KEEP));
    scene.shard(|shard, gauges| {
        assert!(shard.overlay(&first, &old, 3..4));
        assert_eq!(shard.keep(gauges, &first, &first.needed(&old), 3..4), 1);
        shard.end_fetch(gauges, &first);
    });
    let (part, source) = (Extent::new(24, 7), Source::Data(&newer));
    let (change, settings) =
        (Change { barred: None, ..Scene::change(part, source) }, scene.shared.settings());
    let admit = scene.shard(|shard, gauges| shard.admit(gauges, &settings, &change));
    assert!(matches!(admit, Admit::Absorbed { .. }), "{admit:?}");
    assert!(scene.send(at, Source::Data(&newest), Rules::KEEP));
    // The backing has performed the last change before it has read, and has not answered it.
    assert!(scene.shard(|shard, _| shard.overlay(&late, &into, 3..4)));
    assert_eq!(firsts(&into), [2, 2, 2, 2, 2, 2, 2, 1]);
    assert_eq!(scene.killed().read(3), Some(firsts(&into)));
}

#[test]
fn a_flush_covers_no_change_that_was_not_answered_when_it_was_sent() {
    let whole = filled(8, 1);
    let at = Extent::new(24, 8);
    for is_answered in [false, true] {
        let scene = Scene::new();
        assert!(scene.send(at, Source::Data(&whole), KEEP_NOTHING));
        for _ in 0..2 {
            scene.flush();
        }
        if is_answered {
            scene.answer(at, Source::Data(&whole), true);
        }
        assert_eq!(scene.killed().shared.dirty_blocks(), 1, "{is_answered}");
    }
}

#[test]
fn a_change_that_has_failed_leaves_no_copy_and_is_noted() {
    let (older, newer) = (filled(8, 1), filled(8, 2));
    let at = Extent::new(24, 8);
    let scene = Scene::new();
    scene.pass(at, Source::Data(&older));
    scene.shared.arena.note_flush_sent();
    assert!(scene.send(at, Source::Data(&newer), Rules::KEEP));
    assert!(!scene.shared.arena.must_outlive_process(false), "two copies are held");
    scene.answer(at, Source::Data(&newer), false);
    assert_eq!(scene.read(3), None, "what the backing holds is not known");
    assert!(scene.shared.arena.must_outlive_process(false));
    scene.shared.check();
    assert_eq!(scene.killed().shared.dirty_blocks(), 0);
}

#[test]
fn taken_over_with_a_lower_limit_nothing_is_absorbed_or_held_before_less_is_dirty() {
    let whole = filled(8, 1);
    let block = |number: u64| Extent::new(number * 8, 8);
    let scene = Scene::new();
    (0..4).for_each(|number| scene.write(number));
    (4..8).for_each(|number| scene.pass(block(number), Source::Data(&whole)));
    let mut scene = Scene::on(scene.shared.arena.memory().clone(), 6);
    assert_eq!(scene.shared.dirty_blocks(), 8);
    let change = Change { barred: None, ..Scene::change(block(9), Source::Data(&whole)) };
    let settings = scene.shared.settings();
    let admit = scene.shard(|shard, gauges| shard.admit(gauges, &settings, &change));
    assert!(matches!(admit, Admit::WriteThrough { .. }), "{admit:?}");
    assert!(!scene.send(block(10), Source::Data(&whole), KEEP_NOTHING));
    scene.shard(|shard, gauges| {
        shard.close(gauges);
        shard.begin(gauges);
    });
    scene.write_out();
    assert!(!scene.shard(|shard, gauges| shard.release(gauges, 16)));
    assert_eq!(scene.shared.dirty_blocks(), 0);
    assert!(scene.send(block(11), Source::Data(&whole), KEEP_NOTHING));
    scene.write(12);
    scene.shared.check();
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
        gauges.publish_closed(closed, 0);
        scene.write(3);
        let expected = is_ordered && closed > 0;
        assert_eq!(arena.must_outlive_process(false), expected, "{is_ordered}, {closed} closed");
    }
}

/// Returns the blocks that a process takes over clean, and dirty.
fn taken_over(scene: Scene) -> (u64, u32) {
    let scene = scene.retained();
    scene.shared.check();
    (scene.shared.counters(0).blocks_retained, scene.shared.dirty_blocks())
}

#[test]
fn a_copy_that_became_durable_under_a_write_through_is_not_retained() {
    let (older, at) = (filled(8, 1), Extent::new(24, 8));
    let zeros = Source::Zeros { may_unmap: false, discard: false };
    for (is_sent, is_flushed, expected) in
        [(false, false, (0, 1)), (false, true, (1, 0)), (true, false, (0, 1)), (true, true, (0, 0))]
    {
        let scene = Scene::new();
        scene.pass(at, Source::Data(&older));
        if is_sent {
            assert!(!scene.send(at, zeros, Rules::KEEP), "zeros have no copy");
            assert_eq!(scene.read(3), Some(vec![1; 8]), "they are not answered yet");
        }
        if is_flushed {
            scene.flush();
        }
        assert_eq!(taken_over(scene), expected, "sent {is_sent}, flushed {is_flushed}");
    }
}

#[test]
fn a_block_that_became_clean_under_a_write_through_is_not_retained() {
    let zeros = Source::Zeros { may_unmap: false, discard: false };
    for (is_sent, expected) in [(false, (2, 0)), (true, (1, 0))] {
        let mut scene = Scene::new();
        scene.write(3);
        scene.write(5);
        scene.write_out();
        if is_sent {
            assert!(!scene.send(Extent::new(24, 8), zeros, Rules::KEEP));
        }
        scene.shard(|shard, gauges| {
            shard.begin_settling();
            assert!(!shard.settle_written(gauges, 8));
        });
        assert!(scene.read(3).is_some());
        assert_eq!(taken_over(scene), expected, "sent {is_sent}");
    }
}

#[test]
fn blocks_that_are_taken_over_are_used_or_wasted() {
    let mut scene = Scene::new();
    scene.write(3);
    scene.write(5);
    scene.write_out();
    scene.shard(|shard, gauges| {
        shard.begin_settling();
        assert!(!shard.settle_written(gauges, 8));
    });
    let scene = scene.retained();
    assert!(scene.read(3).is_some() && scene.read(3).is_some());
    for block in 6..60 {
        let (at, into) = (Extent::new(block * 8, 8), filled(8, 1));
        scene.shard(|shard, gauges| {
            let look = shard.look(Rules::KEEP, Reader::Client, None, &at, &into);
            let Look::Fetch(fetch) = look else { panic!("block {block} is not cached") };
            shard.keep(gauges, &fetch, &fetch.needed(&into), block..block + 1);
            shard.end_fetch(gauges, &fetch);
        });
    }
    let counters = scene.shared.counters(0);
    assert!(counters.evictions > 0, "the other block made room");
    assert_eq!((counters.blocks_retained, counters.blocks_retained_used), (2, 1));
    assert_eq!(counters.blocks_retained_wasted, 1);
}

#[test]
fn a_write_through_that_is_not_answered_hides_its_sectors_from_a_successor() {
    let scene = Scene::new();
    let (part, into) = (Extent::new(24, 4), filled(8, 1));
    let look = scene.shard(|shard, _| {
        shard.look(Rules::KEEP, Reader::Client, None, &Extent::new(24, 8), &into)
    });
    let Look::Fetch(fetch) = look else { panic!("nothing is cached") };
    scene.shard(|shard, gauges| {
        assert_eq!(shard.keep(gauges, &fetch, &fetch.needed(&into), 3..4), 1);
        shard.end_fetch(gauges, &fetch);
    });
    assert!(!scene.send(part, Source::Zeros { may_unmap: false, discard: true }, Rules::KEEP));
    let scene = scene.retained();
    assert_eq!(scene.shard(|shard, _| shard.presence(3)), 0xf0);
    assert_eq!(scene.shared.counters(0).blocks_retained, 1);
    scene.shared.check();
}

#[test]
fn counters_are_read_while_another_thread_is_inside_the_shard() {
    let scene = Scene::new();
    assert!(scene.send(Extent::new(24, 8), Source::Data(&filled(8, 1)), Rules::KEEP));
    // A second lock of the shard would wait for ever.
    let (held, observed) = scene.shard(|shard, _| (shard.held(), scene.shared.observe(0)));
    assert_eq!((observed.blocks_held, observed.writes_through), (held.into(), 1));
    assert_eq!(observed, scene.shared.counters(0));
}
