//! The method of the comparison, in sentences.

use crate::comparison::{Comparison, letter};
use crate::saved::printable;
use crate::statistics::{BATCHED_SECONDS_MIN, LEVEL_PERCENT};

/// Returns the sentences that apply to this comparison.
pub(crate) fn method(comparison: &Comparison) -> Vec<String> {
    let judged = comparison.judged();
    let mut sentences = vec![format!(
        "Intervals have a confidence of {LEVEL_PERCENT} %: Student's for a mean, Welch's (1947) \
         for a difference. Runs and rounds count as independent. The seconds of a run do not, so \
         they are combined into 5 to 20 batches, and the means of these count as independent \
         (batch means: Conway 1963, Schmeiser 1982)."
    )];
    sentences.push(format!(
        "A difference is noise if its interval contains 0. Figures without parts, or of fewer than \
         {BATCHED_SECONDS_MIN} seconds, have no interval: they are reported as neither equal nor \
         different."
    ));
    if judged > 0 {
        let wrong = judged as f64 * f64::from(100 - LEVEL_PERCENT) / 100.0;
        sentences.push(format!(
            "Of {judged} compared figures, about {wrong:.1} would be reported as different by \
             chance."
        ));
    }
    let near = near_ceiling(comparison);
    if !near.is_empty() {
        sentences.push(format!(
            "These figures are near the limit of the load generator, so they describe the machine \
             more than the target: {near}."
        ));
    }
    sentences.push(
        "An interval is that of the mean of a figure's parts, scaled to the figure: a suite's own \
         figure may be their median, or include the final flush. A figure more than a factor of \
         two from that mean has no interval."
            .to_owned(),
    );
    let is_virtual = |run: &crate::Run| run.time == "virtual";
    if comparison.runs.iter().any(is_virtual) {
        sentences.push(
            "In virtual time the same command gives the same figures again: intervals show how \
             much a modelled drive varies within a run, not how drives of that model differ."
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
