//! Log pages of SCSI and SAS drives.
//!
//! smartctl 7.2 and 7.5 print `model_name`; 7.3 and 7.4 print `scsi_model_name` instead, and since
//! 7.3 vendor, product and revision have the prefix `scsi_` as well.

use super::{Limits, Line, Report, limits};
use serde_json::Value;

/// More than the bandwidth of any SAS interface (two ports of 24 Gb/s).
const BYTES_PER_SECOND: u64 = 5_000_000_000;

/// Whether a log page contains health data.
pub(super) fn has_health(value: &Value) -> bool {
    value["scsi_grown_defect_list"].is_u64()
        || value["scsi_error_counter_log"].is_object()
        || value["scsi_percentage_used_endurance_indicator"].is_u64()
}

/// Reads the log pages.
pub(super) fn read(report: &mut Report, value: &Value) {
    name(report, value);
    let limits = Limits::new(value, report.power_on_hours, BYTES_PER_SECOND);
    let log = &value["scsi_error_counter_log"];
    report.host_written_bytes =
        processed(&log["write"]).and_then(|bytes| limits.transferred(bytes));
    report.host_read_bytes = processed(&log["read"]).and_then(|bytes| limits.transferred(bytes));
    report.media_errors = uncorrected(log);
    let defects = value["scsi_grown_defect_list"].as_u64();
    report.reallocated = defects.and_then(|defects| limits.reallocated(defects));
    let used = value["scsi_percentage_used_endurance_indicator"].as_u64();
    report.worn_percent = used.map(limits::worn).or(report.worn_percent);
    report.attributes = lines(value);
}

fn name(report: &mut Report, value: &Value) {
    let text = |keys: &[&str]| {
        let mut found = keys.iter().filter_map(|key| value[key].as_str());
        found.find(|word| !word.is_empty()).map(str::to_owned)
    };
    if report.model.is_empty() {
        let whole = text(&["scsi_model_name"]);
        let parts = [text(&["scsi_vendor", "vendor"]), text(&["scsi_product", "product"])];
        let joined = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        report.model = whole.unwrap_or(joined);
    }
    if report.firmware.is_empty() {
        report.firmware = text(&["scsi_revision", "revision"]).unwrap_or_default();
    }
}

/// Returns the bytes of a counter in units of 10^9, which is printed as "11151.772".
fn processed(counter: &Value) -> Option<u64> {
    let gigabytes = match &counter["gigabytes_processed"] {
        Value::String(text) => text.parse().ok()?,
        number => number.as_f64()?,
    };
    // The conversion saturates; the limits refuse the result.
    (gigabytes >= 0.0).then_some((gigabytes * 1e9) as u64)
}

/// Returns the sum of the uncorrected errors of reads, writes and verifications.
fn uncorrected(log: &Value) -> Option<u64> {
    let kinds = ["read", "write", "verify"];
    let counts = kinds.iter().filter_map(|kind| log[kind]["total_uncorrected_errors"].as_u64());
    limits::errors(counts.reduce(u64::saturating_add))
}

/// Returns the counters as lines.
fn lines(value: &Value) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |name: String, raw: &Value| {
        if raw.is_number() || raw.is_string() {
            let raw = raw.as_str().map_or_else(|| raw.to_string(), str::to_owned);
            lines.push(Line { id: 0, name, normalized: None, raw });
        }
    };
    line("grown_defect_list".to_owned(), &value["scsi_grown_defect_list"]);
    for kind in ["read", "write", "verify"] {
        let counters = value["scsi_error_counter_log"][kind].as_object();
        for (key, counter) in counters.into_iter().flatten() {
            line(format!("{kind}.{key}"), counter);
        }
    }
    lines
}
