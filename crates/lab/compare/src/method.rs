//! The method of the comparison, in sentences.

use crate::comparison::{Comparison, letter};
use crate::saved::printable;
use crate::statistics::{BATCHED_SECONDS_MIN, LEVEL_PERCENT};

/// Returns the sentences that apply to this comparison.
pub(crate) fn method(comparison: &Comparison) -> Vec<String> {
    let judged = comparison.judged();
    let mut sentences = vec![format!(
        "Intervals are of {LEVEL_PERCENT} %. That of a mean is Student's, that of a difference Welch's (1947). Runs and rounds \
         count as independent. The seconds of a run do not: they are put together into 5 to 20 batches, whose means do \
         (batch means: Conway 1963, Schmeiser 1982)."
    )];
    sentences.push(format!(
        "A difference is noise where its interval holds 0. Figures that are not made of parts, or of fewer than \
         {BATCHED_SECONDS_MIN} seconds, have no interval: they are called neither equal nor different."
    ));
    if judged > 0 {
        let wrong = judged as f64 * f64::from(100 - LEVEL_PERCENT) / 100.0;
        sentences.push(format!(
            "Of {judged} differences that were judged, some {wrong:.1} would be called one by chance alone."
        ));
    }
    let near = near_ceiling(comparison);
    if !near.is_empty() {
        sentences.push(format!(
            "Near what the load itself can do, so that it says more of the machine: {near}."
        ));
    }
    sentences.push(
        "An interval is that of the mean of a figure's parts, in proportion to the figure: a suite's own figure may be \
         their median, or count the final flush as well. Where it is more than a factor of two from that mean it has none."
            .to_owned(),
    );
    let is_virtual = |run: &crate::Run| run.time == "virtual";
    if comparison.runs.iter().any(is_virtual) {
        sentences.push(
            "In virtual time the same command gives the same figures again: intervals tell how much a modelled drive varies \
             within a run, not how drives of that model differ."
                .to_owned(),
        );
    }
    sentences
}

/// Lists the rows near the ceiling, with the letters of their runs.
fn near_ceiling(comparison: &Comparison) -> String {
    let runs = comparison.runs.iter().enumerate();
    let tests = runs.flat_map(|(number, run)| {
        let near = run.rows.iter().filter(|row| row.near_ceiling);
        near.map(move |row| format!("{} of {}", printable(&row.test), letter(number)))
    });
    tests.collect::<Vec<_>>().join("; ")
}
