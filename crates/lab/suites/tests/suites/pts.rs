//! The tests of SNIA's specification; `rigs.rs` has interrupts in the middle of a round.

use crate::{SECOND, drive, plan, row, run, tests, value};
use suites::{Outcome, Plan, report};

/// Checks the statements of an outcome on the steady state of its rounds.
fn check_rounds(outcome: &Outcome, tracked: &str) {
    let rounds = outcome.series[0].values.len();
    assert!((5..=25).contains(&rounds), "{rounds}");
    let method = outcome.method.join(" ");
    assert_eq!(method.contains("NOT steady"), !method.contains("Steady over rounds"), "{method}");
    assert!(method.contains(&format!("rounds {} to {rounds}: average ", rounds - 4)), "{method}");
    assert!(method.contains(" allowed (20 %); slope line ") && method.contains(" allowed (10 %)."));
    let row = row(outcome, tracked);
    assert_eq!(row.samples, outcome.series[0].values[rounds - 5..]);
    assert!((row.value - row.samples.iter().sum::<f64>() / 5.0).abs() < 1e-9 * row.value);
    assert!(outcome.rows.iter().all(|row| !row.partial));
    let page = report::page(outcome);
    assert!(page.contains("Steady state") && page.contains("slope line"), "the plot");
}

#[test]
fn pts_goes_on_until_it_is_steady_or_says_that_it_is_not() {
    let outcome = run(&plan("pts"));
    assert_eq!(outcome.rows.len(), 56);
    check_rounds(&outcome, "0/100, random 4 KiB");
    let json = report::json(&outcome);
    assert_eq!(json["rows"][0]["samples_of"], "runs");
    assert_eq!(json["series"].as_array().map(Vec::len), Some(1), "no seconds of the last round");
}

#[test]
fn pts_throughput_reads_and_writes_in_order() {
    let outcome = run(&plan("pts-throughput"));
    assert_eq!(tests(&outcome), ["100/0, sequential 1 MiB", "0/100, sequential 1 MiB"]);
    assert!(outcome.rows.iter().all(|row| row.unit == "MB/s" && row.value > 0.0));
    check_rounds(&outcome, "0/100, sequential 1 MiB");
}

#[test]
fn pts_latency_has_one_under_way_and_reports_mean_and_longest() {
    let outcome = run(&plan("pts-latency"));
    assert_eq!(outcome.rows.len(), 9, "{:?}", tests(&outcome));
    check_rounds(&outcome, "0/100, random 4 KiB, QD1");
    for row in &outcome.rows {
        let latency = row.latency.as_ref().expect("latencies");
        assert_eq!(row.unit, "ms");
        assert!(latency.max_ns() as f64 >= row.value * 1e6, "{}", row.test);
        // All five rounds are in it: its mean is between theirs.
        let (mean, samples) = (latency.mean_ns() / 1e6, || row.samples.iter().copied());
        let (least, most) = (samples().fold(f64::MAX, f64::min), samples().fold(0.0, f64::max));
        assert!(least <= mean && mean <= most, "{}: {mean} of {:?}", row.test, row.samples);
    }
}

#[test]
fn pts_wsat_shows_the_fall_minute_by_minute() {
    let outcome = run(&Plan { target: drive("slow"), ..plan("pts-wsat") });
    let rates = &outcome.series[0].values;
    assert_eq!(rates.len(), 6, "whole minutes of 400 s");
    assert_eq!(value(&outcome, "first minute"), rates[0]);
    assert_eq!(row(&outcome, "last five minutes").samples, rates[1..]);
    assert!(rates[0] > rates[5], "{rates:?}");
    let method = outcome.method.join(" ");
    assert!(method.contains("teady at the end: minutes 2 to 6: average "), "{method}");
    // The small drive is written four times before the time is over.
    let short = run(&plan("pts-wsat"));
    assert!(short.elapsed_ns < 400 * SECOND, "{}", short.elapsed_ns);
    let written = row(&short, "random 4 KiB write, QD32").latency.as_ref().expect("some").count();
    assert_eq!(written, 4 * short.plan.span() / 4096);
}
