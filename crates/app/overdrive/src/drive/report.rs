//! Queries a drive's health with smartctl, and formats it as an object or as lines.

use crate::tools;
use block::{Size, printable};
use drives::Attribute;
use host::smartctl::{self, Line, Nothing, Report};
use report::terminal::Look;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fmt::Write;
use std::path::Path;

/// Runs smartctl.
pub(super) fn ask(device: &Path) -> Result<Report, Failure> {
    let place = device.display();
    let Some(program) = tools::find("smartctl") else {
        let install = tools::install(&["smartmontools"]);
        let message =
            format!("{place}: smartctl, which reads SMART, is not installed; run '{install}'");
        return Err(Failure::new(Exit::Negative, message));
    };
    smartctl::ask(&program, device).map_err(|nothing| refused(device, nothing))
}

fn refused(device: &Path, nothing: Nothing) -> Failure {
    let place = device.display();
    match nothing {
        Nothing::Unstarted(words) => {
            let message = format!("{place}: smartctl did not start ({words}); reinstall it");
            Failure::new(Exit::Io, message)
        }
        Nothing::Late(time) => {
            let message = format!(
                "{place}: does not answer within {} s; check its cable and power, and the \
                 kernel's messages (dmesg)",
                time.as_secs()
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
    })
}

pub(super) fn as_json(place: &str, report: &Report) -> Value {
    let attributes: Vec<Value> = report.attributes.iter().map(line_json).collect();
    json!({
        "schema": "overdrive.drive.health/1",
        "device": place,
        "model": report.model,
        "firmware": report.firmware,
        "passed": report.passed,
        "host_written_bytes": report.host_written_bytes,
        "host_read_bytes": report.host_read_bytes,
        "nand_written_bytes": report.nand_written_bytes,
        "write_amplification": report.write_amplification,
        "worn_percent": report.worn_percent,
        "spare_percent": report.spare_percent,
        "temperature_c": report.temperature_c,
        "power_on_hours": report.power_on_hours,
        "media_errors": report.media_errors,
        "reallocated": report.reallocated,
        "attributes": attributes,
    })
}

/// A drive's verdicts on itself.
const FAILING: &str = "FAILING";
const PASSED: &str = "passed";
pub(super) const VERDICTS: [(&str, Look); 2] = [(FAILING, Look::Bad), (PASSED, Look::Good)];

/// Blanks before the further lines of a value.
pub(super) const INDENT: usize = 21;

pub(super) fn as_text(place: &str, report: &Report) -> String {
    let mut text = String::new();
    let known = |value: Option<String>| value.unwrap_or_else(|| "not reported".to_owned());
    let size = |bytes: Option<u64>| known(bytes.map(|bytes| Size(bytes).to_string()));
    let number =
        |number: Option<u64>, unit: &str| known(number.map(|number| format!("{number}{unit}")));
    let verdict = report.passed.map(|passed| if passed { PASSED } else { FAILING }.to_owned());
    let temperature = report.temperature_c.map(|degrees| format!("{degrees} C"));
    let lines = [
        ("device", format!("{} {}", printable(place), printable(&report.model))),
        ("its own verdict", known(verdict)),
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
    ];
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
        _ = writeln!(text, "{id:>3} {name:<28} {value:>5} {raw}");
    }
    text
}
