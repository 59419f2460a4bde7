//! The standing of the policies: paired differences over traces, with intervals by bootstrap.
//!
//! ```text
//!   rows --group--> one mean per trace and policy --resample traces--> intervals of differences
//! ```

use super::rows::{Results, Row};
use lane::Random;
use std::collections::BTreeMap;

/// Minimum number of traces for intervals. Below it even a policy that is better on each trace is
/// within chance: two-sided sign test, 2 / 2^5 = 0.06.
pub(super) const TRACES_MIN: usize = 6;
/// Number of resamples. The tail of the narrowest interval (of 66 pairs of 12 policies) has eight.
pub(super) const RESAMPLES: usize = 20_000;
/// Share of intervals that may miss, for all pairs of a group together.
const ALPHA: f64 = 0.05;
/// Seed of the resamples: the same results have the same page.
const SEED: u64 = 49;
/// The policy that is a bound, not a candidate.
pub(super) const BOUND: &str = "opt";

/// A policy of a group.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Score {
    pub(super) policy: String,
    /// Mean of its values over traces and sizes.
    pub(super) mean: f64,
    /// Mean difference to the best policy, and its interval. None: it is the best, or there are too
    /// few traces.
    pub(super) behind: Option<Interval>,
    /// Share of the resamples in which it is the best; equal policies share them.
    pub(super) best_share: f64,
}

/// A difference, and the ends of its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Interval {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The policies over the traces of a class, best first.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Standing {
    /// Traces that have all figures.
    pub(super) traces: usize,
    /// Traces that lack some.
    pub(super) left_out: usize,
    pub(super) scores: Vec<Score>,
}

impl Standing {
    /// Whether the best policy is better than each other one beyond chance. Policies that are equal
    /// on each trace count as one.
    pub(super) fn is_clear(&self) -> bool {
        self.traces >= TRACES_MIN
            && self.rivals().next().is_some()
            && self.rivals().all(|score| score.behind.is_some_and(|behind| behind.low > 0.0))
    }

    /// Returns the policies that differ from the best one on any trace, best first.
    pub(super) fn rivals(&self) -> impl Iterator<Item = &Score> {
        let best = self.scores.first().map(|best| best.mean);
        let is_other = move |score: &&Score| {
            Some(score.mean) != best
                || score.behind.is_some_and(|behind| (behind.low, behind.high) != (0.0, 0.0))
        };
        self.scores.iter().skip(1).filter(is_other)
    }
}

/// A value of each row, such as its miss ratio.
pub(super) type Figure = fn(&Row) -> Option<f64>;

/// Returns the standing of the policies over the rows that `takes` selects. None: no trace has all
/// figures of two policies or more.
pub(super) fn standing(
    results: &Results,
    takes: &dyn Fn(&Row) -> bool,
    figure: Figure,
) -> Option<Standing> {
    let rows: Vec<&Row> =
        results.rows.iter().filter(|row| row.policy != BOUND && takes(row)).collect();
    let mut policies: Vec<&str> = Vec::new();
    for row in &rows {
        if !policies.contains(&row.policy.as_str()) {
            policies.push(&row.policy);
        }
    }
    let number = |name: &str| policies.iter().position(|policy| *policy == name);
    // The sum over sizes of each policy, and the number of its rows that have a figure.
    let mut traces: BTreeMap<&str, Vec<(f64, usize)>> = BTreeMap::new();
    let mut sizes: Vec<&str> = Vec::new();
    for row in &rows {
        if !sizes.contains(&row.memory.as_str()) {
            sizes.push(&row.memory);
        }
        let of_trace = traces.entry(&row.trace).or_insert_with(|| vec![(0.0, 0); policies.len()]);
        if let (Some(value), Some(policy)) = (figure(row), number(&row.policy)) {
            of_trace[policy].0 += value;
            of_trace[policy].1 += 1;
        }
    }
    let all = traces.len();
    let is_whole = |of_trace: &Vec<(f64, usize)>| of_trace.iter().all(|one| one.1 == sizes.len());
    let means = |of_trace: Vec<(f64, usize)>| -> Vec<f64> {
        of_trace.iter().map(|(sum, count)| sum / *count as f64).collect()
    };
    let values: Vec<Vec<f64>> = traces.into_values().filter(is_whole).map(means).collect();
    if values.is_empty() || policies.len() < 2 {
        return None;
    }
    let scores = scores(&policies, &values);
    Some(Standing { traces: values.len(), left_out: all - values.len(), scores })
}

/// Ranks policies by their values: one list for each trace.
fn scores(policies: &[&str], values: &[Vec<f64>]) -> Vec<Score> {
    let count = values.len() as f64;
    let mean = |policy: usize| values.iter().map(|trace| trace[policy]).sum::<f64>() / count;
    let means: Vec<f64> = (0..policies.len()).map(mean).collect();
    let mut order: Vec<usize> = (0..policies.len()).collect();
    order.sort_by(|one, other| means[*one].total_cmp(&means[*other]));
    let best = order[0];
    let (resampled, best_shares) = resample(values, best);
    let pairs = policies.len() * (policies.len() - 1) / 2;
    let tail = ALPHA / pairs as f64 / 2.0;
    let score = |policy: usize| Score {
        policy: policies[policy].to_owned(),
        mean: means[policy],
        behind: (policy != best && values.len() >= TRACES_MIN)
            .then(|| interval(means[policy] - means[best], &resampled[policy], tail)),
        best_share: best_shares[policy],
    };
    order.into_iter().map(score).collect()
}

fn interval(mean: f64, sorted: &[f64], tail: f64) -> Interval {
    let last = sorted.len() - 1;
    let low = (tail * last as f64).floor() as usize;
    Interval { mean, low: sorted[low], high: sorted[last - low] }
}

/// Draws traces with replacement. Returns, for each policy, its mean differences to the policy
/// `best` in ascending order, and the share of the draws in which it is the best one.
fn resample(values: &[Vec<f64>], best: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let (traces, policies) = (values.len(), values[0].len());
    let mut random = Random::new(SEED);
    let mut differences = vec![Vec::with_capacity(RESAMPLES); policies];
    let mut shares = vec![0.0; policies];
    for _ in 0..RESAMPLES {
        let mut sums = vec![0.0; policies];
        for _ in 0..traces {
            let drawn = &values[random.below(traces as u64) as usize];
            sums.iter_mut().zip(drawn).for_each(|(sum, value)| *sum += value);
        }
        let least = sums.iter().copied().fold(f64::INFINITY, f64::min);
        let equal = sums.iter().filter(|sum| **sum == least).count() as f64;
        for policy in 0..policies {
            differences[policy].push((sums[policy] - sums[best]) / traces as f64);
            if sums[policy] == least {
                shares[policy] += 1.0 / equal / RESAMPLES as f64;
            }
        }
    }
    differences.iter_mut().for_each(|list| list.sort_by(f64::total_cmp));
    (differences, shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns results with a miss ratio for each trace and policy.
    fn results(policies: &[&str], values: &[Vec<f64>]) -> Results {
        let mut rows = Vec::new();
        for (number, trace) in values.iter().enumerate() {
            for (policy, value) in policies.iter().zip(trace) {
                let row = serde_json::json!({
                    "trace": format!("{number:03}"), "class": "all", "policy": policy,
                    "compression": "off", "drive": "none", "memory": "1%",
                    "miss_ratio": value.is_finite().then_some(value), "memory_bytes": 4096,
                    "mean_ns": null, "p99_ns": null, "error": null,
                });
                rows.push(serde_json::from_value(row).expect("a row"));
            }
        }
        Results { summary: serde_json::Value::Null, rows }
    }

    fn standing_of(policies: &[&str], values: &[Vec<f64>]) -> Standing {
        let results = results(policies, values);
        standing(&results, &|_| true, |row| row.miss_ratio).expect("two policies")
    }

    /// Returns values of two policies that differ by this on average, and by chance.
    fn noisy(traces: u64, difference: f64, noise: f64) -> Vec<Vec<f64>> {
        let mut random = Random::new(7);
        let mut chance = move || random.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5;
        let trace = |_| {
            // Traces differ far more from each other than policies do.
            let base = 0.5 + chance() * 0.8;
            vec![base, base + difference + chance() * noise]
        };
        (0..traces).map(trace).collect()
    }

    #[test]
    fn a_small_difference_on_each_trace_is_clear_and_chance_is_not() {
        let clear = standing_of(&["a", "b"], &noisy(40, 0.01, 0.02));
        assert!(clear.is_clear(), "{clear:?}");
        assert_eq!(clear.scores[0].policy, "a");
        let behind = clear.scores[1].behind.expect("40 traces");
        assert!(behind.low > 0.0 && behind.low < behind.mean && behind.mean < behind.high);
        assert!(clear.scores[0].best_share > 0.99);
        let chance = standing_of(&["a", "b"], &noisy(40, 0.0005, 0.1));
        assert!(!chance.is_clear(), "{chance:?}");
        let shares: f64 = chance.scores.iter().map(|score| score.best_share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        // 95 % of many small studies of the same kind, as far as 200 can show.
        let mut random = Random::new(1);
        let mut covered = 0;
        for _ in 0..200 {
            let trace = |_| {
                let noise: u64 = (0..12).map(|_| random.below(1000)).sum();
                vec![0.0, 1.0 + (noise as f64 - 5994.0) / 1000.0]
            };
            let values: Vec<Vec<f64>> = (0..30).map(trace).collect();
            let (mut resampled, _) = resample_few(&values);
            resampled.sort_by(f64::total_cmp);
            let found = interval(0.0, &resampled, 0.025);
            covered += usize::from(found.low <= 1.0 && found.high >= 1.0);
        }
        assert!((178..=198).contains(&covered), "{covered} of 200");
    }

    /// Returns 500 resamples: enough for a test of 95 %.
    fn resample_few(values: &[Vec<f64>]) -> (Vec<f64>, usize) {
        let mut random = Random::new(SEED);
        let draw = |_| {
            let drawn = (0..values.len()).map(|_| {
                let trace = &values[random.below(values.len() as u64) as usize];
                trace[1] - trace[0]
            });
            drawn.sum::<f64>() / values.len() as f64
        };
        let all: Vec<f64> = (0..500).map(draw).collect();
        let count = all.len();
        (all, count)
    }

    #[test]
    fn few_traces_have_no_interval_and_equal_policies_are_no_rivals() {
        let few = standing_of(&["a", "b"], &noisy(5, 0.1, 0.0));
        assert!(!few.is_clear() && few.scores[1].behind.is_none());
        let mut values = noisy(20, 0.1, 0.01);
        values.iter_mut().for_each(|trace| trace.push(trace[0]));
        let equal = standing_of(&["a", "b", "c"], &values);
        assert_eq!(equal.rivals().map(|score| score.policy.as_str()).collect::<Vec<_>>(), ["b"]);
        assert!(equal.is_clear());
        assert!((equal.scores[0].best_share - 0.5).abs() < 1e-9, "{equal:?}");
    }

    #[test]
    fn traces_without_all_figures_are_left_out_and_the_bound_is_no_candidate() {
        let mut values = noisy(8, 0.1, 0.0);
        values.iter_mut().for_each(|trace| trace.push(0.0));
        values[3][1] = f64::NAN;
        let found = standing_of(&["a", "b", BOUND], &values);
        assert_eq!((found.traces, found.left_out, found.scores.len()), (7, 1, 2));
        let one = results(&["a", BOUND], &values);
        assert!(standing(&one, &|_| true, |row| row.miss_ratio).is_none(), "one candidate");
    }
}
