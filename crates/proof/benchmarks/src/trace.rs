//! Reads traces from a file, also compressed by xz.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use trace::Trace;

/// The default trace.
const DEFAULT: &str = "../shared/traces/tpcc.trace.xz";

/// Reads a file: a recording, or MQSim's ASCII format. If its name ends in `.xz`, `xz` decompresses
/// it.
///
/// # Errors
/// If it cannot be read, or is not a trace.
fn read(path: &Path) -> Result<Trace> {
    let name = path.display();
    let bytes = if path.extension().is_some_and(|extension| extension == "xz") {
        let unpacked = Command::new("xz").arg("-dc").arg(path).output();
        let unpacked = unpacked.context("cannot start xz (apt-get install xz-utils)")?;
        let said = String::from_utf8_lossy(&unpacked.stderr);
        ensure!(unpacked.status.success(), "{name}: {said}");
        unpacked.stdout
    } else {
        std::fs::read(path).with_context(|| name.to_string())?
    };
    Trace::parse(&bytes).with_context(|| name.to_string())
}

/// Reads the named file, or otherwise the default one, if it exists.
///
/// # Errors
/// If it cannot be read, or is not a trace.
pub(crate) fn find(named: Option<&Path>) -> Result<Option<Trace>> {
    let default = Path::new(DEFAULT);
    match named {
        Some(path) => read(path).map(Some),
        None if default.exists() => read(default).map(Some),
        None => {
            println!("no replay: {DEFAULT} is not there, and --trace names no other");
            Ok(None)
        }
    }
}
