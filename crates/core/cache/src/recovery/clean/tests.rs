use super::*;
use crate::arena::ExtentHeader;
use crate::settings::Settings;
use crate::shared::Shared;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Block, Memory, Ram};
use lane::atomic::Ordering;

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
const DIRTY: Header =
    Header { block: 0, mask: 0xff, epoch: 2, sequence: 1, state: State::Dirty, shadowed: false };

/// Lets a process take this memory over.
fn take_over(memory: &Arc<Memory>, geometry: Geometry, clean: CleanBlocks) -> Arc<Shared> {
    let ram = Ram::new(64 * 8, GRAIN);
    let settings = Settings { dirty_blocks_max: 16, workers: 1, ..Settings::default() };
    let shared = Shared::take_over(ram.limits(), geometry, settings, 7, memory.clone(), clean);
    let shared = shared.expect("ours");
    shared.check();
    shared
}

/// The memory that a process has left, and its arena.
struct Left {
    memory: Arc<Memory>,
    arena: Arena,
    geometry: Geometry,
}

impl Left {
    fn new(geometry: Geometry) -> Left {
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
        take_over(&memory, geometry, CleanBlocks::Drop);
        let arena = Arena::from_memory(memory.clone(), &geometry, GRAIN);
        Left { memory, arena, geometry }
    }

    fn take_over(&self, clean: CleanBlocks) -> Arc<Shared> {
        take_over(&self.memory, self.geometry, clean)
    }

    /// Publishes a slot with the same number as its block.
    fn publish(&self, header: Header) {
        self.arena.publish(header.block as u32, &header);
    }

    /// Returns the blocks in clean slots.
    fn clean(&self) -> Vec<u64> {
        let slots = (0..self.geometry.slots).filter_map(|slot| self.arena.verified(slot));
        let clean = slots.filter(|header| header.state == State::Clean);
        clean.map(|header| header.block).collect()
    }
}

fn clean(block: u64) -> Header {
    Header::of_clean(block, 0xff, Clean::Kept, 0)
}

#[test]
fn clean_slots_are_kept_from_process_to_process_if_the_caller_says_so() {
    let left = Left::new(GEOMETRY);
    left.publish(clean(1));
    left.publish(Header { mask: 0x0f, ..clean(2) });
    left.publish(Header::of_copy(3, 0xff, Clean::Bypassed, 0));
    left.publish(Header { epoch: 77, ..clean(4) });
    for life in 0..2 {
        let shared = left.take_over(CleanBlocks::Keep);
        let counters = shared.counters(0);
        assert_eq!((counters.blocks_retained, counters.blocks_held), (4, 4), "life {life}");
        assert_eq!((counters.blocks_recovered, counters.blocks_retained_used), (0, 0));
        assert_eq!(left.clean(), [1, 2, 3, 4]);
    }
    let counters = left.take_over(CleanBlocks::Drop).counters(0);
    assert_eq!((counters.blocks_retained, counters.blocks_held), (0, 0));
    assert_eq!(left.clean(), []);
}

#[test]
fn slots_that_may_differ_from_the_backing_are_dropped() {
    let left = Left::new(GEOMETRY);
    left.publish(clean(1));
    left.publish(clean(2).under_write_through());
    left.publish(Header { mask: 0, ..clean(3) });
    left.publish(Header::of_clean(4, 0xff, Clean::Unread, 5));
    left.publish(Header::of_clean(5, 0xff, Clean::UnreadBypassed, 5));
    // Killed after a newer version was published, and before the older one was freed.
    left.publish(clean(6));
    left.arena.publish(20, &Header { block: 6, ..DIRTY });
    for block in [8, 9, 10] {
        left.publish(clean(block));
    }
    let range = ExtentHeader { first: 9, blocks: 2, may_unmap: true, epoch: 2, sequence: 2 };
    left.arena.publish_extent(0, &range);
    let shared = left.take_over(CleanBlocks::Keep);
    assert_eq!(left.clean(), [1, 8]);
    assert_eq!((shared.counters(0).blocks_retained, shared.dirty_blocks()), (2, 1));
}

#[test]
fn a_copy_that_is_not_durable_is_dirty_and_one_that_is_durable_is_kept() {
    let left = Left::new(GEOMETRY);
    let stamp = left.arena.round_stamp();
    left.publish(Header::of_copy(1, 0xff, Clean::Kept, stamp));
    left.arena.note_flush_sent();
    left.arena.note_flush_answered(true);
    left.publish(Header::of_copy(2, 0xff, Clean::Kept, left.arena.round_stamp()));
    let shared = left.take_over(CleanBlocks::Keep);
    assert_eq!((shared.counters(0).blocks_retained, shared.dirty_blocks()), (1, 1));
    assert_eq!(left.clean(), [1]);
}

#[test]
fn memory_that_is_in_doubt_about_the_backing_is_taken_over_without_clean_blocks() {
    let doubts: [fn(&Arena); 4] = [
        |arena| arena.note_doubt(true),
        |arena| {
            arena.note_unheld();
            arena.note_flush_sent();
        },
        |arena| arena.note_flush_failed(),
        |arena| arena.note_condition(Condition::Failed),
    ];
    for (number, doubt) in doubts.into_iter().enumerate() {
        let left = Left::new(GEOMETRY);
        left.publish(clean(1));
        doubt(&left.arena);
        assert_eq!(left.take_over(CleanBlocks::Keep).counters(0).blocks_retained, 0, "{number}");
    }
    let left = Left::new(GEOMETRY);
    left.publish(clean(1));
    // All changes before the flush that was under way are held.
    left.arena.note_flush_sent();
    assert_eq!(left.take_over(CleanBlocks::Keep).counters(0).blocks_retained, 1);
}

#[test]
fn arenas_of_former_formats_are_taken_over_without_clean_blocks() {
    for format in [Format::Two, Format::Three] {
        let left = Left::new(Geometry { format, ..GEOMETRY });
        left.publish(clean(1));
        assert_eq!(left.take_over(CleanBlocks::Keep).counters(0).blocks_retained, 0);
        assert_eq!(left.clean(), []);
    }
}

#[test]
fn a_copy_with_a_damaged_epoch_is_kept_without_it() {
    let left = Left::new(GEOMETRY);
    left.publish(Header::of_copy(1, 0xff, Clean::Kept, left.arena.round_stamp()));
    left.arena.note_flush_sent();
    left.arena.note_flush_answered(true);
    left.memory.word(left.arena.header_at(1)).fetch_xor(64, Ordering::Relaxed);
    assert_eq!(left.take_over(CleanBlocks::Keep).counters(0).blocks_retained, 1);
    assert_eq!(left.arena.header(1).epoch, 0);
}
