//! A recorded trace in virtual time, at its own pace and faster: requests are sent when they are
//! due, independent of the answers. The drive, the cache and the prices are those of the rows.
//!
//! If the bare drive keeps up, every request has been answered when the last is due, and only the
//! remaining writeback follows (C13 bounds it). If it does not, the writeback is included.

use super::device::{Speed, drive};
use super::load::{SPAN, attach, drain};
use super::report::{at_least, at_most, print_spreads};
use super::rows::{GIB, spec};
use crate::latencies::Spread;
use anyhow::{Result, ensure};
use block::Stack;
use cache::BLOCK_SECTORS;
use lane::{Prices, World};
use load::{End, Replay, RunOptions, Running, Source};
use trace::Trace;

/// Rows: speed-up of the trace.
const FASTER: [u64; 3] = [1, 2, 4];
/// The recording is a tenth of a second, so that a run takes some seconds.
const REPETITIONS: u64 = 64;
/// Maximum number of requests under way, as from two deep queues; beyond that the next ones are
/// late.
const UNDER_WAY: u32 = 256;

/// The result of a run.
struct Found {
    /// Time until the last answer, and until all data was durable, in nanoseconds.
    answered_ns: u64,
    took_ns: u64,
    /// Latencies, from when requests were due until they were answered.
    read: Spread,
    write: Spread,
}

/// Runs a source on a fresh drive, behind a cache or bare.
fn replay(source: impl Source + 'static, prices: Prices, is_cached: bool) -> Result<Found> {
    let mut world = World::timed(if is_cached { prices } else { Prices::default() });
    let lane = world.lane();
    let below = drive(&lane, SPAN * u64::from(BLOCK_SECTORS), Speed::Steady);
    let spec = is_cached.then(|| spec(GIB));
    let cache = spec.map(|spec| attach(&lane, &spec, below.clone())).transpose()?;
    let stack = cache.clone().map_or(below, |cache| Stack::new(&lane, cache));
    let running = Running::of(&stack, source, RunOptions::depth(UNDER_WAY))?;
    world.run_until(|| running.is_done());
    let record = running.record();
    ensure!(record.end == End::Limit, "the replay ended with {:?}", record.end);
    drain(&mut world, &lane, &stack, cache.as_ref());
    Ok(Found {
        answered_ns: record.end_ns,
        took_ns: lane.now(),
        read: Spread::of(&record.reads),
        write: Spread::of(&record.writes),
    })
}

/// Returns the names of the rows.
pub(super) fn names() -> Vec<String> {
    FASTER.iter().map(|times| format!("replay-{times}x")).collect()
}

/// Replays the trace at the speed-ups of the `wanted` rows. Returns the rows that missed.
///
/// # Errors
/// If the trace is too large for the drive.
pub(super) fn run(trace: Trace, prices: Prices, wanted: &[String]) -> Result<Vec<String>> {
    let recorded = Replay::new(trace, SPAN * 4096, REPETITIONS)?;
    let mut missed = Vec::new();
    for (times, name) in FASTER.into_iter().zip(names()) {
        if !wanted.contains(&name) {
            continue;
        }
        let source = recorded.clone().faster(times);
        let bare = replay(source.clone(), prices, false)?;
        let cached = replay(source.clone(), prices, true)?;
        if !print_result(&name, &source, &cached, &bare) {
            missed.push(name);
        }
    }
    Ok(missed)
}

/// Prints a row. True: it reached its targets.
fn print_result(name: &str, source: &Replay, cached: &Found, bare: &Found) -> bool {
    let due_ns = source.last_due_ns();
    println!(
        "\n{name}: {} requests, due within {:.2} s; answered within {:.3} s, bare {:.3} s; durable {:.3} s, \
         bare {:.3} s",
        source.steps(),
        due_ns as f64 / 1e9,
        cached.answered_ns as f64 / 1e9,
        bare.answered_ns as f64 / 1e9,
        cached.took_ns as f64 / 1e9,
        bare.took_ns as f64 / 1e9,
    );
    let ratio = |cached: u64, bare: u64| bare as f64 / cached.max(1) as f64;
    let mut reached = at_least("answered", ratio(cached.answered_ns, bare.answered_ns), 1.0);
    let durable = ratio(cached.took_ns, bare.took_ns);
    if bare.answered_ns > due_ns + due_ns / 20 {
        reached &= at_least("answered and durable", durable, 1.0);
    } else {
        println!("  answered and durable {durable:.3} (the bare drive keeps up)");
        let share = |cached: &Spread, bare: &Spread| ratio(bare.quantiles[2], cached.quantiles[2]);
        let write = share(&cached.write, &bare.write);
        reached &= at_most("p99.9 of writes against bare's", write, 1.0);
        let read = share(&cached.read, &bare.read);
        reached &= at_most("p99.9 of reads against bare's", read, 1.0);
    }
    println!("  from when they were due until they were answered:");
    print_spreads([&cached.write, &bare.write], [&cached.read, &bare.read]);
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns writes of a block each, `apart_ns` apart.
    fn writes(apart_ns: u64) -> Replay {
        let line = |number: u64| {
            let (time_ns, sector) = (number * apart_ns, number * 7919 % 4096 * 8);
            format!("{time_ns} 0 {sector} 8 0\n")
        };
        let text: String = (0..4000).map(line).collect();
        let trace = Trace::parse(text.as_bytes()).expect("a trace");
        Replay::new(trace, SPAN * 4096, 1).expect("room")
    }

    #[test]
    fn a_drive_keeps_up_or_falls_behind_and_lateness_is_from_when_it_was_due() {
        let prices = Prices::default();
        let slow = replay(writes(100_000), prices, false).expect("nothing is asked");
        assert_eq!((slow.write.quantiles[0], slow.write.max), (43_877, 43_877));
        assert_eq!(slow.answered_ns, 3999 * 100_000 + 43_877);
        // A write takes 15 us of the drive, and one is due every 5.
        let fast = replay(writes(5000), prices, false).expect("nothing is asked");
        assert!((4000 * 15_000..4010 * 15_000).contains(&fast.answered_ns));
        assert!(fast.write.max > 3900 * 10_000);
        let cached = replay(writes(5000), prices, true).expect("nothing is asked");
        assert!(cached.answered_ns < fast.answered_ns / 2, "the buffer takes it as it comes");
        assert!(cached.took_ns > cached.answered_ns, "and writes it out then");
    }
}
