//! The workload that benefits from a cache: a database on a slow disk, simulated by fio.
//!
//! 4 KiB at random, 70 % reads, one after another, with the skew of keys (zipf 1.1, ranks scattered
//! over the disk), a sync every 64 writes and one at the end, from a cold start. The contents and
//! offsets of fio's writes follow from its seed alone, so the same run against a plain file,
//! without a server, gives the expected value of every byte of the disk.

use super::children::Children;
use super::scale::Scale;
use serde_json::Value;
use stack::{Exit, Failure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Target of fio.
pub(super) enum DatabaseTarget<'a> {
    /// An NBD export, with fio's own client.
    Uri(&'a str),
    /// A file or a device, through the page cache.
    Path(&'a Path),
}

/// Measurements of fio.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measured {
    /// Reads and writes.
    pub(super) operations: u64,
    /// Time from the first operation to the end of the last sync, in nanoseconds.
    pub(super) ns: u64,
}

fn arguments(scale: &Scale, target: &DatabaseTarget) -> Vec<String> {
    let mut list: Vec<String> = ["--name=database", "--thread", "--rw=randrw", "--rwmixread=70"]
        .into_iter()
        .chain(["--bs=4k", "--random_distribution=zipf:1.1", "--norandommap", "--iodepth=1"])
        .chain(["--fsync=64", "--end_fsync=1", "--output-format=json", "--output=fio.json"])
        // Only the seed matters: neither the name of the file nor the time of day.
        .chain(["--randrepeat=0", "--randseed=20260", "--refill_buffers", "--scramble_buffers=0"])
        .map(str::to_owned)
        .collect();
    list.push(format!("--offset={}", scale.files_bytes));
    list.push(format!("--size={}", scale.database_bytes));
    // The number of operations is the limit, not the number of bytes.
    list.push("--io_size=1t".into());
    list.push(format!("--number_ios={}", scale.operations));
    match target {
        DatabaseTarget::Uri(uri) => list.extend(["--ioengine=nbd".into(), format!("--uri={uri}")]),
        DatabaseTarget::Path(path) => {
            list.push("--ioengine=psync".into());
            // A colon would begin a second file name.
            let path = path.to_string_lossy().replace(':', "\\:");
            list.push(format!("--filename={path}"));
        }
    }
    list
}

fn parse(text: &str) -> Option<Measured> {
    // fio prints messages before the object.
    let value: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let job = &value["jobs"][0];
    let count = |kind: &str| job[kind]["total_ios"].as_u64();
    let ms = job["job_runtime"].as_u64().filter(|&ms| ms > 0)?;
    if job["error"].as_i64()? != 0 {
        return None;
    }
    Some(Measured { operations: count("read")? + count("write")?, ns: ms * 1_000_000 })
}

/// Runs the database. `fio` is the command without arguments.
pub(super) fn play(
    children: &Children,
    directory: &Path,
    mut fio: Command,
    scale: &Scale,
    target: &DatabaseTarget,
    tick: &mut dyn FnMut(),
) -> Result<Measured, Failure> {
    children.run("fio", fio.args(arguments(scale, target)), tick)?;
    let text = fs::read_to_string(directory.join("fio.json")).unwrap_or_default();
    parse(&text).filter(|measured| measured.operations == scale.operations).ok_or_else(|| {
        Failure::new(Exit::Negative, "fio did not report the whole workload; try fio 3.30 or later")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_reports_is_read_or_refused() {
        let good = r#"fio: connected to NBD server
            {"jobs":[{"error":0,"job_runtime":1500,"read":{"total_ios":7},
            "write":{"total_ios":3},"sync":{"total_ios":1}}]}"#;
        assert_eq!(parse(good), Some(Measured { operations: 10, ns: 1_500_000_000 }));
        assert_eq!(parse(&good.replace("\"error\":0", "\"error\":5")), None);
        assert_eq!(parse("fio: nothing"), None);
        assert_eq!(parse("{}"), None);
    }
}
