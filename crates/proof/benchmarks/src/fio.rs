//! fio's nbd engine as a client.

use crate::processors::pinned;
use crate::program::Program;
use anyhow::{Context, Result, ensure};

/// The result of one run of fio.
#[derive(Clone, Copy)]
pub(crate) struct FioRun {
    /// Requests answered.
    pub(crate) requests: f64,
    /// Nanoseconds between two answers.
    pub(crate) period_ns: f64,
    /// The server's processor time for each request, in nanoseconds.
    pub(crate) used_ns: f64,
}

/// The load of fio: random 4 KiB blocks.
#[derive(Clone)]
pub(crate) struct Load {
    /// `randread`, `randwrite` or `randrw`.
    pub(crate) kind: String,
    /// Queue depth.
    pub(crate) depth: u32,
    /// The part of the volume that is used. None: all of it.
    pub(crate) bytes: Option<u64>,
    /// Each block at most once: the run ends early when all blocks are done.
    pub(crate) once: bool,
}

impl Load {
    /// Returns a load over the whole volume, repeated.
    pub(crate) fn new(kind: &str, depth: u32) -> Load {
        Load { kind: kind.to_owned(), depth, bytes: None, once: false }
    }
}

/// Reads random 4 KiB blocks for some time at queue depth `depth`. fio runs on these processors.
///
/// # Errors
/// If fio is not installed, or reads nothing.
pub(crate) fn fio(server: &Program, processors: &str, depth: u32, run_ms: u32) -> Result<FioRun> {
    fio_load(server, processors, &Load::new("randread", depth), run_ms)
}

/// Runs a load for some time. fio runs on these processors.
///
/// # Errors
/// If fio is not installed, or nothing is answered.
pub(crate) fn fio_load(
    server: &Program,
    processors: &str,
    load: &Load,
    run_ms: u32,
) -> Result<FioRun> {
    let before = server.used_ns()?;
    let output = pinned("fio", processors)
        .args(["--name=figures", "--ioengine=nbd", "--bs=4k"])
        .arg(format!("--rw={}", load.kind))
        .args(["--randrepeat=0", "--output-format=json", "--thread=1"])
        .args(if load.once { &[][..] } else { &["--norandommap", "--time_based"] })
        .args(load.bytes.map(|bytes| format!("--size={bytes}")))
        .arg(format!("--uri={}", server.uri()))
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--runtime={run_ms}ms"))
        .output()
        .context("cannot start taskset (util-linux)")?;
    let used = server.used_ns()? - before;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fio (apt-get install fio): {said}");
    // fio may print text before its report.
    let start = output.stdout.iter().position(|&byte| byte == b'{').unwrap_or(0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout[start..])
        .with_context(|| String::from_utf8_lossy(&output.stdout).into_owned())?;
    let job = &report["jobs"][0];
    let sum = |key: &str| -> f64 {
        ["read", "write"].iter().map(|side| job[side][key].as_f64().unwrap_or(0.0)).sum()
    };
    let (requests, rate) = (sum("total_ios"), sum("iops"));
    ensure!(requests > 0.0 && rate > 0.0, "fio was answered nothing");
    Ok(FioRun { requests, period_ns: 1e9 / rate, used_ns: used as f64 / requests })
}
