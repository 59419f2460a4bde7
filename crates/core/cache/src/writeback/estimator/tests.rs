use super::*;
use alloc::vec;
use alloc::vec::Vec;

/// Drives runs of `blocks` blocks, in a number that the window allows, on a device of `servers`
/// servers that take `service_ns` each, then `block_ns` for every block over one link.
fn drive(
    drain: &Estimator,
    runs: u32,
    blocks: u32,
    servers: usize,
    service_ns: u64,
    block_ns: u64,
) {
    let (mut free, mut link) = (vec![0u64; servers], 0u64);
    let mut flights: Vec<(u64, Begun)> = Vec::new();
    let mut now = 0;
    for _ in 0..runs {
        while !drain.may_begin(now, Foreground::default()) {
            flights.sort_unstable_by_key(|(end, begun)| (*end, begun.ns));
            let (end, begun) = flights.remove(0);
            now = now.max(end);
            drain.end(now, begun, blocks, 64, Foreground::default());
        }
        drain.run_blocks(blocks, Foreground::default());
        link = link.max(now) + block_ns * u64::from(blocks);
        let server = free.iter_mut().min().expect("a server");
        *server = link.max(*server) + service_ns;
        flights.push((*server, drain.begun(now, 0)));
    }
    flights.sort_unstable_by_key(|(end, begun)| (*end, begun.ns));
    for (end, begun) in flights {
        drain.end(end, begun, blocks, 64, Foreground::default());
    }
}

#[test]
fn the_window_finds_the_servers_and_does_not_queue_behind_them() {
    for servers in [1, 3, 8, 32] {
        let drain = Estimator::default();
        drive(&drain, 4000, 1, servers, 44_000, 0);
        let window = drain.window(Foreground::default());
        let most = servers as u32 * 3 + 1;
        assert!((servers as u32..=most).contains(&window), "{window} for {servers}");
        let rate = drain.blocks_per_second.load(Ordering::Relaxed);
        let ideal = servers as u64 * 1_000_000_000 / 44_000;
        assert!(rate * 10 > ideal * 8 && rate <= ideal + ideal / 20, "{rate} of {ideal}");
    }
}

#[test]
fn runs_are_as_long_as_the_device_likes() {
    let drain = Estimator::default();
    let alone = Foreground::default();
    assert_eq!(drain.run_blocks(256, alone), 16, "nothing is known");
    for blocks in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        drive(&drain, 50, blocks, 3, 44_000, 7_900);
    }
    // 44 us, and 7.9 us per block: 64 blocks take 8.6 us each, 256 take 8.1.
    let sizes: Vec<u32> = (0..10).map(|_| drain.run_blocks(256, alone)).collect();
    assert!(sizes.iter().all(|&size| size == 64), "{sizes:?}");
    // Readers wait for 16 at 10.6 us each, unless the buffer is nearly full; longer ones are not
    // tried either.
    let read = Foreground { reads: 1, ..alone };
    let beside = |foreground| (0..200).map(|_| drain.run_blocks(256, foreground)).max();
    assert_eq!(beside(read), Some(16));
    assert_eq!(beside(Foreground { pressed: true, ..read }), Some(256));
    let even = Estimator::default();
    for blocks in [1, 2, 4, 8] {
        drive(&even, 50, blocks, 3, 1_000, 100_000);
    }
    assert_eq!(even.run_blocks(256, alone), 1, "joining gains nothing there");
}

#[test]
fn others_come_first_unless_somebody_waits_for_a_flush() {
    let drain = Estimator::default();
    let of = |foreground| drain.window(foreground);
    assert_eq!(of(Foreground::default()), 4);
    assert_eq!(of(Foreground { reads: 1, ..Foreground::default() }), 2);
    let pressed = Foreground { pressed: true, ..Foreground::default() };
    assert_eq!(of(Foreground { reads: 1, ..pressed }), 3);
    assert_eq!(of(Foreground { reads: 30, ..pressed }), 1);
    assert_eq!(of(Foreground { reads: 22, writers: 10, ..pressed }), 10, "in their places");
    // Beside reads, more and more of them until writers are throttled, and not fewer then.
    let beside = |filled| of(Foreground { reads: 30, filled, ..Foreground::default() });
    assert_eq!([0, 256, 512, 768, 1024].map(beside), [2, 2, 2, 3, 4]);
    assert_eq!(of(Foreground { reads: 30, filled: 1024, ..pressed }), 4);
    assert_eq!(of(Foreground { filled: 1024, ..Foreground::default() }), 4, "alone");
    assert_eq!(of(Foreground { changes: true, pressed: true, ..Foreground::default() }), 1);
    assert_eq!(of(Foreground { changes: true, flush: true, ..Foreground::default() }), 4);
}

#[test]
fn a_device_that_becomes_slow_is_noticed() {
    let drain = Estimator::default();
    drive(&drain, 2000, 1, 3, 44_000, 0);
    let fast = drain.blocks_per_second.load(Ordering::Relaxed);
    drive(&drain, 2000, 1, 3, 176_000, 0);
    let slow = drain.blocks_per_second.load(Ordering::Relaxed);
    assert!(slow * 3 < fast, "{slow} after {fast}");
    assert!(drain.least_of(1).expect("measured") > 100_000);
}

#[test]
fn what_is_known_of_runs_that_are_not_sent_any_more_does_not_overflow() {
    let drain = Estimator::default();
    for blocks in [128, 256] {
        drive(&drain, 10, blocks, 1, 100_000, 0);
    }
    // From time to time the backing is 100,000 times slower, with runs of one block only.
    for _ in 0..8 {
        drive(&drain, 1000, 1, 1, 1_000, 0);
        drive(&drain, 1000, 1, 1, 100_000_000, 0);
    }
    assert!(drain.least_of(200).expect("measured once") >= 100_000);
    drive(&drain, 10, 200, 1, 100_000, 0);
}

#[test]
fn the_time_of_zeros_alone_is_not_counted() {
    const SECOND_NS: u64 = 1_000_000_000;
    let drain = Estimator::default();
    assert!(drain.may_begin(0, Foreground::default()), "zeros");
    assert!(drain.may_begin(10 * SECOND_NS, Foreground::default()), "blocks");
    drain.blocks_begin(10 * SECOND_NS, 1);
    assert!(drain.may_begin(10 * SECOND_NS, Foreground::default()), "more of them");
    drain.blocks_begin(10 * SECOND_NS + SECOND_NS / 2, 1);
    for _ in 0..2 {
        let begun = Begun { ns: 10 * SECOND_NS, depth: 1 };
        drain.end(11 * SECOND_NS, begun, 128, 64, Foreground::default());
    }
    assert_eq!(drain.blocks_per_second.load(Ordering::Relaxed), 256);
    drain.end_zeros(20 * SECOND_NS);
    assert_eq!((drain.in_flight(), drain.sample_ns.load(Ordering::Relaxed)), (0, 0));
}

const QUIET: Foreground = Foreground {
    reads: 0,
    recent_reads: false,
    changes: false,
    flush: false,
    filled: 0,
    pressed: false,
    throttled: false,
    writers: 0,
    writer_blocks: 0,
};

/// Makes an estimator with these minimum times in nanoseconds for runs of these numbers of blocks.
fn knowing(least: &[(u32, u64)]) -> Estimator {
    let drain = Estimator::default();
    for (blocks, ns) in least {
        drain.least_ns[class_of(*blocks)].store(*ns, Ordering::Relaxed);
    }
    // Neither the first run nor one that is sent alone.
    drain.runs.store(1, Ordering::Relaxed);
    drain
}

/// Returns the window in 256ths after a run of one block took `ns` with `in_flight` runs in flight,
/// where the window was four.
fn window_after(ns: u64, in_flight: u32, most: u32) -> u32 {
    let drain = knowing(&[(1, 1000)]);
    drain.in_flight.store(in_flight, Ordering::Relaxed);
    drain.learn(ns, 1, most);
    drain.window.load(Ordering::Relaxed)
}

#[test]
fn classes_are_powers_of_two_and_the_last_one_has_no_end() {
    let classes = [0, 1, 2, 3, 4, 7, 8, 2047, 2048, 4096, u32::MAX].map(class_of);
    assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 10, 11, 11, 11]);
}

#[test]
fn a_gauge_begins_with_its_first_sample_and_goes_a_quarter_of_the_way_to_each_other() {
    let drain = Estimator::default();
    for (sample, gauge) in [(1000, 1000), (2000, 1250), (10, 940)] {
        drain.flushed(sample);
        assert_eq!(drain.flush_ns.load(Ordering::Relaxed), gauge);
    }
    assert_eq!(drain.pace(), Pace::new(0, 940));
    drain.blocks_per_second.store(77, Ordering::Relaxed);
    assert_eq!(drain.pace(), Pace::new(77, 940));
    let mut counters = Counters::default();
    drain.count(&mut counters);
    assert_eq!((counters.drain_window, counters.drain_blocks_per_second), (4, 77));
}

#[test]
fn a_run_is_alone_from_its_beginning_to_the_next_one() {
    let drain = Estimator::default();
    let alone = || drain.alone.load(Ordering::Relaxed);
    let busy_since = || drain.busy_since_ns.load(Ordering::Relaxed);
    drain.alone.store(WANTED, Ordering::Relaxed);
    assert!(drain.may_begin(5, QUIET));
    assert_eq!((alone(), busy_since(), drain.in_flight()), (ALONE, 5, 1));
    assert!(!drain.may_begin(6, QUIET), "nothing may begin beside it");
    assert_eq!((alone(), busy_since(), drain.in_flight()), (ALONE, 5, 1));
    // But a run under pressure counts, and then the other was not alone.
    assert!(drain.may_begin(7, Foreground { pressed: true, ..QUIET }));
    assert_eq!((alone(), busy_since(), drain.in_flight()), (WANTED, 5, 2));
    drain.cancel(9);
    assert_eq!((alone(), busy_since(), drain.in_flight()), (0, 9, 1));
    assert_eq!(drain.sample_ns.load(Ordering::Relaxed), 4);
    drain.alone.store(WANTED, Ordering::Relaxed);
    assert!(!drain.may_begin(10, QUIET), "it waits until nothing is under way");
    assert_eq!((alone(), drain.in_flight()), (WANTED, 1));
    drain.end_zeros(20);
    assert_eq!((alone(), busy_since(), drain.in_flight()), (0, 20, 0));
    assert_eq!(drain.sample_ns.load(Ordering::Relaxed), 4, "zeros tell nothing of blocks");
}

#[test]
fn no_writer_and_no_flush_waits_for_a_run_that_is_sent_alone() {
    let pressed = Foreground { pressed: true, ..QUIET };
    let writer = Foreground { writers: 1, ..QUIET };
    let flush = Foreground { flush: true, ..QUIET };
    for foreground in [pressed, writer, flush] {
        let drain = Estimator::default();
        drain.alone.store(WANTED, Ordering::Relaxed);
        for _ in 0..2 {
            assert!(drain.may_begin(5, foreground));
            assert_eq!(drain.alone.load(Ordering::Relaxed), WANTED, "beside {foreground:?}");
        }
    }
    // Beside changes only one run is in flight: it cannot be more alone than that.
    let drain = Estimator::default();
    drain.alone.store(WANTED, Ordering::Relaxed);
    assert!(drain.may_begin(5, Foreground { changes: true, ..pressed }));
    assert_eq!(drain.alone.load(Ordering::Relaxed), ALONE);
}

#[test]
fn a_request_is_recent_for_eight_times_what_the_backing_takes() {
    let drain = knowing(&[(1, 100)]);
    assert!(!drain.has_just_written_through(0), "there was none");
    drain.foreground_wrote(0);
    assert!(drain.has_just_written_through(800) && !drain.has_just_written_through(801));
    drain.foreground_wrote(1000);
    assert!(drain.has_just_written_through(1799) && !drain.has_just_written_through(1800));
    assert!(drain.has_just_written_through(900), "another lane may look a little earlier");
    let unknown = Estimator::default();
    unknown.foreground_wrote(1000);
    assert!(!unknown.has_just_written_through(1000));
    assert!(!drain.has_just_read(0), "there was none");
    drain.foreground_read(1000);
    let recent_ns = 1000 + READ_RECENT_NS;
    assert!(drain.has_just_read(recent_ns - 1) && !drain.has_just_read(recent_ns));
    // Longer where the backing takes longer, whatever the length of its runs.
    let slow = knowing(&[(16, READ_RECENT_NS)]);
    slow.foreground_read(1000);
    assert!(slow.has_just_read(JUST * READ_RECENT_NS));
}

#[test]
fn what_others_are_served_beside_runs_counts_as_blocks_of_theirs() {
    let drain = Estimator::default();
    let blocks = || drain.sample_blocks.load(Ordering::Relaxed);
    drain.foreground_read(1);
    drain.foreground_wrote(1);
    assert_eq!(blocks(), 0, "nothing is under way");
    assert!(drain.may_begin(1, QUIET));
    drain.foreground_read(1);
    drain.foreground_wrote(1);
    assert_eq!(blocks(), 2);
}

#[test]
fn a_rate_is_measured_from_256_blocks_and_the_time_they_took() {
    const SECOND_NS: u64 = 1_000_000_000;
    let rate_of = |blocks: u32, ns: u64| {
        let drain = Estimator::default();
        assert!(drain.may_begin(7, QUIET));
        let is_measured = drain.end(7 + ns, Begun { ns: 7, depth: 1 }, blocks, 64, QUIET);
        let left = (&drain.sample_blocks, &drain.sample_ns);
        let left = (left.0.load(Ordering::Relaxed), left.1.load(Ordering::Relaxed));
        assert_eq!(left, if is_measured { (0, 0) } else { (blocks.into(), ns) });
        is_measured.then(|| drain.blocks_per_second.load(Ordering::Relaxed))
    };
    assert_eq!(rate_of(255, SECOND_NS), None);
    assert_eq!(rate_of(256, SECOND_NS), Some(256));
    assert_eq!(rate_of(300, SECOND_NS / 2), Some(600));
    assert_eq!(rate_of(256, 0), None, "no time has passed");
    // The rate is never so small that it counts as not measured, nor unlimited.
    assert_eq!(rate_of(256, 300 * SECOND_NS), Some(1));
    assert_eq!(rate_of(1 << 30, 1), Some(1 << 40));
}

#[test]
fn the_window_grows_by_a_run_a_round_while_runs_are_quick_and_all_of_it_is_used() {
    const FOUR: u32 = 4 * ONE;
    // A quarter above the minimum time is still fast.
    assert_eq!([1000, 1249, 1250].map(|ns| window_after(ns, 4, 64)), [FOUR + 64, FOUR + 64, FOUR]);
    assert_eq!(window_after(1000, 3, 64), FOUR, "not all of it was used");
    assert_eq!(window_after(1000, 4, 4), FOUR, "it may not");
    assert_eq!(window_after(1000, 4, 2), FOUR, "what may be less does not shrink it");
    // Twice the minimum time is slow.
    assert_eq!([2000, 2001].map(|ns| window_after(ns, 4, 64)), [FOUR, FOUR - 64]);
    assert_eq!(window_after(2001, 1, 0), FOUR - 64, "whether or not all of it was used");
    let drain = knowing(&[(1, 1000)]);
    drain.window.store(ONE + 1, Ordering::Relaxed);
    drain.learn(5000, 1, 64);
    assert_eq!(drain.window.load(Ordering::Relaxed), ONE, "a run may always be under way");
}

#[test]
fn the_window_does_not_grow_while_others_are_served() {
    let window = |foreground| {
        let drain = knowing(&[(1, 1000)]);
        drain.in_flight.store(4, Ordering::Relaxed);
        drain.end(1000, Begun { ns: 0, depth: 1 }, 1, 64, foreground);
        drain.window.load(Ordering::Relaxed)
    };
    assert_eq!(window(QUIET), 4 * ONE + 64);
    assert_eq!(window(Foreground { reads: 1, ..QUIET }), 4 * ONE);
    assert_eq!(window(Foreground { changes: true, ..QUIET }), 4 * ONE);
}

#[test]
fn one_run_in_256_is_to_be_sent_alone() {
    let wanted = |runs| {
        let drain = knowing(&[]);
        drain.runs.store(runs, Ordering::Relaxed);
        drain.learn(1000, 1, 64);
        drain.alone.load(Ordering::Relaxed)
    };
    assert_eq!([0, 1, 255, 256, 257].map(wanted), [WANTED, 0, 0, WANTED, 0]);
}

#[test]
fn a_run_that_was_sent_alone_and_was_slow_makes_all_least_times_longer() {
    let least_after = |alone, ns, most| {
        let drain = knowing(&[(1, 1000), (8, 4000)]);
        drain.alone.store(alone, Ordering::Relaxed);
        drain.learn(ns, 1, most);
        assert_eq!(drain.alone.load(Ordering::Relaxed), 0);
        [0, 1, 3].map(|class: usize| drain.least_ns[class].load(Ordering::Relaxed))
    };
    assert_eq!(least_after(ALONE, 1500, 64), [1500, 0, 6000]);
    assert_eq!(least_after(WANTED, 1500, 64), [1000, 0, 4000], "it was not alone");
    assert_eq!(least_after(ALONE, 1000, 64), [1000, 0, 4000], "it was not slow");
    assert_eq!(least_after(ALONE, 800, 64), [800, 0, 4000], "it was quicker than any");
    // While others are served, twice the time is expected.
    assert_eq!(least_after(ALONE, 2000, 0), [1000, 0, 4000]);
    assert_eq!(least_after(ALONE, 2004, 0), [2003, 0, 8015]);
}

#[test]
fn a_quick_run_of_late_keeps_what_is_known_though_the_one_that_was_alone_is_slow() {
    let drain = knowing(&[(1, 1000)]);
    let part = || drain.part.load(Ordering::Relaxed);
    drain.raise_minimum_times(256);
    assert_eq!((drain.least_of(1), part()), (Some(1000), u32::MAX), "there was no run");
    drain.learn(1 << 40, 1, 64);
    assert_eq!(part(), u32::MAX - 1, "never what stands for none");
    drain.learn(1100, 1, 64);
    assert_eq!(part(), 281);
    drain.learn(1000, 1, 64);
    drain.alone.store(ALONE, Ordering::Relaxed);
    drain.learn(3000, 1, 64);
    assert_eq!((drain.least_of(1), part()), (Some(1000), u32::MAX));
    // The next one is judged by the runs since then.
    drain.alone.store(ALONE, Ordering::Relaxed);
    drain.learn(3000, 1, 64);
    assert_eq!(drain.least_of(1), Some(3000));
}

#[test]
fn what_is_not_known_of_a_size_follows_from_its_neighbours() {
    assert_eq!(Estimator::default().least_of(1), None);
    let drain = knowing(&[(1, 300), (4, 1000), (8, 1400)]);
    assert_eq!([0, 1, 4, 8].map(|blocks| drain.least_of(blocks)), [300, 300, 1000, 1400].map(Some));
    // Between two classes the time is interpolated.
    assert_eq!([5, 6, 7].map(|blocks| drain.least_of(blocks)), [1100, 1200, 1300].map(Some));
    // A larger one without a measurement takes as long as two smaller ones.
    assert_eq!([12, 15].map(|blocks| drain.least_of(blocks)), [2100, 2625].map(Some));
    // As if merging saved nothing: the next smaller known class counts.
    assert_eq!([2, 3].map(|blocks| drain.least_of(blocks)), [600, 900].map(Some));
    assert_eq!(
        [16, 17, 4096].map(|blocks| drain.least_of(blocks)),
        [2800, 2975, 716_800].map(Some)
    );
    // A run takes at most as long as a longer one: it was measured in a queue.
    let queued = knowing(&[(1, 900), (4, 700), (16, 800)]);
    let times = [1, 2, 4, 6, 8, 16].map(|blocks| queued.least_of(blocks));
    assert_eq!(times, [700, 700, 700, 800, 800, 800].map(Some));
    assert_eq!(knowing(&[(4, 1000)]).least_of(2), None, "none is smaller");
    assert_eq!(knowing(&[(2048, 1000)]).least_of(4096), Some(2000), "the last class has no end");
}

#[test]
fn what_a_block_takes_is_measured_by_the_shortest_runs_that_were_sent() {
    assert_eq!(Estimator::default().block_ns(), None);
    assert_eq!(knowing(&[(4, 1000), (8, 1400)]).block_ns(), Some(250));
    assert_eq!(knowing(&[(2048, 1000)]).block_ns(), Some(1), "it is known");
    assert_eq!(knowing(&[(1, 700), (8, 1400)]).block_ns(), Some(700));
}

#[test]
fn a_run_is_the_shortest_that_is_nearly_as_efficient_as_any() {
    let read = Foreground { reads: 1, ..QUIET };
    let length = |two_ns, foreground| {
        let drain = knowing(&[(1, 9000), (2, two_ns), (4, 4000), (8, 9000)]);
        drain.run_blocks(64, foreground)
    };
    // Four take 1000 ns each. A tenth worse is nearly as good; if readers wait, a half worse.
    assert_eq!([2000, 2200, 2201].map(|ns| length(ns, QUIET)), [2, 2, 4]);
    assert_eq!([2201, 3000, 3001].map(|ns| length(ns, read)), [2, 2, 4]);
    let pressed = Foreground { pressed: true, ..read };
    assert_eq!([2200, 2201].map(|ns| length(ns, pressed)), [2, 4]);
    // The largest known class, or the only one, may be best because no larger one was tried.
    assert_eq!(knowing(&[(2, 2000), (4, 3000)]).run_blocks(64, QUIET), 16);
    assert_eq!(knowing(&[(1, 1000)]).run_blocks(64, QUIET), 16);
    assert_eq!(busy(&[(16, 1000)]).run_blocks(64, QUIET), 32);
    assert_eq!(busy(&[(4, 4000), (8, 9000)]).run_blocks(3, QUIET), 3, "no more than it may be");
}

/// An estimator with these minimum times, with two runs in flight.
fn busy(least: &[(u32, u64)]) -> Estimator {
    let drain = knowing(least);
    drain.in_flight.store(2, Ordering::Relaxed);
    drain
}

#[test]
fn the_usual_time_is_known_once_the_rate_is_measured() {
    let drain = Estimator::default();
    assert_eq!(drain.usual_ns(8), None);
    drain.blocks_per_second.store(4_000_000, Ordering::Relaxed);
    assert_eq!(
        [0, 1, 8, u32::MAX].map(|blocks| drain.usual_ns(blocks)),
        [0, 250, 2000, 1_073_741_823_750].map(Some)
    );
}

#[test]
fn the_first_runs_are_short_and_shorter_ones_are_tried_on_an_idle_device() {
    let new = Estimator::default();
    assert_eq!([0; 4].map(|_| new.run_blocks(256, QUIET)), [16; 4], "nothing is known");
    // Half the length of the best one, until that is known; and only without others in flight.
    assert_eq!(knowing(&[(64, 64_000), (256, 250_000)]).run_blocks(256, QUIET), 32);
    assert_eq!(busy(&[(64, 64_000), (256, 250_000)]).run_blocks(256, QUIET), 64);
    // Twice the length of the best one, if that is the longest that is known.
    assert_eq!(knowing(&[(32, 60_000), (64, 64_000)]).run_blocks(256, QUIET), 128);
}

#[test]
fn a_writer_that_may_soon_wait_does_not_wait_for_long_runs() {
    let known = [(16, 20_000), (256, 256_000)];
    let near = |filled| Foreground { filled, ..QUIET };
    assert_eq!([511, 512].map(|filled| busy(&known).run_blocks(256, near(filled))), [256, 16]);
    let changes = Foreground { changes: true, ..QUIET };
    assert_eq!(busy(&known).run_blocks(256, changes), 16, "a write-through is in flight");
    // A longer run is tried until one is known.
    let pressed = Foreground { pressed: true, ..QUIET };
    assert_eq!(busy(&known[..1]).run_blocks(256, pressed), 32);
    assert_eq!(busy(&known).run_blocks(256, pressed), 16);
    // An epoch is being written back: the open one is nearly empty, but its writers wait.
    let throttled = Foreground { throttled: true, ..QUIET };
    let lengths = (0..200).map(|_| busy(&known).run_blocks(256, throttled));
    assert_eq!(lengths.max(), Some(16));
    let read = Foreground { reads: 1, pressed: true, ..throttled };
    assert_eq!(busy(&known).run_blocks(256, read), 256, "beside reads a full buffer counts more");
    // A run is no shorter than the change that waits; but a read behind it counts more.
    let large = Foreground { writer_blocks: 40, ..pressed };
    assert_eq!(busy(&known).run_blocks(256, large), 40);
    assert_eq!(busy(&known).run_blocks(256, Foreground { reads: 1, pressed: false, ..large }), 16);
    // A client that waits for a flush waits for all of them.
    assert_eq!(busy(&known).run_blocks(256, Foreground { flush: true, ..pressed }), 256);
    // Of two runs each hides a part of the other's time.
    let drain = busy(&known);
    drain.window.store(ONE, Ordering::Relaxed);
    assert_eq!([QUIET, pressed].map(|foreground| drain.window(foreground)), [1, 2]);
}

#[test]
fn throttled_writers_have_the_fastest_window_unless_others_have_been_served() {
    let drain = knowing(&[(1, 43_000)]);
    drain.window.store(ONE, Ordering::Relaxed);
    let pressed = Foreground { pressed: true, ..QUIET };
    let end = |depth, ns, foreground| {
        drain.in_flight.store(1, Ordering::Relaxed);
        drain.end(ns, Begun { ns: 0, depth }, 1, 64, foreground);
        drain.window.store(ONE, Ordering::Relaxed);
        drain.run_share_ns.store(ns / u64::from(depth), Ordering::Relaxed);
    };
    let served = [
        Foreground { reads: 1, ..pressed },
        Foreground { recent_reads: true, ..pressed },
        Foreground { changes: true, ..pressed },
    ];
    let end = |depth, ns, foreground| (0..16).for_each(|_| end(depth, ns, foreground));
    for foreground in served {
        end(4, 43_000, foreground);
    }
    assert_eq!(drain.window(pressed), 2, "others may have been the reason");
    for (depth, ns) in [(1, 43_000), (2, 66_000), (4, 68_000), (8, 108_000), (16, 210_000)] {
        assert_eq!(drain.window(pressed), depth.max(2));
        end(depth, ns, pressed);
    }
    assert_eq!(drain.window(pressed), 8);
    assert_eq!(drain.window(QUIET), 1);
    assert_eq!(served.map(|foreground| drain.window(foreground)), [1, 2, 1]);
    // A read waits no longer for them than for the runs of a flush, but two may be in flight.
    let with_share = |ns| {
        drain.run_share_ns.store(ns, Ordering::Relaxed);
        drain.window(pressed)
    };
    assert_eq!([100_000, 1_000_000].map(with_share), [4, 2]);
}

#[test]
fn runs_beside_zeros_and_of_unknown_lengths_are_no_measure_of_depths() {
    let drain = knowing(&[(1, 43_000)]);
    drain.window.store(ONE, Ordering::Relaxed);
    let end = |begun: Begun, blocks| {
        drain.in_flight.store(1, Ordering::Relaxed);
        drain.end(43_000, begun, blocks, 64, QUIET);
    };
    drain.in_flight.store(4, Ordering::Relaxed);
    assert_eq!((drain.begun(7, 0).depth, drain.begun(7, 1).depth), (4, 0));
    (0..16).for_each(|_| end(Begun { ns: 0, depth: 0 }, 1));
    assert_eq!(drain.depths.fastest(128), 1);
    // Of nine runs of a new length all but the first count, and eight are a measurement.
    let unknown = Estimator::default();
    let end = || {
        unknown.in_flight.store(1, Ordering::Relaxed);
        unknown.end(43_000, Begun { ns: 0, depth: 4 }, 16, 64, QUIET);
        unknown.depths.fastest(128)
    };
    assert!((1..=8).all(|_| end() == 1));
    assert_eq!(end(), 8);
}

#[test]
fn beside_write_throughs_a_run_may_take_twice_the_time_for_a_block() {
    let length = |eight_ns, foreground| {
        let drain = busy(&[(8, eight_ns), (16, 16_000), (32, 40_000)]);
        drain.run_blocks(64, foreground)
    };
    let changes = Foreground { changes: true, writer_blocks: 24, ..QUIET };
    // A run of 8 blocks takes at most as long as one of 16, whatever was measured in a queue.
    assert_eq!([12_000, 50_000].map(|ns| length(ns, changes)), [8, 8]);
    let pressed = Foreground { pressed: true, ..QUIET };
    assert_eq!([12_000, 12_001].map(|ns| length(ns, pressed)), [8, 16]);
    // If a writer waits, the run has its place.
    assert_eq!(length(12_000, Foreground { writers: 1, ..changes }), 24);
    assert_eq!(length(12_000, Foreground { writer_blocks: 24, ..pressed }), 24);
}

#[test]
fn a_flush_may_queue_runs_for_half_a_millisecond() {
    let flush = Foreground { flush: true, ..QUIET };
    let window = |share_ns, foreground| {
        let drain = Estimator::default();
        drain.window.store(ONE, Ordering::Relaxed);
        drain.run_share_ns.store(share_ns, Ordering::Relaxed);
        drain.window(foreground)
    };
    // Not measured, short runs, long ones.
    assert_eq!([0, 12_500, 400_000].map(|share_ns| window(share_ns, flush)), [4, 40, 4]);
    assert_eq!(window(12_500, Foreground { reads: 1, ..flush }), 4, "a read waits");
    assert_eq!(window(12_500, Foreground { changes: true, ..flush }), 4);
    assert_eq!(window(12_500, QUIET), 1);
}

#[test]
fn one_run_in_64_is_as_long_as_it_can_be_unless_readers_wait() {
    let lengths = |foreground| {
        let drain = knowing(&[(1, 1000), (8, 8000)]);
        let long = (1..=128).filter(|_| drain.run_blocks(64, foreground) == 64).count();
        assert_eq!(drain.runs.load(Ordering::Relaxed), 129);
        long
    };
    let read = Foreground { reads: 1, ..QUIET };
    assert_eq!((lengths(QUIET), lengths(read)), (2, 0));
    assert_eq!(lengths(Foreground { pressed: true, ..read }), 2);
    assert_eq!(lengths(Foreground { pressed: true, ..QUIET }), 0, "nor if writers do");
    // The 64th and the 128th.
    let drain = knowing(&[(1, 1000), (8, 8000)]);
    drain.runs.store(62, Ordering::Relaxed);
    assert_eq!([0; 3].map(|_| drain.run_blocks(64, QUIET)), [1, 64, 1]);
}
