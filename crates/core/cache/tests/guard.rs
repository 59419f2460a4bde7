//! The guard's decisions, window by window.

use cache::{BypassState, Guard, Pressure, Why, Window};

const CALM: Pressure = Pressure { waited: 20, wanted: 900 };
const CALM_AND_IDLE: Pressure = Pressure { waited: 20, wanted: 200 };
const BUSY: Pressure = Pressure { waited: 600, wanted: 900 };
/// The cost of a copy of a block here.
const COPY_NS: u64 = 400;
/// Hardly more than the work of a request, and much more.
const FAST_NS: u64 = 5_000;
const SLOW_NS: u64 = 100_000;

/// Reads over a backing with this latency, where an admitted miss gets this number of hits.
fn reading(hits: f64, backing_read_ns: u64, pressure: Pressure) -> Window {
    Window {
        reads: 1000,
        expected_hits: Some(hits),
        backing_read_ns,
        backing_read_median_ns: backing_read_ns,
        hit_ns: 300,
        copy_ns: COPY_NS,
        pressure,
        ..Window::default()
    }
}

/// 1000 absorbed blocks, of which `saved` are saved, and the rest is written in `runs` requests.
fn writing(saved: u64, runs: u64, pressure: Pressure) -> Window {
    let (absorbed, written) = (1000, 1000 - saved);
    Window { absorbed, saved, written, runs, copy_ns: COPY_NS, pressure, ..Window::default() }
}

/// Returns the number of windows until the guard decides this.
fn windows_until(guard: &mut Guard, window: &Window, is_it: impl Fn(&BypassState) -> bool) -> u32 {
    (1..=200).find(|_| is_it(&guard.decide(window))).expect("it never does")
}

#[test]
fn over_a_slow_backing_a_few_hits_pay_for_many_copies() {
    for pressure in [CALM, BUSY] {
        for (hits, stays) in [(1.0, true), (0.1, true), (0.0005, false)] {
            let mut guard = Guard::default();
            (0..20).for_each(|_| _ = guard.decide(&reading(hits, SLOW_NS, pressure)));
            assert_eq!(guard.bypass().reads.is_none(), stays, "{hits} hits, {pressure:?}");
            assert!(!guard.bypass().sure_reads, "what is sure to be read is worth a copy");
        }
    }
}

#[test]
fn busy_processors_begin_a_bypass_within_two_windows_and_it_ends_within_one_second() {
    let mut guard = Guard::default();
    // A tenth of 3.8 us of waiting is worth a copy, but not three copies for which the lane cannot
    // wait.
    let window = |pressure| reading(0.2, FAST_NS, pressure);
    (0..10).for_each(|_| assert_eq!(guard.decide(&window(CALM_AND_IDLE)).reads, None));
    let out = |bypass: &BypassState| matches!(bypass.reads, Some(Why::Busy { waited: 600 }));
    assert!(windows_until(&mut guard, &window(BUSY), out) <= 2);
    for _ in 0..100 {
        assert!(out(&guard.decide(&window(BUSY))), "it does not flap");
    }
    let back = |bypass: &BypassState| bypass.reads.is_none();
    assert!(windows_until(&mut guard, &window(CALM_AND_IDLE), back) <= 20);
    assert_eq!(guard.times(), 1);
    let why = Why::Busy { waited: 432 }.to_string();
    assert_eq!(why, "processors are busy: tasks waited for them 43 % of the time");
}

#[test]
fn what_pays_stays_also_when_processors_are_busy() {
    let mut guard = Guard::default();
    for _ in 0..100 {
        // One hit for two copies saves more processor time than they cost.
        assert_eq!(guard.decide(&reading(0.5, FAST_NS, BUSY)).reads, None);
        // Half of the absorbed blocks never reach the backing.
        assert_eq!(guard.decide(&writing(500, 500, BUSY)).writes, None);
        // Nothing is saved, but eight blocks are written at a time.
        assert_eq!(guard.decide(&writing(0, 125, BUSY)).writes, None);
    }
}

#[test]
fn latencies_that_are_waits_for_a_processor_are_not_the_backings() {
    let mut guard = Guard::default();
    // By the measured mean, one hit in a hundred saves 4 ms.
    let out = |bypass: &BypassState| bypass.reads.is_some();
    let waits = reading(0.01, 4_000_000, BUSY);
    let window = Window { backing_read_median_ns: FAST_NS, ..waits };
    assert!(windows_until(&mut guard, &window, out) <= 2);
}

#[test]
fn a_cold_cache_keeps_what_is_read_however_busy_processors_are() {
    for backing_ns in [FAST_NS, SLOW_NS, 500_000, 10_000_000] {
        for hits in [None, Some(3.0)] {
            let mut guard = Guard::default();
            let window = Window { expected_hits: hits, ..reading(0.0, backing_ns, BUSY) };
            (0..200).for_each(|_| assert_eq!(guard.decide(&window).reads, None, "{backing_ns}"));
            assert_eq!(guard.times(), 0);
        }
    }
}

#[test]
fn over_a_backing_as_fast_as_memory_nothing_is_kept_whatever_is_expected() {
    for pressure in [CALM, BUSY] {
        for hits in [None, Some(0.0), Some(1.0), Some(1000.0)] {
            let mut guard = Guard::default();
            let window = Window { expected_hits: hits, ..reading(0.0, 250, pressure) };
            let out =
                |bypass: &BypassState| matches!(bypass.reads, Some(Why::Costs { loses_ns: 400.. }));
            assert!(windows_until(&mut guard, &window, out) <= 2);
            assert!(guard.bypass().sure_reads, "nor what is sure to be read");
            assert!((0..50).all(|_| out(&guard.decide(&window))));
        }
    }
}

#[test]
fn reads_come_back_when_what_is_read_begins_to_fit_or_the_backing_shows_to_be_slow() {
    let mut guard = Guard::default();
    let (out, back) = (
        |bypass: &BypassState| bypass.reads.is_some(),
        |bypass: &BypassState| bypass.reads.is_none(),
    );
    windows_until(&mut guard, &reading(0.01, FAST_NS, BUSY), out);
    assert!(windows_until(&mut guard, &reading(0.9, FAST_NS, BUSY), back) <= 12);
    windows_until(&mut guard, &reading(0.1, FAST_NS, BUSY), out);
    assert!(windows_until(&mut guard, &reading(0.2, SLOW_NS, BUSY), back) <= 12);
    (0..50).for_each(|_| assert_eq!(guard.decide(&reading(0.2, SLOW_NS, BUSY)).reads, None));
}

#[test]
fn at_the_border_it_stays_as_it_is() {
    // A hit saves (5,000 - 1,200) / 10 + 900 ns; half of that is slightly more than a copy, or
    // less.
    for (hits, is_bypassed) in [(0.33, false), (0.24, true)] {
        let (mut inside, mut outside) = (Guard::default(), Guard::default());
        (0..20).for_each(|_| _ = inside.decide(&reading(hits, FAST_NS, CALM)));
        assert_eq!(inside.bypass().reads.is_some(), is_bypassed, "{hits} hits");
        windows_until(&mut outside, &reading(0.0, FAST_NS, CALM), |bypass| bypass.reads.is_some());
        (0..50).for_each(|_| _ = outside.decide(&reading(hits, FAST_NS, CALM)));
        assert!(outside.bypass().reads.is_some(), "{hits} hits");
    }
}

#[test]
fn writes_are_probed_for_a_second_in_five_and_calm_brings_them_back_at_any_time() {
    let mut guard = Guard::default();
    let out = |bypass: &BypassState| bypass.writes.is_some();
    windows_until(&mut guard, &writing(0, 1000, BUSY), out);
    let idle = Window { pressure: BUSY, ..Window::default() };
    let probed: Vec<bool> = (0..300).map(|_| !guard.decide(&idle).writes_unprobed).collect();
    let bouts = probed.chunk_by(|one, next| one == next);
    let lengths: Vec<usize> = bouts.map(<[bool]>::len).collect();
    assert!(probed[0] && lengths[1..5] == [80, 20, 80, 20], "{lengths:?}");
    // A probe that pays, in one of them.
    while guard.decide(&idle).writes_unprobed {}
    let back = |bypass: &BypassState| bypass.writes.is_none();
    assert!(windows_until(&mut guard, &writing(900, 100, BUSY), back) <= 20);
    windows_until(&mut guard, &writing(0, 1000, BUSY), out);
    while !guard.decide(&idle).writes_unprobed {}
    let calm = Window { pressure: CALM, ..Window::default() };
    assert!(windows_until(&mut guard, &calm, back) <= 12);
    assert_eq!(guard.decide(&calm), BypassState::default());
}

#[test]
fn the_sooner_it_is_out_again_the_longer_it_stays_but_never_a_second() {
    let mut guard = Guard::default();
    let out = |bypass: &BypassState| bypass.writes.is_some();
    let back = |bypass: &BypassState| bypass.writes.is_none();
    let mut before = 0;
    for _ in 0..8 {
        windows_until(&mut guard, &writing(0, 1000, BUSY), out);
        let stays = windows_until(&mut guard, &writing(0, 1000, CALM), back);
        assert!(stays >= before && stays < 20, "{before}, then {stays} windows");
        before = stays;
    }
    assert!(before >= 8, "{before} windows after it went eight times in a row");
}

#[test]
fn a_volume_without_requests_is_let_alone() {
    let mut guard = Guard::default();
    for _ in 0..50 {
        let window = Window { reads: 0, ..reading(0.0, FAST_NS, BUSY) };
        assert_eq!(guard.decide(&window), BypassState::default());
        assert_eq!(
            guard.decide(&Window { pressure: BUSY, ..Window::default() }),
            BypassState::default()
        );
    }
}

#[test]
fn writes_over_a_backing_as_fast_as_memory_are_not_absorbed() {
    for pressure in [CALM, BUSY] {
        let mut guard = Guard::default();
        let window = Window { backing_write_ns: 250, ..writing(900, 100, pressure) };
        let out = |bypass: &BypassState| matches!(bypass.writes, Some(Why::Costs { .. }));
        assert!(windows_until(&mut guard, &window, out) <= 2);
    }
    // If the client waits for a write, an answer from memory is worth a copy, unless the client is
    // made to wait nevertheless.
    let window = Window { backing_write_ns: FAST_NS, ..writing(0, 1000, CALM_AND_IDLE) };
    let slowed = Window { slowed_ns: 1000 * FAST_NS, ..window };
    let mut guard = Guard::default();
    (0..20).for_each(|_| assert_eq!(guard.decide(&window).writes, None));
    assert!(windows_until(&mut guard, &slowed, |bypass| bypass.writes.is_some()) <= 12);
}

#[test]
fn absorbed_writes_over_a_slow_backing_are_judged_by_the_requests_that_they_spare() {
    // A request of 0.5 ms is 1,250 copies, one of 0.1 ms 250, and one of a fast backing is mostly
    // work.
    let cases = [
        (500_000, 1, true),
        (500_000, 0, false),
        (SLOW_NS, 5, true),
        (SLOW_NS, 3, false),
        (FAST_NS, 200, false),
        (FAST_NS, 300, true),
        (0, 5, false),
    ];
    for (backing_write_ns, saved, stays) in cases {
        let mut guard = Guard::default();
        // The buffer is full, and clients wait for each block as without the buffer.
        let slowed_ns = backing_write_ns * 1000;
        let window = Window { backing_write_ns, slowed_ns, ..writing(saved, 1000 - saved, BUSY) };
        (0..20).for_each(|_| _ = guard.decide(&window));
        let bypass = guard.bypass().writes;
        assert_eq!(bypass.is_none(), stays, "{saved} of 1000 saved, {backing_write_ns} ns each");
    }
    // Eight written at a time save enough for every backing.
    let window = Window { backing_write_ns: SLOW_NS, ..writing(0, 125, BUSY) };
    let mut guard = Guard::default();
    (0..20).for_each(|_| assert_eq!(guard.decide(&window).writes, None));
}

#[test]
fn a_backing_that_becomes_slow_is_measured_by_bypassed_writes_until_writeback_measures_it() {
    let out = |bypass: &BypassState| bypass.writes.is_some();
    let back = |bypass: &BypassState| bypass.writes.is_none();
    let fast = |bypassed_write_ns| Window {
        backing_write_ns: 250,
        bypassed_write_ns,
        copy_ns: COPY_NS,
        pressure: CALM,
        ..Window::default()
    };
    let absorbed = Window { backing_write_ns: 250, ..writing(900, 100, CALM) };
    let mut guard = Guard::default();
    windows_until(&mut guard, &absorbed, out);
    (0..100).for_each(|_| assert!(out(&guard.decide(&fast(0)))));
    // A backing of twenty copies is not slow, and a slow one changes nothing while processors are
    // busy.
    (0..100).for_each(|_| assert!(out(&guard.decide(&fast(20 * COPY_NS)))));
    (0..100).for_each(|_| assert!(out(&guard.decide(&Window { pressure: BUSY, ..fast(SLOW_NS) }))));
    assert!(windows_until(&mut guard, &fast(SLOW_NS), back) <= 12);
    // For at least a second, writeback's earlier measurement may stay in use.
    (0..20).for_each(|window| assert!(back(&guard.decide(&absorbed)), "window {window}"));
    assert!(windows_until(&mut guard, &absorbed, out) < 100, "it is not believed for ever");
}
