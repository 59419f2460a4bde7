//! Earlier reports of a drive, from the history of samples.

use advice::drive::Past;
use host::smartctl::Report;
use std::path::Path;

/// Records a report, if that is requested, and returns the recorded ones with it, oldest first. A
/// history that cannot be used is reported, and the report alone is returned.
#[cfg(feature = "history")]
pub(super) fn of(device: &Path, report: &Report, records: bool) -> Vec<Past> {
    use crate::samples::now_s;
    let drive = daemon::drive_identity(device, report);
    let sample = daemon::drive_sample(now_s(), report);
    let found = daemon::history_file().map_or(Ok(Vec::new()), |file| {
        let records = records && daemon::history_to_record(None).is_some();
        recorded(&file, &drive, records.then_some(&sample))
    });
    let mut past = found.unwrap_or_else(|error| {
        daemon::tell!("overdrive: the history of drives cannot be used: {error}");
        Vec::new()
    });
    if past.last().is_none_or(|last| last.at_s < sample.at_s) {
        past.push(past_of(&sample));
    }
    past
}

/// Returns the report alone: this program has no history.
#[cfg(not(feature = "history"))]
pub(super) fn of(_device: &Path, _report: &Report, _records: bool) -> Vec<Past> {
    Vec::new()
}

#[cfg(feature = "history")]
fn recorded(
    file: &Path,
    drive: &history::DriveIdentity,
    sample: Option<&history::DriveSample>,
) -> Result<Vec<Past>, history::Error> {
    use history::{Range, Samples};
    let Some(sample) = sample else {
        if !file.exists() {
            return Ok(Vec::new());
        }
        let samples = Samples::open(file)?.drive(drive, Range::ALL)?;
        return Ok(samples.iter().map(past_of).collect());
    };
    let record = |samples: &mut Samples| {
        samples.record_drive(drive, sample)?;
        samples.thin_drives(sample.at_s)?;
        samples.drive(drive, Range::ALL)
    };
    // Without an examination of the whole file, which takes long; a daemon makes it.
    let found = Samples::open(file).and_then(|mut samples| record(&mut samples));
    let samples = match found {
        Err(error) if error.is_damage() => {
            let (mut samples, note) = Samples::open_or_renew(file)?;
            note.iter().for_each(|note| daemon::tell!("overdrive: {note}"));
            record(&mut samples)?
        }
        found => found?,
    };
    Ok(samples.iter().map(past_of).collect())
}

#[cfg(feature = "history")]
fn past_of(sample: &history::DriveSample) -> Past {
    let figures = &sample.figures;
    Past {
        at_s: sample.at_s,
        worn_percent: figures.worn_percent,
        host_written_bytes: figures.host_written_bytes,
        media_errors: figures.media_errors,
        reallocated: figures.reallocated,
    }
}
