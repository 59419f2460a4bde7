//! A query of a drive, and its record.

use history::{DriveFigures, DriveIdentity, DriveSample, Error, Range, Samples};
use host::smartctl::{self, Nothing, Report};
use host::{DriveTraffic, nvme};
use std::path::{Path, PathBuf};

/// Returns a drive as the history knows it.
pub fn drive_identity(device: &Path, report: &Report) -> DriveIdentity {
    let node = device.canonicalize().unwrap_or_else(|_| device.to_owned());
    DriveIdentity {
        model: report.model.clone(),
        serial: report.serial.clone(),
        device: node.display().to_string(),
    }
}

/// Returns a report as the history records it.
pub fn drive_sample(at_s: i64, report: &Report) -> DriveSample {
    let number = |number: Option<u64>| number.map(|number| number.min(i64::MAX as u64) as i64);
    let figures = DriveFigures {
        passed: report.passed.map(i64::from),
        host_written_bytes: number(report.host_written_bytes),
        host_read_bytes: number(report.host_read_bytes),
        nand_written_bytes: number(report.nand_written_bytes),
        worn_percent: number(report.worn_percent),
        spare_percent: number(report.spare_percent),
        temperature_c: report.temperature_c,
        power_on_hours: number(report.power_on_hours),
        media_errors: number(report.media_errors),
        reallocated: number(report.reallocated),
    };
    DriveSample { at_s, figures }
}

/// The result of an attempt to sample a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// A sample was recorded. The sentence is for the operator.
    Recorded(Option<String>),
    /// Another process has recorded one recently, or the drive sleeps, or has not answered: the
    /// next attempt is a period later.
    Later,
    /// The drive has requests: the next attempt is soon.
    Busy,
    /// The drive reports no health, or cannot be asked.
    Never,
    /// The sample could not be recorded: the reason.
    Failed(String),
}

/// How drives are queried.
pub(super) struct Query {
    /// None: drives other than NVMe are not queried.
    pub(super) smartctl: Option<PathBuf>,
    pub(super) file: PathBuf,
    /// Time between two samples, in seconds.
    pub(super) every_s: i64,
}

impl Query {
    /// Samples a drive. `wait` waits for a second, and returns false if there is no time left for
    /// it.
    pub(super) fn sample(&self, device: &Path, now_s: i64, wait: impl FnOnce() -> bool) -> Outcome {
        if self.is_recent(device, now_s) || host::is_drive_suspended(device) {
            return Outcome::Later;
        }
        let asked = match nvme::is_nvme(device) {
            // Its answers to administrative commands do not delay requests.
            true => nvme::ask(device).map(Some),
            false => match &self.smartctl {
                None => return Outcome::Never,
                Some(_) if !is_quiet(device, wait) => return Outcome::Busy,
                Some(program) => smartctl::ask_awake(program, device),
            },
        };
        let report = match asked {
            Ok(Some(report)) => report,
            Ok(None) | Err(Nothing::Late(_)) => return Outcome::Later,
            Err(_) => return Outcome::Never,
        };
        let identity = drive_identity(device, &report);
        match record(&self.file, &identity, &drive_sample(now_s, &report)) {
            Ok(note) => Outcome::Recorded(note),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    /// Whether the history has a sample of the drive at this device that is newer than half the
    /// time between two samples. A history that cannot be read has none.
    fn is_recent(&self, device: &Path, now_s: i64) -> bool {
        let recent = Range { from_s: now_s - self.every_s / 2, to_s: now_s + 1 };
        let find = || -> Result<bool, Error> {
            let samples = Samples::open(&self.file)?;
            let here = samples.drives()?.into_iter().filter(|it| Path::new(&it.device) == device);
            for drive in here {
                if !samples.drive(&drive, recent)?.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        self.file.exists() && find().unwrap_or(false)
    }
}

/// Whether a drive has no requests now, and none during a second.
fn is_quiet(device: &Path, wait: impl FnOnce() -> bool) -> bool {
    // A device without counters is none of the kernel's disks.
    let Some(before) = DriveTraffic::of(device) else { return true };
    before.is_idle()
        && wait()
        && DriveTraffic::of(device).is_some_and(|after| after.is_idle() && after == before)
}

/// Records a sample. A damaged file is renamed and begun again, as the returned sentence reports.
fn record(
    file: &Path,
    drive: &DriveIdentity,
    sample: &DriveSample,
) -> Result<Option<String>, Error> {
    let write = |samples: &mut Samples| {
        samples.record_drive(drive, sample)?;
        samples.thin_drives(sample.at_s)
    };
    // Without an examination of the whole file, which takes long.
    match Samples::open(file).and_then(|mut samples| write(&mut samples)) {
        Err(error) if error.is_damage() => {
            let (mut samples, note) = Samples::open_or_renew(file)?;
            write(&mut samples).map(|()| note)
        }
        written => written.map(|()| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW_S: i64 = 1_764_000_000;
    const DEVICE: &str = "/dev/null";

    /// The second without requests has passed.
    fn waited() -> bool {
        true
    }

    /// A program in the place of smartctl that prints this, and writes its arguments to a file.
    fn query(home: &Path, answer: &str) -> Query {
        let program = home.join("smartctl");
        let log = home.join("arguments");
        let text = format!(
            "#!/bin/sh\n[ $# = 0 ] && exit\necho \"$@\" >> {}\ncat <<'E'\n{answer}\nE\n",
            log.display()
        );
        std::fs::write(&program, text).expect("room");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("its own file");
        // Another test may have started a program while the file was open: until that program runs,
        // this one is busy.
        let runs = |_| std::process::Command::new(&program).status().is_ok();
        assert!((0..1000).any(runs), "{} can be run", program.display());
        Query { smartctl: Some(program), file: home.join("samples.sqlite3"), every_s: 3600 }
    }

    const ANSWER: &str = r#"{ "smartctl": { "exit_status": 0 }, "model_name": "M",
        "serial_number": "S", "smart_status": { "passed": true }, "temperature": { "current": 31 },
        "ata_smart_attributes": { "table": [] } }"#;

    #[test]
    fn a_drive_is_sampled_once_in_a_period() {
        let home = tempfile::tempdir().expect("room");
        let query = query(home.path(), ANSWER);
        let sample = |now_s| query.sample(Path::new(DEVICE), now_s, waited);
        assert_eq!(sample(NOW_S), Outcome::Recorded(None));
        // Another daemon above the same drive.
        assert_eq!(sample(NOW_S + 60), Outcome::Later);
        assert_eq!(sample(NOW_S + 3600), Outcome::Recorded(None));
        let asked = std::fs::read_to_string(home.path().join("arguments")).expect("asked");
        assert_eq!(asked, "-j -a -l devstat -n standby /dev/null\n".repeat(2));
        let samples = Samples::open(&query.file).expect("a file");
        let drive = samples.drives().expect("read").pop().expect("one");
        assert_eq!((&*drive.serial, &*drive.device), ("S", DEVICE));
        let all = samples.drive(&drive, Range::ALL).expect("read");
        assert_eq!(
            all.iter().map(|it| it.figures.temperature_c).collect::<Vec<_>>(),
            [Some(31); 2]
        );
    }

    #[test]
    fn a_drive_that_sleeps_stays_asleep() {
        let home = tempfile::tempdir().expect("room");
        let answer = r#"{ "smartctl": { "exit_status": 2, "messages": [
            { "string": "Device is in STANDBY mode, exit(2)", "severity": "information" }] } }"#;
        let query = query(home.path(), answer);
        assert_eq!(query.sample(Path::new(DEVICE), NOW_S, waited), Outcome::Later);
        assert!(!query.file.exists());
    }

    #[test]
    fn a_drive_without_health_is_not_asked_again() {
        let home = tempfile::tempdir().expect("room");
        let query = query(home.path(), r#"{ "smartctl": { "exit_status": 4 } }"#);
        assert_eq!(query.sample(Path::new(DEVICE), NOW_S, waited), Outcome::Never);
        let without = Query { smartctl: None, ..query };
        assert_eq!(without.sample(Path::new(DEVICE), NOW_S, waited), Outcome::Never);
    }

    #[test]
    fn a_history_that_is_damaged_or_later_is_reported() {
        let home = tempfile::tempdir().expect("room");
        let query = query(home.path(), ANSWER);
        std::fs::write(&query.file, "no database, but long enough to be taken for one".repeat(99))
            .expect("room");
        let sample = || query.sample(Path::new(DEVICE), NOW_S, waited);
        let Outcome::Recorded(Some(note)) = sample() else { panic!("not renewed") };
        assert!(note.contains("was damaged"), "{note}");
        std::fs::remove_file(&query.file).expect("there");
        std::fs::create_dir(&query.file).expect("room");
        let Outcome::Failed(why) = sample() else { panic!("recorded in a directory") };
        assert!(why.contains("samples.sqlite3"), "{why}");
    }
}
