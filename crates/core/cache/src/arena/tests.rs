use super::*;
use crate::geometry::Format;

fn arena() -> (Arena, Geometry) {
    let geometry = Geometry {
        slots: 8,
        region_blocks: 8,
        extents: 2,
        fills: 2,
        run_blocks: 8,
        ..Geometry::default()
    };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 16)));
    (Arena::from_memory(memory, &geometry, 16), geometry)
}

#[test]
fn headers_round_trip_and_any_three_flipped_bits_are_noticed() {
    let (arena, _) = arena();
    let header = Header {
        block: (1 << 40) - 2,
        mask: 0b1010_0101,
        epoch: 65_535,
        sequence: (1 << 44) - 3,
        state: State::Written,
        shadowed: true,
    };
    arena.publish(5, &header);
    assert_eq!(arena.verified(5), Some(header));
    let words = [arena.header_at(5), arena.header_at(5) + 8].map(|at| arena.memory.word(at));
    for one in 0..128 {
        for two in one..128 {
            for three in [two, (two * 7 + one) % 128] {
                let mut bits = [one, two, three].to_vec();
                bits.sort_unstable();
                bits.dedup();
                let flip = || {
                    for bit in &bits {
                        words[bit / 64].fetch_xor(1 << (bit % 64), Ordering::Relaxed);
                    }
                };
                flip();
                assert_eq!(arena.verified(5), None, "bits {bits:?}");
                flip();
            }
        }
    }
    assert_eq!(arena.verified(5), Some(header));
}

#[test]
fn a_header_in_another_slots_place_is_noticed() {
    let (arena, _) = arena();
    let header = Header { block: 3, mask: 255, state: State::Dirty, ..Header::FREE };
    arena.publish(1, &header);
    for word in [0, 8] {
        let value = arena.memory.word(arena.header_at(1) + word).load(Ordering::Relaxed);
        arena.memory.word(arena.header_at(2) + word).store(value, Ordering::Relaxed);
    }
    assert_eq!(arena.verified(2), None);
}

#[test]
fn extents_round_trip() {
    let (arena, _) = arena();
    let extent =
        ExtentHeader { first: 9, blocks: 1 << 20, may_unmap: true, epoch: 7, sequence: 11 };
    assert_eq!(arena.extent(1), Ok(None));
    arena.publish_extent(1, &extent);
    assert_eq!(arena.extent(1), Ok(Some(extent)));
    arena.memory.word(arena.extent_words(1)[0]).fetch_xor(1, Ordering::Relaxed);
    assert_eq!(arena.extent(1), Err(()));
    arena.free_extent(1);
    assert_eq!(arena.extent(1), Ok(None));
}

/// Returns the words of a slot's header or of a range, as stored in the memory.
fn words<const N: usize>(arena: &Arena, at: usize) -> [u64; N] {
    core::array::from_fn(|index| arena.memory.word(at + index * 8).load(Ordering::Relaxed))
}

/// The next program must be able to read the memory of this one, and this one the memory of the
/// previous one. Computed from the layouts with another CRC-16 (Python's `binascii.crc_hqx`). If
/// this must change, the format must change, too.
#[test]
fn what_lies_in_the_memory_is_as_the_picture_says() {
    let shape = Geometry { shards: 65_538, region_blocks: 8, extents: 1, ..Geometry::default() };
    let headers = 65_538 * 16;
    let extents = 65_538 * 32;
    for (format, headers_at, extents_at) in
        [(Format::Two, 128, 128 + headers), (Format::Four, 128 + extents, 128)]
    {
        let geometry = Geometry { format, slots: 65_538, ..shape };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 16)));
        let arena = Arena::from_memory(memory, &geometry, 16);
        check_picture(&arena, headers_at, extents_at);
    }
}

fn check_picture(arena: &Arena, headers_at: usize, extents_at: usize) {
    let one = Header {
        block: 0x12_3456_789a,
        mask: 0xa5,
        epoch: 0xbeef,
        sequence: 0x123_4567_89ab,
        state: State::Written,
        shadowed: true,
    };
    let two =
        Header { block: 3, mask: 0xff, epoch: 1, sequence: 2, state: State::Dirty, ..Header::FREE };
    arena.publish(5, &one);
    arena.publish(65_536, &two);
    assert_eq!(words(arena, headers_at + 5 * 16), [0x1234_5678_9aa5_beef, 0x1234_5678_9abc_90aa]);
    assert_eq!(words(arena, headers_at + 65_536 * 16), [0x3ff_0001, 0x22_7be7]);
    let one = ExtentHeader {
        first: 0x1234,
        blocks: 0x10_0000,
        may_unmap: true,
        epoch: 0x1_0007,
        sequence: 0x123_4567_89ab,
    };
    let two = ExtentHeader { first: 9, blocks: 3, may_unmap: false, epoch: 2, sequence: 11 };
    arena.publish_extent(1, &one);
    arena.publish_extent(65_536, &two);
    assert_eq!(
        words(arena, extents_at + 32),
        [0x1234, 0x1_0010_0000, 0x1_0007, 0x1234_5678_9ab2_0004]
    );
    assert_eq!(words(arena, extents_at + 65_536 * 32), [9, 3, 2, 0xb2_50ed]);
    assert_eq!((arena.extent(1), arena.extent(65_536)), (Ok(Some(one)), Ok(Some(two))));
}

#[test]
fn every_part_begins_after_the_one_before_it_and_real_ones_at_a_page() {
    let geometry = Geometry { slots: 24, shards: 4, extents: 5, ..Geometry::default() };
    let extents = 4 * 5 * 32;
    for (format, grain, extents_at, headers_at, slots_at) in [
        (Format::Two, 16, 128 + 24 * 16, 128, 128 + 24 * 16 + extents),
        (Format::Two, 512, 128 + 24 * 16, 128, 4096),
        (Format::Three, 16, 128, 128 + extents, 128 + extents + 24 * 16),
        (Format::Three, 512, 128, 4096, 8192),
        (Format::Four, 16, 128, 128 + extents, 128 + extents + 24 * 16),
        (Format::Four, 512, 128, 4096, 8192),
    ] {
        let geometry = Geometry { format, ..geometry };
        let bytes = slots_at + 24 * 8 * grain as usize;
        assert_eq!(Arena::bytes(&geometry, grain), bytes);
        let arena = Arena::from_memory(Arc::new(Memory::heap(bytes)), &geometry, grain);
        assert_eq!(arena.header_at(23), headers_at + 23 * 16);
        assert_eq!(arena.extent_words(0)[0], extents_at);
        assert_eq!(arena.sector_at(0, 0), slots_at);
        assert_eq!(arena.sector_at(23, 7) + grain as usize, bytes);
    }
}

#[test]
fn what_is_in_use_leaves_out_the_spare_slots_of_every_shard() {
    let geometry = Geometry { slots: 1024, shards: 2, extents: 4, ..Geometry::default() };
    let end = 4096 + 1024 * 16 + 1024 * 4096;
    assert_eq!(Arena::used(&geometry, 512), [0..128 + 8 * 32, 4096..end]);
    // 512 live slots and 1,536 spare ones per shard.
    let roomy = Geometry { slots_spare: 3072, ..geometry };
    let (headers_at, slots_at) = (4096, 4096 + 4096 * 16);
    let used = Arena::used(&roomy, 512);
    let expected = [
        0..128 + 8 * 32,
        headers_at..headers_at + 512 * 16,
        headers_at + 2048 * 16..headers_at + 2560 * 16,
        slots_at..slots_at + 512 * 4096,
        slots_at + 2048 * 4096..slots_at + 2560 * 4096,
    ];
    assert_eq!(used, expected);
    assert_eq!(Arena::bytes(&roomy, 512), slots_at + 4096 * 4096);
}

#[test]
fn a_state_that_there_is_not_is_noticed_although_the_checksum_is_right() {
    let (arena, _) = arena();
    let header = Header { block: 3, mask: 255, state: State::Dirty, ..Header::FREE };
    arena.publish(1, &header);
    let at = arena.header_at(1);
    let [place, life] = words(&arena, at);
    for state in [0, 5, 6, 7] {
        let life = life & !0xf_ffff | state << 16 | 1 << 20;
        arena.store(at + 8, life | u64::from(check(place, life, 1)));
        assert_eq!(arena.verified(1), None, "{state}");
    }
    for state in [State::Clean, State::Dirty, State::Writing, State::Written] {
        arena.publish(1, &Header { state, ..header });
        assert_eq!(arena.verified(1).map(|header| header.state), Some(state));
    }
}
