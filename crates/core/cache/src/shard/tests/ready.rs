//! Ready runs: blocks in order are written back long before the buffer is full, others are not.

use super::super::{Admit, Change, Load, Next, Shard, Source};
use crate::arena::Arena;
use crate::geometry::Geometry;
use crate::settings::Settings;
use crate::shared::Shared;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Block, Buf, Durability, Extent, Memory, Ram, WriteMode};

const GRAIN: u32 = 16;
const GEOMETRY: Geometry =
    Geometry { slots: 1 << 14, shards: 1, run_blocks: 64, ..Geometry::SMALLEST };

fn shared() -> Arc<Shared> {
    let memory = Arc::new(Memory::heap(Arena::bytes(&GEOMETRY, GRAIN)));
    let ram = Ram::new(1 << 20, GRAIN);
    let settings = Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        // The open epoch may have 1,792 blocks, of which 56 are kept for an idle device.
        dirty_blocks_max: 4096,
        flush_target_ns: 0,
        ..Settings::default()
    };
    Shared::new(ram.limits(), GEOMETRY, settings, 7, memory).expect("fresh")
}

fn with<T>(shared: &Shared, work: impl FnOnce(&mut Shard) -> T) -> T {
    shared.shards[0].shard.with(work)
}

/// Absorbs a write of whole blocks. Returns whether a run is ready.
fn write(shared: &Shared, first: u64, blocks: u32) -> bool {
    let data = Buf::new(blocks * 8, GRAIN);
    let at = Extent::new(first * 8, blocks * 8);
    let source = Source::Data(&data);
    let change = Change { at, source, fua: false, barred: None, now_ns: 1, lined_up: false };
    let admit = with(shared, |shard| shard.admit(&shared.gauges, &shared.settings.now(), &change));
    let Admit::Absorbed { has_run, start, .. } = admit else { panic!("{admit:?}") };
    assert!(!start || first == 0, "the buffer is far from full");
    has_run
}

/// Begins and ends all ready runs. Returns the length of each.
fn write_back(shared: &Shared, most: u32) -> Vec<u32> {
    let mut load = Load::new(&shared.arena, GEOMETRY.run_blocks);
    with(shared, |shard| {
        let mut runs = Vec::new();
        while let Next::Blocks = shard.next_run(&shared.gauges, &mut load, 64, most) {
            runs.push(load.blocks.blocks());
            shard.run_done(&shared.gauges, &load.blocks, true);
        }
        runs
    })
}

#[test]
fn a_stream_is_written_while_the_device_is_idle() {
    let shared = shared();
    assert!(!(0..56).any(|block| write(&shared, block, 1)), "short bursts wait");
    let ready = (56..256).filter(|block| write(&shared, *block, 1)).count();
    assert_eq!(ready, 13, "each 16 blocks are a run");
    assert!(with(&shared, |shard| shard.has_work(&shared.gauges)));
    assert_eq!(write_back(&shared, 0), [], "clients wait for the device");
    // The first run takes its neighbours before it; then runs follow one another.
    let runs = write_back(&shared, 32);
    assert_eq!(runs, [32; 7], "the last 15 blocks are no run");
    assert!(!with(&shared, |shard| shard.has_work(&shared.gauges)));
    shared.check();
    // Written once more: the open epoch has them again.
    (0..256).for_each(|block| _ = write(&shared, block, 1));
    shared.check();
}

#[test]
fn scattered_and_rewritten_blocks_wait() {
    let shared = shared();
    assert!(!(0..400).any(|number| write(&shared, number * 2, 1)), "no neighbours");
    assert_eq!(write_back(&shared, 64), []);
    let round = || (0..50).filter(|run| write(&shared, 5000 + run * 8, 8)).count();
    assert_eq!(round(), 25, "the first round is a stream");
    assert_eq!(write_back(&shared, 64).iter().sum::<u32>(), 400);
    assert!(round() < 5, "it is rewritten");
    assert!(write_back(&shared, 8).iter().sum::<u32>() < 80);
    assert_eq!((round(), round()), (0, 0));
    assert_eq!(write_back(&shared, 64), []);
    shared.check();
}

#[test]
fn no_run_is_written_beside_a_closed_epoch() {
    let shared = shared();
    (0..32).for_each(|run| _ = write(&shared, run * 8, 8));
    with(&shared, |shard| shard.close(&shared.gauges));
    shared.gauges.publish_closed(1, 2);
    assert!((32..64).all(|run| write(&shared, run * 8, 8) == (run % 2 == 1 && run >= 39)));
    assert_eq!(write_back(&shared, 64), []);
    with(&shared, |shard| shard.begin(&shared.gauges));
    assert_eq!(write_back(&shared, 64).iter().sum::<u32>(), 256, "the closed epoch alone");
    shared.check();
}
