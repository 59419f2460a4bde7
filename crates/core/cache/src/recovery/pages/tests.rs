use super::*;
use crate::arena::{Arena, Clean, ExtentHeader, Header, State};
use crate::compressed::{Encoded, Tier};
use crate::epochs::PAGES;
use crate::geometry::Geometry;
use crate::settings::Settings;
use crate::shared::Shared;
use alloc::sync::Arc;
use block::{Block, Memory, Ram};
use lane::mix_bits;
use packing::Encoding;

const GRAIN: u32 = 16;
const GEOMETRY: Geometry = Geometry {
    slots: 32,
    slots_spare: 16,
    shards: 1,
    region_blocks: 64,
    extents: 4,
    fills: 2,
    run_blocks: 8,
    slice_blocks: 256,
    ..Geometry::SMALLEST
};
/// The slots of the pages, in the order in which they are filled.
const PAGE_SLOTS: [u32; 3] = [31, 7, 20];
const OBJECTS: u64 = 8;

/// The memory that a process has left, with objects of the blocks from 0 on.
struct Left {
    memory: Arc<Memory>,
    arena: Arena,
}

impl Left {
    fn new() -> Left {
        let memory = Arc::new(Memory::heap(Arena::bytes(&GEOMETRY, GRAIN)));
        let arena = Arena::from_memory(memory.clone(), &GEOMETRY, GRAIN);
        let left = Left { memory, arena };
        left.take_over(CleanBlocks::Drop);
        let mut tier = Tier::new(&GEOMETRY, left.arena.clone(), 0);
        tier.open();
        PAGE_SLOTS.into_iter().for_each(|slot| tier.add_page(slot));
        for block in 0..OBJECTS {
            let data = [block as u8; 24];
            tier.store(&Encoded::new(Encoding::Lz4, &data).of_block(block), &data);
        }
        left
    }

    fn take_over(&self, clean: CleanBlocks) -> Arc<Shared> {
        self.take_over_as(GEOMETRY, clean)
    }

    fn take_over_as(&self, geometry: Geometry, clean: CleanBlocks) -> Arc<Shared> {
        let ram = Ram::new(64 * 8, GRAIN);
        let settings = Settings { compress: Compress::Lz4, workers: 1, ..Settings::default() };
        let memory = self.memory.clone();
        let shared = Shared::take_over(ram.limits(), geometry, settings, 7, memory, clean);
        let shared = shared.expect("ours");
        shared.check();
        shared
    }

    /// Lets a process take over. Returns the number of objects that it finds.
    fn found(&self) -> u64 {
        let counters = self.take_over(CleanBlocks::Keep).counters(0);
        assert_eq!(counters.compressed_retained, counters.compressed_blocks);
        counters.compressed_blocks
    }

    /// Renumbers the epochs as older programs do when they take over.
    fn take_over_by_older_program(&self, numbers: u64) {
        self.arena.note_epoch(numbers + (1 << 16) + (self.arena.epoch() & 0xffff));
    }

    /// Makes a slot a page with one object, as programs do whose objects begin at multiples of 8
    /// bytes. Returns the page's mark.
    fn write_former_page(&self, slot: u32, number: u32) -> u64 {
        let seal = u64::from_le_bytes(*b"overpage");
        let fields = u64::from(number) << 10 | 1;
        let check = mix_bits(fields ^ mix_bits(seal ^ u64::from(slot))) >> 42;
        let (mark, sector) = (fields << 22 | check, self.arena.sector_at(slot, 0));
        let head = u64::from(number) << 24 | (Encoding::Lz4 as u64) << 13 | 24;
        let place = mix_bits(u64::from(slot) << 16 | 8);
        let head = head | mix_bits(head ^ place) << 15 & 0x1ff << 15;
        let page_seal = mix_bits(seal ^ mix_bits(u64::from(number) << 32 | u64::from(slot)));
        for (at, word) in [(sector, page_seal), (sector + 8, head), (sector + 48, 0)] {
            self.memory.word(at).store(word, lane::atomic::Ordering::Relaxed);
        }
        let header = self.memory.word(self.arena.header_at(slot));
        header.store(mark, lane::atomic::Ordering::Relaxed);
        mark
    }
}

/// The numbers of epochs of programs without compressed pages.
const NUMBERS_WITHOUT_PAGES: u64 = 1 << 32;
/// Those of programs whose objects begin at multiples of 8 bytes.
const FORMER_NUMBERS: u64 = 1 << 33 | 1 << 32;

fn clean(block: u64) -> Header {
    Header::of_clean(block, 0xff, Clean::Kept, 0)
}

#[test]
fn objects_are_found_from_process_to_process() {
    let left = Left::new();
    for _ in 0..3 {
        assert_eq!(left.found(), OBJECTS);
    }
}

#[test]
fn older_programs_see_free_slots_and_end_the_tier() {
    for numbers in [NUMBERS_WITHOUT_PAGES, FORMER_NUMBERS] {
        let left = Left::new();
        let survey = Arena::found(&left.memory).expect("an arena").survey();
        assert_eq!((survey.clean_blocks, survey.dirty_blocks, survey.rejected), (0, 0, 0));
        assert!(left.arena.epoch() & PAGES != 0);
        left.take_over_by_older_program(numbers);
        assert_eq!((left.found(), left.found()), (0, 0));
        let marked = |slot: &u32| left.arena.page(*slot).is_some();
        assert_eq!(PAGE_SLOTS.iter().filter(|slot| marked(slot)).count(), 0);
    }
}

/// They are dropped, and their program does not trust those that this one could not see: it has
/// served the backing since.
#[test]
fn pages_of_the_former_layout_are_free_slots_for_good() {
    let left = Left::new();
    left.take_over(CleanBlocks::Drop);
    left.take_over_by_older_program(FORMER_NUMBERS);
    let marks = PAGE_SLOTS.map(|slot| left.write_former_page(slot, slot + 1));
    let survey = Arena::found(&left.memory).expect("an arena").survey();
    assert_eq!((survey.clean_blocks, survey.dirty_blocks, survey.rejected), (0, 0, 0));
    assert_eq!((left.found(), left.found()), (0, 0));
    assert_eq!(left.arena.epoch() & (PAGES | 1 << 33), PAGES, "the former program drops its pages");
    // Its marks do not prevent the slots from being used.
    let mark_of = |slot| left.memory.word(left.arena.header_at(slot));
    let marks_now = PAGE_SLOTS.map(|slot| mark_of(slot).load(lane::atomic::Ordering::Relaxed));
    assert_eq!(marks_now, marks);
    PAGE_SLOTS.iter().for_each(|&slot| left.arena.publish(slot, &clean(slot.into())));
    assert_eq!(left.take_over(CleanBlocks::Keep).counters(0).blocks_retained, 3);
}

#[test]
fn other_versions_of_a_block_win_and_the_object_is_gone_for_good() {
    let left = Left::new();
    left.arena.publish(1, &clean(1));
    left.arena.publish(2, &Header { block: 2, epoch: 2, state: State::Dirty, ..clean(2) });
    left.arena.publish(3, &Header::of_copy(3, 0xff, Clean::Kept, left.arena.round_stamp()));
    let range = ExtentHeader { first: 4, blocks: 2, may_unmap: true, epoch: 2, sequence: 2 };
    left.arena.publish_extent(0, &range);
    assert_eq!(left.found(), OBJECTS - 5);
    (1..4).for_each(|slot| left.arena.free(slot));
    left.arena.free_extent(0);
    assert_eq!(left.found(), OBJECTS - 5);
}

#[test]
fn nothing_is_found_if_the_backing_may_have_changed() {
    let left = Left::new();
    assert_eq!(left.take_over(CleanBlocks::Drop).counters(0).compressed_blocks, 0);
    assert_eq!(left.found(), 0);
    let left = Left::new();
    left.arena.note_flush_failed();
    assert_eq!(left.found(), 0);
    left.arena.note_flushes_mended(left.arena.flushes_failed());
    assert_eq!(left.found(), 0);
}

#[test]
fn a_kill_while_pages_are_dropped_leaves_none_that_is_trusted() {
    let left = Left::new();
    left.arena.drop_pages(&Geometry { slots: 8, slots_spare: 40, ..GEOMETRY });
    assert!(left.arena.page(31).is_some(), "the kill");
    assert_eq!(left.found(), 0);
}

#[test]
fn slots_that_become_spare_or_live_have_no_pages() {
    let left = Left::new();
    let resized = |slots| GEOMETRY.resized(slots).expect("there are places");
    let count = |slots| {
        let shared = left.take_over_as(resized(slots), CleanBlocks::Keep);
        shared.counters(0).compressed_blocks
    };
    // The first page is in the last slot, and its last object goes on in the second page.
    let fewer = count(24);
    assert!((1..OBJECTS).contains(&fewer), "{fewer}");
    assert_eq!(count(32), fewer);
    // An older program has left a mark in a slot that it did not use any more.
    let mark = left.arena.page(20).expect("a page");
    left.arena.mark_page(40, PageMark { number: mark.number + 1, ..mark });
    assert_eq!(count(48), fewer);
    assert!(left.arena.page(40).is_none());
}

#[test]
fn a_page_with_a_damaged_header_is_not_found_later() {
    let left = Left::new();
    let life = left.memory.word(left.arena.header_at(31) + 8);
    life.store(1 << 17, lane::atomic::Ordering::Relaxed);
    let found = left.found();
    assert!((1..OBJECTS).contains(&found), "{found}");
    assert!(left.arena.page(31).is_none(), "its slot is free, and may be used");
}
