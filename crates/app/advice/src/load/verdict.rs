//! From facts and premises to a recommendation.

use super::facts::{Facts, Premises, Source};
use super::gains::{self, DurabilityGain, ProcessGain, SizeGain, per_day};
use super::unseen::{SHORT_NS, unseen};
use super::words::span;
use block::Size;
use report::words::time;

/// Share of the time of all requests that must be saved for a recommendation.
const SHARE_MIN: f64 = 0.02;
/// Time that must be saved per day for a recommendation, in nanoseconds.
pub(super) const PER_DAY_NS_MIN: f64 = 10e9;
/// Share of the largest gain that is enough for a smaller cache.
pub(super) const ENOUGH: f64 = 0.9;
/// Share of the read blocks that the page cache had evicted shortly before, from which its lack of
/// memory is part of the answer.
const REFAULTED: f64 = 0.1;

/// Advice on a load.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Advice {
    /// Gains by size, ascending; empty if addresses are unknown.
    pub sizes: Vec<SizeGain>,
    /// Gains by process and size, in the order of [`Facts::processes`].
    pub processes: Vec<Vec<ProcessGain>>,
    /// Gains of writes by durability; empty if flushes are unknown.
    pub durabilities: Vec<DurabilityGain>,
    /// Time of all reads and writes without a cache, in nanoseconds: no cache can save more.
    pub busy_ns: f64,
    /// Upper bound of the time that readahead of streams saves, in nanoseconds: that of programs
    /// that wait for each read. None: addresses are unknown.
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
    let latency = &premises.latency;
    let mut advice = Advice {
        sizes: gains::by_size(facts, premises),
        processes: gains::by_process(facts, latency),
        durabilities: gains::by_durability(facts, latency),
        busy_ns: facts.reads as f64 * latency.read_ns + facts.writes as f64 * latency.write_ns,
        readahead_ns: gains::readahead_ns(facts, latency),
        unseen: unseen(facts, premises),
        ..Advice::default()
    };
    if facts.reads + facts.writes == 0 {
        without_requests(&mut advice, facts);
        return advice;
    }
    match advice.sizes.is_empty() {
        true => without_addresses(&mut advice, facts),
        false => by_size(&mut advice, facts, premises),
    }
    if advice.leaves_it && advice.recommendation.is_none() {
        for_streams(&mut advice, facts);
    }
    add_ordered(&mut advice);
    add_refaults(&mut advice, facts, premises);
    advice
}

fn without_requests(advice: &mut Advice, facts: &Facts) {
    advice.leaves_it = true;
    advice.verdict = format!("leave it: it would save you nothing{}", extrapolated(facts));
    advice.reason = "No read or write reached a device: there was no load, or the page cache \
                     answered all of it."
        .to_owned();
}

/// Changes a no into a perhaps if readahead could save what hits do not.
fn for_streams(advice: &mut Advice, facts: &Facts) {
    let Some(most) = advice.readahead_ns else { return };
    let is_little = per_day(facts, most).is_some_and(|ns| ns < PER_DAY_NS_MIN);
    let has_room = advice.sizes.iter().any(|gain| gain.is_spare != Some(false));
    if most < advice.busy_ns * SHARE_MIN || is_little || !has_room {
        return;
    }
    advice.leaves_it = false;
    let saved = saving(most, per_day(facts, most));
    advice.verdict =
        format!("perhaps: readahead would save at most {saved}{}", extrapolated(facts));
    advice.reason =
        "Too little is read again, but reads follow one another, in order or in equal steps. \
         Readahead saves time only if the program waits for each read, as with direct I/O: the \
         page cache itself reads ahead of reads in order."
            .to_owned();
}

/// Adds that another meaning of a flush would save what the usual one does not.
fn add_ordered(advice: &mut Advice) {
    let ordered = advice.durabilities.iter().find(|gain| gain.name == "ordered");
    let Some(ordered) = ordered.filter(|_| advice.leaves_it) else { return };
    let is_little = ordered.saved_ns_per_day.is_some_and(|ns| ns < PER_DAY_NS_MIN);
    if ordered.saved_ns < advice.busy_ns * SHARE_MIN || is_little {
        return;
    }
    advice.reason.push_str(&format!(
        " With --durability ordered, which may lose the newest changes in a power cut, also flushed ones, writes \
         and flushes would save at most {}.",
        saving(ordered.saved_ns, ordered.saved_ns_per_day)
    ));
}

/// Adds that the page cache itself lacks memory, if it does.
fn add_refaults(advice: &mut Advice, facts: &Facts, premises: &Premises) {
    let blocks = facts.read_bytes / simulator::BLOCK_BYTES;
    let Some(share) = premises.refaults.map(|pages| pages as f64 / blocks.max(1) as f64) else {
        return;
    };
    if share < REFAULTED || facts.reads == 0 {
        return;
    }
    advice.reason.push_str(&format!(
        " The page cache itself lacks memory: it read pages again that it had evicted shortly \
         before, {:.0} % of the amount that was read here. Memory that is taken from it makes \
         that worse, and the same memory left to it would save these reads as well.",
        100.0 * share.min(1.0)
    ));
}

/// Formats a saving: per day if that is known.
fn saving(saved_ns: f64, per_day: Option<f64>) -> String {
    match per_day {
        Some(ns) => format!("{} a day", span(ns)),
        None => format!("{} in the observed time", span(saved_ns)),
    }
}

/// Returns a remark for a short observed time.
fn extrapolated(facts: &Facts) -> String {
    let short = facts.duration_ns.filter(|ns| *ns < SHORT_NS);
    short.map_or(String::new(), |ns| format!(" (extrapolated from {})", time(ns as f64)))
}

/// Answers from an upper bound: no cache saves more than all of the reads and writes.
fn without_addresses(advice: &mut Advice, facts: &Facts) {
    let per_day = per_day(facts, advice.busy_ns);
    let most = saving(advice.busy_ns, per_day) + &extrapolated(facts);
    advice.leaves_it = per_day.is_some_and(|ns| ns < PER_DAY_NS_MIN);
    if advice.leaves_it {
        advice.verdict = format!("leave it: it would save you at most {most}");
        advice.reason = "All reads and writes together take no longer than that.".to_owned();
    } else {
        advice.verdict = format!("perhaps: all reads and writes take {most}");
        advice.reason = "Counters show no addresses, so the hit ratio is unknown: watch it as \
                         root, or record a trace and run 'overdrive advise' on it."
            .to_owned();
    }
}

fn by_size(advice: &mut Advice, facts: &Facts, premises: &Premises) {
    let fits = |gain: &&SizeGain| gain.is_spare != Some(false);
    let best = advice.sizes.iter().filter(fits).map(|gain| gain.saved_ns).reduce(f64::max);
    let Some(best) = best else {
        let spare = Size(premises.machine.map_or(0, |machine| machine.spare_bytes()));
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
    let is_little = gain.saved_ns_per_day.is_some_and(|ns| ns < PER_DAY_NS_MIN);
    let hits = format!(
        "{:.1} % of the blocks that are read would come from memory",
        100.0 * gain.read_hit_ratio.unwrap_or(0.0)
    );
    if share < SHARE_MIN || is_little {
        leave(advice, facts, &gain, &hits);
        return;
    }
    advice.chosen = Some(index);
    let memory = gain.memory_bytes >> 20;
    advice.recommendation =
        Some(format!("overdrive attach {} --memory {memory}M", premises.backing));
    let memory = Size(gain.memory_bytes);
    let saved = saving(gain.saved_ns, gain.saved_ns_per_day);
    advice.verdict = format!("yes: {memory} of memory would save {saved}{}", extrapolated(facts));
    advice.reason = format!(
        "{hits}: {:.0} % of the time of all requests{}.{}",
        100.0 * share,
        premise(premises),
        with_readahead(advice, facts, &gain)
    );
}

/// Answers no: the saved time is too small, or too small a share.
fn leave(advice: &mut Advice, facts: &Facts, gain: &SizeGain, hits: &str) {
    let share = 100.0 * gain.saved_ns / advice.busy_ns.max(1.0);
    let is_little = gain.saved_ns_per_day.is_none_or(|ns| ns < PER_DAY_NS_MIN);
    advice.leaves_it = true;
    advice.verdict = match is_little {
        true => {
            let saved = saving(gain.saved_ns, gain.saved_ns_per_day);
            format!("leave it: it would save you {saved}{}", extrapolated(facts))
        }
        false => format!("leave it: it would save you {share:.1} % of the time of requests"),
    };
    advice.reason = format!("{hits}: {share:.1} % of the time of all requests.");
}

/// Returns the premise of the answer, if a time is not recorded.
fn premise(premises: &Premises) -> String {
    let read = time(premises.latency.read_ns);
    match premises.latency.source {
        Source::Recorded => String::new(),
        Source::Given => format!(", if a request takes {read}"),
        Source::Assumed => {
            format!(", if a request takes {read} (assumed: give it with --latency)")
        }
    }
}

/// Returns what readahead may add to hits, if that is a tenth of them.
fn with_readahead(advice: &Advice, facts: &Facts, gain: &SizeGain) -> String {
    let left = (advice.busy_ns - gain.saved_ns).max(0.0);
    let most = advice.readahead_ns.unwrap_or(0.0).min(left);
    match most > gain.saved_ns / 10.0 {
        true => {
            let saved = saving(most, per_day(facts, most));
            format!(" Readahead of streams may add up to {saved}.")
        }
        false => String::new(),
    }
}
