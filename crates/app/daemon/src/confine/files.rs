//! The files and directories that a daemon uses after its start. Landlock refuses all others with
//! EACCES; files that are open already stay usable.

use crate::control::statistics::ConfinedFiles;
use crate::device;
use crate::plan::{DaemonPlan, MetricsAddress, NbdAddress};
use block::Spec;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, make_bitflags,
};
use nbd::client::ExportAddress;
use rustix::fs::{major, minor};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The kernel's interface whose kinds of access are confined. An older kernel confines those that
/// it has.
const KNOWN: ABI = ABI::V5;

/// Where programs and their libraries are: an upgrade, udevadm, and the libraries' data.
const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/gnu/store"];
/// Files and directories that are only read: the kernel's, and those that programs need to start. A
/// file that is replaced later cannot be read any more, which the loader of programs accepts.
const READ: [&str; 8] = [
    "/proc",
    "/sys",
    "/run/udev",
    "/etc/overdrive",
    "/etc/udev",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
];
/// The control device of ublk: a daemon finds and removes its devices by it.
const UBLK_CONTROL: &str = "/dev/ublk-control";
/// Devices without a disk behind them.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The paths that a daemon's plan names.
pub(crate) struct Permitted {
    /// Directories of its own, in which it creates, changes and removes files.
    own: Vec<PathBuf>,
    /// Its backings that are devices, and the directories of those that are files: the program of
    /// an upgrade opens the file that is there by then.
    backings: Vec<PathBuf>,
    /// Directories of its sockets, and of its configuration file and its program.
    sockets: Vec<PathBuf>,
    settings: Vec<PathBuf>,
    /// Directories of its certificates, which are read again when they have been renewed.
    certificates: Vec<PathBuf>,
    programs: Vec<PathBuf>,
}

fn directory_of(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Returns the path for the rule of a backing.
fn of_backing(path: &Path) -> PathBuf {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_file = fs::metadata(&real).is_ok_and(|found| found.is_file());
    let directory = directory_of(&real);
    // A rule for the root directory would permit all.
    if is_file && directory != Path::new("/") { directory } else { real }
}

/// Returns the directories of a configuration file and its drop-ins: those of the names, and those
/// of the files to which symbolic links lead.
fn settings_of(path: &Path) -> Vec<PathBuf> {
    let main = if path.is_dir() { path.to_owned() } else { directory_of(path) };
    let files =
        [main.clone(), main.join("conf.d")].into_iter().flat_map(|it| files_in(&it, "toml"));
    let real = real_directories(files.chain([path.to_owned()]));
    [main].into_iter().chain(real).collect()
}

/// Returns a directory of certificates, and those of the files to which symbolic links lead.
fn certificates_of(directory: &Path) -> Vec<PathBuf> {
    let real = real_directories(files_in(directory, "pem").into_iter());
    [directory.to_owned()].into_iter().chain(real).collect()
}

/// Returns the directories of the certificates in the URI of an export.
fn certificates_of_export(uri: &str) -> Option<Vec<PathBuf>> {
    let address = ExportAddress::parse(uri).ok()?;
    address.trusted_host().map(|(directory, _)| certificates_of(directory))
}

/// Returns the files with this ending in a directory.
fn files_in(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    files.filter(|file| file.extension().is_some_and(|its| its == ending)).collect()
}

/// Returns the directories of the files to which these names lead.
fn real_directories(names: impl Iterator<Item = PathBuf>) -> impl Iterator<Item = PathBuf> {
    names.filter_map(|name| fs::canonicalize(name).ok()).map(|file| directory_of(&file))
}

impl Permitted {
    /// Returns the paths of a plan.
    pub(crate) fn of(plan: &DaemonPlan) -> Permitted {
        let specs = || plan.volumes.iter().flat_map(|planned| planned.volume.spec().walk());
        let backings = specs().filter_map(|spec| match spec {
            Spec::File { path, .. } => Some(of_backing(path)),
            _ => None,
        });
        let listeners = plan.listeners.iter().filter_map(|listening| match &listening.address {
            NbdAddress::Unix(path) => Some(path.as_path()),
            NbdAddress::Tcp(_) => None,
        });
        let metrics = plan.metrics.as_ref().and_then(MetricsAddress::path);
        let of_exports = specs().filter_map(|spec| match spec {
            Spec::Nbd { uri, .. } => certificates_of_export(uri),
            _ => None,
        });
        let certificates =
            plan.tls.certificates().map(certificates_of).into_iter().chain(of_exports);
        let running = std::env::current_exe().ok();
        // Lists of hot blocks and samples for the history are only saved for these.
        let lasts = plan.volumes.iter().any(|planned| planned.volume.lasting_identity().is_some());
        let state = plan.state.clone().filter(|_| lasts);
        // SQLite creates files beside the history.
        let history = plan.history.as_deref().filter(|_| lasts).map(directory_of);
        let history = history.filter(|directory| plan.state.as_ref() != Some(directory));
        Permitted {
            own: state.into_iter().chain(history).chain([plan.runtime.clone()]).collect(),
            backings: backings.collect(),
            sockets: listeners.chain(metrics).map(directory_of).collect(),
            settings: plan.config.iter().flat_map(|file| settings_of(&file.path)).collect(),
            certificates: certificates.into_iter().flatten().collect(),
            programs: plan.program.iter().chain(&running).map(|path| directory_of(path)).collect(),
        }
    }

    /// Returns the rules for these paths, and for a daemon's devices with these nodes. A path that
    /// does not exist has no rule.
    ///
    /// # Errors
    /// The kernel refuses a rule.
    pub(super) fn rules(&self, nodes: &[PathBuf]) -> Result<RulesetCreated, RulesetError> {
        // A directory that is created later would have no rule.
        for own in &self.own {
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(own);
        }
        let all = AccessFs::from_all(KNOWN);
        let of_file = AccessFs::from_file(KNOWN) & !AccessFs::Execute;
        let own = all & !make_bitflags!(AccessFs::{Execute | MakeChar | MakeBlock});
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let sockets = make_bitflags!(AccessFs::{ReadDir | MakeSock | RemoveFile});
        let paths = |paths: &[PathBuf], access| given(paths.iter().cloned(), access);
        let names = |names: &[&str], access| given(names.iter().map(PathBuf::from), access);
        // Links to this machine's devices, and records of their backings, one of which this may
        // have been.
        let links = paths(&[PathBuf::from(device::DEVICES)], own);
        let rules = [
            names(&PROGRAMS, AccessFs::from_read(KNOWN)),
            paths(&self.programs, AccessFs::from_read(KNOWN)),
            names(&READ, read),
            paths(&self.settings, read),
            paths(&self.certificates, read),
            names(&DEVICES, of_file),
            paths(&self.lower_files(), AccessFs::ReadFile.into()),
            paths(&self.events(), AccessFs::WriteFile.into()),
            paths(&self.backings, of_file),
            paths(&self.sockets, sockets),
            paths(&self.own, own),
            links,
            paths(nodes, of_file),
            paths(&directories_of(nodes), AccessFs::WriteFile.into()),
            names(if nodes.is_empty() { &[] } else { &[UBLK_CONTROL] }, of_file),
        ];
        let ruleset = Ruleset::default().handle_access(all)?.create()?;
        rules.into_iter().flatten().try_fold(ruleset, |ruleset, (path, access)| {
            let is_directory = path.is_dir();
            match PathFd::new(path) {
                Ok(path) if is_directory => ruleset.add_rule(PathBeneath::new(path, access)),
                Ok(path) => {
                    let of_file = access & AccessFs::from_file(KNOWN);
                    ruleset.add_rule(PathBeneath::new(path, of_file))
                }
                Err(_) => Ok(ruleset),
            }
        })
    }
}

/// Files that belong to backings which are devices.
impl Permitted {
    /// Returns the directories of these devices in /sys, and those of their partitions.
    fn devices(&self) -> Vec<PathBuf> {
        directories_of(&self.backings)
    }

    /// Returns the kernel's files by which udevadm makes udev examine the devices again, if they
    /// were hidden (`device/faces.rs`).
    fn events(&self) -> Vec<PathBuf> {
        self.devices().iter().map(|directory| directory.join("uevent")).collect()
    }

    /// Returns the files below those that are loop devices: the program of an upgrade examines the
    /// locks of these files.
    fn lower_files(&self) -> Vec<PathBuf> {
        let names = self.devices().into_iter().map(|directory| directory.join("loop/backing_file"));
        let files = names.filter_map(|path| fs::read_to_string(path).ok());
        files.map(|file| PathBuf::from(file.trim_end_matches('\n'))).collect()
    }
}

/// Returns the directories in /sys of the block devices among these paths, and those of their
/// partitions.
fn directories_of(paths: &[PathBuf]) -> Vec<PathBuf> {
    let found = paths.iter().filter_map(|path| fs::metadata(path).ok());
    let devices = found.filter(|found| found.file_type().is_block_device());
    let numbers = devices.map(|found| found.rdev());
    let number = |number| format!("{}:{}", major(number), minor(number));
    device::parts(&numbers.map(number).collect::<Vec<_>>())
}

type Access = BitFlags<AccessFs>;

fn given(paths: impl Iterator<Item = PathBuf>, access: Access) -> Vec<(PathBuf, Access)> {
    paths.map(|path| (path, access)).collect()
}

/// Returns rules that permit no file at all.
///
/// # Errors
/// The kernel refuses them.
pub(super) fn nothing_permitted() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?.create()
}

/// Confines the calling thread. Threads that it starts are confined as well.
pub(super) fn confine_thread(rules: RulesetCreated) -> ConfinedFiles {
    match rules.restrict_self().map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => ConfinedFiles::Yes,
        Ok(RulesetStatus::PartiallyEnforced) => ConfinedFiles::Partly,
        Ok(RulesetStatus::NotEnforced) | Err(_) => ConfinedFiles::No,
    }
}
