//! Discards of large ranges look up the blocks of regions with cached blocks, and no others.

use super::super::{Admit, Change, Load, Next, Shard, Source};
use crate::arena::Arena;
use crate::geometry::Geometry;
use crate::settings::Settings;
use crate::shared::Shared;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Block, Buf, Durability, Extent, Memory, Ram, WriteMode};
use core::sync::atomic::Ordering;

const GRAIN: u32 = 16;
const REGION: u64 = 256;
const REGIONS: u64 = 1024;
const GEOMETRY: Geometry = Geometry {
    slots: 1 << 17,
    shards: 1,
    region_blocks: REGION as u32,
    run_blocks: 64,
    zeros_blocks: 1 << 18,
    ..Geometry::SMALLEST
};
fn shared() -> Arc<Shared> {
    let memory = Arc::new(Memory::heap(Arena::bytes(&GEOMETRY, GRAIN)));
    let ram = Ram::new(REGIONS * REGION * 8, GRAIN);
    let settings = Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        dirty_blocks_max: 4096,
        flush_target_ns: 0,
        ..Settings::default()
    };
    Shared::new(ram.limits(), GEOMETRY, settings, 7, memory).expect("fresh")
}

/// Absorbs a change. Returns the number of lookups in the index.
fn absorb(shared: &Shared, at: Extent, source: Source<'_>) -> u32 {
    let change = Change { at, source, fua: false, barred: None, now_ns: 1, lined_up: false };
    with(shared, |shard| {
        let before = shard.index.lookups.load(Ordering::Relaxed);
        let admit = shard.admit(&shared.gauges, &shared.settings.now(), &change);
        assert!(matches!(admit, Admit::Absorbed { .. }), "{admit:?}");
        shard.index.lookups.load(Ordering::Relaxed) - before
    })
}

fn with<T>(shared: &Shared, work: impl FnOnce(&mut Shard) -> T) -> T {
    let entry = shared.shards.iter().next().expect("one");
    entry.shard.with(work)
}

fn discard(shared: &Shared, first: u64, blocks: u64) -> u32 {
    let source = Source::Zeros { may_unmap: true, discard: true };
    absorb(shared, Extent::new(first * 8, blocks as u32 * 8), source)
}

fn write(shared: &Shared, block: u64) {
    absorb(shared, Extent::new(block * 8, 8), Source::Data(&Buf::new(8, GRAIN)));
}

#[test]
fn regions_without_cached_blocks_need_no_lookup() {
    let shared = shared();
    // Dirty blocks, so that a discard must know which blocks it meets, and clean ones.
    (0..64).for_each(|number| write(&shared, 3 * REGION + number * 2));
    write(&shared, 700 * REGION);
    with(&shared, |shard| {
        let slot = shard.take_slot(9 * REGION).expect("free");
        shard.publish_clean(slot, 9 * REGION, 0xff, 0, policy::Cause::Fetch);
        assert_eq!(shard.held(), 66);
    });
    let lookups: u32 = (0..REGIONS).map(|region| discard(&shared, region * REGION, REGION)).sum();
    // Two for each block of the three regions.
    assert_eq!(u64::from(lookups), 2 * 3 * REGION);
    with(&shared, |shard| assert_eq!((shard.held(), shard.regions.sum()), (0, 0)));
    let lookups: u32 = (0..REGIONS).map(|region| discard(&shared, region * REGION, REGION)).sum();
    assert_eq!(lookups, 0, "nothing is cached any more");
    shared.check();
}

#[test]
fn zeros_are_written_around_the_blocks_of_their_epoch() {
    let shared = shared();
    for region in 0..REGIONS {
        discard(&shared, region * REGION, REGION);
    }
    write(&shared, 700 * REGION + 5);
    with(&shared, |shard| {
        shard.close(&shared.gauges);
        shard.begin(&shared.gauges);
        let mut load = Load::new(&shared.arena, GEOMETRY.run_blocks);
        let before = shard.index.lookups.load(Ordering::Relaxed);
        let next = shard.next_run(&shared.gauges, &mut load, GEOMETRY.run_blocks, 0);
        assert!(matches!(next, Next::Zeros));
        let lookups = shard.index.lookups.load(Ordering::Relaxed) - before;
        assert_eq!(u64::from(lookups), REGION, "of one region");
        load.zeros.join();
        let parts: Vec<_> = load.zeros.parts().map(|part| (part.at.first, part.at.end())).collect();
        let around = (700 * REGION + 5) * 8;
        assert_eq!(parts, [(0, around), (around + 8, REGIONS * REGION * 8)]);
    });
}

#[test]
fn regions_that_share_a_counter_are_found() {
    let shared = shared();
    let others = u64::from(GEOMETRY.slots / 128);
    write(&shared, 5 * REGION);
    with(&shared, |shard| {
        assert!(shard.regions.may_have(5 * REGION + 1) && !shard.regions.may_have(6 * REGION));
        assert!(shard.regions.may_have((5 + others) * REGION));
    });
    assert_eq!(discard(&shared, 4 * REGION, REGION), 0);
    assert!(u64::from(discard(&shared, 5 * REGION, REGION)) >= REGION);
    with(&shared, |shard| assert_eq!(shard.held(), 0));
    shared.check();
}
