//! Samples compared with the whole, on generated traces.

mod common;

use simulator::{
    BLOCK_BYTES, Choice, Error, Memory, Outcome, Plan, Rate, Sample, TRUSTED_SLOTS, Watch, run,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A pseudo-random sequence of numbers from 0 to 1.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns blocks with frequencies 1 / rank; neighbours have neighbouring ranks.
fn zipf(ranks: u64, count: usize) -> Vec<u64> {
    let mut chance = Chance(7);
    // The inverse of the distribution, with an integral instead of the sum.
    let rank = |chance: f64| ((ranks as f64 + 1.0).powf(chance) - 1.0) as u64;
    (0..count).map(|_| rank(chance.next()).min(ranks - 1)).collect()
}

fn file(directory: &Path, blocks: &[u64]) -> PathBuf {
    let mut text = String::new();
    for block in blocks {
        writeln!(text, "R,{},512", block * BLOCK_BYTES).expect("memory");
    }
    let path = directory.join("trace.csv");
    std::fs::write(&path, text).expect("written");
    path
}

fn rate(share: f64) -> Sample {
    Sample::Fixed(Rate::new(share).expect("a share"))
}

fn plan(path: &Path, memories: &[Memory], policies: &[&str], sample: Sample) -> Plan {
    Plan { sample, ..common::plan(path, memories, policies) }
}

fn outcome(plan: &Plan) -> Outcome {
    run(plan, &mut ()).expect("a good trace")
}

#[test]
fn every_policy_misses_about_as_much_in_the_sample() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), &zipf(80_000, 400_000));
    let names: Vec<&str> = Choice::all().map(|choice| choice.name).collect();
    let sizes = [Memory::Percent(10.0), Memory::Percent(30.0)];
    for shards in [1, 4] {
        let exact = outcome(&Plan { shards, ..plan(&path, &sizes, &names, rate(1.0)) });
        let near = outcome(&Plan { shards, ..plan(&path, &sizes, &names, rate(0.2)) });
        // The footprint is that of all blocks, so the sizes are the same.
        assert_eq!((near.footprint, near.counts), (exact.footprint, exact.counts));
        let share = near.sampled.block_accesses as f64 / near.counts.block_accesses as f64;
        assert!((0.1..0.3).contains(&share), "{share}");
        assert_eq!(exact.sampled.block_accesses, exact.counts.block_accesses);
        let mut worst = 0.0f64;
        for (exact_run, run) in exact.runs.iter().zip(&near.runs) {
            assert_eq!(run.slots, exact_run.slots);
            let fifth = run.slots as f64 / 5.0;
            assert!((run.sampled_slots as f64 - fifth).abs() <= f64::from(shards), "{run:?}");
            assert_eq!(run.is_trusted(), run.sampled_slots >= TRUSTED_SLOTS);
            let off = (near.miss_ratio(run) - exact.miss_ratio(exact_run)).abs();
            assert!(off < 0.015, "{shards} shards: {run:?} is {off} from {exact_run:?}");
            worst = worst.max(off);
        }
        assert!(worst > 0.0, "it is a sample");
    }
}

#[test]
fn a_block_that_comes_often_makes_no_difference_in_or_out() {
    let home = tempfile::tempdir().expect("a directory");
    // Every other access is to one block; about a third of the others miss.
    let of_hot = |hot: u64| {
        let others = zipf(40_000, 60_000);
        let blocks: Vec<u64> = others.iter().flat_map(|other| [hot, 100_000 + other]).collect();
        file(home.path(), &blocks)
    };
    let (mut with, mut without) = (0, 0);
    for hot in 0..24 {
        let path = of_hot(hot);
        let ratio = |sample| {
            let outcome = outcome(&plan(&path, &[Memory::Percent(50.0)], &["lru"], sample));
            (outcome.miss_ratio(&outcome.runs[0]), outcome)
        };
        let (exact, _) = ratio(rate(1.0));
        let (near, sampled) = ratio(rate(0.125));
        assert!((near - exact).abs() < 0.02, "{near} for {exact}");
        let misses = sampled.runs[0].block_misses as f64 * 0.125;
        let uncorrected = misses / sampled.sampled.block_accesses as f64;
        assert!((uncorrected - exact).abs() > 0.08, "{uncorrected} for {exact}");
        let is_in = sampled.sampled.block_accesses > 60_000;
        *(if is_in { &mut with } else { &mut without }) += 1;
        if with > 0 && without > 0 {
            return;
        }
    }
    panic!("{with} in, {without} out: one in eight should be in");
}

#[test]
fn an_automatic_sample_is_exact_where_that_fits_and_else_as_if_its_rate_were_given() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), &zipf(30_000, 100_000));
    let sizes = [Memory::Percent(5.0), Memory::Percent(100.0)];
    let of = |sizes: &[Memory], policies: &[&str], sample| {
        outcome(&plan(&path, sizes, policies, sample))
    };
    let policies = ["lru", "lirs", "opt"];
    assert_eq!(of(&sizes, &policies, Sample::Auto), of(&sizes, &policies, rate(1.0)));
    // LRU of 64 GiB would take 800 MB. The rate is set before the trace is read, or after the
    // footprint is counted.
    let large = Memory::Bytes(64 << 30);
    for (sizes, policies) in [
        (vec![large], vec!["lru"]),
        (vec![large, Memory::Percent(20.0)], vec!["lru"]),
        (vec![large], vec!["lru", "opt"]),
        (vec![large, Memory::Percent(20.0)], vec!["lru", "opt"]),
    ] {
        let chosen = of(&sizes, &policies, Sample::Auto);
        let share = chosen.sampled.rate.share();
        assert!([0.25, 0.125].contains(&share), "{share}");
        assert_eq!(chosen, of(&sizes, &policies, rate(share)));
        assert!(chosen.footprint.is_exact);
    }
}

struct Impatient(u32);

impl Watch for Impatient {
    fn look(&mut self, _: &'static str, _: f64) -> bool {
        self.0 -= 1;
        self.0 > 0
    }
}

#[test]
fn what_is_interrupted_has_the_ratios_of_its_beginning() {
    let home = tempfile::tempdir().expect("a directory");
    let blocks = zipf(30_000, 100_000);
    let path = file(home.path(), &blocks);
    let sampled = plan(&path, &[Memory::Bytes(8000 * BLOCK_BYTES)], &["lru"], rate(0.25));
    let part = run(&sampled, &mut Impatient(4)).expect("a part");
    let seen = part.counts.block_accesses as usize;
    assert!(!part.is_complete && seen > 0 && seen < blocks.len());
    let exact = policy::misses(policy::Kind::Lru, 8000, blocks[..seen].iter().copied());
    let exact = exact as f64 / seen as f64;
    assert!((part.miss_ratio(&part.runs[0]) - exact).abs() < 0.03, "{part:?} for {exact}");
    // With percentages, the footprint is that of the whole trace, not of the part that was read.
    let shares = Plan { memories: vec![Memory::Percent(30.0)], ..sampled };
    let looks = 1 + 100_000 / (1 << 14) + 4;
    let part = run(&shares, &mut Impatient(looks)).expect("a part");
    let (seen, slots) = (part.counts.block_accesses as usize, part.runs[0].slots as u32);
    assert!(!part.is_complete && seen > 0 && seen < blocks.len() / 2, "{part:?}");
    let exact = policy::misses(policy::Kind::Lru, slots, blocks[..seen].iter().copied());
    let exact = exact as f64 / seen as f64;
    assert!((part.miss_ratio(&part.runs[0]) - exact).abs() < 0.03, "{part:?} for {exact}");
}

#[test]
fn what_leaves_nothing_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), &[1, 2, 3, 4, 1, 2]);
    let usage_message = |memory, share, policies: &[&str]| {
        let error = run(&plan(&path, &[memory], policies, rate(share)), &mut ());
        match error.expect_err("nothing is left") {
            Error::Usage(message) => message,
            other => panic!("{other:?}"),
        }
    };
    // One slot of one is the whole cache, but as a sample it is not reliable.
    let one = outcome(&plan(&path, &[Memory::Bytes(BLOCK_BYTES)], &["lru"], rate(0.6)));
    assert_eq!((one.runs[0].slots, one.runs[0].sampled_slots), (1, 1));
    assert!(one.runs[0].is_estimate && !one.runs[0].is_trusted());
    let none = usage_message(Memory::Bytes(100 * BLOCK_BYTES), 0.001, &["lru"]);
    assert!(none.contains("a sample of 0.001 leaves none of 100 blocks per shard"), "{none}");
    for policies in [&["lru"][..], &["opt"]] {
        let none = usage_message(Memory::Bytes(1 << 30), 1e-4, policies);
        assert!(none.starts_with("--sample 0.0001: the sample has no block of"), "{none}");
    }
}
