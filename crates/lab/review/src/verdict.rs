//! The verdict: three sentences that follow from printed rules.

use crate::line::{Change, Line, own_columns, position};
use crate::review::{PAGE_CACHE, RAPID_COLUMN, Review};
use report::words::figure;
use std::collections::BTreeSet;

/// The rules, as they are printed.
pub const RULES: [&str; 6] = [
    "On a modelled drive the speed of a test is the geometric mean over three drives of the model \
     with other seeds, each with the cache and without it, and its noise is half the 95 % interval \
     of that mean. On a real drive the noise is the largest of: half the 95 % intervals of both \
     figures, the difference between 'bare' and 'again', and 1 %. The columns of other caches, \
     which run on one drive, have the largest noise of the test.",
    "A test is faster or slower if its speed differs by more than its noise. On a modelled drive \
     'cold' is compared with 'bare', and 'warm', the second run on its drive, with 'again'; on a \
     real drive both are compared with the mean of the two.",
    "The gain of a test is its better speed of 'cold' and 'warm' as a multiple; the average is the \
     geometric mean over all tests.",
    "The cache helps if the average gain is at least 1.1 and no test is slower; helps at a price if \
     the average is at least 1.1 and a test is slower; does not help if the average is below 1.1. \
     A review that is not complete has no such verdict.",
    "The longest write is acceptable up to 1.1 times that of the drive without the cache, in both \
     runs.",
    "The overall score is the harmonic mean of the speeds relative to the baseline drive, over the \
     tests of cdm, hdtune, iometer, filebench and loadtime that all columns have.",
];

/// Gain from which the cache helps.
const HELPS: f64 = 1.1;
/// Ratio of the longest writes up to which they are acceptable.
const LONGEST: f64 = 1.1;
/// Speed above which a slower test is counted as one that hardly is.
const HARDLY_SLOWER: f64 = 0.99;

/// The verdict on a review.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Three sentences.
    pub sentences: Vec<String>,
    /// The tests that became slower with the product's cache: line, column, speed.
    pub slower: Vec<(usize, usize, f64)>,
    /// The longest write as a multiple of that without a cache: line, column, ratio.
    pub longest_write: Option<(usize, usize, f64)>,
}

/// Judges a review by [`RULES`].
pub fn verdict(review: &Review, lines: &[Line]) -> Verdict {
    let own = own_columns(review);
    let cells = || {
        let all = lines.iter().enumerate();
        all.flat_map(|(at, line)| own.iter().map(move |column| (at, *column, &line.cells[*column])))
    };
    let slower = cells().filter(|(.., cell)| cell.change == Change::Slower);
    let mut slower: Vec<(usize, usize, f64)> =
        slower.filter_map(|(at, column, cell)| Some((at, column, cell.ratio?))).collect();
    slower.sort_by(|one, other| one.2.total_cmp(&other.2));
    let longest_write = cells()
        .filter(|(at, ..)| lines[*at].is_write())
        .filter_map(|(at, column, cell)| Some((at, column, cell.longest?)))
        .max_by(|one, other| one.2.total_cmp(&other.2));
    let sentences = vec![
        gain(review, lines, &own, !slower.is_empty()),
        loss(review, lines, &slower, longest_write),
        rivals(review, lines, &own),
    ];
    Verdict { sentences, slower, longest_write }
}

/// Returns the better speed of a test in these columns, as a multiple.
fn best(line: &Line, columns: &[usize]) -> Option<f64> {
    columns.iter().filter_map(|at| line.cells[*at].ratio).reduce(f64::max)
}

fn gain(review: &Review, lines: &[Line], own: &[usize], is_slower: bool) -> String {
    let gains: Vec<(f64, &Line)> =
        lines.iter().filter_map(|line| Some((best(line, own)?, line))).collect();
    let Some(largest) = gains.iter().max_by(|one, other| one.0.total_cmp(&other.0)) else {
        return "Nothing was compared: no test ran both without and with the cache.".to_owned();
    };
    let logs: f64 = gains.iter().map(|(gain, _)| gain.ln()).sum();
    let mean = (logs / gains.len() as f64).exp();
    let is_faster =
        |line: &Line| own.iter().any(|column| line.cells[*column].change == Change::Faster);
    let faster = gains.iter().filter(|(_, line)| is_faster(line)).count();
    let verdict = match (review.complete, mean >= HELPS, is_slower) {
        (false, ..) => "There is no verdict yet",
        (true, false, _) => "The cache does not help",
        (true, true, false) => "The cache helps",
        (true, true, true) => "The cache helps at a price",
    };
    format!(
        "{verdict}: {faster} of {} tests are faster by more than their noise, the average \
         gain is {mean:.2} times, and the largest {} times ({}).",
        gains.len(),
        figure(largest.0),
        largest.1.name()
    )
}

/// Returns the number of slower tests, and of those among them that hardly are.
fn count_slower(slower: &[(usize, usize, f64)]) -> (usize, usize) {
    let number = |cells: &mut dyn Iterator<Item = usize>| cells.collect::<BTreeSet<_>>().len();
    let clearly = slower.iter().filter(|(.., ratio)| *ratio <= HARDLY_SLOWER);
    let all = number(&mut slower.iter().map(|(at, ..)| *at));
    (all, all - number(&mut clearly.map(|(at, ..)| *at)))
}

fn loss(
    review: &Review,
    lines: &[Line],
    slower: &[(usize, usize, f64)],
    longest: Option<(usize, usize, f64)>,
) -> String {
    // As for the gain: rows that are no speeds are not compared.
    let own = own_columns(review);
    let is_compared = |line: &&Line| own.iter().any(|column| line.cells[*column].ratio.is_some());
    let compared = lines.iter().filter(is_compared).count();
    let (tests, hardly) = count_slower(slower);
    let hardly = match hardly {
        0 => String::new(),
        hardly => format!(" ({hardly} of them by less than 1 %)"),
    };
    let slow = match slower.first() {
        None => "No test is slower by more than its noise".to_owned(),
        Some((at, column, ratio)) => format!(
            "{} of {compared} tests are slower by more than their noise{hardly}, at worst {ratio:.2} \
             times the speed ({}, {})",
            tests,
            lines[*at].name(),
            review.columns[*column].name
        ),
    };
    let write = longest.map_or(String::new(), |(at, column, ratio)| {
        let word = if ratio <= LONGEST { "acceptable" } else { "too long" };
        format!(
            ", and the longest write takes at most {ratio:.2} times as long as without the cache, \
             which is {word} ({}, {})",
            lines[at].name(),
            review.columns[column].name
        )
    });
    format!("{slow}{write}.")
}

fn rivals(review: &Review, lines: &[Line], own: &[usize]) -> String {
    let rivals = [(RAPID_COLUMN, "RAPID"), (PAGE_CACHE, "The page cache")];
    let sentences = rivals.into_iter().filter_map(|(column, name)| {
        let at = position(review, column)?;
        let count = |change| lines.iter().filter(|line| line.cells[at].change == change).count();
        let both = lines.iter().filter_map(|line| Some((best(line, own)?, line.cells[at].ratio?, line)));
        let both: Vec<_> = both.collect();
        let level = |(own, other, line): &&(f64, f64, &Line)| {
            *own >= other * (1.0 - line.noise.unwrap_or(0.0))
        };
        Some(format!(
            "{name} makes {} tests faster and {} slower; this cache is level with it or faster in {} \
             of {}",
            count(Change::Faster),
            count(Change::Slower),
            both.iter().filter(level).count(),
            both.len()
        ))
    });
    let sentences: Vec<String> = sentences.collect();
    match sentences.is_empty() {
        true => score_sentence(review),
        false => format!("{}.", sentences.join("; ")),
    }
}

fn score_sentence(review: &Review) -> String {
    let scores = crate::score::score(review);
    let of = |at: usize| scores.get(at).map(|score| score.percent);
    let own = own_columns(review);
    let best = own.iter().filter_map(|at| of(*at)).reduce(f64::max);
    match of(0).zip(best) {
        Some((bare, best)) => format!(
            "The overall score rises from {bare:.0} to {best:.0} % of {}.",
            review.baseline.as_ref().map_or("the bare drive", |drive| drive.target.as_str())
        ),
        None => "There is no overall score: none of its tests ran in all columns.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{lines, tests::sample};

    #[test]
    fn the_verdict_names_the_gain_the_loss_and_the_rival() {
        let review = sample();
        let lines = lines(&review);
        let verdict = verdict(&review, &lines);
        assert_eq!(verdict.sentences.len(), 3);
        let [gain, loss, rival] = &verdict.sentences[..] else { panic!("three") };
        assert!(gain.starts_with("The cache helps at a price: 3 of 3 tests are faster"), "{gain}");
        assert!(
            gain.contains("average gain is 2.29 times") && gain.contains("3.00 times"),
            "{gain}"
        );
        assert!(loss.starts_with("1 of 3 tests are slower"), "{loss}");
        assert!(
            loss.contains("0.90 times the speed (qd1: random 4 KiB read, QD1, cold)"),
            "{loss}"
        );
        assert!(loss.contains("1.05 times as long") && loss.contains("acceptable"), "{loss}");
        assert_eq!(
            rival,
            "RAPID makes 1 tests faster and 1 slower; this cache is level with it or faster in 2 of \
             3."
        );
        assert_eq!(verdict.slower.len(), 1);
    }

    #[test]
    fn a_test_that_is_clearly_slower_in_one_column_is_not_hardly_slower() {
        assert_eq!(
            count_slower(&[(7, 1, 0.5), (3, 1, 0.98), (3, 2, 0.995), (4, 2, 0.999)]),
            (3, 1)
        );
        assert_eq!(count_slower(&[]), (0, 0));
    }

    #[test]
    fn a_review_that_is_not_complete_has_no_verdict() {
        let review = Review { complete: false, ..sample() };
        let verdict = verdict(&review, &lines(&review));
        let gain = &verdict.sentences[0];
        assert!(gain.starts_with("There is no verdict yet: 3 of 3 tests are faster"), "{gain}");
    }

    #[test]
    fn a_cache_without_effect_does_not_help() {
        let mut review = sample();
        review.columns.truncate(1);
        let bare = review.columns[0].clone();
        for name in ["cold", "warm", "again"] {
            review.columns.push(crate::Column { name: name.into(), ..bare.clone() });
        }
        review.spread.iter_mut().flatten().for_each(|column| column.rows = bare.rows.clone());
        let lines = lines(&review);
        let verdict = verdict(&review, &lines);
        assert!(verdict.sentences[0].starts_with("The cache does not help"), "{verdict:?}");
        assert!(verdict.sentences[1].starts_with("No test is slower"), "{verdict:?}");
        assert!(verdict.sentences[2].starts_with("There is no overall score"), "{verdict:?}");
        review.columns.truncate(1);
        let lines = super::super::lines(&review);
        let none = super::verdict(&review, &lines);
        assert!(none.sentences[0].starts_with("Nothing was compared"), "{none:?}");
    }
}
