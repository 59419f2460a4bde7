//! The result of a row, in words.

use super::Bare;
use super::device::{FLUSH_NS, Speed};
use super::ideal::Ideal;
use super::load::{Batch, Found, SECOND, Until};
use super::rows::{Row, Target};
use crate::latencies::Spread;
use crate::sides::verdict;
use anyhow::Result;
use cache::Counters;

/// Maximum time of a write, or of writes with their flush, relative to the bare drive.
const CALM: f64 = 1.1;

/// Prints a row. True: it reached all its targets.
pub(crate) fn print(row: &Row, cached: &Found, bare: &mut Bare) -> Result<bool> {
    let rate = bare.rate;
    let single =
        [bare.rate_at(row.load.depth, Speed::Steady)?, bare.rate_at(row.load.depth, Speed::Slow)?];
    let alone = bare.run(row.load, row.speed)?;
    println!(
        "\n{}: {:.1} K a second, bare {:.1} K, ratio {:.3}; answered {:.1} K, ratio {:.3}",
        row.name,
        cached.rate() / 1e3,
        alone.rate() / 1e3,
        cached.rate() / alone.rate(),
        cached.rate_answered() / 1e3,
        cached.rate_answered() / alone.rate_answered(),
    );
    let mut reached = true;
    for target in &row.targets {
        reached &= match *target {
            Target::OfIdeal(least, ideal) => of_ideal(row, cached, ideal, rate, least),
            Target::Faster(least) => at_least("rate", cached.rate() / alone.rate(), least),
            Target::Sooner(least) => {
                let ratio = alone.answered_ns as f64 / cached.answered_ns as f64;
                at_least("times sooner answered", ratio, least)
            }
            Target::Calm => calm(&cached.write, &alone.write),
            Target::Debt => debt(&cached.batches, single, row.speed),
            Target::Saved(least) => {
                let written = cached.counters.map_or(0, reached_drive);
                at_least("saved", 1.0 - written as f64 / cached.writes.max(1) as f64, least)
            }
        };
    }
    print_latencies(cached, alone);
    if let Some(counters) = &cached.counters {
        print_counters(counters, cached);
    }
    Ok(reached)
}

/// Returns the blocks that reached the drive (for loads of single blocks).
fn reached_drive(counters: Counters) -> u64 {
    counters.blocks_written + counters.writes_through
}

/// Rounds to the printed value, which is the one that counts: three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

pub(super) fn at_least(what: &str, value: f64, least: f64) -> bool {
    let value = rounded(value);
    println!("  {what} {value:.3}  target at least {least}: {}", verdict(value >= least));
    value >= least
}

pub(super) fn at_most(what: &str, value: f64, most: f64) -> bool {
    let value = rounded(value);
    println!("  {what} {value:.3}  target at most {most}: {}", verdict(value <= most));
    value <= most
}

fn of_ideal(row: &Row, cached: &Found, ideal: Ideal, rate: f64, least: f64) -> bool {
    let most = ideal.rate(rate);
    if let (None, None, Until::Time(ns)) = (ideal.run_ns, ideal.period_ns, row.load.until) {
        let ends = Ideal { run_ns: Some(ns), ..ideal }.rate(rate);
        println!(
            "  (filled at first and drained in the end, single blocks could come to {:.1} K)",
            ends / 1e3
        );
    }
    at_least(&format!("of the ideal {:.1} K a second:", most / 1e3), cached.rate() / most, least)
}

fn calm(cached: &Spread, bare: &Spread) -> bool {
    let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    let worst = at_most("worst write against bare's", ratio(cached.max, bare.max), CALM);
    let share = ratio(cached.quantiles[3], bare.quantiles[3]);
    at_most("p99.99 of writes against bare's", share, 1.0) && worst
}

/// Compares the worst of all batches with the computed time of the bare drive.
fn debt(batches: &[Batch], rates: [f64; 2], speed: Speed) -> bool {
    let ratio = |batch: &&Batch| batch.took_ns as f64 / bare_ns(batch, rates, speed);
    let Some(worst) = batches.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))) else {
        println!("  no flush has ended: MISSED");
        return false;
    };
    println!(
        "  of {} batches the worst: {} writes and their flush, from {:.2} s on, took {:.1} ms, \
         bare {:.1} ms",
        batches.len(),
        worst.writes,
        worst.began_ns as f64 / 1e9,
        worst.took_ns as f64 / 1e6,
        bare_ns(worst, rates, speed) / 1e6
    );
    at_most("writes plus flush against bare's", ratio(&worst), CALM)
}

/// Returns the bare drive's time for the same number of writes and a flush, begun at the same
/// moment: at its rate at this depth, in parts where its speed changes.
fn bare_ns(batch: &Batch, rates: [f64; 2], speed: Speed) -> f64 {
    let mut now = batch.began_ns as f64;
    let mut left = batch.writes as f64;
    loop {
        let factor = speed.factor(now as u64);
        let rate = if factor > 1 { rates[1] } else { rates[0] } / SECOND as f64;
        let end = now + left / rate;
        match speed.changes_after(now as u64) {
            Some(change) if (change as f64) < end => {
                left -= (change as f64 - now) * rate;
                now = change as f64;
            }
            _ => {
                let flush = FLUSH_NS * speed.factor(end as u64);
                return end + flush as f64 - batch.began_ns as f64;
            }
        }
    }
}

fn print_latencies(cached: &Found, bare: &Found) {
    print_spreads([&cached.write, &bare.write], [&cached.read, &bare.read]);
}

/// Prints the latencies of writes and reads, behind a cache and bare.
pub(super) fn print_spreads(writes: [&Spread; 2], reads: [&Spread; 2]) {
    println!("  us           p50       p99     p99.9    p99.99       max");
    let line = |what: &str, spread: &Spread| {
        let all = spread.quantiles.iter().chain([&spread.max]);
        let words: Vec<String> = all.map(|&ns| format!("{:>9.1}", ns as f64 / 1e3)).collect();
        println!("    {what} {}", words.join(" "));
    };
    line("write", writes[0]);
    line(" bare", writes[1]);
    if reads[0].max > 0 {
        line("read ", reads[0]);
        line(" bare", reads[1]);
    }
}

fn print_counters(counters: &Counters, cached: &Found) {
    let per = |count: u64, of: u64| count as f64 / of.max(1) as f64;
    println!(
        "  {} runs of {:.2} blocks; saved {:.1} % of what was absorbed; {} epochs, {} flushes of the \
         drive, {} urgent; drain {:.0} ms at the end",
        counters.runs_written,
        per(counters.blocks_written, counters.runs_written),
        100.0 * per(counters.blocks_saved, counters.blocks_absorbed),
        counters.epochs,
        counters.flushes_backing,
        counters.writes_urgent,
        (cached.took_ns - cached.answered_ns) as f64 / 1e6,
    );
    let mut passes = Vec::new();
    counters.each(|name, count| {
        if let Some(reason) = name.strip_prefix("writes_through_")
            && count > 0
        {
            passes.push(format!("{reason} {count}"));
        }
    });
    println!(
        "  passed {:.1} % of {} changes{}{}",
        100.0 * per(counters.writes_through, counters.changes),
        counters.changes,
        if passes.is_empty() { "" } else { ": " },
        passes.join(", "),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bare_drive_is_slow_while_it_is_slow() {
        let speed = Speed::Dips(SECOND, 2 * SECOND);
        let took = |began_ns, writes| {
            bare_ns(&Batch { began_ns, writes, took_ns: 0 }, [1000.0, 250.0], speed) / 1e6
        };
        assert_eq!(took(0, 500), 501.5);
        assert_eq!(took(0, 1100), 1000.0 + 400.0 + 6.0);
        assert_eq!(took(SECOND, 500), 1000.0 + 250.0 + 1.5);
    }
}
