//! `overdrive drive history`: samples of a drive's health over time.

use crate::columns::{self, Cell, Column, Selected, Style};
use crate::samples::{self, broken, past, range, utc};
use clap::ValueEnum;
use history::{DriveFigures, DriveIdentity, DriveSample, Samples};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show a drive's wear, written data, errors and temperature over time.
///
/// Each 'overdrive drive health' records a sample, and each daemon of root those of the drives
/// below its volumes: at most one an hour for two weeks, then one a day for ten years. Without
/// DEVICE it lists the recorded drives. Examples:
///   overdrive drive history
///   overdrive drive history sda --last 90d
///   overdrive drive history sda --csv > sda.csv
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// The drive: its device, or its serial number.
    device: Option<String>,
    /// Show the past of this length [default: all]
    #[arg(long, value_name = "TIME", value_parser = past, requires = "device")]
    last: Option<i64>,
    /// Read this file instead of the usual one.
    #[arg(long, value_name = "PATH")]
    history: Option<PathBuf>,
    /// Print all figures as CSV.
    #[arg(long, conflicts_with = "json", requires = "device")]
    csv: bool,
    #[command(flatten)]
    style: Style,
    #[command(flatten)]
    output: Selected<DriveSample, Heading>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Heading {
    /// The time of the sample, in UTC.
    At,
    /// 0 if the drive considers itself failing.
    Passed,
    /// Used share of the rated life.
    Worn,
    /// Spare blocks left.
    Spare,
    /// Data that the host has written.
    Written,
    /// Data that the host has read.
    Read,
    /// Data written to the flash.
    Nand,
    /// Temperature in degrees Celsius.
    Temperature,
    /// Hours that the drive was on.
    Hours,
    /// Errors that could not be corrected.
    Errors,
    /// Replaced sectors or blocks.
    Reallocated,
}

impl Column<DriveSample> for Heading {
    const DEFAULT: &str = "at,worn,spare,written,nand,temperature,hours,errors,reallocated";
    const LEFT_OUT: &[Heading] =
        &[Heading::Nand, Heading::Spare, Heading::Hours, Heading::Temperature];

    fn cell(self, sample: &DriveSample) -> Cell {
        let it = &sample.figures;
        let number = |number: Option<i64>| Cell::Number(number.map(|number| number as f64));
        let with = |number: Option<i64>, unit: &str| {
            Cell::Figure(number.map_or(String::new(), |number| format!("{number} {unit}")))
        };
        let size = |bytes: Option<i64>| match bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
            Some(bytes) => Cell::Size(bytes),
            None => Cell::Figure(String::new()),
        };
        match self {
            Heading::At => Cell::Text(utc(sample.at_s)),
            Heading::Passed => number(it.passed),
            Heading::Worn => with(it.worn_percent, "%"),
            Heading::Spare => with(it.spare_percent, "%"),
            Heading::Written => size(it.host_written_bytes),
            Heading::Read => size(it.host_read_bytes),
            Heading::Nand => size(it.nand_written_bytes),
            Heading::Temperature => with(it.temperature_c, "C"),
            Heading::Hours => number(it.power_on_hours),
            Heading::Errors => number(it.media_errors),
            Heading::Reallocated => number(it.reallocated),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DriveHeading {
    Device,
    Model,
    Serial,
    Samples,
    First,
    Last,
    Worn,
}

/// A recorded drive, and its samples.
struct Recorded {
    drive: DriveIdentity,
    samples: Vec<DriveSample>,
}

impl Column<Recorded> for DriveHeading {
    const DEFAULT: &str = "device,model,serial,samples,first,last,worn";
    const LEFT_OUT: &[DriveHeading] = &[DriveHeading::First, DriveHeading::Model];

    fn cell(self, recorded: &Recorded) -> Cell {
        let drive = &recorded.drive;
        let (first, last) = (recorded.samples.first(), recorded.samples.last());
        let time = |sample: Option<&DriveSample>| {
            Cell::Text(sample.map_or(String::new(), |sample| utc(sample.at_s)))
        };
        match self {
            DriveHeading::Device => Cell::Text(drive.device.clone()),
            DriveHeading::Model => Cell::Text(drive.model.clone()),
            DriveHeading::Serial => Cell::Text(drive.serial.clone()),
            DriveHeading::Samples => Cell::Number(Some(recorded.samples.len() as f64)),
            DriveHeading::First => time(first),
            DriveHeading::Last => time(last),
            DriveHeading::Worn => {
                let worn = last.and_then(|last| last.figures.worn_percent);
                Cell::Figure(worn.map_or(String::new(), |worn| format!("{worn} %")))
            }
        }
    }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let samples = samples::open(options.history.as_deref())?;
    let Some(device) = &options.device else { return list(samples.as_ref(), options) };
    let found = samples.as_ref().map(|samples| find(samples, device)).transpose()?.flatten();
    let (Some(samples), Some(drive)) = (&samples, found) else {
        let message = format!(
            "{device}: was not recorded; 'overdrive drive health {device}' records a sample"
        );
        return Err(Failure::new(Exit::Negative, message));
    };
    let rows = samples.drive(&drive, range(options.last)).map_err(broken)?;
    if options.style.json {
        let rows: Vec<Value> = rows.iter().map(as_json).collect();
        let object = json!({
            "schema": "overdrive.drive.history/1",
            "device": drive.device, "model": drive.model, "serial": drive.serial,
            "samples": rows,
        });
        daemon::say!("{object}");
    } else if options.csv {
        let names: Vec<&str> = ["at", "at_s"].into_iter().chain(DriveFigures::NAMES).collect();
        let row = |sample: &DriveSample| {
            let times = [Value::from(utc(sample.at_s)), Value::from(sample.at_s)];
            times.into_iter().chain(sample.figures.values().map(Value::from)).collect()
        };
        samples::print_csv(&names, rows.iter().map(row));
    } else {
        columns::print(&rows, &options.output.columns, &options.style)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the recorded drive with this device or serial number.
fn find(samples: &Samples, name: &str) -> Result<Option<DriveIdentity>, Failure> {
    let drives = samples.drives().map_err(broken)?;
    let path = if name.contains('/') { name.to_owned() } else { format!("/dev/{name}") };
    let is_it = |drive: &DriveIdentity| drive.serial == name || drive.device == path;
    let mut found: Vec<DriveIdentity> = drives.into_iter().filter(is_it).collect();
    // Several drives may have been at this device, one after the other.
    let newest = |drive: &DriveIdentity| -> Result<i64, Failure> {
        let all = samples.drive(drive, history::Range::ALL).map_err(broken)?;
        Ok(all.last().map_or(i64::MIN, |last| last.at_s))
    };
    let times = found.iter().map(newest).collect::<Result<Vec<_>, _>>()?;
    let latest = (0..found.len()).max_by_key(|index| times[*index]);
    Ok(latest.map(|index| found.swap_remove(index)))
}

fn list(samples: Option<&Samples>, options: &Options) -> Result<ExitCode, Failure> {
    let mut recorded = Vec::new();
    if let Some(samples) = samples {
        for drive in samples.drives().map_err(broken)? {
            let all = samples.drive(&drive, history::Range::ALL).map_err(broken)?;
            recorded.push(Recorded { drive, samples: all });
        }
    }
    if options.style.json {
        let row = |one: &Recorded| {
            json!({
                "device": one.drive.device, "model": one.drive.model, "serial": one.drive.serial,
                "samples": one.samples.len(),
                "first": one.samples.first().map(as_json),
                "last": one.samples.last().map(as_json),
            })
        };
        let drives: Vec<Value> = recorded.iter().map(row).collect();
        daemon::say!("{}", json!({ "schema": "overdrive.drive.histories/1", "drives": drives }));
        return Ok(ExitCode::SUCCESS);
    }
    if recorded.is_empty() {
        daemon::tell!("overdrive: no drive has been recorded; 'overdrive drive health' does so");
    }
    let columns = <DriveHeading as ValueEnum>::value_variants();
    columns::print(&recorded, columns, &options.style)?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(sample: &DriveSample) -> Value {
    let mut object = json!({ "at": utc(sample.at_s), "at_s": sample.at_s });
    for (name, value) in DriveFigures::NAMES.iter().zip(sample.figures.values()) {
        object[*name] = match (*name, value) {
            ("passed", value) => value.map(|passed| passed != 0).into(),
            (_, value) => value.into(),
        };
    }
    object
}
