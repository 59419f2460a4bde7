use super::*;
use crate::arena::{Clean, ExtentHeader, State};
use crate::geometry::Geometry;
use alloc::string::ToString;
use lane::atomic::Ordering;

const GRAIN: u32 = 16;
const DIRTY: Header =
    Header { block: 0, mask: 0xff, epoch: 0, sequence: 0, state: State::Dirty, shadowed: false };

struct Fixture {
    memory: Arc<Memory>,
    arena: Arena,
}

/// The source of a piece: its first sector, the number of sectors, and the slot.
type Piece = (u64, u64, Option<u32>);

/// Makes an arena whose open epoch is `epoch`.
fn fixture(sectors: u64, epoch: u64) -> Fixture {
    fixture_of(1, sectors, epoch)
}

/// Makes such an arena with several shards.
fn fixture_of(shards: u32, sectors: u64, epoch: u64) -> Fixture {
    let geometry = Geometry {
        slots: 16,
        shards,
        region_blocks: 8,
        extents: 4 / shards,
        fills: 2,
        run_blocks: 8,
        slice_blocks: 256,
        ..Geometry::SMALLEST
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let arena = Arena::from_memory(memory.clone(), &geometry, GRAIN);
    arena.adopt(&geometry, sectors, 7);
    arena.note_epoch(epoch);
    Fixture { memory, arena }
}

impl Fixture {
    fn slot(&self, slot: u32, block: u64, epoch: u16, sequence: u64) {
        self.arena.publish(slot, &Header { block, epoch, sequence, ..DIRTY });
    }

    fn zeros(&self, number: u32, first: u64, blocks: u32, epoch: u64) {
        let range = ExtentHeader { first, blocks, may_unmap: false, epoch, sequence: 1 };
        self.arena.publish_extent(number, &range);
    }

    fn rescue(&self) -> Rescue {
        Rescue::from_memory(self.memory.clone()).expect("an arena")
    }

    fn pieces(&self) -> Vec<Piece> {
        let slot_of = |offset: usize| {
            let slot_bytes = self.arena.sector_at(1, 0) - self.arena.sector_at(0, 0);
            ((offset - self.arena.sector_at(0, 0)) / slot_bytes) as u32
        };
        let rescue = self.rescue();
        let piece = |item: Item| match item.what {
            What::Bytes { offset } => {
                let slot = slot_of(offset);
                let sector = (item.first_sector % 8) as u32;
                assert_eq!(offset, self.arena.sector_at(slot, sector), "{item:?}");
                (item.first_sector, item.sectors, Some(slot))
            }
            What::Zeros => (item.first_sector, item.sectors, None),
        };
        rescue.items().map(piece).collect()
    }
}

#[test]
fn the_later_epoch_wins_then_the_higher_sequence_also_where_numbers_wrap() {
    let fixture = fixture(800, 1 << 16);
    fixture.slot(0, 3, 65_535, (1 << 44) - 1);
    fixture.slot(1, 3, 0, 7);
    fixture.slot(2, 5, 0, (1 << 44) - 2);
    fixture.slot(3, 5, 0, 2);
    fixture.slot(4, 4, 65_535, 9);
    fixture.slot(5, 4, 65_535, (1 << 44) - 9);
    let expected = [(24, 8, Some(1)), (32, 8, Some(4)), (40, 8, Some(3))];
    assert_eq!(fixture.pieces(), expected);
}

#[test]
fn held_copies_are_saved_only_where_no_read_can_take_their_slots() {
    let fixture = fixture(800, 9);
    fixture.slot(0, 1, 9, 4);
    let stamp = fixture.arena.round_stamp();
    fixture.arena.publish(1, &Header::of_copy(5, 0xff, Clean::Kept, stamp));
    assert_eq!(fixture.pieces(), [(8, 8, Some(0)), (40, 8, Some(1))]);
    let served = Rescue::from_served_memory(fixture.memory.clone()).expect("an arena");
    assert_eq!(served.items().map(|item| item.first_sector).collect::<Vec<_>>(), [8]);
}

#[test]
fn within_an_epoch_a_slot_is_newer_than_any_range_and_an_open_range_overtakes_a_closing_slot() {
    let fixture = fixture(800, 9);
    fixture.slot(0, 0, 8, 1);
    fixture.slot(1, 1, 8, 2);
    fixture.slot(2, 2, 8, 3);
    fixture.slot(3, 6, 9, 4);
    fixture.zeros(0, 1, 1, 9);
    fixture.zeros(1, 2, 2, 8);
    fixture.zeros(2, 4, 4, 9);
    fixture.zeros(3, 5, 20, 8);
    let expected = [
        (0, 8, Some(0)),
        (8, 8, None),
        (16, 8, Some(2)),
        (24, 24, None),
        (48, 8, Some(3)),
        (56, 144, None),
    ];
    assert_eq!(fixture.pieces(), expected);
    assert_eq!(fixture.rescue().rescued_sectors(), 200);
}

#[test]
fn a_range_of_positions_is_zeros_in_every_region_of_its_shard() {
    // Rows of two regions of 8 blocks: the shards have 0 and 1, 3 and 2, 4 and 5, in their orders.
    let fixture = fixture_of(2, 800, 9);
    fixture.zeros(0, 4, 16, 9);
    fixture.slot(0, 26, 9, 1);
    fixture.slot(1, 33, 8, 1);
    fixture.slot(2, 16, 8, 1);
    let expected = [
        (32, 32, None),
        (128, 8, Some(2)),
        (192, 16, None),
        (208, 8, Some(0)),
        (216, 40, None),
        (256, 32, None),
    ];
    let joined = |pieces: Vec<Piece>| {
        pieces.into_iter().fold(Vec::<Piece>::new(), |mut all, (first, sectors, slot)| {
            match all.last_mut() {
                Some((before, count, None)) if slot.is_none() && *before + *count == first => {
                    *count += sectors;
                }
                _ => all.push((first, sectors, slot)),
            }
            all
        })
    };
    assert_eq!(joined(fixture.pieces()), joined(expected.to_vec()));
}

#[test]
fn a_newer_part_lies_over_an_older_one_sector_by_sector() {
    let fixture = fixture(800, 9);
    let part = |mask, epoch, sequence| Header { block: 2, mask, epoch, sequence, ..DIRTY };
    fixture.arena.publish(0, &Header { shadowed: true, ..part(0b1110_0111, 8, 1) });
    fixture.arena.publish(1, &part(0b0011_0010, 9, 2));
    let expected =
        [(16, 1, Some(0)), (17, 1, Some(1)), (18, 1, Some(0)), (20, 2, Some(1)), (22, 2, Some(0))];
    assert_eq!(fixture.pieces(), expected);
}

#[test]
fn what_is_clean_or_free_or_damaged_is_left_out() {
    let fixture = fixture(800, 9);
    fixture.slot(0, 1, 9, 1);
    for (slot, state) in [(1, State::Clean), (2, State::Writing), (3, State::Written)] {
        let block = 10 * u64::from(slot);
        fixture.arena.publish(slot, &Header { block, epoch: 9, state, ..DIRTY });
    }
    fixture.arena.free(0);
    fixture.slot(4, 40, 9, 1);
    fixture.zeros(0, 50, 1, 9);
    assert_eq!(fixture.pieces().len(), 4);
    assert_eq!(fixture.rescue().rejected(), 0);
    fixture.memory.word(fixture.arena.header_at(4)).fetch_xor(1 << 30, Ordering::Relaxed);
    fixture.memory.word(128).fetch_xor(1, Ordering::Relaxed);
    assert_eq!(fixture.pieces(), [(160, 8, Some(2)), (240, 8, Some(3))]);
    assert_eq!(fixture.rescue().rejected(), 2);
}

#[test]
fn nothing_is_beyond_the_volume_whatever_the_headers_say() {
    let fixture = fixture(83, 9);
    fixture.slot(0, 10, 9, 1);
    fixture.slot(1, 11, 9, 2);
    fixture.slot(2, (1 << 40) - 1, 9, 3);
    fixture.zeros(0, 9, u32::MAX, 9);
    fixture.zeros(1, u64::MAX, u32::MAX, 9);
    assert_eq!(fixture.pieces(), [(72, 8, None), (80, 3, Some(0))]);
    fixture.arena.free(0);
    assert_eq!(fixture.pieces(), [(72, 11, None)]);
}

#[test]
fn memory_that_is_no_arena_is_refused() {
    let fixture = fixture(800, 9);
    assert!(fixture.rescue().is_empty());
    fixture.memory.word(16).fetch_xor(1, Ordering::Relaxed);
    assert!(Rescue::from_memory(fixture.memory.clone()).is_err(), "a damaged superblock");
    let zeros = Arc::new(Memory::heap(fixture.memory.bytes()));
    assert!(Rescue::from_memory(zeros).is_err(), "zeros are no arena");
}

#[test]
fn what_has_been_given_up_is_not_rescued() {
    let fixture = fixture(800, 9);
    fixture.slot(0, 1, 9, 1);
    fixture.arena.note_condition(Condition::Failed);
    assert_eq!(fixture.pieces().len(), 1);
    fixture.arena.note_condition(Condition::Discarding);
    assert!(fixture.rescue().is_empty() && fixture.pieces().is_empty());
}

#[test]
fn the_mapfile_covers_the_volume_without_gaps() {
    let fixture = fixture(800, 9);
    let lines = || {
        let text = fixture.rescue().mapfile().to_string();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.to_string()).collect::<Vec<_>>()
    };
    let status = "0x00000000     +               1";
    assert_eq!(lines(), [status, "0x00000000  0x00003200  ?"]);
    fixture.slot(0, 0, 9, 1);
    fixture.zeros(0, 1, 2, 9);
    fixture.slot(1, 99, 9, 2);
    let expected = [
        status,
        "0x00000000  0x00000180  +",
        "0x00000180  0x00003000  ?",
        "0x00003180  0x00000080  +",
    ];
    assert_eq!(lines(), expected);
    fixture.arena.free(0);
    fixture.arena.free(1);
    let expected = [
        status,
        "0x00000000  0x00000080  ?",
        "0x00000080  0x00000100  +",
        "0x00000180  0x00003080  ?",
    ];
    assert_eq!(lines(), expected);
}

#[test]
fn of_a_chain_of_epochs_the_newest_counts_and_a_range_overtakes_all_before_it() {
    let fixture = fixture(800, 12);
    for (slot, epoch) in (0..).zip([9, 12, 10, 11]) {
        fixture.slot(slot, 3, epoch, 100 - u64::from(epoch));
    }
    fixture.zeros(0, 4, 3, 10);
    fixture.slot(4, 4, 9, 8);
    fixture.slot(5, 5, 10, 1);
    fixture.slot(6, 6, 9, 9);
    fixture.slot(7, 6, 11, 2);
    let expected = [(24, 8, Some(1)), (32, 8, None), (40, 8, Some(5)), (48, 8, Some(7))];
    assert_eq!(fixture.pieces(), expected);
}

#[test]
fn one_slot_or_one_range_is_something_and_the_size_is_the_volumes() {
    let nothing = fixture(797, 9);
    assert!(nothing.rescue().is_empty());
    assert_eq!(nothing.rescue().sectors(), 797);
    let one_slot = fixture(800, 9);
    one_slot.slot(0, 3, 9, 1);
    assert!(!one_slot.rescue().is_empty());
    let one_range = fixture(800, 9);
    one_range.zeros(0, 3, 1, 9);
    assert!(!one_range.rescue().is_empty());
}
