//! Queries a drive's health, by NVMe commands or with smartctl, judges it by its past, and formats
//! it as an object or as lines.

use super::past;
use crate::tools;
use advice::drive::{Forecast, Level, Unknown, Verdict, judge, meaning};
use block::{Size, printable};
use drives::Attribute;
use host::disks::{Roots, drive_identity};
use host::nvme;
use host::smartctl::{self, Line, Nothing, Report, is_hidden_by_usb};
use report::terminal::Look;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// A drive's report, and the verdict on it.
pub(super) struct Health {
    pub(super) report: Report,
    pub(super) verdict: Verdict,
    /// The drive has not answered: the report has its model and serial number only.
    pub(super) late: Option<Failure>,
}

impl Health {
    /// Judges a report without a past.
    pub(super) fn of(report: Report) -> Health {
        let verdict = judge(&report, &[]);
        Health { report, verdict, late: None }
    }

    /// Returns a report of a drive that does not answer: the system's model and serial number.
    fn of_silent(device: &Path, time: Duration) -> Health {
        let node = device.canonicalize().unwrap_or_else(|_| device.to_owned());
        let name = node.file_name().unwrap_or_default().to_string_lossy();
        let identity = drive_identity(&Roots::default(), &name);
        let report = Report { model: identity.model, serial: identity.serial, ..Report::default() };
        let mut verdict = judge(&report, &[]);
        let seconds = time.as_secs_f64();
        verdict.reasons = vec![format!(
            "it has not answered within {seconds} s; check its cable and power, and the kernel's \
             messages (dmesg)"
        )];
        let late = Some(refused(device, Nothing::Late(time)));
        Health { report, verdict, late }
    }

    /// Whether the drive is failing.
    pub(super) fn fails(&self) -> bool {
        self.verdict.level == Level::Failing
    }
}

/// Queries a drive for at most this time, records its report, and judges it by the recorded ones.
/// `records`: the report is recorded.
pub(super) fn examine(device: &Path, records: bool, time: Duration) -> Result<Health, Failure> {
    let report = match ask(device, time) {
        Err(Nothing::Late(_)) => return Ok(Health::of_silent(device, time)),
        answer => answer.map_err(|nothing| refused(device, nothing))?,
    };
    let past = past::of(device, &report, records);
    let verdict = judge(&report, &past);
    Ok(Health { report, verdict, late: None })
}

/// Queries a drive.
fn ask(device: &Path, time: Duration) -> Result<Report, Nothing> {
    if nvme::is_nvme(device) {
        match nvme::ask_within(device, time) {
            // Another way for a drive that takes no commands in this one.
            Err(Nothing::None(_)) => {}
            answer => return answer,
        }
    }
    let program = tools::find("smartctl").ok_or(Nothing::Unstarted(String::new()))?;
    smartctl::ask_within(&program, device, time)
}

fn refused(device: &Path, nothing: Nothing) -> Failure {
    let place = device.display();
    match nothing {
        Nothing::Unstarted(words) if words.is_empty() => {
            let install = tools::install(&["smartmontools"]);
            let message =
                format!("{place}: smartctl, which reads SMART, is not installed; run '{install}'");
            Failure::new(Exit::Negative, message)
        }
        Nothing::Unstarted(words) => {
            let message = format!("{place}: smartctl did not start ({words}); reinstall it");
            Failure::new(Exit::Io, message)
        }
        Nothing::Late(time) => {
            let message = format!(
                "{place}: does not answer within {} s; check its cable and power, and the \
                 kernel's messages (dmesg)",
                time.as_secs_f64()
            );
            Failure::new(Exit::Io, message)
        }
        Nothing::Garbled(words) => {
            let message = format!(
                "{place}: smartctl printed no JSON ({words}); install smartmontools 7.0 or later"
            );
            Failure::new(Exit::Io, message)
        }
        Nothing::Closed(words) if words.contains("Permission denied") => {
            let message = format!("{place}: only root may read its SMART; run this with sudo");
            Failure::new(Exit::Permission, message)
        }
        Nothing::Closed(words) => {
            let message =
                format!("{place}: smartctl could not open it ({words}); check the device");
            Failure::new(Exit::Io, message)
        }
        Nothing::None(words) if is_hidden_by_usb(&words) => {
            let message = format!(
                "{place}: its USB bridge hides SMART (smartctl: {words}); connect the drive \
                 without it, or look for the bridge's option -d in smartctl(8)"
            );
            Failure::new(Exit::Negative, message)
        }
        Nothing::None(words) => {
            let said = if words.is_empty() { "nothing" } else { &words };
            let message = format!(
                "{place}: offers no SMART attributes, like most virtual disks (smartctl: \
                 {said}); check the drive on the host"
            );
            Failure::new(Exit::Negative, message)
        }
    }
}

/// Returns an attribute of a modelled drive, in the same form as a real one's.
pub(super) fn modelled(attribute: &Attribute) -> Value {
    line_json(&Line {
        id: u64::from(attribute.id),
        name: attribute.name.to_owned(),
        normalized: attribute.normalized.map(u64::from),
        raw: attribute.raw.to_string(),
    })
}

fn line_json(line: &Line) -> Value {
    json!({
        "id": line.id,
        "name": line.name,
        "normalized": line.normalized,
        "raw": line.raw,
        "meaning": meaning(&line.name),
    })
}

fn forecast_json(forecast: &Forecast) -> Value {
    json!({
        "percent_per_day": forecast.percent_per_day,
        "days_left": forecast.days_left,
        "days_left_interval": [forecast.days_left_interval.0, forecast.days_left_interval.1],
        "history_days": forecast.history_days,
        "samples": forecast.samples,
    })
}

/// Formats a number of days.
fn days(days: f64) -> String {
    match days {
        days if days >= 365.25 * 49.9 => "more than 50 years".to_owned(),
        days if days >= 730.0 => format!("{:.1} years", days / 365.25),
        days => format!("{days:.0} days"),
    }
}

fn forecast_text(forecast: &Result<Forecast, Unknown>) -> String {
    match forecast {
        Err(unknown) => missing(unknown),
        Ok(forecast) => {
            let (low, high) = forecast.days_left_interval;
            format!(
                "rated life ends in {} with the load of the last {:.0} days (95 %: {} to {}; {} \
                 samples)",
                days(forecast.days_left),
                forecast.history_days,
                days(low),
                days(high),
                forecast.samples
            )
        }
    }
}

/// Returns the reason why there is no forecast.
fn missing(unknown: &Unknown) -> String {
    match unknown {
        Unknown::NoHistory => "none: there is no history of this drive".to_owned(),
        Unknown::NoWear => "none: the drive does not report its wear".to_owned(),
        Unknown::TooShort { samples, days } => format!(
            "none: the history is too short ({samples} samples in {days:.1} days; 5 in 7 days are \
             needed, and each 'drive health' records one)"
        ),
        Unknown::Unused { days } => {
            format!("no end in sight: its wear has not grown in {days:.0} days")
        }
        Unknown::GoesBack => "none: its counters have gone back".to_owned(),
    }
}

pub(super) fn as_json(place: &str, health: &Health) -> Value {
    let Health { report, verdict, .. } = health;
    let attributes: Vec<Value> = report.attributes.iter().map(line_json).collect();
    json!({
        "schema": "overdrive.drive.health/1",
        "device": place,
        "answered": health.late.is_none(),
        "model": report.model,
        "firmware": report.firmware,
        "serial": report.serial,
        "capacity_bytes": report.capacity_bytes,
        "verdict": verdict.level.word(),
        "reasons": verdict.reasons,
        "forecast": verdict.forecast.as_ref().ok().map(forecast_json),
        "forecast_missing": verdict.forecast.as_ref().err().map(missing),
        "passed": report.passed,
        "host_written_bytes": report.host_written_bytes,
        "host_read_bytes": report.host_read_bytes,
        "nand_written_bytes": report.nand_written_bytes,
        "write_amplification": report.write_amplification,
        "worn_percent": report.worn_percent,
        "spare_percent": report.spare_percent,
        "spare_threshold_percent": report.spare_threshold_percent,
        "critical_warning": report.critical_warning,
        "temperature_c": report.temperature_c,
        "temperature_max_c": report.temperature_max_c,
        "power_on_hours": report.power_on_hours,
        "media_errors": report.media_errors,
        "reallocated": report.reallocated,
        "pending": report.pending,
        "link_errors": report.link_errors,
        "attributes": attributes,
    })
}

/// A drive's verdicts on itself.
const FAILING: &str = "FAILING";
const PASSED: &str = "passed";
pub(super) const VERDICTS: [(&str, Look); 5] = [
    (FAILING, Look::Bad),
    (PASSED, Look::Good),
    ("failing", Look::Bad),
    ("watch", Look::Bad),
    ("good", Look::Good),
];

/// Blanks before the further lines of a value.
pub(super) const INDENT: usize = 21;

pub(super) fn as_text(place: &str, health: &Health) -> String {
    let Health { report, verdict, .. } = health;
    let mut text = String::new();
    let known = |value: Option<String>| value.unwrap_or_else(|| "not reported".to_owned());
    let size = |bytes: Option<u64>| known(bytes.map(|bytes| Size(bytes).to_string()));
    let number =
        |number: Option<u64>, unit: &str| known(number.map(|number| format!("{number}{unit}")));
    let own = report.passed.map(|passed| if passed { PASSED } else { FAILING }.to_owned());
    let temperature = report.temperature_c.map(|degrees| match report.temperature_max_c {
        Some(limit) => format!("{degrees} C (limit {limit} C)"),
        None => format!("{degrees} C"),
    });
    let name = format!("{} {}", printable(place), printable(&report.model));
    let mut lines = vec![("device", name), ("verdict", verdict.level.to_string())];
    lines.extend(verdict.reasons.iter().map(|reason| ("reason", reason.clone())));
    lines.extend([
        ("forecast", forecast_text(&verdict.forecast)),
        ("its own verdict", known(own)),
        ("host writes", size(report.host_written_bytes)),
        ("host reads", size(report.host_read_bytes)),
        ("NAND writes", size(report.nand_written_bytes)),
        (
            "write amplification",
            known(report.write_amplification.map(|ratio| format!("{ratio:.2}"))),
        ),
        ("worn", number(report.worn_percent, " %")),
        ("spare left", number(report.spare_percent, " %")),
        ("temperature", known(temperature)),
        ("powered on", number(report.power_on_hours, " h")),
        ("media errors", number(report.media_errors, "")),
        ("reallocated", number(report.reallocated, "")),
    ]);
    for (name, value) in lines {
        _ = writeln!(text, "{name:<20} {value}");
    }
    text.push('\n');
    text.push_str(&lines_text(&report.attributes));
    text
}

/// Formats a modelled drive's attributes as smartctl prints them.
pub(super) fn table(attributes: &[Attribute]) -> String {
    let lines: Vec<Line> = attributes
        .iter()
        .map(|attribute| Line {
            id: u64::from(attribute.id),
            name: attribute.name.to_owned(),
            normalized: attribute.normalized.map(u64::from),
            raw: attribute.raw.to_string(),
        })
        .collect();
    lines_text(&lines)
}

fn lines_text(lines: &[Line]) -> String {
    let mut text =
        format!("{:>3} {:<28} {:>5} {}\n", "ID#", "ATTRIBUTE_NAME", "VALUE", "RAW_VALUE");
    for line in lines {
        let id = if line.id > 0 { line.id.to_string() } else { "-".to_owned() };
        let value = line.normalized.map_or("-".to_owned(), |value| format!("{value:03}"));
        let (name, raw) = (printable(&line.name), printable(&line.raw));
        let line = match meaning(&line.name) {
            Some(meaning) => format!("{id:>3} {name:<28} {value:>5} {raw:<16} {meaning}"),
            None => format!("{id:>3} {name:<28} {value:>5} {raw}"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}
