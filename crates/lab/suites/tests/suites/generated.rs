//! Suites that replay generated traces.

use super::{cached, drive, row, run, suite, value};
use suites::generated::{Profile, Requests, Scale};
use suites::{Halt, Listing, Outcome, Plan, Preparation, Target};

/// A short part of the trace on the small drive.
fn plan(name: &str, scale: f64) -> Plan {
    Plan {
        trace_scale: scale,
        span_bytes: Some(128 << 20),
        ..Plan::new(suite(name).profile(), drive("small"))
    }
}

fn tests(outcome: &Outcome) -> Vec<&str> {
    outcome.rows.iter().map(|row| row.test.as_str()).collect()
}

#[test]
fn a_trace_at_its_times_has_the_rows_of_the_reviews() {
    let outcome = run(&plan("light", 0.002));
    let light = Profile::find("light").expect("its own");
    let scale = Scale { scale: 0.002, ..Scale::default() };
    let requests = Requests::new(&light.workloads[0], &scale).expect("sound");
    let all = row(&outcome, "mean service time");
    let counted = all.latency.as_ref().expect("service times");
    assert_eq!(counted.count(), requests.requests());
    let parts = ["reads", "writes"].map(|name| {
        let test = format!("mean service time of {name}");
        row(&outcome, &test).latency.as_ref().expect("service times").count()
    });
    assert_eq!(parts.iter().sum::<u64>(), counted.count());
    for name in ["reads", "writes"] {
        let within = ["0.1 ms", "1 ms", "10 ms", "100 ms"]
            .map(|t| value(&outcome, &format!("{name} within {t}")));
        assert!(within.is_sorted(), "{within:?}");
        let above = value(&outcome, &format!("{name} above 100 ms"));
        assert!((within[3] + above - 100.0).abs() < 1e-9, "{within:?}, {above}");
        assert!(value(&outcome, &format!("standard deviation of {name}")) > 0.0);
    }
    let (busy, overall) = (value(&outcome, "MB/s while busy"), value(&outcome, "MB/s overall"));
    assert!(busy > overall, "{busy}, {overall}: idle time counts");
    let moved = busy * value(&outcome, "busy time");
    assert!((moved / (requests.bytes() as f64 / 1e6) - 1.0).abs() < 0.01, "{moved}");
    assert!(value(&outcome, "average queue depth") >= 1.0);
    let shortened = all.shortened.as_deref().expect("it is a small part");
    assert!(shortened.starts_with("scale 0.002"), "{shortened}");
    assert!(outcome.method.iter().any(|it| it.contains("never published")), "{:?}", outcome.method);
}

#[test]
fn a_cache_in_front_serves_the_writes_of_a_trace() {
    let bare = run(&plan("heavy", 0.001));
    let cache = cached("qd1", 64 << 20);
    let behind = Plan {
        cache: Some(suite("heavy").cache(block::Size(64 << 20))),
        prices: cache.prices,
        ..plan("heavy", 0.001)
    };
    let behind = run(&behind);
    let mean = |outcome: &Outcome| value(outcome, "mean service time of writes");
    assert!(mean(&behind) < mean(&bare), "{} bare, {} behind", mean(&bare), mean(&behind));
    assert!(row(&behind, "MB/s while busy").flush_ns.is_some(), "the final flush counts");
}

#[test]
fn workloads_have_their_own_rows_and_one_can_be_chosen() {
    let whole = run(&plan("drivebench1", 0.002));
    assert_eq!(whole.rows.len() % 5, 0, "{:?}", tests(&whole));
    assert!(tests(&whole).contains(&"virus-scan: mean service time"));
    let only = Some("copying: mean service time".to_owned());
    let one = run(&Plan { only, ..plan("drivebench1", 0.002) });
    assert_eq!(tests(&one), ["copying: mean service time"]);
    // Eight requests in flight at any time, but for the end.
    let depth = value(&whole, "copying: average queue depth");
    assert!((6.0..=8.0).contains(&depth), "{depth}");
}

#[test]
fn an_absurd_scale_ends_the_suite_before_anything_is_written() {
    let (outcome, ended) = suites::run(&plan("light", 1e-4), &mut ());
    let Err(Halt::Plan(what)) = ended else { panic!("{ended:?}") };
    assert!(what.contains("too few for its properties"), "{what}");
    assert!(outcome.rows.is_empty());
}

#[test]
fn the_expected_amount_is_that_of_the_trace() {
    for name in Profile::names() {
        let target = Target::of_rig("disk", 512 << 30, 1);
        let plan = Plan::new(suite(name).profile(), target);
        let plan = Plan { preparation: Preparation::default(), reads_only: true, ..plan };
        let listing: Listing = suites::list(&plan);
        assert_eq!(listing.ended, Ok(()), "{name}");
        assert!(listing.loads.is_empty());
        let profile = Profile::find(name).expect("its own");
        let bytes = profile.workloads.iter().flat_map(|it| it.bytes.iter().map(|it| it.value));
        let bytes = bytes.sum::<u64>() as f64;
        assert!((listing.trace_bytes as f64 / bytes - 1.0).abs() < 0.005, "{name}");
        assert_eq!(listing.work().sized_bytes, listing.trace_bytes);
    }
}

#[test]
fn the_document_has_the_tables_of_the_program() {
    let document = include_str!("../../../../../docs/GENERATED.md");
    let is_current = document.contains(suites::generated::markdown().trim());
    assert!(
        is_current,
        "docs/GENERATED.md is not current: run 'cargo run -p suites --example properties'"
    );
}
