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
        let method = method_of(target, choice, nvme.as_ref())?;
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
            Method::AtaLines => vec![
                format!(
                    "hdparm -I {node}     # must show 'not frozen'; if it is frozen, suspend the machine once"
                ),
                format!("hdparm --user-master u --security-set-pass p {node}"),
                format!(
                    "hdparm --user-master u --security-erase p {node}     # may take hours; do not turn it off"
                ),
                format!("hdparm -I {node}     # must show 'not enabled' under Security"),
            ],
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

fn method_of(
    target: &Target,
    choice: Option<Choice>,
    nvme: Option<&Nvme>,
) -> Result<Method, Failure> {
    let can_discard = target.identity.discard_bytes > 0;
    let refused =
        |why: &str| Err(Failure::new(Exit::Usage, format!("{}: {why}", target.node.display())));
    let sanitize = nvme.and_then(|nvme| nvme.controller.best_sanitize());
    let can_format = nvme.is_some_and(|nvme| nvme.controller.can_format);
    match choice {
        Some(Choice::Sanitize) => match sanitize {
            Some(action) => Ok(Method::Sanitize(action)),
            None => refused("does not have the command Sanitize of NVMe; leave --method out"),
        },
        Some(Choice::Format) if can_format => Ok(Method::Format),
        Some(Choice::Format) => {
            refused("does not have the command Format of NVMe; leave --method out")
        }
        Some(Choice::Discard) if can_discard => Ok(Method::Discard),
        Some(Choice::Discard) => refused("does not support discards; use --method zero"),
        Some(Choice::Zero) => Ok(Method::Zero),
        None if target.identity.interface == Interface::Ata => Ok(Method::AtaLines),
        None => Ok(match (sanitize, can_format, can_discard) {
            (Some(SanitizeAction::Blocks), _, _) => Method::Sanitize(SanitizeAction::Blocks),
            (_, true, _) => Method::Format,
            (Some(action), _, _) => Method::Sanitize(action),
            (None, false, true) => Method::Discard,
            (None, false, false) => Method::Zero,
        }),
    }
}
