//! The plan of an erasure, and its execution.

use super::method::{Commands, Method, Own, method_of};
use super::{Choice, risks};
use crate::drive::target::Target;
use host::disks::Interface;
use host::nvme::{self, Controller, FormatErase, Namespace, all_namespaces};
use host::scsi::{self, ScsiErase, ScsiError};
use host::{discard, zero};
use stack::{Exit, Failure};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Bytes of one request to discard or zero.
const PIECE_BYTES: u64 = 1 << 30;

/// The plan of an erasure.
pub(super) struct Plan {
    pub(super) method: Method,
    pub(super) warnings: Vec<String>,
    nvme: Option<Nvme>,
}

impl Plan {
    /// Plans the erasure of a claimed drive.
    ///
    /// # Errors
    /// The drive does not have the method, or it would erase more than this device.
    pub(super) fn of(target: &Target, choice: Option<Choice>) -> Result<Plan, Failure> {
        let Target { node, identity, .. } = target;
        let nvme = match identity.interface {
            Interface::Nvme => Some(Nvme::of(target)?),
            _ => None,
        };
        let scsi = match identity.interface {
            Interface::Scsi => scsi_abilities(target)?,
            _ => scsi::Abilities::default(),
        };
        let own = match (&nvme, identity.interface) {
            (Some(nvme), _) => Some(nvme.own()),
            (None, Interface::Scsi) => Some(Own {
                commands: Commands::Scsi,
                sanitizes: scsi.sanitizes,
                can_format: scsi.can_format,
            }),
            (None, _) => None,
        };
        let can_discard = identity.discard_bytes > 0;
        let method = method_of(identity.interface, can_discard, own.as_ref(), choice)
            .map_err(|why| Failure::new(Exit::Usage, format!("{}: {why}", node.display())))?;
        let model = match &nvme {
            Some(nvme) => &nvme.controller.model,
            None => &identity.model,
        };
        if let Some(nvme) = &nvme {
            nvme.check_alone(target, method)?;
        }
        if scsi.affects_others && matches!(method, Method::Sanitize(..) | Method::Format(_)) {
            let others = "further logical units";
            return Err(not_alone(target, others));
        }
        let warnings = risks::of(model);
        Ok(Plan { method, warnings, nvme })
    }

    /// Returns the commands that the user runs.
    pub(super) fn commands(&self, target: &Target) -> Vec<String> {
        let node = target.node.display();
        match self.method {
            Method::AtaLines => ata_lines(&node.to_string()),
            _ => Vec::new(),
        }
    }

    /// Erases the drive. `progress` receives the completed share.
    ///
    /// # Errors
    /// The sentence of the system or the drive.
    pub(super) fn run(&self, target: &Target, progress: &mut dyn FnMut(f64)) -> Result<(), String> {
        let file = target.claim.file();
        match (self.method, &self.nvme) {
            (Method::AtaLines, _) => Err("is not done by this program".to_owned()),
            (Method::Discard | Method::Zero, _) => self.pieces(target, progress),
            (Method::Format(Commands::Nvme), Some(nvme)) => nvme.format(target, progress),
            (Method::Sanitize(Commands::Nvme, action), Some(nvme)) => {
                nvme::sanitize(file, &nvme.controller, action, progress)
                    .map_err(|error| format!("{error}{}", continues()))
            }
            (Method::Sanitize(Commands::Scsi, action), _) => {
                scsi::erase(file, ScsiErase::Sanitize(action), progress)
                    .map_err(|error| format!("{error}{}", continues()))
            }
            (Method::Format(Commands::Scsi), _) => {
                scsi::erase(file, ScsiErase::Format, progress).map_err(|error| error.to_string())
            }
            (Method::Sanitize(Commands::Nvme, _) | Method::Format(Commands::Nvme), None) => {
                Err("it is no NVMe drive".to_owned())
            }
        }
    }

    /// Discards or zeroes all blocks.
    fn pieces(&self, target: &Target, progress: &mut dyn FnMut(f64)) -> Result<(), String> {
        let (file, bytes) = (target.claim.file(), target.claim.bytes());
        let mut first = 0;
        while first < bytes {
            let length = PIECE_BYTES.min(bytes - first);
            let done = match self.method {
                Method::Discard => discard(file, first, length),
                _ => zero(file, first, length),
            };
            done.map_err(|error| error.to_string())?;
            first += length;
            progress(first as f64 / bytes as f64);
        }
        rustix::fs::fsync(file).map_err(|error| error.to_string())
    }
}

/// Returns the end of the message about a failed sanitize operation.
fn continues() -> &'static str {
    "; if it was begun, the drive continues it as soon as it has power: repeat this command to see \
     its state"
}

/// Returns a SCSI drive's own methods; none if the device takes no commands of this kind.
fn scsi_abilities(target: &Target) -> Result<scsi::Abilities, Failure> {
    match scsi::abilities(target.claim.file()) {
        Err(error @ ScsiError::Transport { .. }) => Err(unanswered(target, &error)),
        found => Ok(found.unwrap_or_default()),
    }
}

fn unanswered(target: &Target, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("{}: cannot be queried ({error})", target.node.display());
    Failure::new(Exit::Io, message)
}

/// Refuses a method that would erase more than the device, whose users are not known here.
fn not_alone(target: &Target, others: &str) -> Failure {
    let message = format!(
        "{}: its drive has {others}, which this method would erase as well; use --method discard \
         or zero",
        target.node.display()
    );
    Failure::new(Exit::Usage, message)
}

/// An NVMe drive.
struct Nvme {
    controller: Controller,
    namespace: Namespace,
    /// The numbers of all namespaces of the drive.
    all: Vec<u32>,
}

impl Nvme {
    fn of(target: &Target) -> Result<Nvme, Failure> {
        let failed = |error: nvme::NvmeError| unanswered(target, &error);
        let file = target.claim.file();
        Ok(Nvme {
            controller: nvme::controller(file).map_err(failed)?,
            namespace: nvme::namespace(file).map_err(failed)?,
            all: all_namespaces(file).map_err(failed)?,
        })
    }

    fn own(&self) -> Own {
        let Controller { sanitizes, can_format, .. } = self.controller;
        Own { commands: Commands::Nvme, sanitizes, can_format }
    }

    /// Refuses a method that would erase other namespaces.
    fn check_alone(&self, target: &Target, method: Method) -> Result<(), Failure> {
        let erases_all = match method {
            Method::Sanitize(..) => true,
            Method::Format(_) => self.controller.formats_all,
            Method::Discard | Method::Zero | Method::AtaLines => false,
        };
        if !erases_all || self.all == [self.namespace.id] {
            return Ok(());
        }
        let others: Vec<String> =
            self.all.iter().filter(|id| **id != self.namespace.id).map(u32::to_string).collect();
        Err(not_alone(target, &format!("further namespaces ({})", others.join(", "))))
    }

    /// Formats the namespace on another thread: the command has no progress.
    fn format(&self, target: &Target, progress: &mut dyn FnMut(f64)) -> Result<(), String> {
        let namespace = self.namespace;
        let claim = target.claim.clone();
        let (sender, receiver) = channel();
        let work = move || sender.send(nvme::format(claim.file(), &namespace, FormatErase::Data));
        std::thread::Builder::new().spawn(work).map_err(|error| error.to_string())?;
        loop {
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok(done) => return done.map_err(|error| error.to_string()),
                Err(RecvTimeoutError::Timeout) => progress(0.0),
                Err(RecvTimeoutError::Disconnected) => return Err("its thread has ended".into()),
            }
        }
    }
}

/// Returns the lines by which the user erases an ATA drive.
fn ata_lines(node: &str) -> Vec<String> {
    vec![
        format!("hdparm -I {node}     # must show 'not frozen'; if not, suspend the machine once"),
        format!("hdparm --user-master u --security-set-pass p {node}"),
        format!(
            "hdparm --user-master u --security-erase p {node}     # may take hours; leave it on"
        ),
        format!("hdparm -I {node}     # must show 'not enabled' under Security"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_for_ata_name_the_device_and_set_no_secret_that_is_lost() {
        let lines = ata_lines("/dev/sdx");
        assert!(lines.iter().all(|line| line.starts_with("hdparm ") && line.contains("/dev/sdx")));
        // The password is the same in both: a drive that is locked by it can be unlocked.
        assert!(lines[1].contains("--security-set-pass p ") && lines[2].contains("-erase p "));
    }
}
