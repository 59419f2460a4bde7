//! `overdrive mount` and `overdrive umount`: the most common case, in one step each.

use super::attach::Volume;
use super::{detach, need_root};
use crate::volumes;
use daemon::WaitingVolume;
use daemon::control::words::{Ask, Row};
use stack::{Exit, Failure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Attach a volume, and mount the file system on it.
///
/// Examples:
///   overdrive mount disk.img /mnt --memory 2G
///   overdrive mount disk.img /mnt --partition 1 -o noatime
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct MountArguments {
    #[command(flatten)]
    volume: Volume,

    /// Mount point: an existing directory.
    directory: PathBuf,

    /// Mount this partition of the volume.
    #[arg(long, value_name = "N")]
    partition: Option<u32>,

    /// Options for mount(8).
    #[arg(short, value_name = "OPTIONS")]
    options_of_mount: Option<String>,

    /// Type of the file system; by default mount(8) detects it.
    #[arg(short, value_name = "TYPE")]
    type_of_file_system: Option<String>,

    /// Serve it in this process; mount nothing.
    #[arg(long, hide = true)]
    foreground: bool,
}

/// Unmount a directory that 'overdrive mount' has mounted, and detach the volume.
#[derive(clap::Args)]
pub(crate) struct UmountArguments {
    /// The mount point.
    directory: PathBuf,
}

/// Returns the node of a partition, as the kernel names it: /dev/loop0p1.
fn partition(device: &Path, number: u32) -> PathBuf {
    let node = fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    PathBuf::from(format!("{}p{number}", node.display()))
}

impl MountArguments {
    fn source(&self) -> PathBuf {
        let device = self.volume.device();
        self.partition.map_or(device.clone(), |number| partition(&device, number))
    }

    /// Mounts the file system, unless it is still mounted there from before its daemon ended.
    fn mount_unless_mounted(&self) -> Result<(), Failure> {
        let directory = fs::canonicalize(&self.directory).unwrap_or(self.directory.clone());
        let is_served = |row: &&Row| row.name == self.volume.name() && is_at(row, &directory);
        match volumes::rows().iter().find(is_served) {
            Some(_) => Ok(()),
            None => self.mount(),
        }
    }

    /// Runs mount(8), which prints its own errors.
    fn mount(&self) -> Result<(), Failure> {
        let mut command = Command::new("mount");
        if let Some(options) = &self.options_of_mount {
            command.arg("-o").arg(options);
        }
        if let Some(kind) = &self.type_of_file_system {
            command.arg("-t").arg(kind);
        }
        command.arg("--").arg(self.source()).arg(&self.directory);
        let failed = |why: String| {
            let message = format!("{}: is not mounted ({why})", self.directory.display());
            Failure::new(Exit::Negative, message)
        };
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(format!("mount: {status}"))),
            Err(error) => Err(failed(format!("mount: {error}"))),
        }
    }
}

pub(crate) fn run(arguments: &MountArguments) -> Result<ExitCode, Failure> {
    if arguments.foreground {
        return arguments.volume.serve();
    }
    need_root("mount")?;
    if !arguments.directory.is_dir() {
        let message = format!("{}: is not a directory", arguments.directory.display());
        return Err(Failure::new(Exit::Usage, message));
    }
    arguments.volume.start("mount")?;
    if let Err(failure) = arguments.mount_unless_mounted() {
        // Nothing is left of it.
        let name = arguments.volume.name();
        if let volumes::Named::Served(mut target) = volumes::find_device(&name)? {
            volumes::ask(&mut target, &Ask::Detach { volume: name, force: false })?;
        }
        return Err(failure);
    }
    daemon::say!("{} on {}", arguments.volume.device().display(), arguments.directory.display());
    Ok(ExitCode::SUCCESS)
}

/// Whether a file system on this volume's device is mounted there.
fn is_at(row: &Row, directory: &Path) -> bool {
    volumes::mount_points(row).iter().any(|place| Path::new(place) == directory)
}

/// Returns the failure if no served volume is mounted there.
fn not_served(directory: &Path) -> Failure {
    let given = directory.display();
    let is_here = |waiting: &WaitingVolume| {
        volumes::mounted_at(waiting).iter().any(|place| Path::new(place) == directory)
    };
    match volumes::waiting_volumes().into_iter().find(is_here) {
        Some(waiting) => {
            let failure = volumes::waiting_failure(&waiting);
            Failure::new(failure.exit, format!("{given}: cannot be unmounted now: {failure}"))
        }
        None => {
            let message = format!("{given}: is not mounted from a device of Overdrive; use umount");
            Failure::new(Exit::Negative, message)
        }
    }
}

pub(crate) fn umount(arguments: &UmountArguments) -> Result<ExitCode, Failure> {
    need_root("umount")?;
    let given = arguments.directory.display();
    let directory = fs::canonicalize(&arguments.directory).map_err(|error| {
        let mend = "name a directory on which 'overdrive mount' has mounted a volume";
        Failure::new(Exit::Negative, format!("{given}: {error}; {mend}"))
    })?;
    let Some(row) = volumes::rows().into_iter().find(|row| is_at(row, &directory)) else {
        return Err(not_served(&directory));
    };
    let unmounted = Command::new("umount").arg("--").arg(&directory).status();
    if !unmounted.is_ok_and(|status| status.success()) {
        return Err(Failure::new(Exit::Busy, format!("{given}: is not unmounted")));
    }
    detach::run(&detach::Arguments::of(row.name))
}
