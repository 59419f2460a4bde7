//! Caches with a compressed tier over a generated trace, compared with the same caches driven by
//! hand, and samples with the whole.

mod common;

use policy::{CompressedBytes, Kind, TieredSimulation};
use simulator::{BLOCK_BYTES, BlockSizes, Choice, Memory, Plan, Rate, Run, Sample, What, run};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCKS: f64 = 40_000.0;

/// Returns blocks with frequencies 1 / rank: every 1 / `READS`th part of the distribution once, in
/// a fixed order.
fn zipf() -> Vec<u64> {
    const READS: u64 = 200_003;
    let part = |number: u64| (number * 77_617 % READS) as f64 / READS as f64;
    (0..READS).map(|number| BLOCKS.powf(part(number)) as u64).collect()
}

fn file(directory: &Path, blocks: &[u64]) -> PathBuf {
    let mut text = String::new();
    for block in blocks {
        writeln!(text, "R,{},4096", block * BLOCK_BYTES).expect("memory");
    }
    let path = directory.join("trace.csv");
    std::fs::write(&path, text).expect("written");
    path
}

fn runs(plan: &Plan) -> Vec<Run> {
    run(plan, &mut ()).expect("a good trace").runs
}

#[test]
fn policies_that_are_served_have_a_run_with_the_tier_beside_the_one_without() {
    let (home, blocks) = (tempfile::tempdir().expect("a directory"), zipf());
    let path = file(home.path(), &blocks);
    let names: Vec<&str> = Choice::all().map(|choice| choice.name).collect();
    let sizes = [Memory::Bytes(1024 * BLOCK_BYTES), Memory::Bytes(4096 * BLOCK_BYTES)];
    let plain = Plan { shards: 4, ..common::plan(&path, &sizes, &names) };
    let of_blocks = Arc::new(BlockSizes::of_ratio(2.5).expect("a ratio"));
    let both = runs(&Plan { compress: Some(of_blocks.clone()), ..plain.clone() });
    let bytes: Arc<CompressedBytes> = Arc::new(move |hash| of_blocks.of(hash));
    for (number, run) in both.iter().enumerate() {
        let What::Kind(kind) = Choice::by_name(&run.policy).expect("a policy").what else {
            assert_eq!(run.tiered, None);
            continue;
        };
        assert_eq!(run.tiered.is_some(), kind.is_served(), "{}", run.policy);
        let Some(tiered) = run.tiered else { continue };
        let slots = [256, 1024][number % 2];
        let mut cache = TieredSimulation::new(kind, slots, 4, &bytes);
        let misses = blocks.iter().filter(|block| !cache.read(**block)).count() as u64;
        assert_eq!(tiered.block_misses, misses, "{}", run.policy);
        assert_eq!(tiered.compressed_hits, cache.compressed_hits());
        assert_eq!(tiered.compressed_blocks, cache.compressed_blocks());
        // More blocks than slots fit, and the tier has at most three quarters of the slots.
        let held = u64::from(slots * 4) - tiered.compressed_slots + tiered.compressed_blocks;
        assert!(misses * 100 <= run.block_misses * 101, "the tier costs hits: {run:?}");
        if matches!(kind, Kind::Adaptive | Kind::Lru) {
            assert!(held > u64::from(slots * 4) * 13 / 10, "{held} of {slots} in a shard");
            assert!(misses * 10 < run.block_misses * 9, "{run:?}");
        }
        assert!(tiered.compressed_slots <= u64::from(slots) * 3);
    }
    let without = |run: &Run| Run { tiered: None, ..run.clone() };
    assert_eq!(runs(&plain), both.iter().map(without).collect::<Vec<_>>());
}

#[test]
fn a_sample_estimates_the_tier() {
    let (home, blocks) = (tempfile::tempdir().expect("a directory"), zipf());
    let path = file(home.path(), &blocks);
    let compress = BlockSizes::of_ratio(3.0).map(Arc::new);
    let exact =
        Plan { compress, ..common::plan(&path, &[Memory::Percent(20.0)], &["lru", "adaptive"]) };
    let rate = Rate::new(0.25).expect("a share");
    let near = runs(&Plan { sample: Sample::Fixed(rate), ..exact.clone() });
    for (exact, near) in runs(&exact).iter().zip(&near) {
        let [exact, near] = [exact, near].map(|run| run.tiered.expect("it is served"));
        let is_near = |one: u64, other: u64, percent| one.abs_diff(other) * 100 <= one * percent;
        assert!(is_near(exact.block_misses, near.block_misses, 3), "{exact:?}, {near:?}");
        assert!(is_near(exact.compressed_blocks, near.compressed_blocks, 5), "{near:?}");
        assert!(is_near(exact.compressed_slots, near.compressed_slots, 5), "{near:?}");
    }
}
