//! Protects a process whose death or waiting would block the memory of the whole machine: dirty
//! pages of a file system on a volume can only be freed through it.

use rustix::process::configure_io_flusher_behavior;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The kernel never selects a process with this score when memory is short
/// (proc_pid_oom_score_adj(5)).
const NEVER: &str = "-1000";

/// Score that this process was started with.
static FORMER_SCORE: OnceLock<String> = OnceLock::new();

fn score(process: impl AsRef<Path>) -> PathBuf {
    Path::new("/proc").join(process).join("oom_score_adj")
}

/// Protects the process as far as it is permitted: its allocations wait for no I/O from now on
/// (PR_SET_IO_FLUSHER), and the kernel does not kill it to free memory. Holders and threads that
/// are started afterwards inherit this. `doctor` reports missing permissions.
pub fn protect_process() {
    let _ = configure_io_flusher_behavior(true);
    let own = score("self");
    if let Ok(former) = fs::read_to_string(&own)
        && fs::write(&own, NEVER).is_ok()
    {
        let _ = FORMER_SCORE.set(former);
    }
}

/// Gives a child of this process the score that it would have without [`protect_process`].
pub(crate) fn expose(child: u32) {
    if let Some(former) = FORMER_SCORE.get() {
        // An error means that the child has ended already.
        let _ = fs::write(score(child.to_string()), former);
    }
}
