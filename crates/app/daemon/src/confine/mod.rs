//! The confinement of a daemon that serves. At the end of its start, when its files, sockets and
//! devices are open, the process gives up what it does not need later:
//!
//! ```text
//!   calls   seccomp        system calls that no daemon makes: for all threads, and all children
//!   files   Landlock       files and directories that it does not use: for each thread
//!   rights  capabilities   root's rights that it does not use: for each thread
//!   rings   io_uring       operations that no lane uses: from a ring's first moment (crate `ring`)
//! ```
//!
//! A device or a mount needs calls at its end that no process in a Landlock domain can make. They
//! are made by a process that is started directly before (module `broker`).
//!
//! Confinement cannot be ended. An upgrade executes the next program in it, and holders and helpers
//! that are started later are in it as well; those that were started before are not. A former
//! program's confinement is described to the next one in the environment, because each layer costs
//! time or is limited in number.

mod calls;
mod files;
mod mapper;
mod next;

use crate::broker::{self, Broker};
use crate::control::statistics::{Confined, ConfinedFiles};
use crate::device;
use crate::front;
use crate::lanes::Lanes;
use crate::plan::{DaemonPlan, Route};
use crate::rights;
use block::Spec;
use files::Permitted;
use landlock::RulesetCreated;
use lane::Lane;
use nbd::client::{ExportAddress, ServerSocket};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) use mapper::confine_mapper;
pub(crate) use next::{check_next, forbidden};

/// `PID:CONFINEMENT` of the former program, as JSON.
pub(crate) const CONFINED: &str = "OVERDRIVE_CONFINED";

/// How this program has confined the process, once it has.
static STATE: Mutex<Option<Confinement>> = Mutex::new(None);

/// The mountpoints of this daemon's plan.
static MOUNTPOINTS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// The confinement of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Confinement {
    /// Fingerprint of the filter of system calls; 0: there is none.
    pub(crate) calls: u64,
    /// Whether that filter permits mounts.
    pub(crate) mounts: bool,
    pub(crate) files: ConfinedFiles,
    /// Whether capabilities are limited.
    pub(crate) rights: bool,
}

impl Confinement {
    /// Whether no filter forbids mounts.
    pub(crate) fn may_mount(self) -> bool {
        self.calls == 0 || self.mounts
    }

    /// Returns it for statistics.
    pub(crate) fn report(self) -> Confined {
        Confined { calls: self.calls != 0, files: self.files, rights: self.rights }
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
    /// The directories of its mounts and devices. It will unmount them, and the program of an
    /// upgrade may have to mount again. Before a device is removed, its users are looked up among
    /// all processes. No thread in a Landlock domain can do any of this.
    directories: Vec<PathBuf>,
    /// Whether the program of an upgrade resolves names of hosts. The files for that differ between
    /// systems, and are replaced while a daemon serves.
    has_host_names: bool,
    quiet: bool,
}

impl Needs {
    /// Returns the needs of a daemon with this plan.
    pub(crate) fn of(plan: &DaemonPlan) -> Needs {
        let devices = plan.attachments.iter();
        let devices = devices.map(|it| device::directory(&plan.runtime, &it.volume));
        let mounts = plan.mounts.iter().map(|it| it.directory.clone()).chain(devices);
        let has_host_names = plan.volumes.iter().any(|planned| {
            planned.volume.spec().walk().any(|spec| match spec {
                Spec::Nbd { uri, .. } => names_host(uri),
                _ => false,
            })
        });
        Needs {
            permitted: Permitted::of(plan),
            directories: mounts.collect(),
            has_host_names,
            quiet: plan.quiet,
        }
    }

    /// Makes sure that there is a broker if one is needed, for these mountpoints. False: there can
    /// be none.
    fn start_broker(&self, mountpoints: &[PathBuf], state: Confinement) -> bool {
        if self.directories.is_empty() || broker::present().is_some() {
            return true;
        }
        // A process that is started now would be confined, too.
        if state.files != ConfinedFiles::No {
            return false;
        }
        let started = Broker::start(mountpoints);
        started.map_err(|error| self.complain(format_args!("its broker: {error}"))).is_ok()
    }

    /// Confines this process, which serves on these lanes; `lane` is the home lane, and `devices`
    /// are its devices.
    pub(crate) async fn confine(&self, devices: &[(PathBuf, Route)], lanes: &Lanes, lane: &Lane) {
        if stays_open() {
            return;
        }
        let mut state = state();
        let directories = self.directories.iter();
        let mountpoints = directories.filter_map(|directory| front::mountpoint(directory));
        let mountpoints = MOUNTPOINTS.get_or_init(|| mountpoints.collect());
        let may_confine = self.start_broker(mountpoints, state);
        let kernel_devices = devices.iter().any(|(_, route)| *route != Route::Fuse);
        // Without a broker this process mounts and looks users up itself.
        if may_confine {
            state.rights = restrict_rights(kernel_devices, lanes, lane).await;
        }
        let nodes: Vec<_> = devices.iter().map(|(node, _)| node.clone()).collect();
        if state.files == ConfinedFiles::No && may_confine && !self.has_host_names {
            match self.permitted.rules(&nodes) {
                Err(error) => self.complain(format_args!("files: {error}")),
                Ok(rules) => state.files = confine_files(rules, lanes, lane).await,
            }
        }
        // Without a broker this process unmounts itself: root by a call, other users by
        // fusermount3, which a filtered process cannot execute with the rights that it needs.
        if may_confine || rustix::process::geteuid().is_root() {
            match calls::confine(!may_confine, state.calls) {
                Err(error) => self.complain(format_args!("system calls: {error}")),
                Ok(calls) => (state.calls, state.mounts) = (calls, !may_confine),
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

/// Whether the program of an upgrade can mount on this directory, if it has to.
fn may_mount_on(directory: &Path) -> bool {
    let own = MOUNTPOINTS.get().is_some_and(|own| own.iter().any(|one| one == directory));
    own && broker::present().is_some()
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
    let confine = move || match rules.try_clone() {
        Ok(rules) => files::confine_thread(rules),
        Err(_) => ConfinedFiles::No,
    };
    least_on_each(confine, lanes, lane).await
}

/// Limits the capabilities of all lanes. False: one has more.
async fn restrict_rights(kernel_devices: bool, lanes: &Lanes, lane: &Lane) -> bool {
    least_on_each(move || rights::restrict_daemon(kernel_devices), lanes, lane).await
}

/// Does this work on each lane, and returns the least of the results; the default if a lane has
/// ended.
async fn least_on_each<T: Ord + Copy + Default + Send + 'static>(
    work: impl Fn() -> T + Send + Sync + 'static,
    lanes: &Lanes,
    lane: &Lane,
) -> T {
    let results = Arc::new(Mutex::new(Vec::new()));
    let all = results.clone();
    let work = move || all.lock().unwrap_or_else(PoisonError::into_inner).push(work());
    lanes.on_each(lane, Arc::new(work)).await;
    let results = results.lock().unwrap_or_else(PoisonError::into_inner);
    if results.len() < lanes.threads() {
        return T::default();
    }
    results.iter().copied().min().unwrap_or_default()
}
