//! A start-up list is read as it was written, in order, and forgets what starts no longer read.

use hotlist::{Description, START_BLOCKS_MAX, STARTS, StartList, Unusable, encode_start, learn};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn of(volume_blocks: u64) -> Description {
    Description { identity: "8-1-77".to_owned(), volume_blocks, saved_s: 1_790_000_000 }
}

/// These starts, written and read again, and the number of bytes.
fn again(volume_blocks: u64, starts: &[Vec<u64>]) -> (Vec<Vec<u64>>, usize) {
    let bytes = encode_start(&of(volume_blocks), starts.to_vec());
    let list = StartList::parse(&bytes).expect("a list");
    assert_eq!(list.description(), &of(volume_blocks));
    (list.into_starts(), bytes.len())
}

fn draw(count: usize, below: u64) -> Vec<u64> {
    let mut random = 1u64;
    let next = |_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 20) % below
    };
    (0..count).map(next).collect()
}

proptest! {
    #[test]
    fn it_is_read_in_the_order_of_its_groups(
        starts in proptest::collection::vec(
            proptest::collection::vec(0..1u64 << 16, 0..300),
            0..5,
        ),
    ) {
        let (read, _) = again(1 << 16, &starts);
        let mut named = BTreeSet::new();
        for (start, read) in starts.iter().take(STARTS).zip(&read) {
            let expected: Vec<u64> =
                start.iter().copied().filter(|block| named.insert(*block)).collect();
            prop_assert_eq!(read.len(), expected.len());
            for (group, read) in expected.chunks(64).zip(read.chunks(64)) {
                let mut group = group.to_vec();
                group.sort_unstable();
                prop_assert_eq!(&group, read);
            }
        }
    }
}

#[test]
fn a_block_takes_at_most_three_bytes_however_it_was_read() {
    // At random: one block for each 64 MiB of 625 GiB and 6 TiB, and blocks of 4 and of 64 GiB.
    for (count, volume_blocks, bytes_most) in [
        (10_000, 10_000 << 14, 30_000),
        (100_000, 100_000 << 14, 300_000),
        (100_000, 1 << 20, 300_000),
        (100_000, 1 << 24, 300_000),
    ] {
        let (starts, bytes) = again(volume_blocks, &[draw(count, volume_blocks)]);
        assert!(starts[0].len() > count * 9 / 10);
        assert!(bytes <= bytes_most + 60, "{bytes} bytes for {count} blocks of {volume_blocks}");
    }
    // In reads of 64 KiB anywhere in 1 TiB.
    let reads = draw(5000, 1 << 24).into_iter().flat_map(|at| at * 16..at * 16 + 16);
    let (_, bytes) = again(1 << 28, &[reads.collect()]);
    assert!(bytes < 100_000, "{bytes} bytes for 80,000 blocks");
}

#[test]
fn blocks_that_starts_no_longer_read_are_forgotten() {
    let (boot, other) = (vec![5, 3, 9], vec![70, 3]);
    let learnt = learn(boot.clone(), true, Vec::new());
    assert_eq!(learnt, std::slice::from_ref(&boot), "learnt at the first start");
    let learnt = learn(other.clone(), true, learnt);
    assert_eq!(again(100, &learnt).0, [vec![3, 70], vec![5, 9]]);
    let learnt = learn(other.clone(), true, learnt);
    let learnt = again(100, &learnt).0;
    assert_eq!(learnt, [vec![3, 70], vec![], vec![5, 9]]);
    assert_eq!(again(100, &learn(boot, true, learnt.clone())).0, [vec![3, 5, 9], vec![70], vec![]]);
    assert_eq!(again(100, &learn(other, true, learnt)).0, [vec![3, 70], vec![], vec![]]);
}

#[test]
fn a_start_that_was_cut_off_makes_nothing_older() {
    let former = vec![vec![1, 2, 3], vec![8], vec![9]];
    let learnt = learn(vec![2, 50], false, former);
    assert_eq!(again(100, &learnt).0, [vec![1, 2, 3, 50], vec![8], vec![9]]);
}

#[test]
fn a_list_has_a_maximum_of_blocks_and_the_latest_start_goes_first() {
    let latest: Vec<u64> = (0..START_BLOCKS_MAX as u64 - 10).collect();
    let (starts, bytes) = again(1 << 20, &[latest, ((1 << 19)..(1 << 20)).collect()]);
    assert_eq!([starts[0].len(), starts[1].len()], [START_BLOCKS_MAX - 10, 10]);
    // One byte a block, and up to two more for the first of each group of 64.
    assert!(bytes < START_BLOCKS_MAX + START_BLOCKS_MAX / 31, "{bytes}");
}

#[test]
fn anything_else_is_refused_for_its_reason() {
    let good = encode_start(&of(1 << 10), vec![(0..100).map(|at| at * 7 % 1000).collect()]);
    let parse = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        StartList::parse(&bytes).map(|list| list.into_starts().concat().len())
    };
    assert_eq!(parse(&|_| ()), Ok(100));
    assert_eq!(parse(&|bytes| bytes[0] = b'X'), Err(Unusable::NoStartList));
    assert_eq!(parse(&|bytes| bytes[8] = 2), Err(Unusable::Newer(2)));
    for at in 12..good.len() {
        assert_eq!(parse(&|bytes| bytes[at] ^= 0x10), Err(Unusable::Damaged), "byte {at}");
    }
    for length in 0..good.len() {
        assert_eq!(parse(&|bytes| bytes.truncate(length)), Err(Unusable::Damaged), "{length}");
    }
    assert_eq!(parse(&|bytes| bytes.push(0)), Err(Unusable::Damaged));
}
