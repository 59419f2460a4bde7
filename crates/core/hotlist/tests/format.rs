//! A list is read as it was written, and is as small as the format promises.

use hotlist::{CLASSES, Description, Entry, HotList, IDENTITY_MAX, Unusable, encode};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn of(volume_blocks: u64) -> Description {
    Description { identity: "8-1-77".to_owned(), volume_blocks, saved_s: 1_790_000_000 }
}

/// A list of these blocks, written and read again.
fn again(of: &Description, entries: &[Entry]) -> (HotList, usize) {
    let bytes = encode(of, entries.to_vec());
    (HotList::parse(&bytes).expect("a list"), bytes.len())
}

proptest! {
    #[test]
    fn a_list_is_read_as_it_was_written(
        entries in proptest::collection::vec((0..1u64 << 20, 0..CLASSES), 0..500),
        shift in 0..20u32,
    ) {
        let entries: Vec<_> =
            entries.iter().map(|&(block, class)| Entry::new(block >> shift, class)).collect();
        let (list, _) = again(&of(1 << 20), &entries);
        prop_assert_eq!(list.description(), &of(1 << 20));
        let mut heat = BTreeMap::new();
        for entry in &entries {
            let class = heat.entry(entry.block()).or_insert(entry.class());
            *class = entry.class().min(*class);
        }
        let mut read: Vec<u64> = list.into_blocks().collect();
        // Of a block in several classes the hottest counts; the others may be there as well.
        let mut seen = std::collections::BTreeSet::new();
        read.retain(|block| seen.insert(*block));
        prop_assert_eq!(read.len(), heat.len());
        prop_assert!(read.iter().all(|block| heat.contains_key(block)));
    }
}

#[test]
fn hotter_classes_come_first_and_each_is_sorted() {
    // Dense, so that no classes are merged.
    let entries: Vec<_> =
        (0..8000u64).map(|at| Entry::new(at * 7919 % 8000, (at % 8) as u32)).collect();
    let (list, _) = again(&of(8000), &entries);
    let read: Vec<u64> = list.into_blocks().collect();
    let mut expected = entries;
    expected.sort_unstable();
    assert_eq!(read, expected.iter().map(|entry| entry.block()).collect::<Vec<_>>());
}

#[test]
fn a_block_takes_at_most_three_bytes_and_neighbours_take_one() {
    let spread = |count: u64, distance: u64| -> Vec<Entry> {
        let mut random = 1u64;
        let draw = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Entry::new((random >> 20) % (count * distance), (random >> 61) as u32)
        };
        (0..count).map(draw).collect()
    };
    // One block for each 64 MiB, at random: 10,000 blocks of 625 GiB.
    for (count, distance, bytes_most) in [
        (10_000, 1 << 14, 30_000),
        (10_000, 1 << 10, 22_000),
        (100_000, 64, 200_000),
        (1_000_000, 8, 1_200_000),
    ] {
        let (list, bytes) = again(&of(count * distance), &spread(count, distance));
        assert!(list.len() > count * 9 / 10);
        assert!(bytes <= bytes_most, "{bytes} bytes for {count} blocks among {distance} each");
    }
    let dense: Vec<_> =
        (0..100_000).map(|block| Entry::new(block, (block / 12_500) as u32)).collect();
    let (_, bytes) = again(&of(1 << 20), &dense);
    assert!(bytes < 100_200, "{bytes}");
}

#[test]
fn anything_else_is_refused_for_its_reason() {
    let entries: Vec<_> = (0..100).map(|block| Entry::new(block * 3, 0)).collect();
    let good = encode(&of(1 << 10), entries);
    let parse = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        HotList::parse(&bytes).map(|list| list.len())
    };
    assert_eq!(parse(&|_| ()), Ok(100));
    assert_eq!(parse(&|bytes| bytes[0] = b'X'), Err(Unusable::NoList));
    assert_eq!(parse(&|bytes| bytes[8] = 2), Err(Unusable::Newer(2)));
    assert_eq!(parse(&|bytes| bytes[8] = 0), Err(Unusable::Damaged));
    assert_eq!(parse(&|bytes| bytes.clear()), Err(Unusable::Damaged));
    for at in 12..good.len() {
        assert_eq!(parse(&|bytes| bytes[at] ^= 0x10), Err(Unusable::Damaged), "byte {at}");
    }
    for length in 0..good.len() {
        assert_eq!(parse(&|bytes| bytes.truncate(length)), Err(Unusable::Damaged), "{length}");
    }
    assert_eq!(parse(&|bytes| bytes.push(0)), Err(Unusable::Damaged));
}

#[test]
fn an_empty_list_and_a_long_identity_are_lists() {
    let of = Description { identity: "x".repeat(IDENTITY_MAX), volume_blocks: 0, saved_s: 0 };
    let (list, _) = again(&of, &[]);
    assert!(list.is_empty() && list.description() == &of && list.into_blocks().next().is_none());
}
