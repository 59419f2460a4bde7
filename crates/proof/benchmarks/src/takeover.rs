//! A takeover of the cache's memory by the next process, in virtual time and without data: the
//! clean blocks are kept, and the list of hot blocks gives the policy their order. The same
//! requests are sent to a cache that is not interrupted, for comparison.

use crate::sides::verdict;
use crate::warm::{Bed, Load, MINUTE_NS, description, hits};
use anyhow::{Context, Result};
use block::Extent;
use hotlist::{HotList, encode};

/// The target of the first second after a takeover, in points of the hit ratio.
const POINTS_MAX: f64 = 1.0;
const SECOND_NS: u64 = MINUTE_NS / 60;

/// The list that orders the blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Saved {
    /// There is none.
    Never,
    /// It is a minute old: the process was killed.
    AMinuteAgo,
    /// It was saved at an orderly end.
    AtTheEnd,
}

/// Sends requests for this time, and returns the share of hits among its reads.
fn hits_of(bed: &mut Bed, requests: &[(Extent, bool)], span_ns: u64) -> f64 {
    let from = bed.counters();
    bed.send(requests, span_ns);
    hits(&from, &bed.counters())
}

/// The hit ratios of a life, in percent: in the last minute before the takeover and its last
/// second, and in the first second and the first minute after it.
struct Ratios {
    before: f64,
    second: f64,
    minute: f64,
}

/// Sends a load to one life, or to two.
fn live(load: &Load, takeover: Option<Saved>) -> Result<Ratios> {
    let mut bed = Bed::new(load.slots, load.blocks)?;
    bed.send(&load.fills, 0);
    let of = description(load.blocks.next_multiple_of(1024 * 8));
    let mut entries = bed.rank();
    let (minute, second) = load.before.split_at(load.before.len() / 60 * 59);
    bed.send(minute, 59 * SECOND_NS);
    let before = hits_of(&mut bed, second, SECOND_NS);
    if let Some(saved) = takeover {
        if saved == Saved::AtTheEnd {
            entries = bed.rank();
        }
        bed = bed.kill()?;
        let retained = bed.counters().blocks_retained;
        anyhow::ensure!(retained > 0, "the second life has no block of the first");
        if saved != Saved::Never {
            bed.order(HotList::parse(&encode(&of, entries)).context("the list")?);
        }
    }
    let from = bed.counters();
    let (second, rest) = load.after.split_at(load.after.len() / 60);
    let second = hits_of(&mut bed, second, SECOND_NS);
    bed.send(rest, 59 * SECOND_NS);
    Ok(Ratios { before, second, minute: hits(&from, &bed.counters()) })
}

/// Runs it with each load.
///
/// # Errors
/// A cache cannot be made.
pub(crate) fn run(loads: &[Load]) -> Result<()> {
    loads.iter().try_for_each(measure)
}

/// Compares the time after a takeover with the second before it, and with a life that goes on.
fn measure(load: &Load) -> Result<()> {
    let uninterrupted = live(load, None)?;
    println!(
        "{}: {} blocks of memory, {} requests a second; hits of reads: {:.1} % in the second before \
         a takeover; without one, {:.1} % in the next second, {:.1} % in the next minute",
        load.name,
        load.slots,
        load.after.len() / 60,
        uninterrupted.before,
        uninterrupted.second,
        uninterrupted.minute
    );
    let sides = [
        ("with the list of its end", Saved::AtTheEnd),
        ("with a list of the minute before", Saved::AMinuteAgo),
        ("without a list", Saved::Never),
    ];
    for (name, saved) in sides {
        let it = live(load, Some(saved))?;
        println!(
            "  taken over {name}: {:.1} % in the first second  target within {POINTS_MAX} point of \
             the same second: {}; {:.1} % in the first minute",
            it.second,
            verdict(uninterrupted.second - it.second <= POINTS_MAX),
            it.minute
        );
    }
    Ok(())
}
