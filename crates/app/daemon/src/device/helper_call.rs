//! Calls that wait for a device that this very process serves are made by a helper process.
//!
//! A killed process ends only when all of its threads have ended. A thread that waits in the kernel
//! for such a device would never end: the device waits for the next daemon, which waits for the
//! locks of the backing, which this process holds until it ends. The helper holds no such lock. It
//! is killed with its daemon, so that it does nothing after the wait.

use rustix::process::getpid;
use serde::{Deserialize, Serialize};
use stack::{Exit, Failure};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The program's hidden command that makes such calls.
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
    /// Makes the call in a helper process, and waits for it to end.
    ///
    /// # Errors
    /// Those of the call, with its status; the process cannot be started, or was killed.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let start_failure = |error: io::Error| {
            Failure::new(Exit::Io, format!("a process for a device cannot be started: {error}"))
        };
        let text = serde_json::to_string(self).expect("plain data");
        let daemon = getpid().as_raw_nonzero().to_string();
        // This also works if the program's file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command.args([DEVICE_CALL, &daemon, &text]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let ended = command.output().map_err(start_failure)?;
        if ended.status.success() {
            return Ok(());
        }
        let status = ended.status.code().and_then(|code| u8::try_from(code).ok());
        let output = String::from_utf8_lossy(&ended.stderr);
        let output = host::without_stamp(output.trim_end()).trim_start_matches("overdrive: ");
        match output {
            "" => Err(start_failure(io::Error::other(ended.status.to_string()))),
            output => Err(Failure::new(status.map_or(Exit::Io, Exit::of), output)),
        }
    }
}
