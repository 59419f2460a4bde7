//! A shard under each policy, compared with the simulation of that policy.

use super::super::{Admit, Change, Look, Reader, Shard, Source};
use crate::admission::Rules;
use crate::arena::Arena;
use crate::geometry::Geometry;
use crate::sampling::Sampling;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::streams::Streams;
use alloc::sync::Arc;
use block::{Block, Buf, Durability, Extent, Memory, Ram, WriteMode};
use lane::Random;
use policy::{Kind, Simulation};

const GRAIN: u32 = 16;
const BLOCKS: u64 = 64;
const GEOMETRY: Geometry = Geometry {
    slots: 16,
    shards: 1,
    region_blocks: 64,
    extents: 4,
    fills: 4,
    run_blocks: 8,
    slice_blocks: 256,
    ..Geometry::SMALLEST
};
fn settings() -> Settings {
    Settings {
        write: WriteMode::Through,
        durability: Durability::Flush,
        dirty_blocks_max: 8,
        dirty_age_ns: 1_000_000,
        flush_target_ns: 0,
        retry_time_ns: 1_000_000,
        workers: 1,
        absorb_blocks_max: 8,
        ..Settings::default()
    }
}

fn memory() -> Arc<Memory> {
    Arc::new(Memory::heap(Arena::bytes(&GEOMETRY, GRAIN)))
}

fn shard(kind: Kind) -> Shard {
    let sampling = Arc::new(Sampling::new(kind, GEOMETRY.slots));
    let streams = Arc::new(Streams::new(1 << 30, &GEOMETRY, u32::MAX));
    Shard::new(
        kind,
        sampling,
        streams,
        Arena::from_memory(memory(), &GEOMETRY, GRAIN),
        0,
        &GEOMETRY,
    )
}

/// Reads a block as a request does, with a backing that answers immediately. Returns whether it was
/// held.
fn read(shard: &mut Shard, shared: &Shared, block: u64, into: &Buf) -> bool {
    let (gauges, at) = (&shared.gauges, Extent::new(block * 8, 8));
    match shard.look(Rules::KEEP, Reader::Client, None, &at, into) {
        Look::Hit => true,
        Look::Wait => panic!("nothing else is under way"),
        Look::Fetch(fetch) => {
            assert!(shard.overlay(&fetch, into, block..block + 1));
            shard.keep(gauges, &fetch, &fetch.needed(into), block..block + 1);
            shard.end_fetch(gauges, &fetch);
            false
        }
    }
}

/// Writes a block, which is dirty afterwards.
fn write(shard: &mut Shard, shared: &Shared, block: u64, from: &Buf) {
    let (at, source) = (Extent::new(block * 8, 8), Source::Data(from));
    let change = Change { at, source, fua: false, barred: None, now_ns: 0, lined_up: false };
    let admit = shard.admit(&shared.gauges, &settings(), &change);
    assert!(matches!(admit, Admit::Absorbed { .. }), "{admit:?}");
}

#[test]
fn each_read_ends_as_the_simulation_of_the_policy_says() {
    let over_slots = |kind: &Kind| !matches!(kind, Kind::Arc | Kind::Lirs);
    for kind in Kind::ALL.into_iter().filter(over_slots) {
        let ram = Ram::new(BLOCKS * 8, GRAIN);
        let shared = Shared::new(ram.limits(), GEOMETRY, settings(), 7, memory()).expect("fresh");
        let mut shard = shard(kind);
        let mut simulation = Simulation::new(kind, GEOMETRY.slots);
        let (mut random, into) = (Random::new(3), Buf::new(8, GRAIN));
        for number in 0..20_000 {
            let block = random.below(BLOCKS).min(random.below(BLOCKS));
            let hit = read(&mut shard, &shared, block, &into);
            assert_eq!(hit, simulation.read(block), "{kind:?}, read {number}");
        }
        shard.check(&shared.gauges);
    }
}

#[test]
fn a_policy_hears_of_reads_of_dirty_blocks() {
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let shared = Shared::new(ram.limits(), GEOMETRY, settings(), 7, memory()).expect("fresh");
    let mut shard = shard(Kind::Sieve);
    let bytes = Buf::new(8, GRAIN);
    (0..2).for_each(|block| write(&mut shard, &shared, block, &bytes));
    assert!(read(&mut shard, &shared, 0, &bytes), "it is dirty");
    shard.forget_all(&shared.gauges);
    for block in 2..17 {
        assert!(!read(&mut shard, &shared, block, &bytes));
    }
    assert!(read(&mut shard, &shared, 0, &bytes), "it was read, though it was dirty then");
    assert!(!read(&mut shard, &shared, 1, &bytes), "it was not, and went first");
    shard.check(&shared.gauges);
}

#[test]
fn a_policy_hears_of_writes_of_blocks_that_are_not_held() {
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let shared = Shared::new(ram.limits(), GEOMETRY, settings(), 7, memory()).expect("fresh");
    let mut shard = shard(Kind::WTinyLfu);
    let bytes = Buf::new(8, GRAIN);
    for block in 0..16 {
        assert!(!read(&mut shard, &shared, block, &bytes));
    }
    write(&mut shard, &shared, 40, &bytes);
    assert!(read(&mut shard, &shared, 40, &bytes), "it is dirty");
    shard.forget_all(&shared.gauges);
    // It is the window's only block, and was accessed twice; those of the main part once.
    assert!(!read(&mut shard, &shared, 41, &bytes));
    assert!(read(&mut shard, &shared, 40, &bytes), "the write counts as well");
    shard.check(&shared.gauges);
}
