//! Outcomes for tests.

use simulator::{Choice, Counted, Counts, Memory, Outcome, Plan, Rate, Run, Sample, Sampled};
use trace::Format;

/// Returns the outcome of 1,000 accesses: the misses by policy and size, of 4, 8, ... MiB.
pub(super) fn outcome(policies: &[&str], misses: &[&[u64]]) -> (Plan, Outcome) {
    let choice = |name: &&str| Choice::by_name(name).expect("a policy");
    let sizes = misses[0].len();
    let plan = Plan {
        path: "/of/a <trace>".into(),
        format: None,
        memories: (0..sizes).map(|size| Memory::Bytes(4 << 20 << size)).collect(),
        policies: policies.iter().map(choice).collect(),
        devices: Vec::new(),
        reads_only: false,
        shards: 1,
        threads: 1,
        sample: Sample::Fixed(Rate::ALL),
        compress: None,
        hints: None,
    };
    let mut runs = Vec::new();
    for (policy, misses) in policies.iter().zip(misses) {
        runs.extend((0..sizes).map(|size| Run {
            policy: (*policy).to_owned(),
            memory: plan.memories[size].to_string(),
            slots: 1024 << size,
            sampled_slots: 1024 << size,
            is_estimate: false,
            block_misses: misses[size],
            tiered: None,
            hinted: None,
        }));
    }
    let outcome = Outcome {
        format: Format::Csv,
        is_complete: true,
        counts: Counts { requests: 900, reads: 600, writes: 300, others: 7, block_accesses: 1000 },
        sampled: Sampled { rate: Rate::ALL, block_accesses: 1000 },
        footprint: Counted { blocks: 5000, is_exact: true },
        devices: vec!["sda".to_owned()],
        notes: Default::default(),
        runs,
    };
    (plan, outcome)
}

/// Returns the same outcome for a sample of half of the blocks.
pub(super) fn sampled(policies: &[&str], misses: &[&[u64]]) -> (Plan, Outcome) {
    let (plan, mut outcome) = outcome(policies, misses);
    let rate = Rate::new(0.5).expect("a half");
    outcome.sampled = Sampled { rate, block_accesses: 490 };
    for run in &mut outcome.runs {
        run.sampled_slots /= 2;
        run.is_estimate = true;
    }
    (plan, outcome)
}
