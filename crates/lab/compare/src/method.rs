//! The method of the comparison, in sentences.

use crate::comparison::{Comparison, letter};
use crate::saved::printable;
use crate::statistics::{BATCHED_SECONDS_MIN, LEVEL_PERCENT};
use std::collections::{BTreeMap, BTreeSet};

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
    let differing = differing_models(comparison);
    if !differing.is_empty() {
        sentences.push(format!(
            "WARNING: these results are of different versions of the same modelled drive, so a \
             difference may be the model's: {}. Run the suites again with one program.",
            differing.join(", ")
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

/// Lists the modelled drives of which the runs have several versions. A result of an earlier
/// program has none, which differs from every version.
fn differing_models(comparison: &Comparison) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for run in &comparison.runs {
        if let Some(model) = &run.drive.model {
            versions.entry(model).or_default().insert(run.drive.version.as_deref());
        }
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    let named = several.map(|(model, versions)| {
        let versions = versions.into_iter().map(|version| version.unwrap_or("unknown"));
        format!("{model} ({})", versions.collect::<Vec<_>>().join(", "))
    });
    named.map(|name| printable(&name)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::read;

    #[test]
    fn results_of_other_versions_of_a_model_are_warned_of() {
        let run = |drive: &str| {
            let row = r#"{"test":"t","unit":"IOPS","value":1}"#;
            let text = format!(
                r#"{{"schema":"overdrive.bench/1","suite":"qd1","target":"t","rows":[{row}],"drive":{drive}}}"#
            );
            read("a", &text).expect("a result").remove(0)
        };
        let warned = |drives: [&str; 2]| {
            let comparison = Comparison::new(drives.map(run).into()).expect("alike");
            method(&comparison).into_iter().find(|it| it.starts_with("WARNING"))
        };
        let [one, two] =
            [r#"{"model":"m","version":"11111111"}"#, r#"{"model":"m","version":"22222222"}"#];
        let warning = warned([one, two]).expect("another version");
        assert!(warning.contains("m (11111111, 22222222)"), "{warning}");
        let older = warned([r#"{"model":"m"}"#, one]).expect("a result of an earlier program");
        assert!(older.contains("m (unknown, 11111111)"), "{older}");
        assert_eq!(warned([one, one]), None);
        assert_eq!(warned([one, r#"{"model":"n","version":"22222222"}"#]), None);
        assert_eq!(warned([r#"{"title":"a disk"}"#, one]), None);
    }
}
