//! RAPID's published figures, beside those of the column that imitates it.
//!
//! Source of all: reviews of the Samsung 840 EVO 250 GB of 2013, with the cache off and on; which
//! page has which figure is not recorded.

use crate::line::{Line, position};
use crate::review::{RAPID_COLUMN, Review};

/// How a published figure was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// The numbers of RAPID were set on it.
    Set,
    /// The column predicts it.
    Predicted,
    /// No suite here has the test.
    Absent,
}

impl Use {
    /// Returns its word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Use::Set => "set",
            Use::Predicted => "predicted",
            Use::Absent => "not tested",
        }
    }
}

/// The kind of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The mean speed of the tests.
    Speed,
    /// The largest value of the tests with RAPID, over the largest without.
    Best,
    /// The longest request; more than 1 is longer.
    Longest,
}

/// A published figure: the ratio of on to off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    /// The test as the review has it.
    pub what: &'static str,
    suite: &'static str,
    /// Beginnings of the names of the tests.
    tests: &'static [&'static str],
    kind: Kind,
    /// The published ratio: its ends. Equal to 1: no change. None: only the direction.
    ratio: Option<(f64, f64)>,
    /// 1: more; -1: less; 0: no change.
    direction: i8,
    /// How it was used.
    pub how: Use,
    /// The test passes over as much data as the cache holds, or far more, which a quick review does
    /// not.
    needs_whole_pass: bool,
}

/// Deviation up to which a figure counts as unchanged.
const UNCHANGED: f64 = 0.1;
/// Deviation of a size up to which a prediction is good.
const GOOD: f64 = 0.25;

const fn row(
    what: &'static str,
    suite: &'static str,
    tests: &'static [&'static str],
    ratio: Option<(f64, f64)>,
    direction: i8,
    how: Use,
) -> Published {
    let (kind, needs_whole_pass) = (Kind::Speed, false);
    Published { what, suite, tests, kind, ratio, direction, how, needs_whole_pass }
}

const fn absent(what: &'static str, ratio: Option<(f64, f64)>, direction: i8) -> Published {
    row(what, "", &[], ratio, direction, Use::Absent)
}

/// Returns a figure of HD Tune, which passes over the whole drive, a quick review over four times
/// the cache.
const fn whole_drive(
    what: &'static str,
    tests: &'static [&'static str],
    ratio: f64,
    direction: i8,
) -> Published {
    let row = row(what, "hdtune", tests, Some((ratio, ratio)), direction, Use::Predicted);
    Published { needs_whole_pass: true, ..row }
}

/// Returns a figure of a generated trace, whose data a quick review scales down to less than the
/// cache holds.
const fn generated(
    what: &'static str,
    suite: &'static str,
    tests: &'static [&'static str],
    ratio: (f64, f64),
) -> Published {
    let row = row(what, suite, tests, Some(ratio), 1, Use::Predicted);
    Published { needs_whole_pass: true, ..row }
}

/// The published figures.
pub const RAPID: [Published; 28] = [
    row(
        "4 KB random write, QD1: IOPS",
        "qd1",
        &["random 4 KiB write, QD1"],
        Some((3.227, 3.227)),
        1,
        Use::Set,
    ),
    Published {
        kind: Kind::Longest,
        needs_whole_pass: true,
        ..row(
            "4 KB random write, QD1: maximum latency",
            "qd1",
            &["random 4 KiB write, QD1"],
            Some((41.83, 41.83)),
            1,
            Use::Predicted,
        )
    },
    absent("PCMark 7 secondary storage", Some((1.104, 1.104)), 1),
    generated("Storage Bench 2011 Heavy, MB/s", "heavy", &["MB/s while busy"], (1.34, 1.34)),
    generated("Storage Bench 2011 Light, MB/s", "light", &["MB/s while busy"], (1.767, 1.767)),
    Published {
        kind: Kind::Best,
        needs_whole_pass: true,
        ..row("ATTO, 2 GB: best read", "sizes", &["read, "], Some((1.34, 1.34)), 1, Use::Set)
    },
    Published {
        kind: Kind::Best,
        needs_whole_pass: true,
        ..row("ATTO, 2 GB: best write", "sizes", &["write, "], Some((1.6, 1.6)), 1, Use::Set)
    },
    Published {
        kind: Kind::Best,
        ..row("ATTO, 512 MB: best read", "atto", &["read, "], Some((7.17, 7.17)), 1, Use::Set)
    },
    Published {
        kind: Kind::Best,
        ..row("ATTO, 512 MB: best write", "atto", &["write, "], Some((7.7, 8.2)), 1, Use::Set)
    },
    whole_drive("HD Tune: whole-drive read", &["read, average"], 1.0, 0),
    whole_drive("HD Tune: whole-drive write", &["write, average"], 1.06, 1),
    whole_drive("HD Tune: random read, 4 KB", &["read access, 4 KB"], 5.0, 1),
    whole_drive("HD Tune: random read, 512 B", &["read access, 512 bytes"], 1.0, 0),
    whole_drive("HD Tune: random read, 64 KB", &["read access, 64 KB"], 1.0, 0),
    whole_drive("HD Tune: random read, 1 MB", &["read access, 1 MB"], 1.0, 0),
    row(
        "HD Tune: random write, 512 B to 1 MB",
        "hdtune",
        &["write access, "],
        Some((2.8, 9.8)),
        1,
        Use::Predicted,
    ),
    row(
        "CrystalDiskMark: sequential read, first run",
        "cdm",
        &["SEQ1M Q8T1 read, first run"],
        Some((1.0, 1.0)),
        0,
        Use::Predicted,
    ),
    Published {
        needs_whole_pass: true,
        ..row(
            "CrystalDiskMark: sequential read, later runs",
            "cdm",
            &["SEQ1M Q8T1 read"],
            Some((2.146, 2.146)),
            1,
            Use::Predicted,
        )
    },
    row(
        "CrystalDiskMark: sequential write",
        "cdm",
        &["SEQ1M Q8T1 write", "SEQ1M Q1T1 write"],
        Some((2.0, f64::INFINITY)),
        1,
        Use::Predicted,
    ),
    row(
        "Load times of game levels",
        "loadtime",
        &["first load"],
        Some((1.0, 1.0)),
        0,
        Use::Predicted,
    ),
    row("FileBench, fresh", "filebench", FRESH, None, -1, Use::Predicted),
    row("FileBench, used", "filebench", USED, None, -1, Use::Predicted),
    absent("DriveBench 1.0", None, -1),
    generated(
        "DriveBench 2.0: mean service time",
        "drivebench2",
        &["mean service time"],
        (2.0, 2.0),
    ),
    row("IOMeter: web server", "iometer", &["web server, "], Some((1.0, 1.0)), 0, Use::Predicted),
    row("IOMeter: file server", "iometer", &["file server, "], None, 1, Use::Predicted),
    row("IOMeter: workstation", "iometer", &["workstation, "], None, 1, Use::Predicted),
    row("IOMeter: database", "iometer", &["database, "], None, 1, Use::Predicted),
];

const FRESH: &[&str] = &["Movie, fresh", "RAW, fresh", "MP3, fresh", "TR, fresh", "Mozilla, fresh"];
const USED: &[&str] = &["Movie, used", "RAW, used", "MP3, used", "TR, used", "Mozilla, used"];

/// How well the column agrees with a published figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agreement {
    /// The direction is right, and the size within 25 % where one was published.
    Good,
    /// The direction is right, the size is not.
    Size,
    /// The direction is wrong.
    Direction,
    /// The test was too short to compare it.
    Short,
    /// It was not measured.
    Unknown,
}

impl Agreement {
    /// Returns its words in tables.
    pub fn words(self) -> &'static str {
        match self {
            Agreement::Good => "agrees",
            Agreement::Size => "direction right, size wrong",
            Agreement::Direction => "WRONG DIRECTION",
            Agreement::Short => "too short in a quick review",
            Agreement::Unknown => "-",
        }
    }
}

/// A published figure beside the column's.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// The published figure.
    pub figure: Published,
    /// The ratio here.
    pub found: Option<f64>,
    /// The error of the ratio to the nearest published one; 0 is none.
    pub error: Option<f64>,
    /// How well they agree.
    pub agreement: Agreement,
    /// The gain of the product's cache in the same tests.
    pub own: Option<f64>,
}

impl Published {
    /// Returns the published ratio in words.
    pub fn words(&self) -> String {
        match (self.ratio, self.direction) {
            (Some((low, high)), _) if high.is_infinite() => format!("over {low:.2}"),
            (Some((low, high)), _) if low < high => format!("{low:.2} to {high:.2}"),
            (Some((low, _)), _) => format!("{low:.2}"),
            (None, 1..) => "faster".to_owned(),
            (None, 0) => "no change".to_owned(),
            (None, _) => "slower".to_owned(),
        }
    }

    /// Returns the published speed of a test as a ratio, if this figure is one of that test alone.
    pub(crate) fn ratio_of(&self, line: &Line) -> Option<(f64, f64)> {
        let is_alone = self.kind == Kind::Speed && self.tests.contains(&line.test.as_str());
        self.ratio.filter(|_| is_alone && self.suite == line.suite)
    }

    /// Returns the lines of its tests.
    fn lines<'a>(&self, lines: &'a [Line]) -> Vec<&'a Line> {
        let is_one = |line: &&Line| {
            let is_exact = |test: &&&str| !test.ends_with(' ') && line.test == ***test;
            let begins = |test: &&&str| test.ends_with(' ') && line.test.starts_with(**test);
            line.suite == self.suite
                && self.tests.iter().any(|test| is_exact(&test) || begins(&test))
        };
        lines.iter().filter(is_one).collect()
    }

    /// Returns the ratio of a column in these lines.
    fn found(&self, lines: &[&Line], column: usize) -> Option<f64> {
        let largest =
            |at: usize| lines.iter().filter_map(|line| line.cells[at].value).reduce(f64::max);
        let cells = || lines.iter().map(|line| &line.cells[column]);
        let mean = |ratios: Vec<f64>| {
            let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
            (!ratios.is_empty()).then(|| (logs / ratios.len() as f64).exp())
        };
        match self.kind {
            Kind::Speed => mean(cells().filter_map(|cell| cell.ratio).collect()),
            Kind::Longest => mean(cells().filter_map(|cell| cell.longest).collect()),
            Kind::Best => largest(column).zip(largest(0)).map(|(on, off)| on / off),
        }
    }

    fn error(&self, found: f64) -> Option<f64> {
        let (low, high) = self.ratio?;
        Some(found / found.clamp(low, high) - 1.0)
    }

    fn agreement(&self, found: f64) -> Agreement {
        let is_right = match self.direction {
            0 => (found - 1.0).abs() <= UNCHANGED,
            1.. => found > 1.0,
            _ => found < 1.0,
        };
        match self.error(found) {
            _ if !is_right => Agreement::Direction,
            Some(error) if error.abs() > GOOD => Agreement::Size,
            _ => Agreement::Good,
        }
    }
}

/// Compares the column of RAPID with its published figures; empty without that column.
pub fn compare_with_rapid(review: &Review, lines: &[Line]) -> Vec<Comparison> {
    let Some(column) = position(review, RAPID_COLUMN) else { return Vec::new() };
    let own = crate::line::own_columns(review);
    let compare = |figure: &Published| {
        let lines = figure.lines(lines);
        let found = figure.found(&lines, column);
        let own = own.iter().filter_map(|column| figure.found(&lines, *column));
        let own = match figure.kind {
            Kind::Longest => own.reduce(f64::min),
            Kind::Speed | Kind::Best => own.reduce(f64::max),
        };
        let is_short = figure.needs_whole_pass && review.extent == "quick";
        Comparison {
            figure: *figure,
            found,
            error: found.filter(|_| !is_short).and_then(|found| figure.error(found)),
            agreement: match found {
                None => Agreement::Unknown,
                Some(_) if is_short => Agreement::Short,
                Some(found) => figure.agreement(found),
            },
            own,
        }
    };
    RAPID.iter().map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{lines, tests::sample};

    #[test]
    fn a_prediction_has_an_error_and_a_wrong_one_says_so() {
        let review = sample();
        let lines = lines(&review);
        let compared = compare_with_rapid(&review, &lines);
        assert_eq!(compared.len(), RAPID.len());
        let write = &compared[0];
        let is_near = |found: Option<f64>, wanted: f64| {
            found.is_some_and(|found| (found - wanted).abs() < 1e-9)
        };
        assert!(is_near(write.found, 3.2) && write.agreement == Agreement::Good, "{write:?}");
        assert!(write.error.expect("a size").abs() < 0.01);
        assert!(is_near(write.own, 3.0), "{write:?}");
        assert!(is_near(compared[1].found, 42.0), "{:?}", compared[1]);
        assert!(compared[2..].iter().all(|it| it.agreement == Agreement::Unknown));
        let unchanged = RAPID.iter().find(|it| it.what.contains("512 B") && it.direction == 0);
        let unchanged = unchanged.expect("random reads of 512 bytes");
        assert_eq!(unchanged.agreement(1.05), Agreement::Good);
        assert_eq!(unchanged.agreement(1.4), Agreement::Direction);
        assert_eq!(RAPID[0].agreement(2.0), Agreement::Size);
        assert_eq!(RAPID[0].agreement(0.9), Agreement::Direction);
        let mut none = sample();
        none.columns.pop();
        assert!(compare_with_rapid(&none, &super::super::lines(&none)).is_empty());
    }
}
