//! Gaps of an observation, in sentences.

use super::facts::{Facts, Premises, Source};
use super::gains::DAY_NS;
use report::words::{grouped, time};

/// Observed time below which the advice says how little it is, in nanoseconds.
pub(super) const SHORT_NS: u64 = 600_000_000_000;

/// Returns the gaps, the most important first.
pub(super) fn unseen(facts: &Facts, premises: &Premises) -> Vec<String> {
    let mut unseen: Vec<String> = vec![];
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
            DAY_NS / ns.max(1) as f64
        )),
        Some(_) => {}
    }
    if facts.lost > 0 {
        say(&format!("{} events were lost: ratios are estimates.", grouped(facts.lost)));
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
            "A sample of {:.3} of the blocks was simulated: ratios are estimates.",
            facts.sample_rate
        ));
    }
    say(
        "Only requests that reached the device are counted. Reads that the page cache answers cost \
         nothing, and a cache below it does not make them faster.",
    );
    match facts.processes.is_empty() {
        true => say("Processes are not distinguished."),
        false => {
            say("The kernel writes cached files back later, by threads of its own (kworker): \
             these writes are not listed with the programs that made them.")
        }
    }
    unseen
}
