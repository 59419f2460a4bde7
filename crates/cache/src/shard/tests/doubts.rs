use super::super::*;
use crate::settings::Settings;
use crate::shared::Shared;
use alloc::sync::Arc;
use block::{Block, Buf, Durability, Extent, Memory, Ram, WriteMode};

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
