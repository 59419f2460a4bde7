//! Calls that wait for a device that this very process serves are made by a separate process.
//!
//! A process that is killed ends when all of its threads have ended. A thread that waits in the
//! kernel for such a device never would: the device waits for the next daemon, and that waits for
//! this process, whose descriptors hold the locks of the backing. A separate process has none of
//! these descriptors. It is killed with its daemon, so that it does nothing more after the wait.

use rustix::process::getpid;
use serde::{Deserialize, Serialize};
use stack::{Exit, Failure};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The hidden command of the program that makes such calls.
pub const DEVICE_CALL: &str = "device-call";

/// The call to make.
#[derive(Serialize, Deserialize)]
pub(super) enum Call {
    /// Finds or makes a loop device over the file, with its partitions scanned.
    Attach {
        file: PathBuf,
        link: PathBuf,
        bytes: u64,
        block_bytes: u32,
        read_only: bool,
        keys: Vec<String>,
    },
    /// Opens a device once, which scans its partitions.
    Open { node: PathBuf, link: PathBuf },
    /// Writes the data that the kernel holds for a device to its server, and flushes it.
    Flush { node: PathBuf, link: PathBuf },
}

impl Call {
    /// Makes the call in another process, and waits for its end.
    ///
    /// # Errors
    /// Those of the call, with its status; the process cannot be started, or was killed.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let trouble = |error: io::Error| {
            Failure::new(Exit::Io, format!("a process for a device cannot be started: {error}"))
        };
        let call_json = serde_json::to_string(self).expect("plain data");
        let daemon = getpid().as_raw_nonzero().to_string();
        // This also works if the program's file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command.args([DEVICE_CALL, &daemon, &call_json]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let ended = command.output().map_err(trouble)?;
        if ended.status.success() {
            return Ok(());
        }
        let status = ended.status.code().and_then(|code| u8::try_from(code).ok());
        let said = String::from_utf8_lossy(&ended.stderr);
        let said = host::without_stamp(said.trim_end()).trim_start_matches("overdrive: ");
        match said {
            "" => Err(trouble(io::Error::other(ended.status.to_string()))),
            said => Err(Failure::new(status.map_or(Exit::Io, Exit::of), said)),
        }
    }
}
