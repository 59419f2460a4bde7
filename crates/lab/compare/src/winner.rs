//! The winner of a comparison: how often each run is the best, and by how much on average.

use crate::comparison::{Comparison, Line, letter};
use report::ranking::is_lower_better;
use report::words::figure;

/// Whether a figure is a rate, a time or a score, of which one end is better. Deviations and counts
/// are not.
pub(crate) fn is_judged(line: &Line) -> bool {
    let is_spread = ["standard deviation", "the first second"];
    !is_spread.iter().any(|word| line.test.contains(word)) && line.unit != "GB"
}

/// Returns the index of the best run of a test. None: no two runs have it, it is no figure of which
/// one end is better, or the best run's interval overlaps that of another.
pub(crate) fn best(line: &Line) -> Option<usize> {
    let is_less = is_lower_better(&line.unit);
    let value = |value: f64| if is_less { -value } else { value };
    let cells = line.cells.iter().enumerate().filter_map(|(run, cell)| Some((run, cell.as_ref()?)));
    let mut cells: Vec<_> = cells.collect();
    cells.sort_by(|one, other| value(other.1.value).total_cmp(&value(one.1.value)));
    let [(run, first), (_, second), ..] = cells.as_slice() else { return None };
    let is_noise = match (first.estimate, second.estimate) {
        (Some(first), Some(second)) => {
            let (difference, half) = first.less(&second);
            difference.abs() <= half
        }
        _ => first.value == second.value,
    };
    (is_judged(line) && !is_noise).then_some(*run)
}

/// Whether each run's figure has an interval, so that a difference is distinguished from noise.
fn has_intervals(line: &Line) -> bool {
    line.cells.iter().flatten().all(|cell| cell.estimate.is_some())
}

/// Returns the geometric mean of a run's figures over those of the first, larger being better.
/// None: they have no figure in common.
fn ratio(comparison: &Comparison, run: usize) -> Option<f64> {
    let mut logs = Vec::new();
    for line in comparison.lines.iter().filter(|line| is_judged(line)) {
        let (Some(first), Some(other)) = (&line.cells[0], &line.cells[run]) else { continue };
        if first.value > 0.0 && other.value > 0.0 {
            let log = (other.value / first.value).ln();
            logs.push(if is_lower_better(&line.unit) { -log } else { log });
        }
    }
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Returns the verdict: the winner, and a line for each run compared with the first.
pub(crate) fn verdict(comparison: &Comparison) -> Vec<String> {
    let bests: Vec<Option<usize>> = comparison.lines.iter().map(best).collect();
    let judged = comparison
        .lines
        .iter()
        .filter(|line| is_judged(line) && line.cells.iter().flatten().count() > 1);
    let judged = judged.count();
    let wins = |run: usize| bests.iter().filter(|best| **best == Some(run)).count();
    let most = (0..comparison.runs.len()).map(wins).max().unwrap_or(0);
    let winners: Vec<usize> = (0..comparison.runs.len()).filter(|run| wins(*run) == most).collect();
    let tied = judged.saturating_sub(bests.iter().flatten().count());
    let first = match winners.as_slice() {
        _ if most == 0 => {
            format!("No winner: in none of {judged} tests is one run the best beyond noise.")
        }
        [one] => {
            let open = comparison.lines.iter().zip(&bests);
            let open = open.filter(|(line, best)| **best == Some(*one) && !has_intervals(line));
            format!(
                "Winner: {}, the best in {most} of {judged} tests{}; {tied} are too close to call.",
                comparison.names[*one],
                match open.count() {
                    0 => String::new(),
                    count => format!(" ({count} of them without an interval, by value alone)"),
                }
            )
        }
        several => {
            let letters: Vec<String> = several.iter().map(|run| letter(*run).to_string()).collect();
            format!(
                "A tie of {}, each the best in {most} of {judged} tests.",
                letters.join(" and ")
            )
        }
    };
    let each = (1..comparison.runs.len()).filter_map(|run| {
        let ratio = ratio(comparison, run)?;
        Some(format!(
            "{} against A: {} times as good on average (geometric mean; times count inversely), the best \
             in {} tests, A in {}.",
            letter(run),
            figure(ratio),
            wins(run),
            wins(0)
        ))
    });
    std::iter::once(first).chain(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::read;

    fn compared(rows: &[&[(&str, &str, f64)]]) -> Comparison {
        let runs = rows.iter().enumerate().map(|(number, rows)| {
            let rows = rows.iter().map(|(test, unit, value)| {
                format!(r#"{{"test":"{test}","unit":"{unit}","value":{value}}}"#)
            });
            let rows = rows.collect::<Vec<_>>().join(",");
            let text = format!(
                r#"{{"schema":"overdrive.bench/1","suite":"x","target":"t{number}","rows":[{rows}]}}"#
            );
            read(&format!("{number}.json"), &text).expect("a sound result").remove(0)
        });
        Comparison::new(runs.collect()).expect("alike")
    }

    #[test]
    fn rates_win_by_more_and_times_by_less() {
        let comparison = compared(&[
            &[
                ("read", "MB/s", 100.0),
                ("access", "ms", 4.0),
                ("x, standard deviation", "IOPS", 1.0),
            ],
            &[
                ("read", "MB/s", 200.0),
                ("access", "ms", 2.0),
                ("x, standard deviation", "IOPS", 9.0),
            ],
        ]);
        let bests: Vec<_> = comparison.lines.iter().map(best).collect();
        assert_eq!(bests, [Some(1), Some(1), None], "a deviation has no better end");
        let verdict = verdict(&comparison);
        assert_eq!(
            verdict[0],
            "Winner: B: t1, the best in 2 of 2 tests (2 of them without an interval, by value alone); \
             0 are too close to call."
        );
        assert!(verdict[1].starts_with("B against A: 2.00 times as good"), "{verdict:?}");
    }

    #[test]
    fn equal_runs_have_no_winner() {
        let rows: &[(&str, &str, f64)] = &[("read", "MB/s", 100.0)];
        assert!(verdict(&compared(&[rows, rows]))[0].starts_with("No winner"));
        let other: &[(&str, &str, f64)] = &[("read", "MB/s", 100.0), ("write", "MB/s", 5.0)];
        assert!(verdict(&compared(&[rows, other]))[0].starts_with("No winner"));
    }
}
