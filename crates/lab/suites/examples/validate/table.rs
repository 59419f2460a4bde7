//! The table: the published and the modelled figure, the error and the evidence of a row.

use crate::parameters::Presets;
use std::collections::BTreeMap;
use suites::published::{Class, Figure, Wanted, Worth};

/// A row that was printed.
struct Row {
    drive: String,
    class: Class,
    worth: Worth,
    error: f64,
    /// Whether it is a latency.
    is_latency: bool,
    /// Whether it has set a parameter of the model.
    has_set: bool,
    /// The same figure of the drive predicted from its family. None: it was not measured.
    left_out: Option<f64>,
}

/// The group of a row: the state of the drive, and latencies apart.
const GROUPS: [&str; 4] = ["new", "after TRIM", "worn", "latency"];

impl Row {
    fn group(&self) -> &'static str {
        match self.class {
            _ if self.is_latency => "latency",
            Class::New => "new",
            Class::Trimmed => "after TRIM",
            Class::Worn => "worn",
        }
    }
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
        let worth = Worth::Theory;
        let (is_latency, has_set, left_out) = (false, false, None);
        self.rows.push(Row { drive, class, worth, error, is_latency, has_set, left_out });
    }

    /// Adds a published figure. One that is not found has an error of 100 %.
    pub(crate) fn figure(&mut self, figure: &Figure, found: Option<f64>, presets: &Presets) {
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
        let verdict = match presets.is_recollected(&figure.drive) {
            true => format!("{verdict} (the preset is a recollection)"),
            false => verdict,
        };
        let wanted = format!("{} {}", figure.wanted.to_text(), figure.unit);
        let class = figure.class.name();
        line(&figure.drive, &figure.what, class, figure.worth, &wanted, found, error, &verdict);
        self.found.push((figure.drive.clone(), figure.what.clone(), found));
        let drive = figure.drive.clone();
        let has_set = figure.worth != Worth::Predicted || presets.has_set(figure);
        let (class, worth, is_latency) = (figure.class, figure.worth, figure.unit == "us");
        let left_out = None;
        self.rows.push(Row { drive, class, worth, error, is_latency, has_set, left_out });
    }

    /// Adds the value of a figure that was printed before, of the drive predicted from its family.
    pub(crate) fn left_out(&mut self, figure: &Figure, found: Option<f64>) {
        let at = self
            .found
            .iter()
            .position(|(drive, what, _)| (drive, what) == (&figure.drive, &figure.what));
        let error = figure.wanted.error(found.unwrap_or(0.0));
        println!(
            "{:<24} {:<66} from its family {:>10.2} {:>+8.1} %",
            figure.drive,
            figure.what,
            found.unwrap_or(0.0),
            error * 100.0
        );
        let mut published = self.rows.iter_mut().filter(|row| row.worth != Worth::Theory);
        if let Some(row) = at.and_then(|at| published.nth(at)) {
            row.left_out = Some(error);
        }
    }

    /// Prints the medians of rows that have set nothing, and of drives predicted from their family.
    pub(crate) fn honest(&self) {
        let percent = |median: Option<f64>| median.map_or("-".into(), |it| format!("{it:.1} %"));
        let middle = |mut errors: Vec<f64>| {
            errors.sort_by(f64::total_cmp);
            let half = errors.len() / 2;
            let low =
                *errors.get(half.saturating_sub(usize::from(errors.len().is_multiple_of(2))))?;
            Some((low + errors[half]) * 50.0)
        };
        println!();
        for group in GROUPS {
            let rows = || {
                self.rows.iter().filter(|row| row.group() == group && row.worth != Worth::Theory)
            };
            let of = |has_set: bool| -> Vec<f64> {
                let some = rows().filter(|row| row.has_set == has_set);
                some.map(|row| row.error.abs()).collect()
            };
            let (nothing, set) = (of(false), of(true));
            let left: Vec<f64> = rows().filter_map(|row| row.left_out).map(f64::abs).collect();
            println!(
                "{group:<10} median error of {} rows that set nothing {}; of {} that set a \
                 parameter {}; of {} from their family {}",
                nothing.len(),
                percent(middle(nothing.clone())),
                set.len(),
                percent(middle(set.clone())),
                left.len(),
                percent(middle(left.clone())),
            );
        }
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
        self.honest();
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
