//! The health log of NVMe drives.

use super::{Limits, Line, Report, limits};
use serde_json::Value;

/// More than the bandwidth of any NVMe interface (PCIe 6.0 with 4 lanes).
const BYTES_PER_SECOND: u64 = 32_000_000_000;

/// Reads the log, whose fields are standard.
pub(super) fn read(report: &mut Report, value: &Value) {
    let log = &value["nvme_smart_health_information_log"];
    let number = |key: &str| log[key].as_u64();
    let hours = limits::hours(number("power_on_hours"));
    report.power_on_hours = report.power_on_hours.or(hours);
    let limits = Limits::new(value, report.power_on_hours, BYTES_PER_SECOND);
    // A unit is a thousand sectors.
    let units = |key: &str| limits.transferred(number(key)?.checked_mul(512_000)?);
    report.host_written_bytes = units("data_units_written");
    report.host_read_bytes = units("data_units_read");
    report.worn_percent = number("percentage_used").map(limits::worn).or(report.worn_percent);
    report.spare_percent = limits::percent(number("available_spare")).or(report.spare_percent);
    // A drive without a limit that has none left does not count them.
    if number("available_spare_threshold") == Some(0) && number("available_spare") == Some(0) {
        report.spare_percent = None;
    }
    report.spare_threshold_percent = limits::percent(number("available_spare_threshold"));
    report.critical_warning = number("critical_warning");
    report.media_errors = limits::errors(number("media_errors"));
    let temperature = limits::temperature(log["temperature"].as_i64());
    report.temperature_c = report.temperature_c.or(temperature);
    let fields = log.as_object().into_iter().flatten();
    let fields = fields.filter(|(_, value)| value.is_number());
    report.attributes.extend(fields.map(|(name, value)| Line {
        id: 0,
        name: name.clone(),
        normalized: None,
        raw: value.to_string(),
    }));
}
