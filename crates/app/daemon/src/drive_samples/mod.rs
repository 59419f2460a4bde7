//! Samples of the health of the drives below the volumes, for the history.
//!
//! ```text
//!   daemon (confined) --starts--> od-drives (not confined) --NVMe commands, smartctl--> drives
//!                                     \--one sample an hour of each drive--> the history
//! ```
//!
//! A confined daemon has neither the rights to query a drive nor the files. So a process of its own
//! does it, which the daemon starts directly before it confines itself. It receives nothing from
//! the daemon but its arguments, and ends with it. An upgrade leaves it running.
//!
//! Requests to a volume never wait for a query. A drive that sleeps is not woken. Other drives than
//! NVMe are queried only after a second without requests, because they answer a query between two
//! requests, not beside them.

mod process;
mod query;

pub use process::sample_drives;
pub use query::{drive_identity, drive_sample};

use crate::exec_values::{read_variable, set_variable};
use crate::plan::DaemonPlan;
use crate::rights::drives_that_can_be_queried;
use block::Spec;
use rustix::process::getpid;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The program's hidden command of this process.
pub const SAMPLE_DRIVES: &str = "sample-drives";

/// The drives that a process samples for this daemon, for the next program of this process.
const SAMPLED: &str = "OVERDRIVE_SAMPLED_DRIVES";

/// The drives that a process samples for this daemon, also one that a former program has started.
static PRESENT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Processes and drives of a daemon.
pub(crate) struct Plan {
    drives: BTreeSet<PathBuf>,
    every: Duration,
    file: PathBuf,
    quiet: bool,
}

impl Plan {
    /// Returns the plan to sample the drives below a daemon's volumes. None: there is nothing to
    /// sample, or no right to do it.
    pub(crate) fn of(plan: &DaemonPlan) -> Option<Plan> {
        let (every, file) = (plan.drive_samples.0?, plan.history.clone()?);
        let rights = drives_that_can_be_queried();
        if rights == (false, false) {
            return None;
        }
        let specs = plan.volumes.iter().flat_map(|planned| planned.volume.spec().walk());
        let backings = specs.filter_map(|spec| match spec {
            Spec::File { path, .. } => Some(path),
            _ => None,
        });
        let can_be_queried = |node: &PathBuf| match host::nvme::is_nvme(node) {
            true => rights.0,
            false => rights.1,
        };
        let drives = backings.flat_map(|path| host::drives_below(path)).filter(can_be_queried);
        let drives: BTreeSet<PathBuf> = drives.collect();
        (!drives.is_empty()).then_some(Plan { drives, every, file, quiet: plan.quiet })
    }

    /// Starts the process, unless one samples these drives already.
    pub(crate) fn start(&self) {
        let mut present = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
        let former = read_variable(SAMPLED).unwrap_or_default();
        present.extend(serde_json::from_str::<Vec<PathBuf>>(&former).unwrap_or_default());
        let new: Vec<&PathBuf> = self.drives.difference(&present).collect();
        if new.is_empty() {
            return;
        }
        match spawn(&new, self.every, &self.file) {
            Ok(()) => {
                let new: Vec<PathBuf> = new.into_iter().cloned().collect();
                present.extend(new);
            }
            Err(error) if !self.quiet => {
                crate::complain!("overdrive: drives are not sampled: {error}");
            }
            Err(_) => {}
        }
    }
}

fn spawn(drives: &[&PathBuf], every: Duration, file: &Path) -> std::io::Result<()> {
    // This also works if the program's file was replaced.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("od-drives").args([SAMPLE_DRIVES, "--"]);
    command.arg(getpid().as_raw_nonzero().to_string()).arg(every.as_millis().to_string());
    command.arg(file).args(drives);
    command.current_dir("/").env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    host::make_ordinary(&mut command);
    command.spawn().map(drop)
}

/// Describes the present process to the next program of this one.
pub(crate) fn leave(command: &mut Command) {
    let present = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
    if !present.is_empty() {
        set_variable(command, SAMPLED, &serde_json::json!(&*present).to_string());
    }
}
