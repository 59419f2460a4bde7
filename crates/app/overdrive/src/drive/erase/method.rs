//! How a drive is erased.

use super::{Choice, risks};
use crate::drive::target::Target;
use host::disks::Interface;
use host::nvme::{
    self, Controller, FormatErase, Namespace, SanitizeAction, SanitizeState, active_namespaces,
};
use host::{Patience, discard, zero};
use stack::{Exit, Failure};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Bytes of one request to discard or zero.
const PIECE_BYTES: u64 = 1 << 30;
/// Time between two looks at a sanitize operation.
const LOOK_MS: u64 = 1000;

/// A method, as far as the drive has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Sanitize(SanitizeAction),
    Format,
    Discard,
    Zero,
    /// Commands for hdparm, which are printed.
    AtaLines,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Sanitize(SanitizeAction::Blocks) => "nvme-sanitize-block",
            Method::Sanitize(SanitizeAction::Overwrite) => "nvme-sanitize-overwrite",
            Method::Sanitize(SanitizeAction::Key) => "nvme-sanitize-key",
            Method::Format => "nvme-format",
            Method::Discard => "discard",
            Method::Zero => "zero",
            Method::AtaLines => "ata-security-erase",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Method::Sanitize(SanitizeAction::Blocks) => {
                "sanitize: the drive erases all its flash, spare blocks too"
            }
            Method::Sanitize(SanitizeAction::Overwrite) => {
                "sanitize: the drive overwrites all its flash, spare blocks too"
            }
            Method::Sanitize(SanitizeAction::Key) => {
                "sanitize: the drive erases the key of its encryption"
            }
            Method::Format => "format: the drive erases the data of its namespace",
            Method::Discard => "discard: the drive forgets its data, but its flash may keep it",
            Method::Zero => "zeros are written; spare blocks of the flash keep old data",
            Method::AtaLines => "by the drive itself (ATA Security Erase)",
        }
    }
}

/// The plan of an erasure.
pub(super) struct Plan {
    pub(super) method: Method,
    pub(super) warnings: Vec<String>,
    /// The namespace of an NVMe drive.
    namespace: Option<Namespace>,
}

impl Plan {
    /// Plans the erasure of a claimed drive.
    ///
    /// # Errors
    /// The drive does not have the method, or it would erase more than this device.
    pub(super) fn of(target: &Target, choice: Option<Choice>) -> Result<Plan, Failure> {
        let is_nvme = target.identity.interface == Interface::Nvme;
        let nvme = if is_nvme { Some(Nvme::of(target)?) } else { None };
        let Target { node, identity, .. } = target;
        let controller = nvme.as_ref().map(|nvme| &nvme.controller);
        let can_discard = identity.discard_bytes > 0;
        let method = method_of(identity.interface, can_discard, controller, choice);
        let method = method
            .map_err(|why| Failure::new(Exit::Usage, format!("{}: {why}", node.display())))?;
        let model = match &nvme {
            Some(nvme) => &nvme.controller.model,
            None => &target.identity.model,
        };
        let namespace = nvme.as_ref().map(|nvme| nvme.namespace);
        if let Some(nvme) = &nvme {
            nvme.check_alone(target, method)?;
        }
        Ok(Plan { method, warnings: risks::of(model), namespace })
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
        let words = |error: &dyn std::fmt::Display| error.to_string();
        match self.method {
            Method::AtaLines => Err("is not done by this program".to_owned()),
            Method::Discard | Method::Zero => {
                let bytes = target.claim.bytes();
                let mut first = 0;
                while first < bytes {
                    let length = PIECE_BYTES.min(bytes - first);
                    let file = target.claim.file();
                    let done = match self.method {
                        Method::Discard => discard(file, first, length),
                        _ => zero(file, first, length),
                    };
                    done.map_err(|error| words(&error))?;
                    first += length;
                    progress(first as f64 / bytes as f64);
                }
                rustix::fs::fsync(target.claim.file()).map_err(|error| words(&error))
            }
            Method::Format => self.format(target, progress),
            Method::Sanitize(action) => sanitize(target, action, progress),
        }
    }

    /// Formats the namespace on another thread: the command has no progress.
    fn format(&self, target: &Target, progress: &mut dyn FnMut(f64)) -> Result<(), String> {
        let namespace = self.namespace.ok_or("it has no namespace")?;
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

fn sanitize(
    target: &Target,
    action: SanitizeAction,
    progress: &mut dyn FnMut(f64),
) -> Result<(), String> {
    let file = target.claim.file();
    nvme::sanitize(file, action).map_err(|error| error.to_string())?;
    loop {
        Patience::new(LOOK_MS).wait();
        match nvme::sanitize_state(file).map_err(|error| error.to_string())? {
            SanitizeState::Running(share) => progress(f64::from(share) / 65_536.0),
            SanitizeState::Done => return Ok(()),
            SanitizeState::Failed => return Err("the drive reports that it has failed".to_owned()),
            SanitizeState::Never => return Err("the drive has not begun".to_owned()),
        }
    }
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
        let failed = |error: nvme::NvmeError| {
            let message = format!("{}: cannot be asked ({error})", target.node.display());
            Failure::new(Exit::Io, message)
        };
        let file = target.claim.file();
        Ok(Nvme {
            controller: nvme::controller(file).map_err(failed)?,
            namespace: nvme::namespace(file).map_err(failed)?,
            all: active_namespaces(file).map_err(failed)?,
        })
    }

    /// Refuses a method that would erase other namespaces, whose users are not known here.
    fn check_alone(&self, target: &Target, method: Method) -> Result<(), Failure> {
        let erases_all = match method {
            Method::Sanitize(_) => true,
            Method::Format => self.controller.formats_all,
            Method::Discard | Method::Zero | Method::AtaLines => false,
        };
        if !erases_all || self.all == [self.namespace.id] {
            return Ok(());
        }
        let others: Vec<String> =
            self.all.iter().filter(|id| **id != self.namespace.id).map(u32::to_string).collect();
        let message = format!(
            "{}: its drive has further namespaces ({}), which this method would erase as well; use \
             --method discard or zero",
            target.node.display(),
            others.join(", ")
        );
        Err(Failure::new(Exit::Usage, message))
    }
}

/// Returns the method for a drive: the chosen one, or the best that it has.
///
/// # Errors
/// The reason why the drive does not have the chosen one.
fn method_of(
    interface: Interface,
    can_discard: bool,
    controller: Option<&Controller>,
    choice: Option<Choice>,
) -> Result<Method, &'static str> {
    let sanitize = controller.and_then(Controller::best_sanitize);
    let can_format = controller.is_some_and(|controller| controller.can_format);
    match choice {
        Some(Choice::Sanitize) => sanitize
            .map(Method::Sanitize)
            .ok_or("does not have the command Sanitize of NVMe; leave --method out"),
        Some(Choice::Format) if can_format => Ok(Method::Format),
        Some(Choice::Format) => Err("does not have the command Format of NVMe; leave --method out"),
        Some(Choice::Discard) if can_discard => Ok(Method::Discard),
        Some(Choice::Discard) => Err("does not support discards; use --method zero"),
        Some(Choice::Zero) => Ok(Method::Zero),
        None if interface == Interface::Ata => Ok(Method::AtaLines),
        None => Ok(match (sanitize, can_format, can_discard) {
            (Some(SanitizeAction::Blocks), _, _) => Method::Sanitize(SanitizeAction::Blocks),
            (_, true, _) => Method::Format,
            (Some(action), _, _) => Method::Sanitize(action),
            (None, false, true) => Method::Discard,
            (None, false, false) => Method::Zero,
        }),
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
    fn the_best_method_that_a_drive_has_is_chosen() {
        let nvme =
            |sanitizes, can_format| Controller { sanitizes, can_format, ..Controller::default() };
        let best = |interface, can_discard, controller: Option<&Controller>| {
            method_of(interface, can_discard, controller, None)
        };
        let all = nvme([true, true, true], true);
        let key = nvme([true, false, false], true);
        let only_key = nvme([true, false, false], false);
        let none = nvme([false; 3], false);
        let blocks = Method::Sanitize(SanitizeAction::Blocks);
        assert_eq!(best(Interface::Nvme, true, Some(&all)), Ok(blocks));
        assert_eq!(best(Interface::Nvme, true, Some(&key)), Ok(Method::Format));
        let by_key = Method::Sanitize(SanitizeAction::Key);
        assert_eq!(best(Interface::Nvme, true, Some(&only_key)), Ok(by_key));
        assert_eq!(best(Interface::Nvme, true, Some(&none)), Ok(Method::Discard));
        assert_eq!(best(Interface::Scsi, false, None), Ok(Method::Zero));
        assert_eq!(best(Interface::Other, true, None), Ok(Method::Discard));
        // Lines are printed, whatever else the drive has.
        assert_eq!(best(Interface::Ata, true, None), Ok(Method::AtaLines));
        let zero = method_of(Interface::Ata, true, None, Some(Choice::Zero));
        assert_eq!(zero, Ok(Method::Zero));
        assert!(method_of(Interface::Scsi, false, None, Some(Choice::Discard)).is_err());
        assert!(method_of(Interface::Nvme, true, Some(&none), Some(Choice::Sanitize)).is_err());
    }

    #[test]
    fn the_lines_for_ata_name_the_device_and_set_no_secret_that_is_lost() {
        let lines = ata_lines("/dev/sdx");
        assert!(lines.iter().all(|line| line.starts_with("hdparm ") && line.contains("/dev/sdx")));
        // The password is the same in both: a drive that is locked by it can be unlocked.
        assert!(lines[1].contains("--security-set-pass p ") && lines[2].contains("-erase p "));
    }
}
