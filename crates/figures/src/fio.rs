//! fio's nbd engine as a client.

use crate::program::{Program, pinned};
use anyhow::{Context, Result, ensure};

/// What one run of fio found.
#[derive(Clone, Copy)]
pub(crate) struct FioRun {
    /// Nanoseconds between two answers.
    pub(crate) period_ns: f64,
    /// The server's time of processors for each request, in nanoseconds.
    pub(crate) used_ns: f64,
}

/// Reads 4 KiB blocks at random for some time, `depth` of them at once. fio runs on these
/// processors.
///
/// # Errors
/// If fio is not installed, or reads nothing.
pub(crate) fn fio(server: &Program, processors: &str, depth: u32, run_ms: u32) -> Result<FioRun> {
    fio_of(server, processors, "read", depth, run_ms)
}

/// The same for reads or writes, as `what` says (`read`, `write`).
///
/// # Errors
/// If fio is not installed, or does nothing.
pub(crate) fn fio_of(
    server: &Program,
    processors: &str,
    what: &str,
    depth: u32,
    run_ms: u32,
) -> Result<FioRun> {
    let before = server.used_ns()?;
    let output = pinned("fio", processors)
        .args(["--name=figures", "--ioengine=nbd", "--bs=4k", "--time_based"])
        .args(["--norandommap", "--randrepeat=0", "--output-format=json", "--thread=1"])
        .arg(format!("--rw=rand{what}"))
        .arg(format!("--uri={}", server.uri()))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={run_ms}ms"))
        .output()
        .context("cannot start taskset (util-linux)")?;
    let used = server.used_ns()? - before;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fio (apt-get install fio): {said}");
    // It may say something before its report.
    let start = output.stdout.iter().position(|&byte| byte == b'{').unwrap_or(0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout[start..])
        .with_context(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
    let done = &report["jobs"][0][what];
    let requests = done["total_ios"].as_f64().unwrap_or(0.0);
    let rate = done["iops"].as_f64().unwrap_or(0.0);
    ensure!(requests > 0.0 && rate > 0.0, "fio did not {what} anything");
    Ok(FioRun { period_ns: 1e9 / rate, used_ns: used as f64 / requests })
}
