use super::*;
use crate::arena::{ExtentHeader, Header, State};
use crate::geometry::Format;

const GRAIN: u32 = 16;

fn arena() -> (Arc<Memory>, Arena, Geometry) {
    let geometry =
        Geometry { slots: 8, shards: 2, region_blocks: 8, extents: 3, ..Geometry::default() };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    (memory.clone(), Arena::from_memory(memory, &geometry, GRAIN), geometry)
}

#[test]
fn only_its_own_kind_is_recognised_and_the_reason_is_reported() {
    let (memory, arena, geometry) = arena();
    assert_eq!(arena.is_mine(&geometry, 64, 7), Ok(false));
    arena.adopt(&geometry, 64, 7);
    assert_eq!(arena.is_mine(&geometry, 64, 7), Ok(true));
    assert_eq!(arena.is_mine(&geometry, 64, 8), Err(Unrecoverable::AnotherVolume));
    assert_eq!(arena.is_mine(&geometry, 56, 7), Err(Unrecoverable::AnotherSize));
    let other = Geometry { extents: 1, ..geometry };
    assert_eq!(arena.is_mine(&other, 64, 7), Err(Unrecoverable::AnotherSize));
    memory.word(8).fetch_xor(1 << 33, Ordering::Relaxed);
    assert_eq!(arena.is_mine(&geometry, 64, 7), Err(Unrecoverable::UnknownVersion));
    memory.word(8).fetch_xor(1 << 33, Ordering::Relaxed);
    memory.word(16).fetch_xor(1, Ordering::Relaxed);
    assert_eq!(arena.is_mine(&geometry, 64, 7), Err(Unrecoverable::NotAnArena));
    memory.word(16).fetch_xor(1, Ordering::Relaxed);
    memory.word(0).store(0, Ordering::Relaxed);
    assert_eq!(arena.is_mine(&geometry, 64, 7), Ok(false), "the adoption was not over");
    assert_eq!(arena.is_mine(&geometry, 56, 7), Err(Unrecoverable::NotAnArena));
}

#[test]
fn a_backing_may_grow_after_a_kill_in_the_middle_of_the_adoption() {
    let (memory, arena, geometry) = arena();
    let words = arena.superblock(&geometry, 64, 7);
    for (index, word) in words.into_iter().enumerate().skip(1).rev() {
        memory.word(index * 8).store(word, Ordering::Relaxed);
        for sectors in [64, 72] {
            assert_eq!(arena.is_mine(&geometry, sectors, 7), Ok(false), "from word {index} on");
        }
    }
    assert_eq!(arena.is_mine(&geometry, 72, 8), Err(Unrecoverable::NotAnArena));
    memory.word(0).store(1, Ordering::Relaxed);
    assert_eq!(arena.is_mine(&geometry, 72, 7), Err(Unrecoverable::NotAnArena));
}

#[test]
fn a_backing_may_grow_between_two_processes_and_not_shrink() {
    let (memory, arena, geometry) = arena();
    arena.adopt(&geometry, 64, 7);
    let sectors = || Arena::found(&memory).expect("an arena").sectors;
    for (grown, smaller) in [(72, 64), (SECTORS_MAX, 72)] {
        assert_eq!(arena.is_mine(&geometry, grown, 7), Ok(true));
        assert_eq!(sectors(), smaller, "to look changes nothing");
        arena.note_sectors(grown);
        assert_eq!(sectors(), grown);
        assert_eq!(arena.is_mine(&geometry, grown, 7), Ok(true));
        assert_eq!(arena.is_mine(&geometry, smaller, 7), Err(Unrecoverable::AnotherSize));
        for bit in 0..FIXED * 64 {
            memory.word(bit / 64 * 8).fetch_xor(1 << (bit % 64), Ordering::Relaxed);
            assert!(Arena::found(&memory).is_none(), "bit {bit}");
            memory.word(bit / 64 * 8).fetch_xor(1 << (bit % 64), Ordering::Relaxed);
        }
        arena.note_sectors(grown);
        assert_eq!(sectors(), grown);
    }
    assert_eq!(arena.is_mine(&geometry, SECTORS_MAX, 8), Err(Unrecoverable::AnotherVolume));
    arena.adopt(&geometry, 64, 7);
    assert_eq!(sectors(), 64, "a fresh one has not grown");
}

#[test]
fn what_is_found_is_what_was_written_and_anything_else_is_nothing() {
    let (memory, arena, geometry) = arena();
    assert!(Arena::found(&memory).is_none(), "zeros");
    arena.adopt(&geometry, 64, 7);
    let found = Arena::found(&memory).expect("an arena");
    assert_eq!((found.geometry, found.grain), (geometry, GRAIN));
    assert_eq!((found.sectors, found.identity), (64, 7));
    for bit in 0..FIXED * 64 {
        memory.word(bit / 64 * 8).fetch_xor(1 << (bit % 64), Ordering::Relaxed);
        assert!(Arena::found(&memory).is_none(), "bit {bit}");
        memory.word(bit / 64 * 8).fetch_xor(1 << (bit % 64), Ordering::Relaxed);
    }
    for small in [0, 8, BYTES - 8, BYTES, memory.bytes() - 1] {
        let part = Arc::new(Memory::heap(small));
        memory.copy(0, &part, 0, small);
        assert!(Arena::found(&part).is_none(), "{small} bytes");
    }
}

#[test]
fn sound_words_that_make_no_sense_are_nothing() {
    let (memory, arena, geometry) = arena();
    for (hostile, sectors) in [
        (Geometry { slots: u32::MAX, ..geometry }, 64),
        (Geometry { slots: 0, ..geometry }, 64),
        (Geometry { slots: 7, ..geometry }, 64),
        (Geometry { shards: 0, ..geometry }, 64),
        (Geometry { shards: u32::MAX, extents: u32::MAX, ..geometry }, 64),
        (Geometry { extents: 1 << 20, ..geometry }, 64),
        (Geometry { region_blocks: 3, ..geometry }, 64),
        (geometry, u64::MAX),
    ] {
        arena.adopt(&hostile, sectors, 7);
        assert!(Arena::found(&memory).is_none(), "{hostile:?}, {sectors} sectors");
    }
    // A product that does not fit into a word.
    let mut words = arena.superblock(&Geometry { slots: 1 << 30, ..geometry }, 64, 7);
    words[1] = 3 << 32 | 1 << 31;
    words[FIXED - 1] = checksum(&words, 0);
    words.iter().enumerate().for_each(|(index, word)| arena.store(index * 8, *word));
    assert!(Arena::found(&memory).is_none());
}

#[test]
fn a_survey_counts_what_would_be_lost() {
    let (memory, arena, geometry) = arena();
    arena.adopt(&geometry, 64, 7);
    let found = Arena::found(&memory).expect("an arena");
    assert_eq!(found.survey(), Survey::default());
    for (slot, state) in [(0, State::Dirty), (1, State::Clean), (2, State::Written)] {
        let block = u64::from(slot);
        let header = Header { block, mask: 255, epoch: 1, sequence: 1, state, shadowed: false };
        arena.publish(slot, &header);
    }
    memory.word(arena.header_at(3) + 8).store(1, Ordering::Relaxed);
    let range = ExtentHeader { first: 0, blocks: 2, may_unmap: true, epoch: 1, sequence: 2 };
    arena.publish_extent(5, &range);
    arena.publish_extent(0, &range);
    memory.word(BYTES).fetch_xor(1, Ordering::Relaxed);
    arena.note_condition(Condition::Failed);
    let survey = found.survey();
    let expected = Survey {
        dirty_blocks: 2,
        clean_blocks: 1,
        ranges: 1,
        failed: true,
        rejected: 2,
        in_doubt: false,
    };
    assert_eq!(survey, expected);
    assert!(survey.is_dirty());
    assert!(Survey { ranges: 1, ..Survey::default() }.is_dirty());
    assert!(Survey { dirty_blocks: 1, ..Survey::default() }.is_dirty());
    arena.note_condition(Condition::Discarding);
    let given_up = Survey { rejected: 2, ..Survey::default() };
    assert_eq!(found.survey(), given_up, "all of that");
    assert!(!given_up.is_dirty(), "what is damaged is not known to be");
}

#[test]
fn a_failed_flush_is_a_failure_until_it_is_mended() {
    let (_, arena, _) = arena();
    assert_eq!(arena.condition(), Condition::Well);
    arena.note_flush_failed();
    assert_eq!(arena.condition(), Condition::Failed);
    arena.note_flushes_mended(arena.flushes_failed());
    assert_eq!(arena.condition(), Condition::Well);
}

#[test]
fn a_good_flush_after_a_failed_one_covers_nothing_until_that_is_mended() {
    let (_, arena, _) = arena();
    let stamp = arena.round_stamp();
    arena.note_unheld();
    for (is_good, is_mended, is_unflushed) in
        [(false, false, true), (true, false, true), (true, true, false)]
    {
        if is_mended {
            arena.note_flushes_mended(arena.flushes_failed());
        }
        arena.note_flush_sent();
        if !is_good {
            arena.note_flush_failed();
        }
        arena.note_flush_answered(is_good);
        let found = (arena.is_unflushed_stamp(stamp), arena.has_unheld());
        assert_eq!(found, (is_unflushed, is_unflushed), "{is_good} {is_mended}");
    }
}

/// The words that other programs of this version, and the holder, read. Computed from the layout
/// above with another CRC-16 (Python's `binascii.crc_hqx`).
#[test]
fn the_words_are_as_the_picture_says() {
    let (memory, arena, geometry) = arena();
    arena.adopt(&geometry, 64, 7);
    arena.note_epoch(9);
    arena.note_condition(Condition::Discarding);
    (0..3).for_each(|_| arena.note_flush_failed());
    arena.note_flushes_mended(2);
    arena.note_ordered(true);
    arena.note_durable(8);
    let words: [u64; 16] =
        core::array::from_fn(|index| memory.word(index * 8).load(Ordering::Relaxed));
    let fixed =
        [u64::from_le_bytes(*b"overdrv\x01"), 4 << 32 | 16, 8, 2 << 32 | 8, 3, 64, 7, 0x1e10];
    assert_eq!(words[..8], fixed);
    assert_eq!(words[8..], [9, 2, 3, 2, 2, 8, !8 << 32 | 8, 0]);
    for (format, checksum) in [(Format::Two, 0xc698), (Format::Three, 0x12bb)] {
        let former = Geometry { format, ..geometry };
        arena.adopt(&former, 64, 7);
        let words: [u64; 8] =
            core::array::from_fn(|index| memory.word(index * 8).load(Ordering::Relaxed));
        let magic = u64::from_le_bytes(*b"overdrv\x01");
        let kind = (format as u64) << 32 | 16;
        assert_eq!(words, [magic, kind, 8, 2 << 32 | 8, 3, 64, 7, checksum]);
    }
}

#[test]
fn the_slots_that_are_live_are_as_noted_and_all_where_the_note_is_damaged() {
    let geometry = Geometry {
        slots: 8,
        slots_spare: 8,
        shards: 2,
        region_blocks: 8,
        extents: 3,
        ..Geometry::default()
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let arena = Arena::from_memory(memory.clone(), &geometry, GRAIN);
    arena.adopt(&geometry, 64, 7);
    assert_eq!(Arena::found(&memory).expect("an arena").geometry, geometry);
    let all = Geometry { slots: 16, slots_spare: 0, ..geometry };
    for bit in 0..64 {
        memory.word(LIVE_AT).fetch_xor(1 << bit, Ordering::Relaxed);
        assert_eq!(Arena::found(&memory).expect("an arena").geometry, all, "bit {bit}");
        memory.word(LIVE_AT).fetch_xor(1 << bit, Ordering::Relaxed);
    }
    arena.note_live(&all);
    assert_eq!(Arena::found(&memory).expect("an arena").geometry, all);
}

#[test]
fn an_arena_is_resized_within_its_places_unless_something_dirty_would_go() {
    let geometry = Geometry {
        slots: 12,
        slots_spare: 4,
        shards: 2,
        region_blocks: 8,
        extents: 3,
        ..Geometry::default()
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let arena = Arena::from_memory(memory.clone(), &geometry, GRAIN);
    arena.adopt(&geometry, 64, 7);
    let found = Arena::found(&memory).expect("an arena");
    let slots = |wanted| found.resized(wanted).map(|resized| (resized.slots, resized.slots_spare));
    assert_eq!(slots(16), Some((16, 0)));
    assert_eq!(slots(18), None, "there are no places");
    assert_eq!(slots(9), Some((8, 8)), "as many in each shard");
    assert_eq!(slots(1), None);
    // The fifth slot of the second shard, which begins at 8.
    let header =
        Header { block: 1, mask: 255, epoch: 1, sequence: 1, state: State::Clean, shadowed: false };
    arena.publish(12, &header);
    assert_eq!(slots(8), Some((8, 8)), "what is clean may go");
    arena.publish(12, &Header { state: State::Written, ..header });
    assert_eq!((slots(8), slots(10)), (None, Some((10, 6))));
    memory.word(arena.header_at(12)).fetch_xor(1, Ordering::Relaxed);
    assert_eq!(slots(8), None, "what is damaged may have been dirty");
    let former = Geometry { format: Format::Two, slots: 16, slots_spare: 0, ..geometry };
    assert_eq!(former.resized(17), Some(former));
    assert_eq!(former.resized(14), None, "the former format has no spare slots");
}

#[test]
fn an_order_is_promised_unless_it_was_noted_that_it_is_not() {
    let (_, arena, _) = arena();
    assert!(arena.is_ordered(), "a version that did not note it may have promised it");
    arena.note_ordered(false);
    assert!(!arena.is_ordered());
    arena.note_ordered(true);
    assert!(arena.is_ordered());
}

#[test]
fn the_largest_volume_and_the_smallest_memory_are_taken() {
    let (_, arena, geometry) = arena();
    let taken = |bytes: usize, sectors: u64| {
        let memory = Arc::new(Memory::heap(bytes));
        arena.adopt(&geometry, sectors, 7);
        arena.memory().copy(0, &memory, 0, bytes.min(arena.memory().bytes()));
        Arena::found(&memory).is_some()
    };
    let bytes = Arena::bytes(&geometry, GRAIN);
    assert!(taken(bytes, SECTORS_MAX));
    assert!(!taken(bytes, SECTORS_MAX + 1));
    assert!(!taken(bytes - 8, SECTORS_MAX));
}
