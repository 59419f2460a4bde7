//! No policy allocates memory after its creation: on hits, misses, admissions and evictions, of
//! clean and of dirty slots.

use allocations::of_this_thread;
use policy::{
    Cause, CompressedBytes, Hash, Held, Kind, Links, Policy, Simulation, TieredSimulation,
};
use std::sync::Arc;

/// Returns the next number of a plain sequence (Knuth's MMIX generator).
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[test]
fn a_simulation_allocates_nothing_but_at_its_beginning() {
    for kind in Kind::ALL {
        let beginning = of_this_thread();
        let mut simulation = Simulation::new(kind, 300);
        let (before, mut state, mut misses) = (of_this_thread(), 1, 0);
        assert!(before > beginning, "the allocator counts");
        for _ in 0..100_000 {
            let wide = 1 + draw(&mut state, 2_000);
            misses += u32::from(!simulation.read(draw(&mut state, wide)));
        }
        assert_eq!(of_this_thread() - before, 0, "{kind:?}");
        assert!((10_000..90_000).contains(&misses), "{kind:?}: {misses}");
    }
}

#[test]
fn a_simulated_tier_allocates_nothing_but_at_its_beginning() {
    let bytes: Arc<CompressedBytes> = Arc::new(|hash| Some(8 + (hash.bits() % 3000) as u32));
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
        let mut simulation = TieredSimulation::new(kind, 300, 1, &bytes);
        let (before, mut state) = (of_this_thread(), 1);
        for _ in 0..100_000 {
            let wide = 1 + draw(&mut state, 2_000);
            simulation.read(draw(&mut state, wide));
        }
        assert_eq!(of_this_thread() - before, 0, "{kind:?}");
        assert!(simulation.compressed_hits() > 10_000, "{kind:?}");
        assert!((1..=225).contains(&simulation.compressed_slots()), "{kind:?}");
    }
}

#[test]
fn a_policy_over_slots_allocates_nothing_in_a_shards_calls() {
    const SLOTS: u32 = 64;
    for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Arc | Kind::Lirs)) {
        let (mut links, mut policy) = (Links::new(SLOTS), Policy::new(kind, SLOTS));
        let (mut clean, mut state) = ([false; SLOTS as usize], 1);
        let hash_of = |slot: u32| Hash::of(u64::from(slot));
        let before = of_this_thread();
        for _ in 0..100_000 {
            let slot = draw(&mut state, u64::from(SLOTS)) as u32;
            let is_clean = &mut clean[slot as usize];
            let held = if *is_clean { Held::Clean } else { Held::Dirty };
            let block = Hash::of(draw(&mut state, 200));
            match draw(&mut state, 5) {
                0 | 1 => policy.hit(&mut links, slot, || hash_of(slot), held),
                2 if !*is_clean => {
                    policy.admit(&mut links, slot, hash_of(slot), Cause::Writeback);
                    *is_clean = true;
                }
                3 => {
                    policy.forget(&mut links, slot, held);
                    *is_clean = false;
                }
                _ => {
                    let _ = policy.miss(block);
                    if let Some(victim) = policy.victim(&mut links, block, hash_of) {
                        policy.forget(&mut links, victim, Held::Clean);
                        clean[victim as usize] = false;
                    }
                }
            }
        }
        assert_eq!(of_this_thread() - before, 0, "{kind:?}");
    }
}
