//! What a process needs whose death or whose waiting would hold up the memory of the whole machine: dirty pages of a file
//! system on a volume can only be freed through us.

use rustix::process::configure_io_flusher_behavior;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What the kernel never chooses when memory is short (proc_pid_oom_score_adj(5)).
const NEVER: &str = "-1000";

/// What this process was started with.
static FORMER: OnceLock<String> = OnceLock::new();

fn score(process: impl AsRef<Path>) -> PathBuf {
    Path::new("/proc").join(process).join("oom_score_adj")
}

/// As far as this process may: its requests for memory wait for no I/O from now on (PR_SET_IO_FLUSHER), and the kernel does
/// not end it to free memory. Holders and threads that are started afterwards have the same. What is not permitted, `doctor`
/// tells.
pub fn protect_process() {
    let _ = configure_io_flusher_behavior(true);
    let own = score("self");
    if let Ok(former) = fs::read_to_string(&own)
        && fs::write(&own, NEVER).is_ok()
    {
        let _ = FORMER.set(former);
    }
}

/// Has the kernel choose a child of this process again as it would have without [`protect_process`].
pub(crate) fn expose(child: u32) {
    if let Some(former) = FORMER.get() {
        // One that has ended by now need not be chosen.
        let _ = fs::write(score(child.to_string()), former);
    }
}
