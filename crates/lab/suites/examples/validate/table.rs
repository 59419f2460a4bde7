//! The table: the published and the modelled figure, the error and the evidence of a row.

use std::collections::BTreeMap;
use suites::published::{Class, Figure, Wanted, Worth};

/// A row that was printed.
struct Row {
    drive: String,
    class: Class,
    worth: Worth,
    error: f64,
}

/// Prints rows as they come.
pub(crate) struct Table {
    rows: Vec<Row>,
    missed: usize,
    /// Published figures, drive and name, with the modelled value.
    pub(crate) found: Vec<(String, String, f64)>,
}

/// A larger error is a miss, whatever the evidence of the row, unless a reason is stated.
const FACTOR: f64 = 2.0;

impl Table {
    pub(crate) fn new() -> Table {
        println!(
            "{:<24} {:<66} {:<7} {:<11} {:>14} {:>10} {:>8}",
            "drive", "what", "state", "worth", "published", "modelled", "error"
        );
        Table { rows: Vec::new(), missed: 0, found: Vec::new() }
    }

    /// Adds a closed form that must be met within `percent`.
    pub(crate) fn near(&mut self, what: &str, target: f64, percent: f64, found: f64) {
        let error = found / target - 1.0;
        let is_met = error.abs() * 100.0 <= percent;
        let verdict = if is_met { "" } else { "MISSED" };
        self.missed += usize::from(!is_met);
        let wanted = Wanted::Near(target).to_text();
        line("", what, "", Worth::Theory, &wanted, found, error, verdict);
        let (drive, class) = (String::new(), Class::New);
        self.rows.push(Row { drive, class, worth: Worth::Theory, error });
    }

    /// Adds a published figure. One that is not found has an error of 100 %.
    pub(crate) fn figure(&mut self, figure: &Figure, found: Option<f64>) {
        let found = found.unwrap_or(0.0);
        let error = figure.wanted.error(found);
        let is_near = (1.0 / FACTOR..=FACTOR).contains(&(1.0 + error));
        let verdict = match (is_near, figure.missed) {
            (true, None) => String::new(),
            (true, Some(_)) => "met, and listed as a miss: take it off the list".to_owned(),
            (false, None) => "MISSED".to_owned(),
            (false, Some(reason)) => format!("missed: {reason}"),
        };
        self.missed += usize::from(is_near == figure.missed.is_some());
        let wanted = format!("{} {}", figure.wanted.to_text(), figure.unit);
        let class = figure.class.name();
        line(&figure.drive, &figure.what, class, figure.worth, &wanted, found, error, &verdict);
        self.found.push((figure.drive.clone(), figure.what.clone(), found));
        let drive = figure.drive.clone();
        self.rows.push(Row { drive, class: figure.class, worth: figure.worth, error });
    }

    /// Returns the median error of the selected rows, in percent. None: there are none.
    fn median(&self, of: impl Fn(&Row) -> bool) -> Option<f64> {
        let mut errors: Vec<f64> =
            self.rows.iter().filter(|row| of(row)).map(|row| row.error.abs() * 100.0).collect();
        errors.sort_by(f64::total_cmp);
        let half = errors.len() / 2;
        match errors.len() {
            0 => None,
            odd if odd % 2 == 1 => Some(errors[half]),
            _ => Some((errors[half - 1] + errors[half]) / 2.0),
        }
    }

    /// Prints the medians; returns the number of misses.
    pub(crate) fn end(&self) -> usize {
        println!();
        for class in [Class::New, Class::Worn, Class::Trimmed] {
            let is_it = |row: &Row, worth: Worth| row.class == class && row.worth == worth;
            let count = |worth| self.rows.iter().filter(|row| is_it(row, worth)).count();
            let percent =
                |median: Option<f64>| median.map_or("-".into(), |it| format!("{it:.1} %"));
            println!(
                "{:<8} median error of {} predicted rows {}; of {} fitted {}; of {} circular {}",
                class.name(),
                count(Worth::Predicted),
                percent(self.median(|row| is_it(row, Worth::Predicted))),
                count(Worth::Fitted),
                percent(self.median(|row| is_it(row, Worth::Fitted))),
                count(Worth::Circular),
                percent(self.median(|row| is_it(row, Worth::Circular))),
            );
            self.without_each(class);
        }
        println!("{} rows, {} missed", self.rows.len(), self.missed);
        self.missed
    }

    /// Prints the same median with each drive left out in turn, where that changes it.
    fn without_each(&self, class: Class) {
        let is_counted = |row: &Row| row.class == class && row.worth == Worth::Predicted;
        let mut each: BTreeMap<String, String> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| is_counted(row)) {
            let median = self.median(|other| is_counted(other) && other.drive != row.drive);
            each.insert(
                row.drive.clone(),
                median.map_or("none left".to_owned(), |median| format!("{median:.1} %")),
            );
        }
        let left_out: Vec<String> =
            each.iter().map(|(drive, median)| format!("{drive} {median}")).collect();
        if !left_out.is_empty() {
            println!("         without {}", left_out.join(", "));
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "a line of the table has so many fields")]
fn line(
    drive: &str,
    what: &str,
    class: &str,
    worth: Worth,
    wanted: &str,
    found: f64,
    error: f64,
    verdict: &str,
) {
    let digits = if found.abs() < 100.0 { 2 } else { 0 };
    let (worth, error) = (worth.name(), format!("{:+.1} %", error * 100.0));
    println!(
        "{drive:<24} {what:<66} {class:<7} {worth:<11} {wanted:>14} {found:>10.digits$} {error:>8} {verdict}"
    );
}
