//! The verdict on an outcome, in a few sentences.

use block::Size;
use report::words::grouped;
use simulator::{BLOCK_BYTES, Choice, Outcome, Plan, Run, TRUSTED_SLOTS, What};

/// A policy with its miss ratios, at the sizes that count.
struct Entrant {
    name: String,
    what: What,
    ratios: Vec<f64>,
}

impl Entrant {
    /// Returns the average over all sizes.
    fn mean(&self) -> f64 {
        self.ratios.iter().sum::<f64>() / self.ratios.len().max(1) as f64
    }
}

/// Returns which policy misses least, by how much against LRU, and its distance from the optimum.
pub fn verdict(plan: &Plan, outcome: &Outcome) -> String {
    let sizes = sizes_that_count(plan, outcome);
    let entrants = entrants(plan, outcome, &sizes);
    let mut sentences = Vec::new();
    if !outcome.is_complete {
        sentences.push("Interrupted: all figures are for the trace's beginning.".to_owned());
    }
    sentences.push(match &sizes[..] {
        [size] => at_one_size(&entrants, outcome, *size),
        _ => at_many_sizes(&entrants, sizes.len()),
    });
    if let Some(best) = best(&entrants) {
        sentences.extend(against_lru(&entrants, best));
        sentences.extend(against_optimum(&entrants, best));
    }
    sentences.extend(of_sample(plan, outcome, sizes.len()));
    sentences.join(" ")
}

/// Returns the run of a policy with a size.
fn run_of<'a>(plan: &Plan, outcome: &'a Outcome, policy: usize, size: usize) -> &'a Run {
    &outcome.runs[policy * plan.memories.len() + size]
}

/// Returns the sizes with reliable results; all sizes, if there is none.
fn sizes_that_count(plan: &Plan, outcome: &Outcome) -> Vec<usize> {
    let all = 0..plan.memories.len();
    let trusted = all.clone().filter(|size| run_of(plan, outcome, 0, *size).is_trusted());
    let trusted: Vec<usize> = trusted.collect();
    if trusted.is_empty() { all.collect() } else { trusted }
}

/// Returns each policy once, even if it was given by two names.
fn entrants(plan: &Plan, outcome: &Outcome, sizes: &[usize]) -> Vec<Entrant> {
    let mut entrants: Vec<Entrant> = Vec::new();
    for (policy, choice) in plan.policies.iter().enumerate() {
        if entrants.iter().any(|known| known.what == choice.what) {
            continue;
        }
        let ratio = |size: &usize| outcome.miss_ratio(run_of(plan, outcome, policy, *size));
        let ratios = sizes.iter().map(ratio).collect();
        entrants.push(Entrant { name: name(choice), what: choice.what, ratios });
    }
    entrants
}

fn name(choice: &Choice) -> String {
    match choice.what {
        What::Kind(kind) if kind.name() != choice.name => {
            format!("{} ({})", choice.name, kind.name())
        }
        _ => choice.name.to_owned(),
    }
}

fn of_kind(entrants: &[Entrant]) -> impl Iterator<Item = &Entrant> {
    entrants.iter().filter(|entrant| entrant.what != What::Optimum)
}

/// Returns LRU, by any of its names.
fn lru(entrants: &[Entrant]) -> Option<&Entrant> {
    let lru = Choice::by_name("lru")?.what;
    entrants.iter().find(|entrant| entrant.what == lru)
}

/// Returns the policy that misses least, except the optimum.
fn best(entrants: &[Entrant]) -> Option<&Entrant> {
    of_kind(entrants).min_by(|one, other| one.mean().total_cmp(&other.mean()))
}

fn at_one_size(entrants: &[Entrant], outcome: &Outcome, size: usize) -> String {
    let bytes = Size(outcome.runs[size].slots * BLOCK_BYTES);
    describe_best(entrants, &format!("with {bytes} of memory"), "")
}

fn at_many_sizes(entrants: &[Entrant], sizes: usize) -> String {
    let Some(best) = best(entrants) else {
        return describe_best(entrants, &format!("on average over {sizes} sizes"), "");
    };
    let least_at = (0..sizes)
        .filter(|size| of_kind(entrants).all(|other| best.ratios[*size] <= other.ratios[*size]));
    let is_compared = of_kind(entrants).count() > 1;
    let wins = match least_at.count() {
        _ if !is_compared => String::new(),
        all if all == sizes => ", and no policy misses less at any of them".to_owned(),
        some => format!(", and the least at {some} of them"),
    };
    describe_best(entrants, &format!("on average over {sizes} sizes"), &wins)
}

/// Returns the sentence on the policy that misses least.
fn describe_best(entrants: &[Entrant], place: &str, wins: &str) -> String {
    let share = |entrant: &Entrant| format!("{:.4} of the block accesses", entrant.mean());
    let Some(best) = best(entrants) else {
        // There is at least one policy, and only the optimum is left.
        let optimum = entrants.first().map(share).unwrap_or_default();
        return format!("The optimum, with knowledge of the future, misses {optimum} {place}.");
    };
    let count = of_kind(entrants).count();
    if count == 1 {
        return format!("{} misses {} {place}.", best.name, share(best));
    }
    let equal = of_kind(entrants).filter(|other| other.mean() == best.mean()).count();
    match equal {
        1 => format!(
            "Of {count} policies {} misses least: {} {place}{wins}.",
            best.name,
            share(best)
        ),
        all if all == count => {
            format!("All {count} policies miss the same: {} {place}.", share(best))
        }
        some => format!(
            "{some} of {count} policies miss least, {} among them: {} {place}.",
            best.name,
            share(best)
        ),
    }
}

/// Returns by how many per cent the first number is less than the second; None: the second is zero.
fn less(of: f64, than: f64) -> Option<f64> {
    (than > 0.0).then(|| (1.0 - of / than) * 100.0)
}

/// Formats per cent with a suitable number of digits.
fn digits(percent: f64) -> String {
    if percent < 1.0 { format!("{percent:.2}") } else { format!("{percent:.1}") }
}

fn against_lru(entrants: &[Entrant], best: &Entrant) -> Option<String> {
    if of_kind(entrants).count() < 2 {
        return None;
    }
    let Some(lru) = lru(entrants) else {
        return Some("LRU is not among them for comparison.".to_owned());
    };
    if best.what == lru.what {
        return Some("LRU itself is the best.".to_owned());
    }
    let less = less(best.mean(), lru.mean())?;
    if less == 0.0 {
        return Some("LRU misses no more.".to_owned());
    }
    Some(format!("That is {} % fewer misses than LRU's ({:.4}).", digits(less), lru.mean()))
}

fn against_optimum(entrants: &[Entrant], best: &Entrant) -> Option<String> {
    let optimum = entrants.iter().find(|entrant| entrant.what == What::Optimum)?.mean();
    let less = less(optimum, best.mean())?;
    let mut sentence = format!(
        "The optimum, with knowledge of the future, would miss {optimum:.4}, {} % fewer than {}",
        digits(less),
        best.name
    );
    if let Some(lru) = lru(entrants).filter(|lru| lru.what != best.what && lru.mean() > optimum) {
        let won = (lru.mean() - best.mean()) / (lru.mean() - optimum) * 100.0;
        sentence.push_str(&format!("; of what it gains over LRU, {} gains {won:.0} %", best.name));
    }
    Some(sentence + ".")
}

/// Returns the sentences about a sample.
fn of_sample(plan: &Plan, outcome: &Outcome, counted: usize) -> Vec<String> {
    let rate = outcome.sampled.rate;
    if rate.is_all() {
        return Vec::new();
    }
    let least = grouped(TRUSTED_SLOTS);
    let mut sentences = vec![format!(
        "All of this is estimated from a sample of {} % of the blocks.",
        percent(rate.share())
    )];
    if !outcome.runs.iter().any(Run::is_trusted) {
        sentences.push(format!(
            "No cache has {least} sampled slots, so no result is reliable: use a larger sample."
        ));
    } else if counted < plan.memories.len() {
        sentences.push(format!(
            "Sizes with fewer than {least} sampled slots are not reliable, and are omitted here."
        ));
    }
    sentences
}

/// Formats a share in per cent, without trailing zeros.
fn percent(share: f64) -> String {
    let text = format!("{:.6}", share * 100.0);
    match text.trim_end_matches('0').trim_end_matches('.') {
        "0" => format!("{:e}", share * 100.0),
        short => short.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{outcome, sampled};

    /// Returns the verdict on 1,000 accesses, from the misses by policy and size.
    fn advice_text(policies: &[&str], misses: &[&[u64]]) -> String {
        let (plan, outcome) = outcome(policies, misses);
        verdict(&plan, &outcome)
    }

    #[test]
    fn the_best_is_reported_against_lru_and_the_optimum() {
        assert_eq!(
            advice_text(&["opt", "lru", "sieve"], &[&[300, 200], &[600, 400], &[480, 420]]),
            "Of 2 policies sieve misses least: 0.4500 of the block accesses on average over 2 \
             sizes, and the least at 1 of them. That is 10.0 % fewer misses than LRU's (0.5000). \
             The optimum, with knowledge of the future, would miss 0.2500, 44.4 % fewer than \
             sieve; of what it gains over LRU, sieve gains 20 %."
        );
        assert_eq!(
            advice_text(&["default", "adaptive", "lru"], &[&[500], &[500], &[510]]),
            "Of 2 policies default (adaptive) misses least: 0.5000 of the block accesses with 4 MiB of memory. That is \
             2.0 % fewer misses than LRU's (0.5100)."
        );
        assert_eq!(
            advice_text(&["lru", "fifo"], &[&[500], &[510]]),
            "Of 2 policies lru misses least: 0.5000 of the block accesses with 4 MiB of memory. \
             LRU itself is the best."
        );
        assert_eq!(
            advice_text(&["arc", "fifo"], &[&[500], &[500]]),
            "All 2 policies miss the same: 0.5000 of the block accesses with 4 MiB of memory. \
             LRU is not among them for comparison."
        );
        let equal = advice_text(&["fifo", "lru", "arc"], &[&[500], &[500], &[600]]);
        assert!(equal.starts_with("2 of 3 policies miss least, fifo among them: "), "{equal}");
        assert!(equal.ends_with("LRU misses no more."), "{equal}");
    }

    #[test]
    fn one_policy_is_compared_with_nothing() {
        let lru = "lru misses 0.4000 of the block accesses on average over 2 sizes.";
        assert_eq!(advice_text(&["lru"], &[&[500, 300]]), lru);
        assert_eq!(
            advice_text(&["opt"], &[&[100]]),
            "The optimum, with knowledge of the future, misses 0.1000 of the block accesses with \
             4 MiB of memory."
        );
        let nothing = advice_text(&["lru", "opt"], &[&[0], &[0]]);
        assert_eq!(nothing, "lru misses 0.0000 of the block accesses with 4 MiB of memory.");
    }

    #[test]
    fn what_is_partial_or_sampled_says_so() {
        let (plan, mut outcome) = sampled(&["lru", "sieve"], &[&[900, 500], &[100, 600]]);
        let text = verdict(&plan, &outcome);
        // The first size has too few sampled slots, so its value is ignored.
        assert!(text.starts_with("Of 2 policies lru misses least: 0.5000 "), "{text}");
        assert!(text.contains("with 8 MiB of memory"), "{text}");
        assert!(text.contains("estimated from a sample of 50 % of the blocks."), "{text}");
        let end = "fewer than 1,000 sampled slots are not reliable, and are omitted here.";
        assert!(text.ends_with(end), "{text}");
        outcome.is_complete = false;
        outcome.runs.iter_mut().for_each(|run| run.sampled_slots = 999);
        let text = verdict(&plan, &outcome);
        let begin = "Interrupted: all figures are for the trace's beginning. ";
        assert!(text.starts_with(begin), "{text}");
        let end = "so no result is reliable: use a larger sample.";
        assert!(text.ends_with(end), "{text}");
    }
}
