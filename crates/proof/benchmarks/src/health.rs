//! `overdrive drive health` beside the drive's own answer, with a history of two years.
//!
//! A program in the place of smartctl answers immediately, so all of the rest is Overdrive's.

use crate::program::{ProgramOptions, TemporaryPath};
use crate::sides::{median, verdict, wall_ns};
use anyhow::{Context, Result, ensure};
use history::{DriveFigures, DriveIdentity, DriveSample, Samples};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Runs of each program, in turns.
    #[arg(long, default_value_t = 40)]
    runs: usize,
}

/// Maximum time beyond the drive's answer, in milliseconds.
const BEYOND_MAX_MS: f64 = 200.0;
/// Samples of the history, one a day.
const DAYS: i64 = 730;
const ANSWER: &str = r#"{ "smartctl": { "exit_status": 0 }, "model_name": "Some NVMe",
    "serial_number": "S-1", "smart_status": { "passed": true }, "temperature": { "current": 31 },
    "nvme_smart_health_information_log": { "critical_warning": 0, "available_spare": 100,
    "available_spare_threshold": 10, "percentage_used": 4, "data_units_written": 1000000 } }"#;

/// Records one sample a day of the drive.
fn record(file: &Path) -> Result<()> {
    let mut samples = Samples::open(file).map_err(anyhow::Error::new)?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().cast_signed();
    let drive = DriveIdentity {
        model: "Some NVMe".to_owned(),
        serial: "S-1".to_owned(),
        device: "/dev/elsewhere".to_owned(),
    };
    for day in 0..DAYS {
        let figures = DriveFigures {
            worn_percent: Some(4),
            host_written_bytes: Some((1_000_000 - day * 1000) * 512_000),
            ..DriveFigures::default()
        };
        let sample = DriveSample { at_s: now_s - day * 86_400, figures };
        samples.record_drive(&drive, &sample).map_err(anyhow::Error::new)?;
    }
    Ok(())
}

/// Runs a program of this directory. Returns its time in milliseconds.
fn run_once(program: &Path, arguments: &[&str], home: &Path) -> Result<f64> {
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", format!("{}:/usr/bin:/bin", home.display()));
    command.env("XDG_RUNTIME_DIR", home).env("XDG_STATE_HOME", home).stdout(Stdio::null());
    let begun_ns = wall_ns();
    let status = command.status().with_context(|| program.display().to_string())?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok((wall_ns() - begun_ns) as f64 / 1e6)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let home = TemporaryPath::directory("health")?;
    let smartctl = home.path().join("smartctl");
    std::fs::write(&smartctl, format!("#!/bin/sh\ncat <<'E'\n{ANSWER}\nE\n"))?;
    std::fs::set_permissions(&smartctl, std::fs::Permissions::from_mode(0o755))?;
    std::fs::create_dir_all(home.path().join("overdrive"))?;
    record(&home.path().join("overdrive/samples.sqlite3"))?;
    let overdrive = arguments.program_options.overdrive()?;
    let (mut answers, mut wholes) = (Vec::new(), Vec::new());
    for _ in 0..arguments.runs.max(1) {
        answers.push(run_once(&smartctl, &[], home.path())?);
        wholes.push(run_once(&overdrive, &["drive", "health", "/dev/null"], home.path())?);
    }
    let most = wholes.iter().copied().fold(0.0, f64::max);
    let (answer, whole) = (median(answers), median(wholes));
    println!(
        "drive health beyond the drive's own answer of {answer:.1} ms, {DAYS} samples of history: \
         {:.1} ms (at most {:.1})  target {BEYOND_MAX_MS:.0} ms: {}",
        whole - answer,
        most - answer,
        verdict(whole - answer <= BEYOND_MAX_MS)
    );
    Ok(())
}
