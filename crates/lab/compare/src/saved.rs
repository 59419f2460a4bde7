//! Reads results as suites write them: JSON, or a page that contains it.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const SCHEMA: &str = "overdrive.bench/1";
/// Larger than any figure of a suite; sums and squares of such values are still finite.
const LARGEST: f64 = 1e15;

/// The results of one suite.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    schema: String,
    /// The suite.
    pub suite: String,
    /// The suite's name in full. Older results do not have it.
    #[serde(default)]
    pub(crate) suite_title: String,
    /// When it was measured, in real time, or saved.
    #[serde(default)]
    pub(crate) at: String,
    /// The target as given on the command line.
    pub target: String,
    #[serde(default)]
    pub(crate) cached: bool,
    #[serde(default = "yes")]
    pub(crate) complete: bool,
    pub(crate) rows: Vec<Row>,
    #[serde(default)]
    pub(crate) series: Vec<Series>,
    /// The clock of the measurement: `virtual` or `real`.
    #[serde(default)]
    pub(crate) time: String,
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) preparation: String,
    #[serde(default)]
    pub(crate) span_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) spare_percent: u32,
    #[serde(default)]
    pub(crate) test_time_ns: Option<u64>,
    #[serde(default)]
    pub(crate) seed: Option<u64>,
    #[serde(default)]
    pub(crate) cache: Option<Value>,
    #[serde(default)]
    pub(crate) prices: Option<Value>,
    #[serde(default)]
    pub(crate) drive: Drive,
    #[serde(default)]
    pub(crate) facts: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) machine: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, Value>,
    /// Runs with other sizes of spare area.
    #[serde(default)]
    variants: Vec<Run>,
    /// The source of this result.
    #[serde(skip)]
    pub place: String,
}

/// A drive.
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Drive {
    pub(crate) title: String,
    /// The model's name. None: a real drive, or a result of an earlier program.
    pub(crate) model: Option<String>,
    /// The version of the model's values. None: as `model`.
    pub(crate) version: Option<String>,
}

/// A figure.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) test: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
    #[serde(default)]
    pub(crate) cold: Option<bool>,
    #[serde(default)]
    pub(crate) samples: Vec<f64>,
    /// The kind of the samples: `runs` or `seconds`. Older results do not have it.
    #[serde(default)]
    pub(crate) samples_of: Option<String>,
    #[serde(default)]
    pub(crate) buckets: Vec<(u64, u64)>,
    #[serde(default)]
    pub(crate) shortened: Option<String>,
    #[serde(default)]
    pub(crate) partial: bool,
    #[serde(default)]
    pub(crate) valid: Option<bool>,
    #[serde(default)]
    pub(crate) prepared: String,
    /// The load generator or the cache was close to its own limit.
    #[serde(default)]
    pub(crate) near_ceiling: bool,
}

/// Values at equal distances.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) along: String,
    pub(crate) step: f64,
    pub(crate) values: Vec<f64>,
}

fn yes() -> bool {
    true
}

/// Reads the output of a suite: one JSON object, or a page that contains it. `place` names the
/// source of the text; error messages begin with it.
///
/// # Errors
/// The problem, its place, and the expected input.
pub fn read(place: &str, text: &str) -> Result<Vec<Run>, String> {
    const MEND: &str = "give what 'overdrive bench --json' printed or '--report' wrote";
    let (data, lines_before) = match report::page::raw_data(text) {
        Some(data) => {
            let before = data.as_ptr() as usize - text.as_ptr() as usize;
            (data, text[..before].matches('\n').count())
        }
        None if text.trim_start().starts_with('<') => {
            return Err(format!(
                "{place}: is a page without a result in it, or not all of one; {MEND}"
            ));
        }
        None => (text, 0),
    };
    let wrong = |error: serde_json::Error| {
        let line = lines_before + error.line();
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        format!("{place}: line {line}, column {}: {what}; {MEND}", error.column())
    };
    let mut first: Run = serde_json::from_str(data).map_err(wrong)?;
    let variants = std::mem::take(&mut first.variants);
    let mut runs = vec![first];
    runs.extend(variants.into_iter().map(|run| Run { variants: Vec::new(), ..run }));
    for run in &mut runs {
        run.check().map_err(|what| format!("{place}: {what}; {MEND}"))?;
        run.clean();
        run.place = printable(place);
    }
    Ok(runs)
}

impl Run {
    fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema: is '{}', not {SCHEMA}", printable(&self.schema)));
        }
        let numbers = |place: &dyn Fn(usize) -> String, values: &[f64]| -> Result<(), String> {
            match values.iter().position(|value| value.is_nan() || value.abs() > LARGEST) {
                Some(at) => Err(format!("{}: {} is no figure of a suite", place(at), values[at])),
                None => Ok(()),
            }
        };
        for (number, row) in self.rows.iter().enumerate() {
            numbers(&|_| format!("rows[{number}].value"), &[row.value])?;
            numbers(&|at| format!("rows[{number}].samples[{at}]"), &row.samples)?;
            let is_large = |(ns, count): &(u64, u64)| (*ns).max(*count) as f64 > LARGEST;
            if let Some(at) = row.buckets.iter().position(is_large) {
                return Err(format!("rows[{number}].buckets[{at}]: is no count of latencies"));
            }
        }
        for (number, series) in self.series.iter().enumerate() {
            numbers(&|at| format!("series[{number}].values[{at}]"), &series.values)?;
            if !(1e-6..=1e9).contains(&series.step) {
                return Err(format!("series[{number}].step: {} is no distance", series.step));
            }
        }
        Ok(())
    }

    /// Removes control characters from all texts, so that printing them cannot control a terminal.
    fn clean(&mut self) {
        let texts = [&mut self.suite, &mut self.target, &mut self.time, &mut self.state];
        let texts = texts.into_iter().chain([&mut self.preparation, &mut self.drive.title]);
        let texts = texts.chain([&mut self.suite_title, &mut self.at]);
        let rows = self.rows.iter_mut();
        let rows = rows.flat_map(|row| [&mut row.test, &mut row.unit, &mut row.prepared]);
        let series =
            self.series.iter_mut().flat_map(|it| [&mut it.name, &mut it.unit, &mut it.along]);
        texts.chain(rows).chain(series).chain(&mut self.command).for_each(|it| *it = printable(it));
    }

    /// Returns the name of the drive.
    pub(crate) fn title(&self) -> &str {
        if self.drive.title.is_empty() { &self.target } else { &self.drive.title }
    }

    /// Returns the suite's name in full.
    pub(crate) fn suite_title(&self) -> &str {
        if self.suite_title.is_empty() { &self.suite } else { &self.suite_title }
    }

    /// Describes the cache: its size, or that there was none.
    pub(crate) fn cache_text(&self) -> String {
        let memory = self.cache.as_ref().and_then(|cache| cache["memory"].as_u64());
        match (self.cached, memory) {
            (false, _) => "bare".to_owned(),
            (true, None) => "cached".to_owned(),
            (true, Some(bytes)) => format!("{} of cache", size(bytes)),
        }
    }
}

/// Formats bytes in the largest unit that gives a whole number.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..UNITS.len()).rev().find(|power| bytes.is_multiple_of(1 << (10 * power)));
    let power = power.filter(|_| bytes > 0).unwrap_or(0);
    format!("{} {}", bytes >> (10 * power), UNITS[power])
}

/// Returns the text as one line without control characters.
pub(crate) fn printable(text: &str) -> String {
    block::printable(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str =
        r#"{"schema":"overdrive.bench/1","suite":"qd1","target":"null:1G","rows":[]}"#;

    #[test]
    fn an_object_and_a_page_with_it_are_the_same() {
        let runs = read("a.json", LEAST).expect("the least that there must be");
        assert_eq!((runs.len(), runs[0].suite.as_str(), runs[0].complete), (1, "qd1", true));
        assert_eq!((runs[0].title(), runs[0].cache_text().as_str()), ("null:1G", "bare"));
        let page = report::page::Page {
            title: "",
            sub: "",
            verdict: "",
            style: "",
            parts: "",
            schema: "",
            raw: LEAST,
        };
        assert_eq!(read("a.html", &page.html()).expect("a page").len(), 1);
    }

    #[test]
    fn variants_are_runs_of_their_own_and_theirs_are_not_read() {
        let inner = LEAST.replace("}", r#","variants":[{}]}"#).replace("{}", LEAST);
        let outer = LEAST.replace('}', r#","variants":["#) + &inner + "]}";
        assert_eq!(read("a.json", &outer).expect("two runs").len(), 2);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let row = |row: &str| LEAST.replace("[]", &format!("[{row}]"));
        let good = r#""test":"t","unit":"IOPS","value":1"#;
        for (text, says) in [
            ("", "line 1, column 0: EOF"),
            ("{\n\"schema\":3}", "line 2, column 10: invalid type"),
            ("[]", "invalid length 0"),
            ("<html></html>", "is a page without a result in it"),
            ("{\"schema\":\"other\"}", "missing field `suite`"),
            (
                &LEAST.replace("bench/1", "sim/1\\u001b[2J"),
                r"schema: is 'overdrive.sim/1\u001b[2J', not",
            ),
            (&row("{}"), "missing field `test`"),
            (&row(r#"{"test":"t","unit":"IOPS","value":1e300}"#), "rows[0].value: 1"),
            (&row(r#"{"test":"t","unit":"IOPS","value":1e999}"#), "number out of range"),
            (&row(&format!(r#"{{{good},"samples":[1,-1e16]}}"#)), "rows[0].samples[1]: -1"),
            (&row(&format!(r#"{{{good},"buckets":[[1,18446744073709551615]]}}"#)), "buckets[0]"),
            (&row(&format!(r#"{{{good},"buckets":[[1]]}}"#)), "invalid length 1"),
            (&"[".repeat(100_000), "line 1"),
        ] {
            let message = read("x.json", text).expect_err(says);
            assert!(message.starts_with("x.json: ") && message.contains(says), "{message}");
            assert!(
                message.ends_with("give what 'overdrive bench --json' printed or '--report' wrote")
            );
            assert!(!message.contains('\u{1b}'));
        }
        let series = |step: &str| {
            let series =
                format!(r#"[{{"name":"n","unit":"u","along":"s","step":{step},"values":[1]}}]"#);
            read("x", &LEAST.replace("[]", &format!("[],\"series\":{series}")))
        };
        assert!(series("1").is_ok());
        for step in ["0", "-1", "1e300", "1e-300"] {
            assert!(series(step).expect_err(step).contains("series[0].step"), "{step}");
        }
    }

    #[test]
    fn a_line_of_a_page_is_the_pages_own() {
        let raw = LEAST.replace("\"qd1\"", "\n3");
        let page = report::page::Page {
            title: "",
            sub: "",
            verdict: "",
            style: "",
            parts: "<p>\n</p>\n",
            schema: "",
            raw: &raw,
        };
        let html = page.html();
        let line = html.lines().position(|line| line.starts_with('3')).expect("the line") + 1;
        let message = read("x.html", &html).expect_err("a number");
        assert!(message.starts_with(&format!("x.html: line {line}, ")), "{message}");
    }

    #[test]
    fn sizes_are_whole() {
        let sizes = [0, 512, 4096, 1 << 30, (1 << 30) + 512, 3 << 40].map(size);
        assert_eq!(sizes, ["0 B", "512 B", "4 KiB", "1 GiB", "1073742336 B", "3 TiB"]);
    }
}
