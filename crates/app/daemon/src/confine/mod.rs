//! The confinement of a daemon that serves. At the end of its start, when its files, sockets and
//! devices are open, the process gives up what it does not need later:
//!
//! ```text
//!   calls   seccomp    system calls that no daemon makes: for all threads, and all children
//!   files   Landlock   files and directories that it does not use: for each thread
//!   rings   io_uring   operations that no lane uses: from a ring's first moment (crate `ring`)
//! ```
//!
//! Confinement cannot be ended. An upgrade executes the next program in it, and holders and helpers
//! that are started later are in it as well; those that were started before are not. A former
//! program's confinement is described to the next one in the environment, because each layer costs
//! time or is limited in number.

mod calls;
mod files;
mod next;

use crate::control::statistics::{Confined, ConfinedFiles};
use crate::lanes::Lanes;
use crate::plan::DaemonPlan;
use block::Spec;
use files::Permitted;
use landlock::RulesetCreated;
use lane::Lane;
use nbd::client::{ExportAddress, ServerSocket};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use next::check_next;

/// `PID:CONFINEMENT` of the former program, as JSON.
pub(crate) const CONFINED: &str = "OVERDRIVE_CONFINED";

/// How this program has confined the process, once it has.
static STATE: Mutex<Option<Confinement>> = Mutex::new(None);

/// The confinement of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Confinement {
    /// Fingerprint of the filter of system calls; 0: there is none.
    pub(crate) calls: u64,
    /// Whether that filter permits mounts.
    pub(crate) mounts: bool,
    pub(crate) files: ConfinedFiles,
}

impl Confinement {
    /// Whether no filter forbids mounts.
    pub(crate) fn may_mount(self) -> bool {
        self.calls == 0 || self.mounts
    }

    /// Returns it for statistics.
    pub(crate) fn report(self) -> Confined {
        Confined { calls: self.calls != 0, files: self.files }
    }
}

/// Returns the confinement of this process.
pub(crate) fn state() -> Confinement {
    let confined = *STATE.lock().unwrap_or_else(PoisonError::into_inner);
    confined.unwrap_or_else(read_former)
}

/// The needs of a daemon after its start.
pub(crate) struct Needs {
    permitted: Permitted,
    /// Whether it has FUSE mounts, which it will unmount, and the program of an upgrade may have to
    /// mount again. No thread in a Landlock domain can.
    has_mounts: bool,
    /// Whether the program of an upgrade resolves names of hosts. The files for that differ between
    /// systems, and are replaced while a daemon serves.
    has_host_names: bool,
    /// Whether its volumes are block devices. Before one is removed, its users are looked up among
    /// all processes, which no thread in a Landlock domain can examine.
    has_devices: bool,
    quiet: bool,
}

impl Needs {
    /// Returns the needs of a daemon with this plan.
    pub(crate) fn of(plan: &DaemonPlan) -> Needs {
        let has_devices = !plan.attachments.is_empty();
        // The route of a device may not have been chosen yet; most have a mount.
        let has_mounts = has_devices || !plan.mounts.is_empty();
        let has_host_names = plan.volumes.iter().any(|planned| {
            planned.volume.spec().walk().any(|spec| match spec {
                Spec::Nbd { uri, .. } => names_host(uri),
                _ => false,
            })
        });
        let permitted = Permitted::of(plan);
        Needs { permitted, has_mounts, has_host_names, has_devices, quiet: plan.quiet }
    }

    /// Confines this process, which serves on these lanes; `lane` is the home lane.
    pub(crate) async fn confine(&self, lanes: &Lanes, lane: &Lane) {
        if stays_open() {
            return;
        }
        let mut state = state();
        let may_confine_files = !self.has_devices && !self.has_mounts && !self.has_host_names;
        if state.files == ConfinedFiles::No && may_confine_files {
            match self.permitted.rules() {
                Err(error) => self.complain(format_args!("files: {error}")),
                Ok(rules) => state.files = confine_files(rules, lanes, lane).await,
            }
        }
        // For other users fusermount3 unmounts, which a confined process cannot execute with the
        // rights that it needs.
        if !self.has_mounts || rustix::process::geteuid().is_root() {
            match calls::confine(self.has_mounts, state.calls) {
                Err(error) => self.complain(format_args!("system calls: {error}")),
                Ok(calls) => (state.calls, state.mounts) = (calls, self.has_mounts),
            }
        }
        *STATE.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    fn complain(&self, why: std::fmt::Arguments<'_>) {
        if !self.quiet {
            crate::complain!("overdrive: the daemon is not confined: {why}");
        }
    }
}

/// Whether a URI has the name of a host, not an address.
fn names_host(uri: &str) -> bool {
    match ExportAddress::parse(uri).map(|address| address.socket) {
        Ok(ServerSocket::Tcp { host, .. }) => host.parse::<IpAddr>().is_err(),
        _ => false,
    }
}

/// Whether this daemon has the planted bug of this module: it keeps all rights. Tests must find it.
#[cfg(feature = "planted")]
fn stays_open() -> bool {
    std::env::var("OVERDRIVE_PLANTED").is_ok_and(|name| name == "StayUnconfined")
}

/// Whether this daemon has that bug: never, in the product.
#[cfg(not(feature = "planted"))]
const fn stays_open() -> bool {
    false
}

/// Returns the confinement that a former program of this process has described.
fn read_former() -> Confinement {
    let text = crate::exec_values::read_variable(CONFINED).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Confines the files of all lanes.
async fn confine_files(rules: RulesetCreated, lanes: &Lanes, lane: &Lane) -> ConfinedFiles {
    let states = Arc::new(Mutex::new(Vec::new()));
    let all = states.clone();
    let work = move || {
        let state = match rules.try_clone() {
            Ok(rules) => files::confine_thread(rules),
            Err(_) => ConfinedFiles::No,
        };
        all.lock().unwrap_or_else(PoisonError::into_inner).push(state);
    };
    lanes.on_each(lane, Arc::new(work)).await;
    let states = states.lock().unwrap_or_else(PoisonError::into_inner);
    if states.len() < lanes.threads() {
        return ConfinedFiles::No;
    }
    states.iter().copied().min().unwrap_or_default()
}
