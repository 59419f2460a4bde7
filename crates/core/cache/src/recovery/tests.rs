use super::*;
use crate::arena::{Clean, State};
use crate::settings::Settings;
use crate::shared::Shared;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use block::{Block, Durability, Memory, Ram, WriteMode};
use lane::atomic::Ordering;

const GRAIN: u32 = 16;
const BLOCKS: u64 = 64;
const GEOMETRY: Geometry = Geometry {
    slots: 32,
    shards: 4,
    region_blocks: 8,
    extents: 5,
    fills: 2,
    run_blocks: 8,
    slice_blocks: 256,
    ..Geometry::SMALLEST
};
const DIRTY: Header =
    Header { block: 0, mask: 0xff, epoch: 2, sequence: 1, state: State::Dirty, shadowed: false };

fn settings(durability: Durability) -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability,
        dirty_blocks_max: 16,
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

/// Takes over the memory with a process of this durability mode.
fn take(memory: &Arc<Memory>, durability: Durability) -> Shared {
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let shared = Shared::new(ram.limits(), GEOMETRY, settings(durability), 7, memory.clone());
    Arc::into_inner(shared.expect("mine")).expect("nothing else has it")
}

/// Returns the memory left by such a process that has done nothing.
fn left(durability: Durability) -> (Arc<Memory>, Arena) {
    let memory = memory();
    take(&memory, durability);
    (memory.clone(), Arena::from_memory(memory, &GEOMETRY, GRAIN))
}

fn closed(shared: &Shared) -> u32 {
    shared.epochs.with(|epochs| epochs.closed())
}

#[test]
fn nothing_found_is_nothing_to_write_out() {
    let (memory, _) = left(Durability::Flush);
    let shared = take(&memory, Durability::Flush);
    let counters = shared.counters(0);
    assert_eq!((counters.blocks_dirty, counters.dirty_age_ns), (0, 0));
    assert!(!shared.gauges.take_request());
    assert_eq!(shared.gauges.open_since(), 0);
}

#[test]
fn one_range_in_the_last_place_is_found() {
    let (memory, arena) = left(Durability::Flush);
    let range = ExtentHeader { first: 16, blocks: 2, may_unmap: false, epoch: 2, sequence: 9 };
    arena.publish_extent(14, &range);
    let shared = take(&memory, Durability::Flush);
    assert!(shared.gauges.take_request());
    assert_ne!(shared.gauges.open_since(), 0);
    assert_eq!(shared.gauges.change_absorbed(0).0, 10);
}

#[test]
fn new_changes_are_newer_than_whatever_was_found() {
    let (memory, arena) = left(Durability::Flush);
    for (slot, sequence) in [(1, 40), (2, 41), (9, 7)] {
        arena.publish(slot, &Header { block: slot.into(), sequence, ..DIRTY });
    }
    let shared = take(&memory, Durability::Flush);
    assert_eq!(shared.gauges.change_absorbed(0).0, 42);
    assert_eq!(shared.counters(0).blocks_recovered, 3);
}

#[test]
fn a_discard_that_had_begun_is_brought_to_its_end() {
    let (memory, arena) = left(Durability::Flush);
    arena.publish(23, &DIRTY);
    let range = ExtentHeader { first: 16, blocks: 2, may_unmap: false, epoch: 2, sequence: 9 };
    arena.publish_extent(14, &range);
    arena.note_flush_failed();
    arena.note_condition(Condition::Discarding);
    let shared = take(&memory, Durability::Flush);
    assert_eq!(arena.verified(23).map(|header| header.state), Some(State::Free));
    assert_eq!(arena.extent(14), Ok(None));
    assert!(arena.condition() == Condition::Well && !shared.has_failed());
    assert_eq!(shared.dirty_blocks(), 0);
}

#[test]
fn an_order_that_was_promised_closes_an_epoch_and_no_other_does() {
    use Durability::{Flush, Ordered};
    for (before, after, expected) in
        [(Flush, Flush, 0), (Flush, Ordered, 1), (Ordered, Flush, 1), (Ordered, Ordered, 1)]
    {
        let (memory, _) = left(before);
        let shared = take(&memory, after);
        assert_eq!(closed(&shared), expected, "{before:?}, then {after:?}");
        assert_eq!(shared.gauges.is_ordered(), expected > 0);
    }
}

#[test]
fn epochs_stay_apart_and_a_claim_of_more_than_can_be_is_the_oldest() {
    let (memory, arena) = left(Durability::Flush);
    arena.note_epoch(5);
    for (slot, epoch) in [(0, 5), (1, 4), (2, 2)] {
        arena.publish(slot, &Header { block: slot.into(), epoch, ..DIRTY });
    }
    assert_eq!(closed(&take(&memory, Durability::Flush)), 3);
    let damaged = 5u16.wrapping_sub(20_000);
    arena.publish(3, &Header { block: 3, epoch: damaged, ..DIRTY });
    assert_eq!(closed(&take(&memory, Durability::Flush)), CHAIN_MAX as u32 + 1);
    let recovered_epochs = [0, 1, 2, 3].map(|slot| arena.verified(slot).map(|header| header.epoch));
    let oldest = 5u16.wrapping_sub(CHAIN_MAX as u16 + 1);
    assert_eq!(recovered_epochs, [Some(5), Some(4), Some(2), Some(oldest)]);
}

#[test]
fn what_was_durable_is_forgotten_for_good() {
    let (memory, arena) = left(Durability::Flush);
    arena.note_epoch(5);
    let range = ExtentHeader { first: 16, blocks: 2, may_unmap: false, epoch: 4, sequence: 9 };
    arena.publish_extent(14, &range);
    for (slot, epoch, state) in
        [(0, 3, State::Written), (1, 4, State::Written), (2, 5, State::Dirty)]
    {
        arena.publish(slot, &Header { block: slot.into(), epoch, state, ..DIRTY });
    }
    arena.note_durable(4);
    let found = Arena::found(&memory).expect("an arena").survey();
    assert_eq!((found.dirty_blocks, found.ranges), (1, 0));
    let rescue = crate::Rescue::from_memory(memory.clone()).expect("an arena");
    assert_eq!(rescue.rescued_sectors(), 8);
    let shared = take(&memory, Durability::Flush);
    assert_eq!((closed(&shared), shared.dirty_blocks()), (0, 1));
    let states = [0, 1, 2].map(|slot| arena.verified(slot).map(|header| header.state));
    assert_eq!(states, [Some(State::Free), Some(State::Free), Some(State::Dirty)]);
    assert_eq!(arena.extent(14), Ok(None));
}

#[test]
fn a_note_of_what_is_durable_counts_only_near_the_open_epoch() {
    let (_, arena) = left(Durability::Flush);
    assert!(arena.durable().is_empty(), "never noted");
    let most = CHAIN_MAX as u64 + 2;
    for (open, durable, counts) in [
        (5, 4, true),
        (5, 5, false),
        (5, 6, false),
        (90_000, 90_000 - most, true),
        (90_000, 90_000 - most - 1, false),
    ] {
        arena.note_epoch(open);
        arena.note_durable(durable);
        assert_eq!(arena.durable().cover(durable as u16), counts, "{open}, {durable}");
        assert_eq!(arena.durable().cover(durable as u16 - 1), counts, "{open}, {durable}");
        assert!(!arena.durable().cover(durable as u16 + 1), "{open}, {durable}");
    }
}

#[test]
fn what_was_durable_says_nothing_about_the_epochs_of_an_older_version_in_between() {
    let (memory, arena) = left(Durability::Ordered);
    take(&memory, Durability::Ordered);
    let durable = arena.epoch();
    arena.note_durable(durable);
    // The older version has numbered its epochs in its own way, and has reached the same low bits.
    arena.note_epoch((1 << 16) + (durable & 0xffff) + 2);
    for (slot, epoch) in [(0, durable), (1, durable + 1)] {
        arena.publish(slot, &Header { block: slot.into(), epoch: epoch as u16, ..DIRTY });
    }
    assert_eq!(Arena::found(&memory).expect("an arena").survey().dirty_blocks, 2);
    // The same after another process of this version, whose epochs may be near the record.
    for life in 1..3 {
        let shared = take(&memory, Durability::Ordered);
        assert_eq!((closed(&shared), shared.dirty_blocks()), (2, 2), "life {life}");
    }
}

#[test]
fn what_is_damaged_is_counted_and_never_comes_back() {
    let (memory, arena) = left(Durability::Flush);
    arena.publish(3, &DIRTY);
    let range = ExtentHeader { first: 16, blocks: 2, may_unmap: false, epoch: 2, sequence: 9 };
    for number in [4, 11] {
        arena.publish_extent(number, &range);
    }
    // One bit of the slot's block number, and of the sizes of both ranges.
    memory.word(arena.header_at(3)).fetch_xor(1 << 30, Ordering::Relaxed);
    for number in [4, 11] {
        memory.word(128 + number * 32 + 8).fetch_xor(1, Ordering::Relaxed);
    }
    let shared = take(&memory, Durability::Flush);
    let counters = shared.counters(0);
    assert_eq!((counters.headers_rejected, counters.blocks_recovered), (3, 0));
    assert!(!shared.gauges.take_request());
    drop(shared);
    assert_eq!((arena.extent(4), arena.extent(11)), (Ok(None), Ok(None)));
}

#[test]
fn numbers_wrap_and_are_not_before_themselves() {
    for bits in [16, 44] {
        let last = (1 << bits) - 1;
        let half = 1 << (bits - 1);
        for one in [0, 5, half, last] {
            let after = |by: u64| (one + by) & last;
            assert!(!is_before(one, one, bits));
            for near in [1, 2, half - 1] {
                assert!(is_before(one, after(near), bits), "{one} before {near} later");
                assert!(!is_before(after(near), one, bits));
            }
            // At the maximum distance, neither is before the other.
            assert!(!is_before(one, after(half), bits));
        }
    }
}

#[test]
fn every_reason_is_a_sentence_of_its_own() {
    let reasons = [
        Unrecoverable::NotAnArena,
        Unrecoverable::AnotherVolume,
        Unrecoverable::AnotherSize,
        Unrecoverable::UnknownVersion,
    ];
    let mut said: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    assert!(said.iter().all(|text| text.starts_with("the memory holds ")), "{said:?}");
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), reasons.len());
}

#[test]
fn of_two_versions_of_one_epoch_the_newer_is_found_and_the_other_given_up_wherever_they_lie() {
    // In one shard, 8 slots: a process died after it had published one and before it freed the
    // other.
    for slots in [[1, 6], [6, 1]] {
        let (memory, arena) = left(Durability::Flush);
        for (slot, sequence) in slots.into_iter().zip([5, 6]) {
            arena.publish(slot, &Header { sequence, ..DIRTY });
        }
        let shared = take(&memory, Durability::Flush);
        assert_eq!((shared.dirty_blocks(), shared.counters(0).blocks_held), (1, 1));
        assert_eq!(arena.verified(slots[0]).map(|header| header.state), Some(State::Free));
        assert_eq!(arena.verified(slots[1]).map(|header| header.sequence), Some(6));
    }
}

#[test]
fn where_an_order_is_promised_held_copies_go_before_every_epoch_that_was_closed() {
    let (memory, arena) = left(Durability::Ordered);
    // A change was written through, a flush closed its epoch, and another flush the one after that.
    arena.publish(1, &Header::of_copy(1, 0xff, Clean::Kept, arena.round_stamp()));
    arena.publish(0, &Header { epoch: 2, ..DIRTY });
    arena.note_epoch(3);
    arena.note_flush_sent();
    for life in 1..4 {
        let shared = take(&memory, Durability::Flush);
        assert_eq!((closed(&shared), shared.dirty_blocks()), (2, 2), "life {life}");
        let [later, held] =
            [0, 1].map(|slot| arena.verified(slot).expect("it is sound").epoch.into());
        assert!(is_before(held, later, 16), "life {life}: {held} and {later}");
        assert!(is_before(later, arena.epoch() & 0xffff, 16), "life {life}");
    }
}

#[test]
fn a_kill_while_a_held_copy_becomes_dirty_loses_nothing() {
    let copies = |stamp| {
        let answered = Header::of_copy(1, 0xff, Clean::Kept, stamp);
        let bypassed = Header::of_copy(2, 0x0f, Clean::Bypassed, stamp);
        let unanswered = Header { shadowed: true, ..Header::of_copy(3, 0xff, Clean::Kept, 0) };
        [answered, bypassed, unanswered]
    };
    for durability in [Durability::Flush, Durability::Ordered] {
        let (memory, arena) = left(durability);
        arena.note_epoch(5);
        arena.note_flush_sent();
        let copies = copies(arena.round_stamp());
        let life_at = |slot| arena.header_at(slot) + 8;
        let lives = [1, 2, 3].map(|slot| {
            arena.publish(slot, &copies[slot as usize - 1]);
            memory.word(life_at(slot)).load(Ordering::Relaxed)
        });
        take(&memory, durability);
        // The next process was killed after it had stored the new epoch, and before the new state.
        for (slot, life) in [1, 2, 3].into_iter().zip(lives) {
            assert_ne!(arena.header(slot).epoch, 0, "copies have no epoch, dirty blocks have one");
            memory.word(life_at(slot)).store(life, Ordering::Relaxed);
        }
        assert_eq!([1, 2, 3].map(|slot| arena.verified(slot)), copies.map(Some));
        let shared = take(&memory, durability);
        let counters = shared.counters(0);
        assert_eq!((counters.headers_rejected, counters.blocks_recovered), (0, 3));
        assert!(!shared.is_in_doubt());
    }
}

#[test]
fn changes_that_the_backing_may_have_lost_are_written_again_or_leave_a_doubt() {
    for (is_unheld, is_flushed) in [(false, false), (true, false), (true, true)] {
        let (memory, arena) = left(Durability::Flush);
        arena.publish(1, &Header::of_copy(1, 0xff, Clean::Kept, arena.round_stamp()));
        if is_unheld {
            arena.note_unheld();
        }
        if is_flushed {
            arena.note_flush_sent();
            arena.note_flush_answered(true);
        }
        let found = Arena::found(&memory).expect("an arena");
        found.note_changes_lost();
        // It is killed before the loss counts as reported, and its successor notes it again.
        found.note_changes_lost();
        let shared = take(&memory, Durability::Flush);
        let recovered = shared.counters(0).blocks_recovered;
        assert_eq!(recovered, u64::from(!is_flushed), "{is_unheld}");
        assert_eq!(shared.is_in_doubt(), is_unheld && !is_flushed);
        assert!(!shared.has_failed());
    }
}

#[test]
fn an_epoch_stands_beside_no_other_kind_of_clean_slot() {
    let (memory, arena) = left(Durability::Flush);
    for clean in [Clean::Kept, Clean::Unread, Clean::UnreadBypassed, Clean::Bypassed] {
        arena.publish(1, &Header::of_clean(1, 0xff, clean, 0));
        memory.word(arena.header_at(1)).fetch_or(5, Ordering::Relaxed);
        assert_eq!(arena.verified(1), None, "{clean:?}");
        arena.free(1);
    }
}

#[test]
fn a_volume_in_doubt_serves_where_no_order_is_promised_and_none_was() {
    use Durability::{Flush, Ordered, Scratch};
    for before in [Flush, Ordered, Scratch] {
        for after in [Flush, Ordered, Scratch] {
            let (memory, arena) = left(before);
            arena.note_unheld();
            arena.note_flush_sent();
            let shared = take(&memory, after);
            let fails = before == Ordered || after == Ordered;
            assert_eq!(shared.has_failed(), fails, "{before:?}, then {after:?}");
            assert!(shared.is_in_doubt());
        }
    }
    for durability in [Flush, Ordered, Scratch] {
        // The doubt of another memory, which was abandoned.
        let shared = take(&memory(), durability);
        shared.begin_doubt();
        assert_eq!(shared.has_failed(), durability == Ordered, "{durability:?}");
    }
}
