//! Shared test code of the policies: compares each policy with its paper's pseudo-code on plain
//! vectors.

use crate::{Cause, Hash, Held, Kind, Links, Policy, Simulation};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::vec::Vec;

/// A policy as in its paper, slow.
pub(crate) trait Paper {
    /// Creates an empty cache of `slots` blocks.
    fn new(slots: usize) -> Self;
    /// Requests a block. Returns whether it is a hit.
    fn request(&mut self, block: u64) -> bool;
}

/// Reads with some locality: blocks near 0 are more frequent, and there are runs.
fn blocks(reads: usize) -> impl Strategy<Value = Vec<u64>> {
    let run = prop_oneof![
        4 => (0..12u64).prop_map(|block| block..block + 1),
        4 => (0..60u64).prop_map(|block| block..block + 1),
        1 => (0..60u64, 1..30u64).prop_map(|(from, length)| from..from + length),
    ];
    proptest::collection::vec(run, 0..reads).prop_map(|runs| runs.into_iter().flatten().collect())
}

/// Returns the next number of a plain sequence (Knuth's MMIX generator).
pub(crate) fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Checks that each request has the same result in the simulation and in the paper: over many small
/// caches, and two larger ones.
pub(crate) fn agree<P: Paper>(kind: Kind) {
    let cases = (1..40u32, blocks(300));
    TestRunner::default()
        .run(&cases, |(slots, blocks)| {
            let (mut simulation, mut paper) =
                (Simulation::new(kind, slots), P::new(slots as usize));
            for (number, block) in blocks.into_iter().enumerate() {
                let (ours, theirs) = (simulation.read(block), paper.request(block));
                prop_assert_eq!(ours, theirs, "{} slots, read {}", slots, number);
            }
            Ok(())
        })
        .expect("as in the paper");
    for slots in [150, 400] {
        let (mut simulation, mut paper) = (Simulation::new(kind, slots), P::new(slots as usize));
        let mut state = u64::from(slots);
        for read in 0..30_000u64 {
            let wide = draw(&mut state, u64::from(slots) * 3) + 1;
            let block = match draw(&mut state, 16) {
                0 => 10_000 + read / 64 % 8 * 100 + read % 64,
                _ => draw(&mut state, wide),
            };
            assert_eq!(simulation.read(block), paper.request(block), "{slots} slots, read {read}");
        }
    }
}

/// Makes three slots clean one after the other, of which the first was read while it was dirty.
/// Returns the order of eviction.
pub(crate) fn entry_of_cleaned(kind: Kind) -> Vec<u32> {
    let (mut links, mut policy) = (Links::new(3), Policy::new(kind, 3));
    let hash_of = |slot: u32| Hash::of(u64::from(slot));
    for _ in 0..2 {
        policy.hit(&mut links, 0, || hash_of(0), Held::Dirty);
    }
    policy.hit(&mut links, 1, || hash_of(1), Held::Dirty);
    // It was forgotten while it was dirty: its earlier reads do not count any more.
    policy.forget(&mut links, 1, Held::Dirty);
    for slot in 0..3 {
        policy.admit(&mut links, slot, hash_of(slot), Cause::Writeback);
    }
    let mut order = Vec::new();
    while let Some(slot) = policy.victim(&mut links, Hash::of(9), hash_of) {
        policy.forget(&mut links, slot, Held::Clean);
        order.push(slot);
    }
    assert_eq!(policy.clean(), 0);
    order
}

/// Reads each of `slots` slots as often as any policy counts. Returns the one that is evicted
/// first.
pub(crate) fn first_of_many_read(kind: Kind, slots: u32) -> u32 {
    let (mut links, mut policy) = (Links::new(slots), Policy::new(kind, 1));
    policy.resize(slots);
    let hash_of = |slot: u32| Hash::of(u64::from(slot));
    for slot in 0..slots {
        policy.admit(&mut links, slot, hash_of(slot), Cause::Fetch);
        for _ in 0..4 {
            policy.hit(&mut links, slot, || hash_of(slot), Held::Clean);
        }
    }
    policy.victim(&mut links, Hash::of(u64::MAX), hash_of).expect("all are clean")
}

/// Makes random calls in the order in which a shard makes them, and compares with a plain record of
/// the clean slots: the lists contain exactly these, and a victim is one of them.
pub(crate) fn keeps_its_lists(kind: Kind) {
    const SLOTS: u32 = 16;
    let (mut links, mut policy) = (Links::new(SLOTS), Policy::new(kind, SLOTS));
    let mut state = 5;
    let mut clean = [false; SLOTS as usize];
    let hash_of = |slot: u32| Hash::of(u64::from(slot));
    for _ in 0..20_000 {
        let slot = draw(&mut state, u64::from(SLOTS)) as u32;
        let hash = Hash::of(draw(&mut state, 40));
        let is_clean = &mut clean[slot as usize];
        let held = if *is_clean { Held::Clean } else { Held::Dirty };
        match draw(&mut state, 7) {
            0 | 1 => policy.hit(&mut links, slot, || hash_of(slot), held),
            2 => {
                let _ = policy.miss(hash);
            }
            3 if !*is_clean => {
                policy.admit(&mut links, slot, hash_of(slot), Cause::Writeback);
                *is_clean = true;
            }
            4 => {
                policy.forget(&mut links, slot, held);
                *is_clean = false;
            }
            5 => {
                // A write to its block: the newer version is clean only if this one is.
                let new = draw(&mut state, u64::from(SLOTS)) as u32;
                let is_kept = *is_clean && draw(&mut state, 2) == 0;
                if !clean[new as usize] && new != slot {
                    let held_now = if is_kept { Held::Clean } else { Held::Dirty };
                    policy.hit(&mut links, slot, || hash_of(slot), held);
                    policy.succeed(&mut links, slot, new, held_now);
                    let held = if is_kept { Held::Dirty } else { held };
                    policy.forget(&mut links, slot, held);
                    (clean[slot as usize], clean[new as usize]) = (false, is_kept);
                }
            }
            _ => match policy.victim(&mut links, hash, hash_of) {
                Some(victim) => {
                    assert!(clean[victim as usize], "{kind:?}: a victim is clean");
                    policy.forget(&mut links, victim, Held::Clean);
                    clean[victim as usize] = false;
                }
                None => assert!(!clean.contains(&true), "{kind:?}: a clean slot can be had"),
            },
        }
        let mut listed = [false; SLOTS as usize];
        for list in policy.lists() {
            let (mut slot, mut length) = (list.head, 0);
            while slot != crate::NIL {
                assert!(!core::mem::replace(&mut listed[slot as usize], true), "{kind:?}: once");
                (slot, length) = (links.after(slot), length + 1);
            }
            assert_eq!(length, list.length, "{kind:?}");
        }
        assert_eq!(listed, clean, "{kind:?}");
    }
}
