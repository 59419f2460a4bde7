//! `overdrive detach`: writes a volume back, and removes its device.

use crate::supervisors;
use crate::volumes::{self, Named};
use block::Size;
use daemon::control::words::Ask;
use stack::{Exit, Failure};
use std::path::Path;
use std::process::ExitCode;

/// Write a volume's data back, remove its device, and release its backing.
///
/// A device that is in use is refused (exit status 5), and the message names its users: mounts,
/// also of other mount namespaces and of partitions, devices on top of it, programs that have it
/// open.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The volume, or the path of its device.
    name: String,

    /// Remove the device even if its daemon has ended and will not come back, or if it cannot be
    /// flushed because the volume has failed: waiting requests fail. Its holder retains dirty data.
    #[arg(long)]
    force: bool,
}

impl Arguments {
    /// Returns the arguments for a volume with a running daemon.
    pub(super) fn of(name: String) -> Arguments {
        Arguments { name, force: false }
    }
}

/// Returns the volume for a path in /dev, or for a name.
fn named(name: &str) -> String {
    let path = Path::new(name);
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(last)) if parent == Path::new(daemon::DEVICES) => {
            last.to_string_lossy().into_owned()
        }
        _ => name.to_owned(),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let name = named(&arguments.name);
    match volumes::find_device(&name)? {
        Named::Served(mut target) => {
            let name = target.row.name.clone();
            let ask = Ask::Detach { volume: name.clone(), force: arguments.force };
            let answer = volumes::ask(&mut target, &ask)?;
            let outcome =
                volumes::losses_in(answer).map(|losses| losses.outcome(&target.row.backing));
            let outcome = outcome.map(|outcome| format!("; {outcome}")).unwrap_or_default();
            daemon::say!("{name} detached{outcome}");
            Ok(ExitCode::SUCCESS)
        }
        Named::NotServed => give_up(&name, arguments.force),
    }
}

/// Handles a device whose daemon has ended.
fn give_up(name: &str, force: bool) -> Result<ExitCode, Failure> {
    if let Some(waiting) = volumes::find_waiting(name).filter(|_| !force) {
        return Err(volumes::waiting_failure(&waiting));
    }
    let Some(orphan) = daemon::orphan(&daemon::runtime_directory(), name) else {
        let message = format!("{name}: is not a device; see 'overdrive volume list'");
        return Err(Failure::new(Exit::Negative, message));
    };
    if !force {
        let message = format!(
            "{name}: its daemon has ended, and users of the device wait; attach it again to \
             continue, or detach it with --force, and waiting requests fail"
        );
        return Err(Failure::new(Exit::NoDaemon, message));
    }
    supervisors::end(&daemon::runtime_directory(), name);
    orphan.give_up().map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Exit::Permission,
            _ => Exit::Io,
        };
        Failure::new(exit, format!("{name}: {error}"))
    })?;
    daemon::sweep_faces(&daemon::runtime_directory());
    daemon::say!("{name} detached; {}", describe_retained(name));
    Ok(ExitCode::SUCCESS)
}

/// Returns a sentence about data that is retained for a volume without a daemon.
fn describe_retained(name: &str) -> String {
    let holders = holder::Keeper::roll(&daemon::runtime_directory()).unwrap_or_default();
    let has_data = |held: &&holder::Status| held.is_orphaned() && !held.has_only_clean;
    let mut held = holders.answered.iter().filter(has_data).filter(|held| held.volume == name);
    match held.next() {
        Some(held) => format!(
            "{} of acknowledged writes stay retained by its holder, process {}; the next \
             'overdrive attach {}' continues with them",
            Size(held.dirty_blocks * 4096),
            held.holder_pid,
            held.backing,
        ),
        None if !holders.silent.is_empty() => {
            "a holder does not answer, so its retained data is unknown; see 'overdrive volume \
             list'"
                .to_owned()
        }
        None => "no holder retains writes of it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_its_path_or_its_volume() {
        assert_eq!(named("/dev/overdrive/db"), "db");
        assert_eq!(named("db"), "db");
        assert_eq!(named("/dev/loop3"), "/dev/loop3");
    }
}
