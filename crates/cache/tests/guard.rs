//! The guard's decisions, window by window.

use cache::{Aside, Guard, Pressure, Why, Window};

const CALM: Pressure = Pressure { waited: 20, wanted: 900 };
const BUSY: Pressure = Pressure { waited: 600, wanted: 900 };
/// Less than 20 times what keeping a block costs here, and more than that.
const FAST_NS: u64 = 5_000;
const SLOW_NS: u64 = 100_000;

/// Reads of which so many in a thousand are hits, over a backing this slow, all misses kept.
fn reading(hits: u64, backing_read_ns: u64, pressure: Pressure) -> Window {
    Window {
        reads: 1000,
        hits,
        kept: 1000 - hits,
        backing_read_ns,
        backing_read_median_ns: backing_read_ns,
        hit_ns: 300,
        cost_ns: 400,
        pressure,
        ..Window::default()
    }
}

/// The same while nothing but the probe is kept.
fn probing(hits: u64, backing_read_ns: u64, pressure: Pressure) -> Window {
    let (probe_reads, probe_hits) = (64, hits * 64 / 1000);
    Window { probe_reads, probe_hits, kept: 60, ..reading(0, backing_read_ns, pressure) }
}

/// 1000 blocks absorbed, of which so many are saved, and the rest is written by so many requests.
fn writing(saved: u64, runs: u64, pressure: Pressure) -> Window {
    let (absorbed, written) = (1000, 1000 - saved);
    Window { absorbed, saved, written, runs, cost_ns: 400, pressure, ..Window::default() }
}

/// How many windows it takes until the guard says so.
fn windows_until(guard: &mut Guard, window: &Window, is_it: impl Fn(&Aside) -> bool) -> u32 {
    (1..=200).find(|_| is_it(&guard.decide(window))).expect("it never does")
}

#[test]
fn calm_processors_leave_a_slow_backing_alone_whatever_is_hit() {
    let mut guard = Guard::default();
    for hits in [0, 10, 500, 1000] {
        for _ in 0..100 {
            let aside = guard.decide(&reading(hits, SLOW_NS, CALM));
            assert_eq!(aside, Aside::default(), "{hits} hits in a thousand");
            let aside = guard.decide(&writing(0, 1000, CALM));
            assert_eq!(aside, Aside::default(), "the buffer's limits see to that");
        }
    }
}

#[test]
fn busy_processors_make_it_step_aside_within_two_windows_and_it_comes_back_in_one_second() {
    let mut guard = Guard::default();
    (0..10).for_each(|_| _ = guard.decide(&reading(500, FAST_NS, CALM)));
    let out = |aside: &Aside| matches!(aside.reads, Some(Why::Busy { waited: 600 }));
    assert!(windows_until(&mut guard, &reading(0, FAST_NS, BUSY), out) <= 2);
    for _ in 0..100 {
        assert!(out(&guard.decide(&probing(0, FAST_NS, BUSY))), "it does not flap");
    }
    let back = |aside: &Aside| aside.reads.is_none();
    assert!(windows_until(&mut guard, &probing(0, FAST_NS, CALM), back) <= 20);
    assert_eq!(guard.times(), 1);
    assert_eq!(Why::Busy { waited: 432 }.to_string(), "processors busy: waited 43 % of the time");
}

#[test]
fn who_pays_stays_also_when_processors_are_busy() {
    let mut guard = Guard::default();
    for _ in 0..100 {
        // Three hits in ten save more of a processor than keeping the rest costs.
        let aside = guard.decide(&reading(300, FAST_NS, BUSY));
        assert_eq!(aside.reads, None);
        // Half of what is absorbed never reaches the backing.
        let aside = guard.decide(&writing(500, 500, BUSY));
        assert_eq!(aside.writes, None);
        // Nothing is saved, but eight blocks are written at a time.
        assert_eq!(guard.decide(&writing(0, 125, BUSY)).writes, None);
    }
}

#[test]
fn latencies_that_are_waits_for_a_processor_are_not_the_backings() {
    let mut guard = Guard::default();
    (0..10).for_each(|_| _ = guard.decide(&reading(500, FAST_NS, CALM)));
    // By the mean that is measured now, ten hits in a thousand save 4 ms each.
    let out = |aside: &Aside| aside.reads.is_some();
    let waits = reading(10, 4_000_000, BUSY);
    let window = Window { backing_read_median_ns: FAST_NS, ..waits };
    assert!(windows_until(&mut guard, &window, out) <= 2);
}

#[test]
fn a_probe_that_pays_brings_it_back_although_processors_are_busy() {
    let mut guard = Guard::default();
    let out = |aside: &Aside| aside.reads.is_some();
    windows_until(&mut guard, &reading(0, FAST_NS, BUSY), out);
    let back = |aside: &Aside| aside.reads.is_none();
    assert!(windows_until(&mut guard, &probing(500, FAST_NS, BUSY), back) <= 20);
    let out = |aside: &Aside| aside.writes.is_some();
    windows_until(&mut guard, &writing(0, 1000, BUSY), out);
    let back = |aside: &Aside| aside.writes.is_none();
    assert!(windows_until(&mut guard, &writing(900, 100, BUSY), back) <= 20);
}

#[test]
fn writes_are_probed_for_a_second_in_five_and_calm_brings_them_back_at_any_time() {
    let mut guard = Guard::default();
    let out = |aside: &Aside| aside.writes.is_some();
    windows_until(&mut guard, &writing(0, 1000, BUSY), out);
    let idle = Window { pressure: BUSY, ..Window::default() };
    let probed: Vec<bool> = (0..300).map(|_| !guard.decide(&idle).writes_unprobed).collect();
    let bouts = probed.chunk_by(|one, next| one == next);
    let lengths: Vec<usize> = bouts.map(<[bool]>::len).collect();
    assert!(probed[0] && lengths[1..5] == [80, 20, 80, 20], "{lengths:?}");
    // A probe that pays, in one of them.
    while guard.decide(&idle).writes_unprobed {}
    let back = |aside: &Aside| aside.writes.is_none();
    assert!(windows_until(&mut guard, &writing(900, 100, BUSY), back) <= 20);
    windows_until(&mut guard, &writing(0, 1000, BUSY), out);
    while !guard.decide(&idle).writes_unprobed {}
    let calm = Window { pressure: CALM, ..Window::default() };
    assert!(windows_until(&mut guard, &calm, back) <= 12);
    assert_eq!(guard.decide(&calm), Aside::default());
}

#[test]
fn what_loses_on_a_fast_backing_is_left_out_with_a_reason() {
    let mut guard = Guard::default();
    let out = |aside: &Aside| matches!(aside.reads, Some(Why::Costs { loses_ns: 400 }));
    assert!(windows_until(&mut guard, &reading(0, 2_000, CALM), out) <= 2);
    for _ in 0..50 {
        assert!(out(&guard.decide(&probing(0, 2_000, CALM))));
    }
    let back = |aside: &Aside| aside.reads.is_none();
    assert!(windows_until(&mut guard, &probing(900, 2_000, CALM), back) <= 20);
}

#[test]
fn the_sooner_it_is_out_again_the_longer_it_stays_but_never_a_second() {
    let mut guard = Guard::default();
    let out = |aside: &Aside| aside.writes.is_some();
    let back = |aside: &Aside| aside.writes.is_none();
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
fn who_asks_for_nothing_is_let_alone() {
    let mut guard = Guard::default();
    let idle = Pressure { waited: 900, wanted: 5 };
    for _ in 0..50 {
        assert_eq!(guard.decide(&reading(0, 100_000, idle)), Aside::default());
        assert_eq!(guard.decide(&Window { pressure: BUSY, ..Window::default() }), Aside::default());
    }
}

#[test]
fn a_cold_cache_over_a_slow_backing_keeps_what_is_read_however_busy_processors_are() {
    for backing_ns in [8_001, SLOW_NS, 500_000, 10_000_000] {
        // Nothing was measured in calm times, and nothing is hit yet.
        let mut guard = Guard::default();
        for _ in 0..200 {
            assert_eq!(guard.decide(&reading(0, backing_ns, BUSY)).reads, None, "{backing_ns} ns");
        }
        assert_eq!(guard.times(), 0);
    }
    let out = |aside: &Aside| aside.reads.is_some();
    assert!(windows_until(&mut Guard::default(), &reading(0, 8_000, BUSY), out) <= 2);
}

#[test]
fn reads_come_back_while_processors_are_busy_once_the_backing_shows_to_be_slow() {
    let mut guard = Guard::default();
    let out = |aside: &Aside| aside.reads.is_some();
    windows_until(&mut guard, &reading(0, FAST_NS, BUSY), out);
    let back = |aside: &Aside| aside.reads.is_none();
    assert!(windows_until(&mut guard, &probing(0, SLOW_NS, BUSY), back) <= 12);
    (0..50).for_each(|_| assert_eq!(guard.decide(&reading(0, SLOW_NS, BUSY)).reads, None));
}

#[test]
fn absorbed_writes_over_a_slow_backing_are_judged_by_the_requests_that_they_spare() {
    // A request of 0.5 ms is 1,250 copies, one of 0.1 ms 250, and one of a fast backing three.
    let cases = [
        (500_000, 1, true),
        (500_000, 0, false),
        (SLOW_NS, 5, true),
        (SLOW_NS, 3, false),
        (FAST_NS, 300, false),
        (FAST_NS, 400, true),
        (0, 5, false),
    ];
    for (backing_write_ns, saved, stays) in cases {
        let mut guard = Guard::default();
        let window = Window { backing_write_ns, ..writing(saved, 1000 - saved, BUSY) };
        (0..20).for_each(|_| _ = guard.decide(&window));
        let aside = guard.aside().writes;
        assert_eq!(aside.is_none(), stays, "{saved} of 1000 saved, {backing_write_ns} ns each");
    }
    // Eight written at a time spare as much as is needed anywhere.
    let window = Window { backing_write_ns: SLOW_NS, ..writing(0, 125, BUSY) };
    let mut guard = Guard::default();
    (0..20).for_each(|_| assert_eq!(guard.decide(&window).writes, None));
}
