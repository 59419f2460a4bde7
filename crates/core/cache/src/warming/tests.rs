use super::*;
use crate::bypass::balance::Pressure;
use alloc::vec::Vec;
use hotlist::{Description, Entry, encode};

const REGION: u32 = 1024;

fn list(entries: &[(u64, u32)], volume_blocks: u64) -> HotList {
    let of = Description { identity: "1".into(), volume_blocks, saved_s: 0 };
    let entries = entries.iter().map(|&(block, class)| Entry::new(block, class)).collect();
    HotList::parse(&encode(&of, entries)).expect("a list")
}

fn was_stopped(warming: &Warming) -> bool {
    let mut counters = Counters::default();
    warming.count(&mut counters, 0);
    counters.warm_state == 2
}

fn pieces(warming: &Warming, gap: u64) -> Vec<(u64, u64, Vec<u64>)> {
    let next = || warming.next_of_ranking(gap, 7);
    let taken = core::iter::from_fn(next).map(|Piece { at, listed }| {
        let (first, blocks) = (at.first / 8, u64::from(at.count) / 8);
        let named = (first..first + blocks).filter(|block| listed.has(*block));
        assert!(!listed.has(first + blocks) && !listed.has(first.wrapping_sub(1)));
        (first, blocks, named.collect())
    });
    taken.collect()
}

#[test]
fn pieces_hold_near_blocks_of_one_region_and_end_with_the_list() {
    let warming = Warming::new(5000, 256, REGION);
    assert!(!warming.is_reading() && warming.next_of_ranking(8, 1).is_none());
    let blocks: Vec<_> = [3, 4, 9, 30, 1020, 1023, 1024, 4999, 6000].map(|block| (block, 0)).into();
    warming.begin(list(&blocks, 10_000), 0, 5);
    assert!(warming.is_reading());
    let expected = [
        (3, 7, [3, 4, 9].to_vec()),
        (30, 1, [30].to_vec()),
        (1020, 4, [1020, 1023].to_vec()),
        (1024, 1, [1024].to_vec()),
        (4999, 1, [4999].to_vec()),
    ];
    assert_eq!(pieces(&warming, 8), expected, "6000 is beyond the volume's end");
    assert!(!warming.is_reading() && !was_stopped(&warming));
    let mut counters = Counters::default();
    warming.count(&mut counters, 100);
    assert_eq!((counters.warm_listed, counters.warm_ns, counters.warm_state), (9, 2, 0));
}

#[test]
fn a_piece_is_no_longer_than_a_fetch_and_each_class_begins_anew() {
    let warming = Warming::new(1 << 20, 16, REGION);
    let blocks: Vec<_> = (0..40).map(|block| (block, u32::from(block % 2 == 0))).collect();
    warming.begin(list(&blocks, 40), 0, 0);
    let lengths: Vec<u64> = pieces(&warming, 4).iter().map(|(_, blocks, _)| *blocks).collect();
    // The odd blocks are hotter.
    assert_eq!(lengths, [15, 15, 7, 15, 15, 7]);
}

#[test]
fn a_list_that_is_stopped_is_not_read_any_more() {
    let warming = Warming::new(100, 16, REGION);
    warming.stop(1);
    assert!(!was_stopped(&warming), "there was none");
    warming.begin(list(&[(1, 0), (50, 0)], 100), 0, 2);
    assert!(warming.next_of_ranking(0, 3).is_some());
    warming.stop(9);
    assert!(was_stopped(&warming) && warming.next_of_ranking(0, 10).is_none());
    let mut counters = Counters::default();
    warming.count(&mut counters, 100);
    assert_eq!((counters.warm_ns, counters.warm_state), (7, 2));
}

#[test]
fn unlisted_blocks_are_read_along_where_a_request_costs_more() {
    let gap = |read_ns, block_ns, depth| gap(Times { read_ns, block_ns }, depth);
    assert_eq!(gap(0, 20_000, 4), 0, "unknown");
    assert_eq!(gap(80_000, 20_000, 32), 0, "an SSD");
    assert_eq!(gap(500_000, 20_000, 4), 6, "a network volume");
    assert_eq!(gap(10_000_000, 32_000, 32), 9, "a long link");
    assert_eq!(gap(8_000_000, 20_000, 2), GAP_MAX, "a disk");
}

#[test]
fn the_start_up_list_ends_when_the_guest_does_not_use_it() {
    let evidence = Evidence { pressure: Pressure::default(), copy_ns: 1000, slots: 1 << 20 };
    let pays = |backing_read_ns, start_cached, start_used, beyond| {
        let counted = Counters { backing_read_ns, start_cached, start_used, ..Counters::default() };
        economics::start_up_pays(&counted, &evidence, beyond)
    };
    assert!(pays(500_000, 8192, 0, 8192), "the guest has not reached it");
    assert!(pays(500_000, 20_000, 3_000, 8192));
    assert!(!pays(500_000, 20_000, 5, 8192), "the guest leaves it out");
    assert!(!pays(10_000, 100, 100, 0), "the backing is as fast as a few copies");
}

#[test]
fn it_ends_when_it_gains_less_than_it_costs() {
    let warming = Warming::new(1 << 20, 256, REGION);
    let blocks: Vec<_> = (0..100).map(|block| (block * 9, 0)).collect();
    warming.begin(list(&blocks, 1 << 20), 1000, 0);
    let evidence = Evidence { pressure: Pressure::default(), copy_ns: 1000, slots: 1 << 20 };
    let counted = |backing_read_ns, filled: u64, warm_cached, warm_used| {
        let blocks_filled = 1000 + filled;
        Counters { backing_read_ns, blocks_filled, warm_cached, warm_used, ..Counters::default() }
    };
    let pays = |counted: &Counters| warming.pays(counted, &evidence);
    assert!(pays(&counted(0, 0, 0, 0)), "nothing is known");
    assert!(pays(&counted(500_000, 0, 100_000, 0)), "no client has read anything");
    let older = Counters { blocks_filled: 900, ..counted(500_000, 0, 100_000, 0) };
    assert!(pays(&older), "the counters were read before the list began");
    assert!(pays(&counted(500_000, 10_000, 100_000, 900)));
    assert!(!pays(&counted(500_000, 10_000, 100_000, 0)), "clients read other blocks");
    assert!(!pays(&counted(10_000, 0, 100, 100)), "the backing is as fast as a few copies");
    warming.judge(&counted(500_000, 10_000, 100_000, 900), &evidence, 1);
    assert!(warming.is_reading());
    warming.judge(&counted(500_000, 10_000, 100_000, 0), &evidence, 2);
    assert!(was_stopped(&warming));
}
