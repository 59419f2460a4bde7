//! Advice on a served volume, from its own statistics: no recording is needed.

use super::facts::{Facts, Latency, Mean, Premises, Source};
use super::gains::{DAY_NS, DurabilityGain, HIT_NS, SizeGain, per_day};
use super::machine::Machine;
use super::verdict::{Advice, ENOUGH, PER_DAY_NS_MIN, advise};
use super::words::span;
use block::{Durability, Size};
use daemon::control::statistics::{Curve, Statistics};
use report::words::time;

/// Returns the facts, premises and advice on a volume. `command` returns the line that serves it
/// with another size of its memory, in bytes.
pub fn advise_volume(
    stats: &Statistics,
    machine: Option<Machine>,
    command: impl Fn(u64) -> String,
) -> (Facts, Premises, Advice) {
    let facts = facts(stats);
    let mut latency = Latency::of(&facts, None);
    if latency.source == Source::Recorded && stats.backing.read_mean_ns == 0 {
        latency.source = Source::Assumed;
    }
    let premises = Premises { latency, machine, backing: String::new(), refaults: None };
    let mut advice = match (&stats.curve, stats.has_cache()) {
        (_, false) => without_cache(&facts, &premises),
        (None, true) => too_early(),
        (Some(curve), true) => by_curve(stats, curve, &premises, command),
    };
    if stats.has_cache() {
        advice.durabilities = by_durability(stats, &facts, &premises.latency);
        advice.unseen.push(WRITES.to_owned());
    }
    (facts, premises, advice)
}

/// How the gain by durability is estimated.
const WRITES: &str = "Writes and flushes are counted since the daemon has served the volume. With \
                      --durability flush, only the writes count that the disk was spared; with \
                      ordered, each write counts as a request of the present writeback, and each \
                      flush as long as a client, or the commit of an epoch, takes at present.";

/// Returns the gains of writes by the meaning of a flush, from the volume's counters.
fn by_durability(stats: &Statistics, facts: &Facts, latency: &Latency) -> Vec<DurabilityGain> {
    let (counters, runs) = (&stats.counters, &stats.latencies.run_ns);
    // Replaced blocks cost at least their share of a long writeback request.
    let block_ns = runs.sum() as f64 / counters.blocks_written.max(1) as f64;
    let flush = counters.blocks_saved as f64 * block_ns;
    let waits = |count: u64, ns: f64| count as f64 * (ns - HIT_NS).max(0.0);
    let ordered = match counters.flushes {
        0 => 0.0,
        flushes => waits(counters.changes, latency.write_ns) + waits(flushes, latency.flush_ns),
    };
    let gains = [(Durability::Flush, flush), (Durability::Ordered, ordered)];
    let gain = |(durability, saved_ns): (Durability, f64)| DurabilityGain {
        name: durability.word(),
        is_present: stats.durability == Some(durability),
        saved_ns,
        saved_ns_per_day: per_day(facts, saved_ns),
    };
    gains.map(gain).into()
}

fn facts(stats: &Statistics) -> Facts {
    let counters = &stats.counters;
    let (backing, latencies) = (&stats.backing, &stats.latencies);
    // An older daemon does not report it.
    let duration_ns = (stats.served_ns > 0).then_some(stats.served_ns);
    // With `ordered`, a client waits for no commit.
    let flush = match stats.durability {
        Some(Durability::Ordered) => &latencies.write_out_ns,
        _ => &latencies.flush_ns,
    };
    let times = |count, mean_ns: u64| Mean {
        count: if mean_ns > 0 { count } else { 0 },
        sum_ns: count * mean_ns,
    };
    match &backing.kinds {
        Some(kinds) => Facts {
            reads: backing.reads,
            writes: backing.changes,
            flushes: Some(backing.flushes),
            duration_ns,
            read_bytes: kinds.read_bytes,
            write_bytes: kinds.write_bytes,
            read_times: times(backing.reads, backing.read_mean_ns),
            write_times: times(backing.changes, kinds.write_mean_ns),
            flush_times: times(backing.flushes, kinds.flush_mean_ns),
            ..Facts::default()
        },
        None => Facts {
            reads: counters.read_hits + counters.read_misses + counters.read_joins,
            writes: counters.changes,
            flushes: Some(counters.flushes),
            duration_ns,
            write_bytes: counters.asked_write_bytes,
            read_times: times(counters.read_misses, backing.read_mean_ns),
            write_times: times(latencies.run_ns.count(), latencies.run_ns.mean()),
            flush_times: times(flush.count(), flush.mean()),
            overwritten_blocks: Some(counters.blocks_saved),
            ..Facts::default()
        },
    }
}

/// Returns the upper bound of counters.
fn without_cache(facts: &Facts, premises: &Premises) -> Advice {
    let mut advice = advise(facts, premises);
    advice.unseen.retain(|it| !it.starts_with("The trace has no times"));
    if !advice.leaves_it {
        advice.reason = "It has no cache, and counters show no addresses: record it ('overdrive \
                         trace record'), and run 'overdrive advise' on the recording."
            .to_owned();
    }
    advice
}

fn too_early() -> Advice {
    Advice {
        verdict: "perhaps: the volume has had too few requests for an answer".to_owned(),
        reason: "Its curve of other sizes appears when enough blocks have been accessed."
            .to_owned(),
        ..Advice::default()
    }
}

/// Returns the time that the present memory saves, in nanoseconds per second of the curve's window.
fn present_saves_ns(stats: &Statistics, curve: &Curve) -> f64 {
    let counters = &stats.counters;
    let present = curve.points.iter().find(|point| point.memory_bytes == stats.memory_bytes);
    let miss_ratio = present.map_or(1.0, |point| point.miss_ratio);
    let accesses_per_s = curve.accesses as f64 * 1e9 / curve.window_ns.max(1) as f64;
    // Accesses are of reads and writes; only reads save time.
    let hits = counters.block_accesses.saturating_sub(counters.block_misses);
    let of_reads = (counters.blocks_hit as f64 / hits.max(1) as f64).min(1.0);
    // A request that hits saves one wait, for any number of blocks.
    let requests = counters.read_hits as f64 / counters.blocks_hit.max(1) as f64;
    let wait_ns = stats.backing.read_mean_ns as f64;
    accesses_per_s * (1.0 - miss_ratio) * of_reads * requests.min(1.0) * wait_ns
}

fn gains(stats: &Statistics, curve: &Curve, machine: Option<&Machine>) -> Vec<SizeGain> {
    let present_ns = present_saves_ns(stats, curve);
    let gain = |point: &daemon::control::statistics::Point| {
        let saved = (present_ns + point.saves_ns_per_s.unwrap_or(0.0)).max(0.0);
        let saved_ns = saved * curve.window_ns as f64 / 1e9;
        let more = point.memory_bytes.saturating_sub(stats.memory_bytes);
        SizeGain {
            memory_bytes: point.memory_bytes,
            hit_ratio: 1.0 - point.miss_ratio,
            read_hit_ratio: None,
            write_hit_ratio: None,
            saved_ns,
            read_saved_ns: saved_ns,
            saved_ns_per_day: Some(saved / 1e9 * DAY_NS),
            is_spare: machine.map(|machine| more <= machine.spare_bytes()),
            displaced: machine.map(|machine| machine.displaced(more)),
        }
    };
    curve.points.iter().map(gain).collect()
}

fn by_curve(
    stats: &Statistics,
    curve: &Curve,
    premises: &Premises,
    command: impl Fn(u64) -> String,
) -> Advice {
    let sizes = gains(stats, curve, premises.machine.as_ref());
    let is_measured = curve.points.iter().any(|point| point.saves_ns_per_s.is_some());
    let fits = |gain: &&SizeGain| gain.is_spare != Some(false);
    let best = sizes.iter().filter(fits).map(|gain| gain.saved_ns).fold(0.0, f64::max);
    let enough = |gain: &SizeGain| fits(&gain) && gain.saved_ns >= best * ENOUGH;
    let chosen = sizes.iter().position(enough);
    let present = sizes.iter().position(|gain| gain.memory_bytes == stats.memory_bytes);
    let mut advice = Advice { unseen: unseen(curve), ..Advice::default() };
    let (Some(chosen), Some(present), true) = (chosen, present, is_measured) else {
        return Advice { sizes, ..too_early() };
    };
    let (gain, now) = (sizes[chosen], sizes[present]);
    let a_day = |gain: &SizeGain| format!("{} a day", span(gain.saved_ns_per_day.unwrap_or(0.0)));
    let [memory, memory_now] = [gain, now].map(|gain| Size(gain.memory_bytes));
    advice.reason = format!(
        "Of the accesses of {}, {:.1} % hit with {memory_now}, and {:.1} % would with {memory}.",
        time(curve.window_ns as f64),
        100.0 * now.hit_ratio,
        100.0 * gain.hit_ratio
    );
    if gain.saved_ns_per_day.unwrap_or(0.0) < PER_DAY_NS_MIN {
        advice.leaves_it = true;
        advice.verdict = format!("leave it: {memory} would save you {}", a_day(&gain));
        advice.reason.push_str(" The memory is of more use to the page cache.");
    } else {
        advice.chosen = Some(chosen);
        advice.recommendation = (chosen != present).then(|| command(gain.memory_bytes));
        advice.verdict = match chosen.cmp(&present) {
            std::cmp::Ordering::Equal => format!("keep {memory_now}: it saves {}", a_day(&now)),
            std::cmp::Ordering::Less => format!(
                "less is enough: {memory} would save {}, {memory_now} saves {}",
                a_day(&gain),
                a_day(&now)
            ),
            std::cmp::Ordering::Greater => format!(
                "more: {memory} would save {}, {memory_now} saves {}",
                a_day(&gain),
                a_day(&now)
            ),
        };
    }
    Advice { sizes, ..advice }
}

fn unseen(curve: &Curve) -> Vec<String> {
    let mut unseen = vec![
        "The curve is a simulation of a sample of the blocks; earlier accesses have less weight."
            .to_owned(),
        "The time that a size saves is that of reads. 'overdrive volume stats' shows the writes \
         that the disk was spared."
            .to_owned(),
        "Processes are not distinguished, and hits of the page cache above the volume do not reach \
         it."
            .to_owned(),
    ];
    if curve.is_too_small {
        unseen.insert(0, "The cache is too small for a reliable curve.".to_owned());
    }
    unseen
}

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::control::statistics::Point;
    use histogram::Histogram;

    const MIB: u64 = 1 << 20;

    /// Returns the statistics of a volume with 256 MiB, and a curve of one size above and below.
    ///
    /// In 100 s there were 100,000 accesses, all reads of one block, of 1 ms each.
    fn stats(miss_ratios: [f64; 3]) -> Statistics {
        let mut stats = Statistics { memory_bytes: 256 * MIB, ..Statistics::default() };
        stats.backing.read_mean_ns = 1_000_000;
        let misses = (100_000.0 * miss_ratios[1]) as u64;
        let counters = &mut stats.counters;
        (counters.block_accesses, counters.block_misses) = (100_000, misses);
        (counters.blocks_hit, counters.read_hits) = (100_000 - misses, 100_000 - misses);
        counters.read_misses = misses;
        let point = |index: usize| Point {
            memory_bytes: (128 * MIB) << index,
            miss_ratio: miss_ratios[index],
            uncompressed_miss_ratio: None,
            saves_ns_per_s: Some((miss_ratios[1] - miss_ratios[index]) * 1e9),
        };
        stats.curve = Some(Curve {
            window_ns: 100_000_000_000,
            accesses: 100_000,
            points: (0..3).map(point).collect(),
            ..Curve::default()
        });
        stats
    }

    fn advised(stats: &Statistics, machine: Option<Machine>) -> Advice {
        advise_volume(stats, machine, |bytes| format!("memory {}", bytes / MIB)).2
    }

    #[test]
    fn sizes_are_compared_with_the_present_one() {
        let same = advised(&stats([0.9, 0.5, 0.48]), None);
        // A thousand accesses per second, half of which hit, save half a second per second.
        assert_eq!(same.sizes[1].saved_ns_per_day, Some(0.5 * DAY_NS));
        assert_eq!(same.sizes[1].hit_ratio, 0.5);
        assert!(same.verdict.starts_with("keep 256 MiB: it saves "), "{}", same.verdict);
        assert_eq!((same.chosen, same.recommendation, same.leaves_it), (Some(1), None, false));
        let more = advised(&stats([0.9, 0.5, 0.1]), None);
        assert!(more.verdict.starts_with("more: 512 MiB would save "), "{}", more.verdict);
        assert_eq!(more.recommendation.as_deref(), Some("memory 512"));
        let less = advised(&stats([0.5, 0.49, 0.48]), None);
        assert!(less.verdict.starts_with("less is enough: 128 MiB "), "{}", less.verdict);
    }

    #[test]
    fn flushes_have_a_rate_and_each_durability_has_its_gain() {
        let mut stats = stats([0.9, 0.5, 0.48]);
        stats.served_ns = 50_000_000_000;
        stats.durability = Some(Durability::Flush);
        let counters = &mut stats.counters;
        (counters.changes, counters.flushes) = (2000, 100);
        (counters.blocks_saved, counters.blocks_written) = (300, 1600);
        let record = |ns: &[u64]| {
            let histogram = Histogram::new();
            ns.iter().for_each(|ns| histogram.record(*ns));
            histogram.snapshot()
        };
        // 200 requests of 8 blocks; a client waits 4 ms for a flush, a commit takes 6 ms.
        stats.latencies.run_ns = record(&[800_000; 200]);
        stats.latencies.flush_ns = record(&[4_000_000; 100]);
        stats.latencies.write_out_ns = record(&[6_000_000; 100]);
        let (facts, _, advice) = advise_volume(&stats, None, |_| String::new());
        assert_eq!((facts.flushes, facts.duration_ns), (Some(100), Some(50_000_000_000)));
        let gains = |advice: &Advice| {
            let gains = advice.durabilities.iter();
            gains.map(|it| (it.name, it.is_present, it.saved_ns)).collect::<Vec<_>>()
        };
        let writes_ns = 2000.0 * 790_000.0;
        let ordered = |flush_ns: f64| writes_ns + 100.0 * (flush_ns - HIT_NS);
        let expected = [("flush", true, 30e6), ("ordered", false, ordered(4e6))];
        assert_eq!(gains(&advice), expected);
        let per_day = advice.durabilities[0].saved_ns_per_day.expect("a day");
        assert!((per_day / (30e6 * 86_400.0 / 50.0) - 1.0).abs() < 1e-9, "{per_day}");
        stats.durability = Some(Durability::Ordered);
        let advice = advised(&stats, None);
        let expected = [("flush", false, 30e6), ("ordered", true, ordered(6e6))];
        assert_eq!(gains(&advice), expected);
        // An older daemon does not report for how long it has counted.
        stats.served_ns = 0;
        assert_eq!(advised(&stats, None).durabilities[0].saved_ns_per_day, None);
        // Also before there is a curve, and without a cache.
        stats.curve = None;
        assert_eq!(advised(&stats, None).durabilities.len(), 2);
        stats.memory_bytes = 0;
        stats.backing.kinds = Some(daemon::control::statistics::BackingKinds::default());
        (stats.backing.flushes, stats.served_ns) = (7, 1_000_000_000);
        let (facts, ..) = advise_volume(&stats, None, |_| String::new());
        assert_eq!((facts.flushes, facts.duration_ns), (Some(7), Some(1_000_000_000)));
    }

    #[test]
    fn memory_that_is_not_spare_is_not_recommended() {
        let machine = Machine { available_bytes: 200 * MIB, ..Machine::default() };
        let advice = advised(&stats([0.9, 0.5, 0.1]), Some(machine));
        assert!(advice.verdict.starts_with("keep 256 MiB"), "{}", advice.verdict);
        assert_eq!(advice.sizes[2].is_spare, Some(false));
    }

    #[test]
    fn a_cache_that_saves_nothing_is_left_and_a_young_one_waits() {
        let useless = advised(&stats([1.0, 1.0, 1.0]), None);
        assert!(
            useless.leaves_it && useless.verdict.starts_with("leave it: "),
            "{}",
            useless.verdict
        );
        let young = Statistics { curve: None, ..stats([0.9, 0.5, 0.1]) };
        let young = advised(&young, None);
        assert!(
            !young.leaves_it && young.verdict.contains("too few requests"),
            "{}",
            young.verdict
        );
        let none = Statistics { memory_bytes: 0, curve: None, ..stats([0.9, 0.5, 0.1]) };
        assert!(advised(&none, None).reason.contains("no cache"), "a volume without a cache");
    }
}
