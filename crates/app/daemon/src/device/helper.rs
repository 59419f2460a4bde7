//! The helper process that makes a call on which its daemon could hang (see `helper_call.rs`).

use super::helper_call::{Call, DEVICE_CALL};
use super::over_file::OverFile;
use super::using;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use stack::{Exit, Failure};
use std::fs::File;

/// Makes a call for the daemon with this process number; `text` is the call as JSON.
///
/// # Errors
/// Those of the system; or no daemon has started this process.
pub fn device_call(daemon: i32, text: &str) -> Result<(), Failure> {
    let wrong = || Failure::new(Exit::Usage, format!("{DEVICE_CALL}: only a daemon starts this"));
    let call: Call = serde_json::from_str(text).map_err(|_| wrong())?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| Failure::new(Exit::Io, format!("{DEVICE_CALL}: {errno}")))?;
    // The daemon may have died before the signal was requested.
    if getppid() != Pid::from_raw(daemon) {
        return Err(wrong());
    }
    make_call(call)
}

fn make_call(call: Call) -> Result<(), Failure> {
    match call {
        Call::Attach { file, link, bytes, block_bytes, read_only, keys } => {
            OverFile { file, link, bytes, block_bytes, read_only, keys }.attach_here()
        }
        Call::Open { node, link } => {
            let opened = File::open(node);
            opened.map(drop).map_err(using::to_failure(&link, "it cannot be opened"))
        }
        Call::Flush { node, link } => {
            let flushed = File::open(node).and_then(|file| file.sync_all());
            flushed.map_err(using::to_failure(&link, "it cannot be flushed"))
        }
    }
}
