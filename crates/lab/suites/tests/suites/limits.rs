//! Modelled drives behind rate limits, bare and cached.

use crate::{SECOND, cached, plan, run};
use suites::{Job, Outcome, Plan, Target, report};

/// Returns the plan on a limited drive, for this number of seconds of random requests.
fn limited(plan: Plan, limit: &str, reads_percent: u32, seconds: u64) -> Plan {
    let text = format!("limit:{limit}:{}", plan.target.text);
    let target = Target::parse(&text).expect("a limited drive");
    let job = Job { depth: 8, reads_percent, flush: Some(false), ..Job::default() };
    let plan = Plan { target, time_ns: seconds * SECOND, span_bytes: Some(64 << 20), ..plan };
    plan.with_jobs(vec![job])
}

fn value(outcome: &Outcome) -> f64 {
    outcome.rows[0].value
}

#[test]
fn a_load_has_the_rate_of_the_limit() {
    let bare = value(&run(&limited(plan("custom"), "iops=1000000000", 100, 1)));
    assert!(bare > 4000.0, "{bare}: the drive is faster than the limits");
    for (limit, rate) in [
        ("iops=500", 500.0),
        ("iops=750,burst=100ms", 787.5),
        ("bandwidth=1M", 256.0),
        ("iops=500,bandwidth=1M", 256.0),
        ("iops=300:limit:iops=100,burst=2s", 200.0),
    ] {
        for reads_percent in [100, 0] {
            let outcome = run(&limited(plan("custom"), limit, reads_percent, 2));
            let found = value(&outcome);
            // The load ends when its last eight requests are answered.
            assert!((found / rate - 1.0).abs() < 0.02, "{limit}: {found} instead of {rate}");
            let target = report::json(&outcome)["target"].to_string();
            assert!(target.contains(limit), "{target}");
        }
    }
}

#[test]
fn hits_of_a_cache_above_the_limit_need_no_tokens() {
    let bare = value(&run(&limited(plan("custom"), "iops=500", 100, 10)));
    let misses = value(&run(&limited(cached("custom", 1 << 20), "iops=500", 100, 10)));
    let cached = value(&run(&limited(cached("custom", 128 << 20), "iops=500", 100, 10)));
    assert!((bare / 500.0 - 1.0).abs() < 0.005, "{bare}");
    assert!((490.0..650.0).contains(&misses), "{misses}: the cache holds a sixty-fourth");
    // Of 16,384 blocks, 5,000 can be fetched in ten seconds; later reads find ever more of them.
    assert!(cached > 1.1 * bare, "{cached}, {bare} without a cache");
}

#[test]
fn a_long_wait_for_tokens_is_no_stall_of_the_backing() {
    let job = |block_bytes, depth| Job {
        depth,
        block_bytes,
        reads_percent: 50,
        flush: Some(true),
        ..Job::default()
    };
    // 64 requests of 256 KiB wait for 32 s, three times as long as errors are retried.
    let plan = limited(cached("custom", 4 << 20), "bandwidth=512K", 0, 80);
    let outcome = run(&plan.clone().with_jobs(vec![job(256 << 10, 64), job(4096, 32)]));
    let megabytes_per_s = outcome.rows.iter().filter(|row| row.unit == "MB/s");
    let rates: Vec<f64> = megabytes_per_s.map(|row| row.value).collect();
    assert!(rates.iter().all(|rate| (0.4..0.7).contains(rate)), "{rates:?}");
    assert!(!rates.is_empty());
}

#[test]
fn no_published_figure_is_compared_with_a_limited_drive() {
    let target = Target::parse("limit:iops=500:model:samsung-840-evo-250").expect("a preset");
    let plan = Plan { target, ..plan("qd1") };
    let (mut outcome, _) = suites::run(&Plan { time_ns: SECOND / 10, ..plan }, &mut ());
    assert!(suites::published::compare_with_published(&outcome).is_empty());
    suites::published::mark_doubts(&mut outcome);
    assert!(outcome.rows.iter().all(|row| row.doubt.is_none()));
}
