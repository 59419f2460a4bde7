//! One verdict on a drive from its report and its past.

use super::forecast::{Forecast, Past, Unknown, forecast};
use host::smartctl::Report;
use std::fmt;

/// The verdict in a word, from the best to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Nothing is wrong.
    Good,
    /// The drive reports too little for a verdict.
    Unknown,
    /// Something needs attention.
    Watch,
    /// Replace it.
    Failing,
}

impl Level {
    /// Returns its word.
    pub fn word(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Unknown => "unknown",
            Level::Watch => "watch",
            Level::Failing => "failing",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The verdict on a drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The worst of its reasons.
    pub level: Level,
    /// Sentences, the worst first.
    pub reasons: Vec<String>,
    /// When its rated life ends.
    pub forecast: Result<Forecast, Unknown>,
}

/// Wear from which a drive needs attention, in percent.
const WORN_WATCH: u64 = 90;
/// Remaining life below which a drive needs attention, in days: half a year.
const DAYS_WATCH: f64 = 182.0;
/// Temperatures for drives that report no limit, in degrees Celsius.
const TEMPERATURE_MAX_C: i64 = 70;
const TEMPERATURE_MAX_DISK_C: i64 = 60;

/// The bits of NVMe's critical warning: whether the drive is failing, and a sentence.
const WARNINGS: [(bool, &str); 6] = [
    (true, "its spare blocks are used up: replace it"),
    (false, "it is or was too hot or too cold: check the air flow"),
    (true, "it is not reliable any more, because of errors of its flash or itself: replace it"),
    (true, "it only reads: copy its data and replace it"),
    (true, "the backup of its write buffer has failed: a power cut may lose data; replace it"),
    (true, "its persistent memory region is not reliable any more: replace it"),
];

/// Judges a drive by its report, and by earlier ones, oldest first. The last of these may be the
/// report itself.
pub fn judge(report: &Report, past: &[Past]) -> Verdict {
    let mut found: Vec<(Level, String)> = Vec::new();
    found.extend(own_verdict(report));
    found.extend(spare(report));
    found.extend(errors(report, past));
    found.extend(temperature(report));
    let forecast = forecast(past);
    found.extend(wear(report, &forecast));
    found.extend(backwards(report, past));
    if found.is_empty() && is_silent(report) {
        let words = "it reports neither a verdict of its own nor its wear or errors";
        found.push((Level::Unknown, words.to_owned()));
    }
    found.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    if found.is_empty() {
        found.push((Level::Good, good(report)));
    }
    Verdict {
        level: found[0].0,
        reasons: found.into_iter().map(|(_, words)| words).collect(),
        forecast,
    }
}

/// Whether a report has nothing by which to judge the drive.
fn is_silent(report: &Report) -> bool {
    let figures =
        [report.worn_percent, report.media_errors, report.reallocated, report.spare_percent];
    report.passed.is_none() && figures.iter().all(Option::is_none)
}

fn own_verdict(report: &Report) -> Vec<(Level, String)> {
    let warning = report.critical_warning.unwrap_or(0);
    let bits = WARNINGS.iter().enumerate().filter(|(bit, _)| warning >> bit & 1 == 1);
    let mut found: Vec<_> = bits
        .map(|(_, (is_failing, words))| {
            let level = if *is_failing { Level::Failing } else { Level::Watch };
            (level, (*words).to_owned())
        })
        .collect();
    if report.passed == Some(false) && found.is_empty() {
        let words = "the drive itself reports that it is failing: copy its data and replace it";
        found.push((Level::Failing, words.to_owned()));
    }
    found
}

fn spare(report: &Report) -> Option<(Level, String)> {
    let spare = report.spare_percent?;
    let threshold = report.spare_threshold_percent.filter(|threshold| *threshold > 0);
    let is_reported = report.critical_warning.unwrap_or(0) & 1 == 1;
    match threshold {
        Some(threshold) if spare < threshold && !is_reported => Some((
            Level::Failing,
            format!(
                "{spare} % of its spare blocks are left, less than its own limit of {threshold} \
                 %, although it reports no failure: replace it"
            ),
        )),
        Some(threshold) if spare < threshold => None,
        None if spare < 10 => {
            Some((Level::Failing, format!("{spare} % of its spare blocks are left: replace it")))
        }
        _ if spare < 50 => Some((
            Level::Watch,
            format!("{spare} % of its spare blocks are left: plan its replacement"),
        )),
        _ => None,
    }
}

/// Returns the growth of a count since the oldest earlier report of the last 30 days.
fn grown(now: u64, past: &[Past], value: fn(&Past) -> Option<i64>) -> Option<u64> {
    let last_s = past.last()?.at_s;
    let is_recent = |it: &&Past| it.at_s >= last_s.saturating_sub(30 * 86_400);
    let before = past.iter().filter(is_recent).find_map(value)?;
    Some(now.saturating_sub(u64::try_from(before).ok()?))
}

fn errors(report: &Report, past: &[Past]) -> Vec<(Level, String)> {
    let mut found = Vec::new();
    let lately = |growth: Option<u64>| match growth {
        Some(0) => ", none of them in the recorded last 30 days".to_owned(),
        Some(growth) => format!(", {growth} of them in the last 30 days"),
        None => String::new(),
    };
    if let Some(count @ 1..) = report.media_errors {
        let lately = lately(grown(count, past, |past| past.media_errors));
        let words = format!(
            "{count} reads or writes have failed and could not be corrected{lately}: check that \
             there is a copy of its data"
        );
        found.push((Level::Watch, words));
    }
    if let Some(count @ 1..) = report.pending {
        let words = format!(
            "{count} sectors cannot be read now; they are replaced when they are written: restore \
             the files on them"
        );
        found.push((Level::Watch, words));
    }
    if let Some(count @ 1..) = report.reallocated {
        let growth = grown(count, past, |past| past.reallocated);
        // Flash drives replace blocks as long as they live; growth is what matters.
        if report.is_disk || growth.is_some_and(|growth| growth > 0) {
            let lately = lately(growth);
            found.push((Level::Watch, format!("{count} sectors or blocks were replaced{lately}")));
        }
    }
    if let Some(count @ 100..) = report.link_errors {
        let words = format!("{count} transfers arrived damaged and were repeated: check its cable");
        found.push((Level::Watch, words));
    }
    found
}

fn temperature(report: &Report) -> Option<(Level, String)> {
    let degrees = report.temperature_c?;
    let usual = if report.is_disk { TEMPERATURE_MAX_DISK_C } else { TEMPERATURE_MAX_C };
    let limit = report.temperature_max_c.filter(|limit| *limit > 0).unwrap_or(usual);
    let words = || format!("it has {degrees} C, and its limit is {limit} C: check the air flow");
    (degrees >= limit).then(|| (Level::Watch, words()))
}

fn wear(report: &Report, forecast: &Result<Forecast, Unknown>) -> Option<(Level, String)> {
    let worn = report.worn_percent?;
    if worn >= 100 {
        let words = "its rated life is used up: it may work for long, but plan its replacement";
        return Some((Level::Watch, words.to_owned()));
    }
    if worn >= WORN_WATCH {
        let words = format!("{worn} % of its rated life are used: plan its replacement");
        return Some((Level::Watch, words));
    }
    let left = forecast.ok().map(|forecast| forecast.days_left)?;
    let words = || format!("with the present load its rated life ends in {left:.0} days");
    (left < DAYS_WATCH).then(|| (Level::Watch, words()))
}

/// Counters never go back, unless the drive's firmware resets them.
fn backwards(report: &Report, past: &[Past]) -> Option<(Level, String)> {
    type Counter = (&'static str, Option<u64>, fn(&Past) -> Option<i64>);
    let counters: [Counter; 4] = [
        ("written bytes", report.host_written_bytes, |past| past.host_written_bytes),
        ("media errors", report.media_errors, |past| past.media_errors),
        ("replaced blocks", report.reallocated, |past| past.reallocated),
        // Some round it up or down.
        ("wear", report.worn_percent.map(|worn| worn + 1), |past| past.worn_percent),
    ];
    let has_gone_back = |(_, now, value): &Counter| {
        let most = past.iter().filter_map(value).max();
        most.zip(*now).is_some_and(|(most, now)| u64::try_from(most).is_ok_and(|most| now < most))
    };
    let names: Vec<&str> =
        counters.iter().filter(|counter| has_gone_back(counter)).map(|(name, ..)| *name).collect();
    let words = || {
        format!(
            "its counters have gone back since earlier reports ({}): they were reset, or another \
             drive reports the same serial number; do not trust them",
            names.join(", ")
        )
    };
    (!names.is_empty()).then(|| (Level::Watch, words()))
}

fn good(report: &Report) -> String {
    let mut parts = Vec::new();
    if report.passed == Some(true) {
        parts.push("the drive reports no failure".to_owned());
    }
    if let Some(worn) = report.worn_percent {
        parts.push(format!("{worn} % of its rated life are used"));
    }
    if report.media_errors == Some(0) {
        parts.push("no read or write has failed".to_owned());
    }
    match parts.is_empty() {
        true => "nothing that it reports is wrong".to_owned(),
        false => parts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Report {
        Report {
            passed: Some(true),
            worn_percent: Some(12),
            media_errors: Some(0),
            temperature_c: Some(40),
            host_written_bytes: Some(1 << 40),
            ..Report::default()
        }
    }

    fn of(report: &Report) -> (Level, String) {
        let verdict = judge(report, &[]);
        (verdict.level, verdict.reasons.join("; "))
    }

    #[test]
    fn a_healthy_drive_is_good_and_says_why() {
        let (level, words) = of(&healthy());
        assert_eq!(level, Level::Good);
        assert!(words.contains("12 % of its rated life are used"), "{words}");
    }

    #[test]
    fn each_fault_has_its_level_and_its_words() {
        let report = healthy;
        for (report, level, words) in [
            (Report { passed: Some(false), ..report() }, Level::Failing, "itself reports"),
            (Report { critical_warning: Some(1), ..report() }, Level::Failing, "spare blocks"),
            (Report { critical_warning: Some(2), ..report() }, Level::Watch, "too hot"),
            (Report { critical_warning: Some(8), ..report() }, Level::Failing, "only reads"),
            (Report { spare_percent: Some(5), ..report() }, Level::Failing, "5 %"),
            (
                Report {
                    spare_percent: Some(5),
                    spare_threshold_percent: Some(10),
                    critical_warning: Some(0),
                    ..report()
                },
                Level::Failing,
                "although it reports no failure",
            ),
            (Report { media_errors: Some(3), ..report() }, Level::Watch, "3 reads or writes"),
            (Report { pending: Some(8), ..report() }, Level::Watch, "8 sectors cannot be read"),
            (Report { link_errors: Some(500), ..report() }, Level::Watch, "check its cable"),
            (Report { temperature_c: Some(85), ..report() }, Level::Watch, "85 C"),
            (Report { worn_percent: Some(93), ..report() }, Level::Watch, "93 %"),
            (Report { worn_percent: Some(100), ..report() }, Level::Watch, "is used up"),
            (
                Report { reallocated: Some(3), is_disk: true, ..report() },
                Level::Watch,
                "3 sectors or blocks were replaced",
            ),
            (Report { reallocated: Some(3), ..report() }, Level::Good, "no failure"),
            (Report::default(), Level::Unknown, "reports neither"),
        ] {
            let found = of(&report);
            assert_eq!(found.0, level, "{found:?}");
            assert!(found.1.contains(words), "{words}: {found:?}");
        }
    }

    #[test]
    fn the_past_shows_growth_and_counters_that_go_back() {
        let past = |at_s: i64, written: i64, errors| Past {
            at_s: at_s * 86_400,
            host_written_bytes: Some(written),
            media_errors: Some(errors),
            ..Past::default()
        };
        let report = Report { media_errors: Some(5), ..healthy() };
        let verdict =
            judge(&report, &[past(0, 1, 0), past(100, 1 << 39, 2), past(101, 1 << 40, 5)]);
        assert!(verdict.reasons[0].contains("5 reads or writes"), "{verdict:?}");
        assert!(verdict.reasons[0].contains("3 of them in the last 30 days"), "{verdict:?}");
        let verdict = judge(&healthy(), &[past(0, 1 << 41, 0)]);
        assert_eq!(verdict.level, Level::Watch);
        assert!(verdict.reasons[0].contains("have gone back"), "{verdict:?}");
        assert!(verdict.reasons[0].contains("(written bytes)"), "{verdict:?}");
        let past = Past {
            worn_percent: Some(14),
            media_errors: Some(3),
            reallocated: Some(9),
            ..Past::default()
        };
        let report = Report { reallocated: Some(8), ..healthy() };
        let verdict = judge(&report, &[past]);
        let words = verdict.reasons.join(" ");
        assert!(words.contains("(media errors, replaced blocks, wear)"), "{words}");
        let rounded = Past { worn_percent: Some(13), ..Past::default() };
        assert_eq!(judge(&healthy(), &[rounded]).level, Level::Good);
        // A file of another program.
        let nonsense = Past { media_errors: Some(i64::MIN), at_s: i64::MAX, ..Past::default() };
        assert_eq!(judge(&healthy(), &[nonsense, nonsense]).level, Level::Good);
    }

    #[test]
    fn the_worst_reason_is_first() {
        let report = Report { passed: Some(false), media_errors: Some(2), ..healthy() };
        let verdict = judge(&report, &[]);
        assert_eq!((verdict.level, verdict.reasons.len()), (Level::Failing, 2));
        assert!(verdict.reasons[0].contains("failing"), "{verdict:?}");
    }
}
