//! The process that makes calls for which a daemon would wait without end: see `apart.rs`.

use super::apart::{Call, DEVICE_CALL};
use super::over_file::OverFile;
use super::using;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use stack::{Exit, Failure};
use std::fs::File;

/// Makes the call that the daemon of this process number has requested.
///
/// # Errors
/// Those of the system; or no daemon has started this process.
pub fn device_call(daemon: i32, call_json: &str) -> Result<(), Failure> {
    let wrong = || Failure::new(Exit::Usage, format!("{DEVICE_CALL}: only a daemon starts this"));
    let call: Call = serde_json::from_str(call_json).map_err(|_| wrong())?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| Failure::new(Exit::Io, format!("{DEVICE_CALL}: {errno}")))?;
    // The daemon may have died before.
    if getppid() != Pid::from_raw(daemon) {
        return Err(wrong());
    }
    answer(call)
}

fn answer(call: Call) -> Result<(), Failure> {
    match call {
        Call::Attach { file, link, bytes, block_bytes, read_only, keys } => {
            OverFile { file, link, bytes, block_bytes, read_only, keys }.attach_here()
        }
        Call::Open { node, link } => {
            let opened = File::open(node);
            opened.map(drop).map_err(using::trouble(&link, "it cannot be opened"))
        }
        Call::Flush { node, link } => {
            let flushed = File::open(node).and_then(|file| file.sync_all());
            flushed.map_err(using::trouble(&link, "it cannot be flushed"))
        }
    }
}
