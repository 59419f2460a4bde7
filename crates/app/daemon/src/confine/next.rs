//! The check, before an upgrade, that the next program can serve in this process's confinement. It
//! reads the configuration file again, and so would the former program if the next one cannot
//! start: neither could open what the confinement forbids.

use super::state;
use crate::config::{self, ConfigVolume};
use crate::control::statistics::ConfinedFiles;
use crate::plan::ConfigFile;
use block::Spec;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use stack::{Exit, Failure};
use std::path::Path;

/// Checks the volumes of a configuration file. Other faults of the file are left to the next
/// program, which may know more settings than this one.
///
/// # Errors
/// Permission: a volume needs a file, a device or a mount that the confinement forbids.
pub(crate) fn check_next(file: &ConfigFile) -> Result<(), Failure> {
    let Ok(mut config) = config::read(&file.path) else { return Ok(()) };
    config.volumes.retain(|it| file.volume.as_ref().is_none_or(|only| *only == it.name));
    if state().files == ConfinedFiles::No {
        return Ok(());
    }
    let attached = config.volumes.iter().find(|volume| volume.attach);
    let mounted = config.volumes.first().filter(|_| config.fuse.is_some());
    if let Some(volume) = attached.or(mounted) {
        return Err(refusal(&volume.name, "a device or a mount"));
    }
    match config.volumes.iter().find_map(forbidden_file) {
        Some((name, path)) => Err(refusal(&name, &path)),
        None => Ok(()),
    }
}

/// Returns a volume's name, with the first file below it that must not be opened.
fn forbidden_file(volume: &ConfigVolume) -> Option<(String, String)> {
    let spec = volume.spec().ok()?;
    let is_forbidden = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        matches!(open(path, flags, Mode::empty()), Err(Errno::ACCESS | Errno::PERM))
    };
    let found = spec.walk().find_map(|spec| match spec {
        Spec::File { path, .. } if is_forbidden(path) => Some(path.display().to_string()),
        _ => None,
    })?;
    Some((volume.name.clone(), found))
}

fn refusal(volume: &str, what: &str) -> Failure {
    let message = format!(
        "{volume}: needs {what}, which this process must not use since it serves; not upgraded: \
         restart the daemon instead (under systemd: systemctl restart)"
    );
    Failure::new(Exit::Permission, message)
}
