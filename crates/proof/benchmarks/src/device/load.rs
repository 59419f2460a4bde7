//! fio on a block device.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// A load of fio: 4 KiB requests that bypass the page cache, or larger ones in one pass.
pub(crate) struct Load(Vec<String>);

impl Load {
    fn new(kind: &str, depth: u32, more: &[&str]) -> Load {
        let fixed = [format!("--rw={kind}"), format!("--iodepth={depth}")];
        Load(fixed.into_iter().chain(more.iter().map(|&word| word.to_owned())).collect())
    }

    /// Returns a load of every block once, in order.
    pub(crate) fn pass(kind: &str, depth: u32) -> Load {
        Load::new(kind, depth, &["--bs=64k"])
    }

    /// Returns a load of random blocks for this number of seconds.
    pub(crate) fn timed(kind: &str, depth: u32, seconds: u32) -> Load {
        let time = format!("--runtime={seconds}");
        Load::new(kind, depth, &["--bs=4k", "--norandommap", "--time_based", &time])
    }

    /// Returns a load of random writes for this number of seconds, read again and compared.
    pub(crate) fn verified(depth: u32, seconds: u32) -> Load {
        let time = format!("--runtime={seconds}");
        let verified =
            ["--bs=4k", "--verify=crc32c", "--verify_backlog=512", "--verify_state_save=0"];
        Load::new("randwrite", depth, &[&verified[..], &["--time_based", &time]].concat())
    }
}

/// Runs it; returns requests per second.
///
/// # Errors
/// fio is not installed, or data differs from what was written.
pub(crate) fn fio(device: &Path, load: &Load) -> Result<f64> {
    let output = Command::new("fio")
        .args(["--name=figures", "--ioengine=libaio", "--direct=1", "--randrepeat=0"])
        .args(["--output-format=json", "--thread=1"])
        .arg(format!("--filename={}", device.display()))
        .args(&load.0)
        .output()
        .context("cannot start fio (apt-get install fio)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fio: {said}");
    // fio may print text before its report.
    let start = output.stdout.iter().position(|&byte| byte == b'{').unwrap_or(0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout[start..])?;
    let rate = |side: &str| report["jobs"][0][side]["iops"].as_f64().unwrap_or(0.0);
    let rates = rate("read") + rate("write");
    ensure!(rates > 0.0, "fio was answered nothing");
    Ok(rates)
}
