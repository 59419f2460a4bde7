//! Bursts of requests whose queue depths have the planned shares.
//!
//! The requests of a burst arrive while all earlier ones of it are in flight: the first finds the
//! depth 1, itself included, the second 2, and so on. So a depth is found as often as there are
//! bursts of at least that length.

use super::profile::{DEPTH_MAX, DepthClass};
use super::sizes::apportion;

/// Returns the lengths of bursts with the number of each, for this number of requests.
pub(crate) fn bursts(
    classes: &[DepthClass],
    depth_mean: Option<f64>,
    requests: u64,
) -> Vec<(u32, u64)> {
    let shares: Vec<f64> = classes.iter().map(|class| class.share.value).collect();
    let counts = apportion(&shares, requests);
    // Number of requests that find each depth, from 1 on.
    let mut found: Vec<u64> = Vec::new();
    for (class, count) in classes.iter().zip(counts) {
        let first = found.len() as u64 + 1;
        let last = match class.depth_max {
            0 => deepest(&found, count, depth_mean.unwrap_or(0.0) * requests as f64),
            depth => u64::from(depth),
        };
        spread(&mut found, last + 1 - first, count);
    }
    while found.last() == Some(&0) {
        found.pop();
    }
    let longer = |depth: usize| found.get(depth).copied().unwrap_or(0);
    let each = found.iter().enumerate();
    let each = each.map(|(index, count)| (index as u32 + 1, count - longer(index + 1)));
    each.filter(|(_, count)| *count > 0).collect()
}

/// Returns the deepest queue of the last class, so that the sum of all depths is nearest to this.
fn deepest(found: &[u64], count: u64, sum: f64) -> u64 {
    let others: f64 = (1..).zip(found).map(|(depth, count)| (depth * count) as f64).sum();
    let (first, wanted) = (found.len() as u64 + 1, sum - others);
    let (mut low, mut high) = (first, u64::from(DEPTH_MAX));
    while low < high {
        let middle = low.midpoint(high);
        if sum_of_depths(first, middle, count) < wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let distance = |last: u64| (sum_of_depths(first, last, count) - wanted).abs();
    let before = low.saturating_sub(1).max(first);
    if distance(before) < distance(low) { before } else { low }
}

/// Returns the sum of the depths of requests that [`spread`] spreads from `first` to `last`.
fn sum_of_depths(first: u64, last: u64, count: u64) -> f64 {
    let depths = last + 1 - first;
    let of_first = |depths: u64| (depths * first + depths * depths.saturating_sub(1) / 2) as f64;
    // The first depths have one request more.
    (count / depths) as f64 * of_first(depths) + of_first(count % depths)
}

/// Spreads requests over further depths, no depth more frequent than the one before it.
fn spread(found: &mut Vec<u64>, depths: u64, mut count: u64) {
    for number in 0..depths {
        let before = found.last().copied().unwrap_or(u64::MAX);
        let each = count.div_ceil(depths - number).min(before);
        found.push(each);
        count -= each;
    }
    // Rounding left more for the class than its depths may have: the first depths have room.
    for each in found.iter_mut() {
        if count == 0 {
            return;
        }
        *each += 1;
        count -= 1;
    }
    // Only a class of a few requests is left with some.
    if let Some(first) = found.first_mut() {
        *first += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::profile::Sourced;

    fn class(depth_max: u32, percent: f64) -> DepthClass {
        let share = Sourced { value: percent, source: "assumed".to_owned(), is_published: false };
        DepthClass { depth_max, share }
    }

    fn requests(bursts: &[(u32, u64)]) -> u64 {
        bursts.iter().map(|(length, count)| u64::from(*length) * count).sum()
    }

    #[test]
    fn depths_have_their_shares_and_the_mean() {
        let classes = [class(1, 60.0), class(2, 20.0), class(10, 19.0), class(0, 1.0)];
        let found = bursts(&classes, Some(4.0), 100_000);
        assert_eq!(requests(&found), 100_000);
        let at_least = |depth: u32| {
            let long = found.iter().filter(|(length, _)| *length >= depth);
            long.map(|(_, count)| count).sum::<u64>()
        };
        assert_eq!((at_least(1), at_least(2)), (60_000, 20_000));
        let longest = found.iter().map(|(length, _)| *length).max().expect("bursts");
        let sum: u64 = (1..=longest).map(|depth| u64::from(depth) * at_least(depth)).sum();
        assert!((sum as f64 / 1e5 - 4.0).abs() < 0.01, "{sum}");
    }

    #[test]
    fn few_requests_are_all_in_bursts() {
        for count in [1, 2, 7, 50] {
            let found = bursts(&[class(1, 50.0), class(8, 50.0)], None, count);
            assert_eq!(requests(&found), count, "{found:?}");
        }
    }
}
