//! Reads smartctl's JSON and converts it to the same few values for all vendors.
//!
//! NVMe's log, SCSI's log pages and ATA's device statistics are standards. ATA attributes depend on
//! the vendor: `families` lists the meaning and unit of each, by drive family. A value with an
//! unknown meaning, or an impossible value (`limits`), stays empty: reports never guess.

mod ata;
mod families;
mod generic;
mod limits;
mod nvme;
mod raw;
mod scsi;

use limits::Limits;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// An attribute. Its number is the vendor's; NVMe attributes have none.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Number; 0: none.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Value as scaled by the vendor.
    pub normalized: Option<u64>,
    /// Raw value.
    pub raw: String,
}

/// A drive's health. A value that the drive does not report, or that is impossible, is `None`.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Report {
    /// The model's name.
    pub model: String,
    /// The firmware's version.
    pub firmware: String,
    /// The serial number; empty: not reported.
    pub serial: String,
    /// Its size in bytes.
    pub capacity_bytes: Option<u64>,
    /// Whether it is a hard disk.
    pub is_disk: bool,
    /// The drive's own assessment.
    pub passed: Option<bool>,
    /// Bytes that the host wrote.
    pub host_written_bytes: Option<u64>,
    /// Bytes that the host read.
    pub host_read_bytes: Option<u64>,
    /// Bytes written to the flash.
    pub nand_written_bytes: Option<u64>,
    /// Flash writes divided by host writes; below 1 only if a drive compresses.
    pub write_amplification: Option<f64>,
    /// Used share of the flash's rated life, in percent; at most 100.
    pub worn_percent: Option<u64>,
    /// Spare blocks left, in percent of their initial number.
    pub spare_percent: Option<u64>,
    /// Share of spare blocks below which the drive reports a failure, in percent.
    pub spare_threshold_percent: Option<u64>,
    /// The bits of NVMe's critical warning.
    pub critical_warning: Option<u64>,
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<i64>,
    /// Highest temperature at which the drive may work, in degrees Celsius.
    pub temperature_max_c: Option<i64>,
    /// Hours that the drive was on.
    pub power_on_hours: Option<u64>,
    /// Reads or writes whose errors could not be corrected.
    pub media_errors: Option<u64>,
    /// Replaced sectors or blocks.
    pub reallocated: Option<u64>,
    /// Sectors that could not be read, and are replaced when they are written.
    pub pending: Option<u64>,
    /// Transfers between host and drive that arrived damaged, and were repeated.
    pub link_errors: Option<u64>,
    /// The vendor's attributes, as smartctl prints them.
    pub attributes: Vec<Line>,
}

/// Reasons why there is no report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Nothing {
    /// smartctl did not start: the system's error.
    Unstarted(String),
    /// smartctl has not ended within this time, because the drive does not answer.
    Late(Duration),
    /// smartctl printed no JSON, as versions before 7.0 do, or did not stop printing: the reason.
    Garbled(String),
    /// The device could not be opened: smartctl's message.
    Closed(String),
    /// The device has no SMART, or does not report it: smartctl's message, if any.
    None(String),
}

/// Maximum size of smartctl's output; real output has less than 1 MiB.
const OUTPUT_MAX_BYTES: u64 = 16 << 20;

/// Maximum time of a query; a hard disk that has to start turning takes up to 20 s.
pub const TIME_MAX: Duration = Duration::from_secs(30);

/// Runs the program `smartctl` on a device and reads its output.
///
/// # Errors
/// The program failed, or its output contains no health data.
pub fn ask(smartctl: &Path, device: &Path) -> Result<Report, Nothing> {
    ask_within(smartctl, device, TIME_MAX)
}

/// Words of smartctl's message about a drive that sleeps: ATA, and SCSI.
const ASLEEP: [&str; 2] = ["STANDBY", "NOT READY"];

/// As [`ask`], but does not wake a drive that sleeps: None.
///
/// # Errors
/// As [`ask`].
pub fn ask_awake(smartctl: &Path, device: &Path) -> Result<Option<Report>, Nothing> {
    match ask_with(smartctl, &["-n", "standby"], device, TIME_MAX) {
        Err(Nothing::Closed(words)) if ASLEEP.iter().any(|asleep| words.contains(asleep)) => {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// Runs the program `smartctl` on a device, for at most this time, and reads its output. A USB
/// bridge that smartctl does not recognise is queried again by the standard way to pass on ATA
/// commands.
///
/// # Errors
/// The program failed, or its output contains no health data.
pub fn ask_within(smartctl: &Path, device: &Path, max_time: Duration) -> Result<Report, Nothing> {
    ask_with(smartctl, &[], device, max_time)
}

fn ask_with(
    smartctl: &Path,
    options: &[&str],
    device: &Path,
    max_time: Duration,
) -> Result<Report, Nothing> {
    let begun_ns = crate::now_ns();
    let query = |more: &[&str], max_time| {
        let options = [options, more].concat();
        let output = output(smartctl, &options, device, OUTPUT_MAX_BYTES, max_time)?;
        let value = serde_json::from_slice(&output);
        report(&value.map_err(|error: serde_json::Error| Nothing::Garbled(error.to_string()))?)
    };
    let found = query(&[], max_time);
    match &found {
        Err(Nothing::None(words)) if is_hidden_by_usb(words) => {}
        _ => return found,
    }
    let passed = Duration::from_nanos(crate::now_ns() - begun_ns);
    match query(&["-d", "sat"], max_time.saturating_sub(passed)) {
        // The first message names the bridge.
        Err(Nothing::None(_) | Nothing::Closed(_)) => found,
        second => second,
    }
}

/// Whether smartctl's message is about a USB bridge that it does not recognise.
pub fn is_hidden_by_usb(words: &str) -> bool {
    words.contains("USB bridge")
}

/// Returns the program's output with these options; a program that prints more than `max_bytes`, or
/// takes longer than `max_time`, is ended.
fn output(
    smartctl: &Path,
    options: &[&str],
    device: &Path,
    max_bytes: u64,
    max_time: Duration,
) -> Result<Vec<u8>, Nothing> {
    let unstarted = |error: std::io::Error| Nothing::Unstarted(error.to_string());
    // Device statistics are standard, vendors' attributes are not.
    let mut command = Command::new(smartctl);
    command.args(["-j", "-a", "-l", "devstat"]).args(options).arg(device);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(unstarted)?;
    let stdout = child.stdout.take().expect("a pipe");
    let (sender, receiver) = channel();
    let read = move || {
        let mut output = Vec::new();
        let read = stdout.take(max_bytes + 1).read_to_end(&mut output);
        // The receiver has gone if it took too long.
        _ = sender.send((read, output));
    };
    std::thread::Builder::new().spawn(read).map_err(unstarted)?;
    let Ok((read, output)) = receiver.recv_timeout(max_time) else {
        // The program may hang in the kernel, waiting for the drive: its end is not waited for.
        _ = child.kill();
        return Err(Nothing::Late(max_time));
    };
    let is_too_long = output.len() as u64 > max_bytes;
    if read.is_err() || is_too_long {
        _ = child.kill();
    }
    _ = child.wait();
    read.map_err(unstarted)?;
    if is_too_long {
        return Err(Nothing::Garbled(format!("it printed more than {max_bytes} bytes")));
    }
    Ok(output)
}

/// Reads smartctl's JSON.
///
/// # Errors
/// It contains no health data.
pub fn report(value: &Value) -> Result<Report, Nothing> {
    let messages = value["smartctl"]["messages"].as_array().into_iter().flatten();
    let messages: Vec<&str> = messages.filter_map(|one| one["string"].as_str()).collect();
    let messages = messages.join("; ");
    // Bit 0: the device's type is unknown; bit 1: it was not opened.
    let status = value["smartctl"]["exit_status"].as_u64().unwrap_or(0);
    if status & 2 != 0 || messages.contains("Permission denied") {
        return Err(Nothing::Closed(messages));
    }
    let mut report = common(value);
    if value["ata_smart_attributes"]["table"].is_array() {
        ata::read(&mut report, value);
    } else if value["nvme_smart_health_information_log"].is_object() {
        nvme::read(&mut report, value);
    } else if scsi::has_health(value) || report.passed.is_some() {
        scsi::read(&mut report, value);
    } else {
        return Err(Nothing::None(messages));
    }
    Ok(report)
}

/// Returns the values that smartctl prints in the same way for all kinds of drives.
fn common(value: &Value) -> Report {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let hours = value["power_on_time"]["hours"].as_u64();
    let capacity = value["user_capacity"]["bytes"].as_u64();
    let capacity = capacity.or(value["nvme_total_capacity"].as_u64());
    Report {
        model: text("model_name"),
        firmware: text("firmware_version"),
        serial: text("serial_number"),
        capacity_bytes: capacity.filter(|bytes| *bytes > 0),
        is_disk: value["rotation_rate"].as_u64().is_some_and(|rate| rate > 0),
        passed: value["smart_status"]["passed"].as_bool(),
        temperature_c: limits::temperature(value["temperature"]["current"].as_i64()),
        temperature_max_c: limits::temperature(
            ["op_limit_max", "limit_max", "drive_trip"]
                .iter()
                .find_map(|key| value["temperature"][*key].as_i64()),
        ),
        power_on_hours: limits::hours(hours),
        // smartctl 7.4 and later.
        worn_percent: value["endurance_used"]["current_percent"].as_u64().map(limits::worn),
        spare_percent: limits::percent(value["spare_available"]["current_percent"].as_u64()),
        ..Report::default()
    }
}

#[cfg(test)]
mod tests;
