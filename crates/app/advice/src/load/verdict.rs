//! From facts and premises to a recommendation.

use super::facts::{Facts, Latency, Premises, Source};
use block::Size;
use report::words::time;
use simulator::Hits;

/// Time of a hit through a served volume, in nanoseconds: copying the block, and the way to the
/// client.
const HIT_NS: f64 = 10_000.0;
const DAY_NS: f64 = 86_400e9;
/// Share of the time of all requests that must be saved for a recommendation.
const SHARE_MIN: f64 = 0.02;
/// Time that must be saved per day for a recommendation, in nanoseconds.
const PER_DAY_NS_MIN: f64 = 10e9;
/// Share of the largest gain that is enough for a smaller cache.
const ENOUGH: f64 = 0.9;
/// Observed time below which the advice says how little it is, in nanoseconds.
const SHORT_NS: u64 = 600_000_000_000;

/// The gain of a cache of one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SizeGain {
    /// Size of the cache in bytes.
    pub memory_bytes: u64,
    /// Share of all accessed blocks that are cached.
    pub hit_ratio: f64,
    /// Share of the blocks of reads that are cached.
    pub read_hit_ratio: f64,
    /// Share of the blocks of writes that are cached.
    pub write_hit_ratio: f64,
    /// Time of requests that is saved in the observed time, in nanoseconds.
    pub saved_ns: f64,
    /// The part of it that reads save.
    pub read_saved_ns: f64,
    /// The same in a day. None: the observed time is unknown.
    pub saved_ns_per_day: Option<f64>,
    /// Whether the memory is spare. None: unknown.
    pub is_spare: Option<bool>,
}

/// The gain of writes with one meaning of a flush.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DurabilityGain {
    /// Its name on the command line.
    pub name: &'static str,
    /// Time of writes and flushes that is saved in the observed time, in nanoseconds.
    pub saved_ns: f64,
    /// The same in a day. None: the observed time is unknown.
    pub saved_ns_per_day: Option<f64>,
}

/// Advice on a load.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// Gains by size, ascending; empty if addresses are unknown.
    pub sizes: Vec<SizeGain>,
    /// Gains of writes by durability; empty if flushes are unknown.
    pub durabilities: Vec<DurabilityGain>,
    /// Time of all reads and writes without a cache, in nanoseconds: no cache can save more.
    pub busy_ns: f64,
    /// Upper bound of the time that readahead of sequential reads saves, in nanoseconds: that of
    /// programs that wait for each read. None: addresses are unknown.
    pub readahead_ns: Option<f64>,
    /// Index of the recommended size. None: leave it, or unknown.
    pub chosen: Option<usize>,
    /// A command to paste. None: there is nothing to recommend.
    pub recommendation: Option<String>,
    /// Whether the answer is no.
    pub leaves_it: bool,
    /// The answer in one sentence.
    pub verdict: String,
    /// Why, in a sentence.
    pub reason: String,
    /// Gaps of the observation, in sentences.
    pub unseen: Vec<String>,
}

/// Returns the advice on these facts.
pub fn advise(facts: &Facts, premises: &Premises) -> Advice {
    let per_day = |ns: f64| facts.duration_ns.map(|all| ns / all as f64 * DAY_NS);
    let latency = &premises.latency;
    let busy_ns = facts.reads as f64 * latency.read_ns + facts.writes as f64 * latency.write_ns;
    let written_ns = overwritten_ns(facts, latency);
    let gain = |hits: &Hits| {
        let read_saved_ns = read_saved_ns(facts, latency, hits);
        let saved_ns = read_saved_ns + written_ns;
        let all = facts.accessed.read_blocks + facts.accessed.write_blocks;
        SizeGain {
            memory_bytes: hits.memory_bytes,
            hit_ratio: ratio(hits.read_blocks + hits.write_blocks, all),
            read_hit_ratio: ratio(hits.read_blocks, facts.accessed.read_blocks),
            write_hit_ratio: ratio(hits.write_blocks, facts.accessed.write_blocks),
            saved_ns,
            read_saved_ns,
            saved_ns_per_day: per_day(saved_ns),
            is_spare: premises.spare_bytes.map(|spare| hits.memory_bytes <= spare),
        }
    };
    let sizes: Vec<SizeGain> = facts.hits.iter().map(gain).collect();
    let mut advice = Advice {
        durabilities: durabilities(facts, latency, per_day),
        busy_ns,
        readahead_ns: facts
            .sequential_share
            .map(|share| facts.reads as f64 * share * (latency.read_ns - HIT_NS).max(0.0)),
        chosen: None,
        recommendation: None,
        leaves_it: false,
        verdict: String::new(),
        reason: String::new(),
        unseen: unseen(facts, premises),
        sizes,
    };
    match advice.sizes.is_empty() {
        true => without_addresses(&mut advice, facts),
        false => by_size(&mut advice, facts, premises),
    }
    if advice.leaves_it && advice.recommendation.is_none() {
        for_streams(&mut advice, per_day);
    }
    advice
}

fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// Returns the time that hits save.
fn read_saved_ns(facts: &Facts, latency: &Latency, hits: &Hits) -> f64 {
    let ratio = ratio(hits.read_blocks, facts.accessed.read_blocks);
    facts.reads as f64 * ratio * (latency.read_ns - HIT_NS).max(0.0)
}

/// Returns the time of the writes that never reach the device because a later one replaces them
/// before the next flush. It is a lower bound: the others are written together.
fn overwritten_ns(facts: &Facts, latency: &Latency) -> f64 {
    let ratio = ratio(facts.overwritten_blocks.unwrap_or(0), facts.accessed.write_blocks);
    facts.writes as f64 * ratio * (latency.write_ns - HIT_NS).max(0.0)
}

fn durabilities(
    facts: &Facts,
    latency: &Latency,
    per_day: impl Fn(f64) -> Option<f64>,
) -> Vec<DurabilityGain> {
    let Some(flushes) = facts.flushes else { return Vec::new() };
    let writes = facts.writes as f64 * (latency.write_ns - HIT_NS).max(0.0);
    let flushed = flushes as f64 * (latency.flush_ns - HIT_NS).max(0.0);
    let ordered = if flushes > 0 { writes + flushed } else { 0.0 };
    // Counters do not show which blocks are written again.
    let flush = facts.overwritten_blocks.map(|_| ("flush", overwritten_ns(facts, latency)));
    let gains = flush.into_iter().chain([("ordered", ordered)]);
    gains
        .map(|(name, saved_ns)| DurabilityGain {
            name,
            saved_ns,
            saved_ns_per_day: per_day(saved_ns),
        })
        .collect()
}

/// Changes a no into a perhaps if readahead could save what hits do not.
fn for_streams(advice: &mut Advice, per_day: impl Fn(f64) -> Option<f64>) {
    let Some(most) = advice.readahead_ns else { return };
    let is_little = per_day(most).is_some_and(|ns| ns < PER_DAY_NS_MIN);
    let has_room = advice.sizes.iter().any(|gain| gain.is_spare != Some(false));
    if most < advice.busy_ns * SHARE_MIN || is_little || !has_room {
        return;
    }
    advice.leaves_it = false;
    let saved = saving(most, per_day(most));
    advice.verdict = format!("perhaps: readahead would save at most {saved}");
    advice.reason =
        "Too little is read again, but reads are sequential. Readahead saves time only \
                     if the program waits for each read, as with direct I/O: the page cache reads \
                     ahead itself."
            .to_owned();
}

/// Formats a saving: per day if that is known.
fn saving(saved_ns: f64, per_day: Option<f64>) -> String {
    match per_day {
        Some(ns) => format!("{} a day", time(ns)),
        None => format!("{} in all of this trace", time(saved_ns)),
    }
}

/// Returns a remark for a short observed time.
fn extrapolated(facts: &Facts) -> String {
    let short = facts.duration_ns.filter(|ns| *ns < SHORT_NS);
    short.map_or(String::new(), |ns| format!(" (extrapolated from {})", time(ns as f64)))
}

/// Answers from an upper bound: no cache saves more than all of the reads and writes.
fn without_addresses(advice: &mut Advice, facts: &Facts) {
    let per_day = facts.duration_ns.map(|all| advice.busy_ns / all as f64 * DAY_NS);
    let most = saving(advice.busy_ns, per_day) + &extrapolated(facts);
    advice.leaves_it = per_day.is_some_and(|ns| ns < PER_DAY_NS_MIN);
    if advice.leaves_it {
        advice.verdict = format!("leave it: it would save you at most {most}");
        advice.reason = "All reads and writes together take no longer than that.".to_owned();
    } else {
        advice.verdict = format!("perhaps: all reads and writes take {most}");
        advice.reason = "Counters show no addresses, so the hit ratio is unknown: record a trace, \
                         and run 'overdrive advise' on it."
            .to_owned();
    }
}

fn by_size(advice: &mut Advice, facts: &Facts, premises: &Premises) {
    let fits = |gain: &&SizeGain| gain.is_spare != Some(false);
    let best = advice.sizes.iter().filter(fits).map(|gain| gain.saved_ns).reduce(f64::max);
    let Some(best) = best else {
        let spare = Size(premises.spare_bytes.unwrap_or(0));
        let least = Size(advice.sizes[0].memory_bytes);
        advice.leaves_it = true;
        advice.verdict = "leave it: this machine has no memory to spare".to_owned();
        advice.reason = format!("{spare} are not used by active files, less than {least}.");
        return;
    };
    let is_enough = |gain: &SizeGain| fits(&gain) && gain.saved_ns >= best * ENOUGH;
    let Some(index) = advice.sizes.iter().position(is_enough) else { return };
    let gain = advice.sizes[index];
    let share = gain.saved_ns / advice.busy_ns.max(1.0);
    let saved = saving(gain.saved_ns, gain.saved_ns_per_day);
    let is_little = gain.saved_ns_per_day.is_some_and(|ns| ns < PER_DAY_NS_MIN);
    let hits = format!(
        "{:.1} % of the blocks that are read would come from memory",
        100.0 * gain.read_hit_ratio
    );
    if share < SHARE_MIN || is_little {
        advice.leaves_it = true;
        advice.verdict = match is_little || gain.saved_ns_per_day.is_none() {
            true => format!("leave it: it would save you {saved}"),
            false => {
                format!(
                    "leave it: it would save you {:.1} % of the time of requests",
                    100.0 * share
                )
            }
        };
        advice.reason = format!("{hits}: {:.1} % of the time of all requests.", 100.0 * share);
        return;
    }
    advice.chosen = Some(index);
    let memory = gain.memory_bytes >> 20;
    advice.recommendation =
        Some(format!("overdrive attach {} --memory {memory}M", premises.backing));
    let memory = Size(gain.memory_bytes);
    advice.verdict = format!("yes: {memory} of memory would save {saved}{}", extrapolated(facts));
    let premise = match premises.latency.source {
        Source::Recorded => String::new(),
        Source::Given => format!(", if a request takes {}", time(premises.latency.read_ns)),
        Source::Assumed => format!(
            ", if a request takes {} (assumed: give it with --latency)",
            time(premises.latency.read_ns)
        ),
    };
    advice.reason = format!("{hits}: {:.0} % of the time of all requests{premise}.", 100.0 * share);
}

fn unseen(facts: &Facts, premises: &Premises) -> Vec<String> {
    let mut unseen = Vec::new();
    let mut say = |text: &str| unseen.push(text.to_owned());
    match facts.duration_ns {
        None => say(
            "The trace has no times: what is saved per day is unknown, and requests count in the \
             order of the file.",
        ),
        Some(ns) if ns < SHORT_NS => say(&format!(
            "Only {} were observed: a day is {:.0} times that, and blocks that come back later \
             count as misses. Observe at least a usual day for a reliable answer.",
            time(ns as f64),
            DAY_NS / ns as f64
        )),
        Some(_) => {}
    }
    if premises.latency.source == Source::Assumed {
        say("The times of requests are not recorded: those of a SATA SSD are assumed.");
    }
    if facts.flushes.is_none() {
        say("Flushes are not distinguished: the gain of writes and of each durability is unknown.");
    }
    if facts.hits.is_empty() {
        say("Counters have no addresses: hit ratios and the sequential share are unknown.");
    }
    if facts.sample_rate > 0.0 && facts.sample_rate < 1.0 {
        say(&format!(
            "A sample of {} of the blocks was simulated: ratios are estimates.",
            facts.sample_rate
        ));
    }
    say("Only requests that reached the device are counted, and hits of the page cache are not. \
         Processes are not distinguished.");
    unseen
}
