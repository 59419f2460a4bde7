//! The lines of a review: a test with its figures in all columns.

use crate::review::{AGAIN, BARE, COLD, Column, Review, WARM, number, text};
use compare::Estimate;
use serde_json::Value;
use std::collections::HashMap;

/// How a column's figure differs from the figure without a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Better by more than the noise.
    Faster,
    /// Worse by more than the noise.
    Slower,
    /// The difference is within the noise.
    Noise,
    /// Not compared: a column without a cache, a missing figure, or a unit that is no speed.
    None,
}

impl Change {
    /// Returns its word in the JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Change::Faster => "faster",
            Change::Slower => "slower",
            Change::Noise => "noise",
            Change::None => "not compared",
        }
    }
}

/// A figure of a column.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The figure. None: not measured.
    pub value: Option<f64>,
    /// The speed, as a multiple of the reference: above 1 is faster. On a modelled drive the
    /// geometric mean over the drives of the model that ran.
    pub ratio: Option<f64>,
    /// The noise of that multiple, as a share. None: it is not known.
    pub noise: Option<f64>,
    /// The verdict on that.
    pub change: Change,
    /// The longest request as a multiple of the reference's.
    pub longest: Option<f64>,
    /// The share of one processor.
    pub processor: Option<f64>,
    /// The row was interrupted.
    pub is_partial: bool,
}

/// A test with its figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// The suite.
    pub suite: String,
    /// The test.
    pub test: String,
    /// The unit.
    pub unit: String,
    /// A smaller figure is better.
    pub is_time: bool,
    /// Its largest noise in any column, as a share. None: there is no second figure.
    pub noise: Option<f64>,
    /// One for each column, in their order.
    pub cells: Vec<Cell>,
    /// How the test is shorter than the suite's own.
    pub shortened: String,
}

impl Line {
    /// Whether the test measures writes.
    pub fn is_write(&self) -> bool {
        self.test.contains("write")
    }

    /// Returns the suite and the test.
    pub fn name(&self) -> String {
        format!("{}: {}", self.suite, self.test)
    }
}

/// Units of which more is better.
const SPEEDS: [&str; 5] = ["MB/s", "MiB/s", "IOPS", "files/s", "points"];
/// Units of which less is better, if the row is a time of requests.
const TIMES: [&str; 3] = ["s", "ms", "us"];

/// Identity of a row: suite, test, and its number among rows of that name.
type Key = (String, String, usize);

/// Returns rows by their identity, in order.
pub(crate) fn keyed(rows: &[Value]) -> Vec<(Key, &Value)> {
    let mut seen: HashMap<(&str, &str), usize> = HashMap::new();
    let mut keyed = Vec::new();
    for row in rows {
        let (suite, test) = (text(row, "suite"), text(row, "test"));
        let number = seen.entry((suite, test)).or_insert(0);
        keyed.push(((suite.to_owned(), test.to_owned(), *number), row));
        *number += 1;
    }
    keyed
}

/// Whether less is better; None: the figure is no speed.
pub(crate) fn is_time(row: &Value) -> Option<bool> {
    let unit = text(row, "unit");
    let is_time = TIMES.contains(&unit) && number(row, "mean_ns").is_some();
    (SPEEDS.contains(&unit) || is_time).then_some(is_time)
}

/// Returns the speed of one figure as a multiple of another.
pub(crate) fn speed(value: f64, reference: f64, is_time: bool) -> Option<f64> {
    let (up, down) = if is_time { (reference, value) } else { (value, reference) };
    (down > 0.0 && up > 0.0).then(|| up / down)
}

/// Returns half the width of the interval of a row's figure, as a share of the figure.
fn half_interval(row: &Value) -> Option<f64> {
    let samples = row.get("samples")?.as_array()?;
    let samples: Vec<f64> = samples.iter().filter_map(Value::as_f64).collect();
    let value = number(row, "value").filter(|value| *value > 0.0)?;
    let estimate = match text(row, "samples_of") {
        "seconds" => Estimate::of_seconds(&samples)?,
        _ => Estimate::of_runs(&samples)?,
    };
    Some(estimate.in_proportion(value)?.half_width() / value)
}

/// Rows without a cache, of one test.
struct Bare<'a> {
    first: &'a Value,
    again: Option<&'a Value>,
}

impl Bare<'_> {
    /// Returns a figure of the run with which a column is compared. On a modelled drive the warm
    /// run is the second one on its drive, as `again` is; on a real one both runs without a cache
    /// count, which surround the others.
    fn reference(&self, column: &str, is_virtual: bool, key: &str) -> Option<f64> {
        let first = number(self.first, key)?;
        let again = self.again.and_then(|row| number(row, key));
        Some(match (is_virtual, again) {
            (true, Some(again)) if column == WARM => again,
            (false, Some(again)) => f64::midpoint(first, again),
            _ => first,
        })
    }
}

/// Returns the lines of a review, in the order of its bare column.
pub fn lines(review: &Review) -> Vec<Line> {
    let columns: Vec<HashMap<Key, &Value>> =
        review.columns.iter().map(|column| keyed(&column.rows).into_iter().collect()).collect();
    let find = |name: &str| review.columns.iter().position(|column| column.name == name);
    let Some(bare) = find(BARE) else { return Vec::new() };
    let again = find(AGAIN);
    let drives: Vec<OtherDrive> = review.spread.iter().map(|drive| OtherDrive::of(drive)).collect();
    let mut lines = Vec::new();
    for (key, row) in keyed(&review.columns[bare].rows) {
        let bare = Bare { first: row, again: again.and_then(|at| columns[at].get(&key).copied()) };
        let is_time = is_time(row);
        let cell = |at: usize| {
            let name = &review.columns[at].name;
            let is_compared = ![BARE, AGAIN].contains(&name.as_str());
            let row = columns[at].get(&key).copied();
            let reference = |key: &str| bare.reference(name, review.is_virtual(), key);
            let cell = cell(row, is_compared.then_some(&reference), is_time);
            let others = drives.iter().filter_map(|drive| drive.ratio(&key, name, is_time?));
            match (review.is_virtual(), is_compared) {
                (_, false) => cell,
                (true, true) => cell.among(others),
                (false, true) => cell.with_noise(noise(&bare, row)),
            }
        };
        let mut cells: Vec<Cell> = (0..columns.len()).map(cell).collect();
        let noise = cells.iter().filter_map(|cell| cell.noise).reduce(f64::max);
        // A column that ran on one drive only.
        for cell in cells.iter_mut().filter(|cell| cell.ratio.is_some() && cell.noise.is_none()) {
            *cell = cell.clone().with_noise(noise);
        }
        lines.push(Line {
            suite: key.0,
            test: key.1,
            unit: text(row, "unit").to_owned(),
            is_time: is_time.unwrap_or(false),
            noise,
            cells,
            shortened: text(row, "shortened").to_owned(),
        });
    }
    lines
}

/// Returns a value of the same test on the bare drive, by its key.
type Reference<'a> = &'a dyn Fn(&str) -> Option<f64>;

/// Rows of a further drive, by the names of the columns.
struct OtherDrive<'a>(HashMap<&'a str, HashMap<Key, &'a Value>>);

impl<'a> OtherDrive<'a> {
    fn of(columns: &'a [Column]) -> OtherDrive<'a> {
        let rows = |column: &'a Column| keyed(&column.rows).into_iter().collect();
        OtherDrive(columns.iter().map(|column| (&*column.name, rows(column))).collect())
    }

    fn row(&self, key: &Key, column: &str) -> Option<&'a Value> {
        self.0.get(column)?.get(key).copied()
    }

    /// Returns the speed of a test on this drive as a multiple of the one without a cache. None:
    /// the column did not run on it.
    fn ratio(&self, key: &Key, column: &str, is_time: bool) -> Option<f64> {
        let bare = Bare { first: self.row(key, BARE)?, again: self.row(key, AGAIN) };
        let value = number(self.row(key, column)?, "value")?;
        speed(value, bare.reference(column, true, "value")?, is_time)
    }
}

impl Cell {
    /// Returns the cell judged by this noise.
    fn with_noise(self, noise: Option<f64>) -> Cell {
        let change = match (self.ratio, noise) {
            (Some(ratio), Some(noise)) if !self.is_partial && ratio < 1.0 - noise => Change::Slower,
            (Some(ratio), Some(noise)) if !self.is_partial && ratio > 1.0 + noise => Change::Faster,
            (Some(_), Some(_)) if !self.is_partial => Change::Noise,
            _ => Change::None,
        };
        Cell { noise, change, ..self }
    }

    /// Returns the cell with the mean of its multiple and those of `others`, which are drives of
    /// the same model, judged by half the interval of that mean. Without others it has no noise.
    fn among(self, others: impl Iterator<Item = f64>) -> Cell {
        let Some(own) = self.ratio else { return self };
        let logs: Vec<f64> = core::iter::once(own).chain(others).map(f64::ln).collect();
        match Estimate::of_runs(&logs) {
            Some(mean) => {
                let ratio = Some(mean.mean.exp());
                Cell { ratio, ..self }.with_noise(Some(mean.half_width().exp_m1()))
            }
            None => self,
        }
    }
}

fn cell(row: Option<&Value>, reference: Option<Reference<'_>>, is_time: Option<bool>) -> Cell {
    let value = row.and_then(|row| number(row, "value"));
    let against = |key: &str| reference.and_then(|reference| reference(key));
    let ratio = value.zip(against("value")).zip(is_time);
    let ratio = ratio.and_then(|((value, reference), is_time)| speed(value, reference, is_time));
    let longest = row.and_then(|row| number(row, "max_ns")).zip(against("max_ns"));
    let is_partial = row.is_some_and(|row| row.get("partial").is_some());
    Cell {
        value,
        ratio,
        noise: None,
        change: Change::None,
        longest: longest.and_then(|(own, other)| (other > 0.0).then(|| own / other)),
        processor: row.and_then(|row| number(row, "processor")),
        is_partial,
    }
}

/// Minimum noise of a test on a real drive, as a share: two runs may be alike by chance.
const NOISE_MIN: f64 = 0.01;

/// Returns the noise of a cell of a test on a real drive, as a share: half the 95 % intervals of
/// its figure and of the one without a cache, and the difference between both runs without a cache,
/// whichever is more, but at least [`NOISE_MIN`]. None: none of them is known.
fn noise(bare: &Bare<'_>, row: Option<&Value>) -> Option<f64> {
    let value = number(bare.first, "value").filter(|value| *value > 0.0)?;
    let again = bare.again.and_then(|row| number(row, "value"));
    let difference = again.map(|again| (again / value - 1.0).abs());
    let intervals = [Some(bare.first), row].into_iter().flatten().filter_map(half_interval);
    let interval = intervals.map(|half| half * half).reduce(|one, other| one + other);
    let known = difference.into_iter().chain(interval.map(f64::sqrt)).reduce(f64::max);
    known.map(|noise| noise.max(NOISE_MIN))
}

/// Returns the position of a column among a review's.
pub(crate) fn position(review: &Review, name: &str) -> Option<usize> {
    review.columns.iter().position(|column| column.name == name)
}

/// Returns the positions of the columns of the product's cache.
pub(crate) fn own_columns(review: &Review) -> Vec<usize> {
    [COLD, WARM].iter().filter_map(|name| position(review, name)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::review::RAPID_COLUMN;
    use serde_json::json;

    /// Returns a review of three tests: columns with a value each.
    pub(crate) fn sample() -> Review {
        let row = |test: &str, unit: &str, value: f64, max_ns: u64| {
            json!({ "suite": "qd1", "test": test, "unit": unit, "value": value,
                    "mean_ns": 10, "max_ns": max_ns })
        };
        let rows = |write: f64, read: f64, time: f64, max_ns: u64| {
            vec![
                row("random 4 KiB write, QD1", "IOPS", write, max_ns),
                row("random 4 KiB read, QD1", "IOPS", read, 100),
                row("first load", "s", time, 100),
            ]
        };
        let column = |name: &str, rows: Vec<Value>| Column { name: name.to_owned(), rows };
        // Of a write with the empty cache, the multiples of three drives differ.
        let other = |column: &dyn Fn(&str, Vec<Value>) -> Column,
                     rows: &dyn Fn(f64, f64, f64, u64) -> Vec<Value>,
                     more: f64| {
            vec![
                column(BARE, rows(105.0, 98.0, 2.02, 1000)),
                column(COLD, rows(315.0 * more, 88.2, 2.02, 1000)),
                column(WARM, rows(345.0, 230.0, 1.1, 900)),
                column(AGAIN, rows(115.0, 115.0, 2.2, 1000)),
            ]
        };
        Review {
            target: "model:x".into(),
            title: "X".into(),
            time: "virtual".into(),
            extent: "quick".into(),
            cache_bytes: 1 << 30,
            columns: vec![
                column(BARE, rows(100.0, 100.0, 2.0, 1000)),
                column(COLD, rows(300.0, 90.0, 2.0, 1050)),
                column(WARM, rows(330.0, 220.0, 1.0, 900)),
                column(AGAIN, rows(110.0, 110.0, 2.0, 1000)),
                column(RAPID_COLUMN, rows(320.0, 80.0, 2.0, 42_000)),
            ],
            spread: [1.02, 1.0 / 1.02].map(|more| other(&column, &rows, more)).to_vec(),
            complete: true,
            ..Review::default()
        }
    }

    #[test]
    fn a_figure_is_compared_with_the_run_on_a_drive_with_the_same_past() {
        let lines = lines(&sample());
        let ratios = |test: usize| -> Vec<Option<f64>> {
            let rounded = |ratio: f64| (ratio * 1e9).round() / 1e9;
            lines[test].cells.iter().map(|cell| cell.ratio.map(rounded)).collect()
        };
        assert_eq!(ratios(0), [None, Some(3.0), Some(3.0), None, Some(3.2)]);
        assert_eq!(ratios(2), [None, Some(1.0), Some(2.0), None, Some(1.0)], "less time is faster");
        assert_eq!(lines[1].cells[1].change, Change::Slower);
        assert_eq!(lines[2].cells[1].change, Change::Noise);
        assert_eq!(lines[0].cells[4].longest, Some(42.0));
        // Three multiples, whose logarithms differ by 0.0198: 4.303 times that by the root of 3.
        let noise = |column: usize| lines[0].cells[column].noise.expect("a spread");
        assert!((noise(1) - 0.0504).abs() < 1e-4, "{}", noise(1));
        assert!(noise(2) < 1e-9, "all three are alike");
        assert_eq!((noise(4), lines[0].noise), (noise(1), Some(noise(1))), "of one drive only");
        let real = Review { time: "real".into(), spread: Vec::new(), ..sample() };
        let lines = super::lines(&real);
        assert!((lines[0].cells[1].ratio.expect("known") - 300.0 / 105.0).abs() < 1e-9);
        assert!((lines[0].noise.expect("again") - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_real_figure_is_judged_by_its_own_interval_too() {
        let mut real = Review { time: "real".into(), spread: Vec::new(), ..sample() };
        real.columns.truncate(3);
        for column in &mut real.columns {
            column.rows[1]["samples"] = json!([80.0, 90.0, 100.0]);
            column.rows[1]["samples_of"] = json!("runs");
            column.rows[1]["value"] = json!(90.0);
        }
        let half = 4.302_653 * 10.0 / 3_f64.sqrt() / 90.0;
        let lines = lines(&real);
        let noise = lines[1].cells[1].noise.expect("two intervals");
        assert!((noise - half * 2_f64.sqrt()).abs() < 1e-5, "{noise}");
        assert_eq!(lines[1].cells[1].change, Change::Noise);
        assert_eq!(lines[0].cells[1].noise, None, "no second figure");
    }

    #[test]
    fn figures_that_are_no_speed_are_not_judged() {
        let mut review = sample();
        for column in &mut review.columns {
            column.rows[0]["unit"] = json!("GB");
            column.rows[2].as_object_mut().expect("a row").remove("mean_ns");
        }
        let lines = lines(&review);
        assert!(lines[0].cells.iter().all(|cell| cell.change == Change::None));
        assert!(lines[2].cells.iter().all(|cell| cell.ratio.is_none()), "a time that is no load's");
        review.columns.clear();
        assert!(super::lines(&review).is_empty());
    }
}
