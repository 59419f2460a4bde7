//! Bursts of requests, and their new order.

use lane::Random;
use std::ops::Range;
use trace::recording::Entry;

/// Requests after which a burst ends when none is in flight, or in any case.
const BURST: (usize, usize) = (8, 32);

/// Splits requests into bursts: a burst ends where no request is in flight.
pub(crate) fn bursts(entries: &[Entry]) -> Vec<Range<usize>> {
    let mut bursts = Vec::new();
    let (mut first, mut busy_until_ns) = (0, 0);
    for (number, entry) in entries.iter().enumerate() {
        let length = number - first;
        let is_idle = entry.event.time_ns >= busy_until_ns;
        if length >= BURST.1 || length >= BURST.0 && is_idle {
            bursts.push(first..number);
            first = number;
        }
        let end_ns = entry.event.time_ns.saturating_add(entry.event.took_ns.unwrap_or(0));
        busy_until_ns = end_ns.max(busy_until_ns);
    }
    if first < entries.len() {
        bursts.push(first..entries.len());
    }
    bursts
}

/// Puts bursts into a new order. A burst stays within its window of this number of requests.
pub(crate) fn shuffle(bursts: &mut [Range<usize>], window: usize, random: &mut Random) {
    let mut rest = bursts;
    while let Some(first) = rest.first() {
        let end = first.start + window;
        let count = rest.partition_point(|burst| burst.start < end);
        let (window, others) = rest.split_at_mut(count);
        for last in (1..window.len()).rev() {
            window.swap(last, random.below(last as u64 + 1) as usize);
        }
        rest = others;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Event, Operation};

    #[test]
    fn bursts_are_whole_and_stay_in_their_windows() {
        let entry = |number: u64| {
            Entry::from(Event {
                time_ns: number / 10 * 1_000_000,
                took_ns: Some(100),
                operation: Operation::Read,
                device: 0,
                first: number,
                sectors: 1,
                failed: None,
            })
        };
        let entries: Vec<Entry> = (0..1000).map(entry).collect();
        let mut bursts = bursts(&entries);
        assert!(bursts.iter().all(|burst| burst.len() == 10), "{bursts:?}");
        shuffle(&mut bursts, 200, &mut Random::new(1));
        let is_kept = (0..).zip(&bursts).filter(|(place, burst)| burst.start == place * 10).count();
        assert!(is_kept < 30, "{is_kept} are where they were");
        let far = (0..).zip(&bursts).all(|(place, burst)| burst.start / 200 == place * 10 / 200);
        assert!(far, "{bursts:?}");
        bursts.sort_by_key(|burst| burst.start);
        assert!(bursts.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
