//! Drives below the volumes that are served: devices, modelled drives, members.

use super::client::{Daemon, call_roll};
use super::statistics::Statistics;
use super::words::{Ask, Row};
use crate::runtime::runtime_directory;
use block::Spec;
use stack::{Exit, Failure, Plan, below_limits, target};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A volume, and a connection to the daemon that serves it.
pub struct Served {
    daemon: Daemon,
    row: Row,
}

/// The drives below a volume.
pub enum LowerDrives {
    /// A device: its path.
    Device(PathBuf),
    /// A modelled drive, in the daemon.
    Model(Served),
    /// Several files or devices; None is a missing one.
    Members(Served, Vec<Option<PathBuf>>),
}

/// Returns the drives below the volume of this name.
///
/// # Errors
/// There is no such volume, or it lies on no drive.
pub fn find(name: &Path) -> Result<LowerDrives, Failure> {
    let text = name.display();
    let negative = |message: String| Err(Failure::new(Exit::Negative, message));
    let roll = call_roll(&runtime_directory());
    let found = roll.answered.into_iter().find_map(|(daemon, rows)| {
        let row = rows.into_iter().find(|row| Path::new(&row.name) == name)?;
        Some(Served { daemon, row })
    });
    let Some(served) = found else {
        if let Some(silent) = roll.silent.first() {
            return Err(silent.failure());
        }
        return negative(format!("{text}: no such device or volume; see 'overdrive drive list'"));
    };
    let backing = below_limits(&served.row.backing);
    if backing.starts_with("model:") {
        return Ok(LowerDrives::Model(served));
    }
    let path_of = |spec| match spec {
        Spec::File { path, .. } => Some(served.resolve(&path)),
        _ => None,
    };
    let members = match target(backing, &Plan::default()) {
        Ok(Spec::Pool { members }) => {
            members.into_iter().map(|member| member.and_then(path_of)).collect()
        }
        Ok(Spec::Stripe { members, .. }) => members.into_iter().map(path_of).collect(),
        Ok(Spec::File { path, .. }) if is_device(&served.resolve(&path)) => {
            return Ok(LowerDrives::Device(served.resolve(&path)));
        }
        _ => {
            return negative(format!(
                "{text}: its backing {backing} is a file, which has no health of its own; name the \
                 drive below it, of 'overdrive drive list'"
            ));
        }
    };
    Ok(LowerDrives::Members(served, members))
}

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

impl Served {
    /// Resolves a path of the daemon, which may have been started in another directory.
    fn resolve(&self, path: &Path) -> PathBuf {
        let directory = std::fs::read_link(format!("/proc/{}/cwd", self.row.pid));
        directory.unwrap_or_default().join(path)
    }

    /// Returns its line in the list of volumes.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// Returns its statistics.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn stats(&mut self) -> Result<Statistics, Failure> {
        self.daemon.statistics(&self.row.name)
    }

    /// Flushes it, so that its discards reach the members.
    ///
    /// # Errors
    /// The daemon does not answer, or the flush fails.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let ask = Ask::Flush { volume: self.row.name.clone() };
        self.daemon.ask(&ask).map(drop)
    }
}

/// Returns the volumes of this user whose backing is a device: its name in /dev, and the volume's
/// name.
pub fn devices() -> Vec<(String, String)> {
    let rows = call_roll(&runtime_directory()).answered.into_iter().flat_map(|(_, rows)| rows);
    let named = rows.filter_map(|row| {
        let path = std::fs::canonicalize(below_limits(&row.backing)).ok()?;
        let device = path.strip_prefix("/dev").ok()?.to_str()?.to_owned();
        Some((device, row.name))
    });
    named.collect()
}
