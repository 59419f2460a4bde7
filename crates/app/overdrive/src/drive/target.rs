//! A whole device that a command will change: claimed, described, and confirmed by its user.

use host::disks::{DriveIdentity, Interface, Roots, drive_identity};
use host::{Erasable, Erasing, OpenError, OpenErrorKind, erasing};
use stack::{Exit, Failure};
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// A claimed device.
pub(super) struct Target {
    /// Its node in /dev.
    pub(super) node: PathBuf,
    pub(super) identity: DriveIdentity,
    pub(super) claim: Erasable,
}

impl Target {
    /// Claims a device by its name in /dev or its path.
    ///
    /// # Errors
    /// It is no whole device, or it is in use.
    pub(super) fn claim(name: &Path) -> Result<Target, Failure> {
        let path = path_of(name);
        check_idle(&path)?;
        let claim = Erasable::claim(&path).map_err(|error| refused(name, &path, error))?;
        let Some(node) = claim.node() else {
            let message = format!("{}: was removed", path.display());
            return Err(Failure::new(Exit::Io, message));
        };
        let kernel_name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let identity = drive_identity(&Roots::default(), &kernel_name);
        Ok(Target { node, identity, claim })
    }

    /// Returns the word that the user types to confirm: the serial number, or the name of a device
    /// without one.
    pub(super) fn word(&self) -> String {
        let name = || self.node.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match self.identity.serial.is_empty() {
            true => name(),
            false => self.identity.serial.clone(),
        }
    }

    /// Returns what the word is.
    pub(super) fn kind_of_word(&self) -> &'static str {
        if self.identity.serial.is_empty() { "name" } else { "serial number" }
    }

    /// Requires the user's agreement to lose the contents: the word, as an argument or typed.
    ///
    /// # Errors
    /// Usage: the word is another one, or there is no terminal to type it.
    pub(super) fn confirm(&self, given: Option<&str>, consequence: &str) -> Result<(), Failure> {
        let (node, word, kind) = (self.node.display(), self.word(), self.kind_of_word());
        let typed = match given {
            Some(given) => given.to_owned(),
            None if std::io::stdin().is_terminal() => {
                let prompt =
                    format!("{node}: {consequence}. Type its {kind}, {word}, to continue: ");
                // Without a place to print it the word cannot be known, and is not typed.
                let _ = std::io::stderr().lock().write_all(prompt.as_bytes());
                let mut line = String::new();
                let read = std::io::stdin().lock().read_line(&mut line);
                read.map_err(|error| Failure::new(Exit::Usage, format!("stdin: {error}")))?;
                line.trim().to_owned()
            }
            None => {
                let message = format!(
                    "{node}: {consequence}; to confirm, add --confirm {word} (its {kind}), or run \
                     this on a terminal"
                );
                return Err(Failure::new(Exit::Usage, message));
            }
        };
        if typed == word {
            return Ok(());
        }
        let message =
            format!("{node}: '{typed}' is not its {kind}, which is {word}; nothing was changed");
        Err(Failure::new(Exit::Usage, message))
    }
}

/// Refuses a drive that is erasing itself: the kernel would wait minutes for each read of it.
fn check_idle(path: &Path) -> Result<(), Failure> {
    let node = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let kernel_name = node.file_name().unwrap_or_default().to_string_lossy();
    let interface = drive_identity(&Roots::default(), &kernel_name).interface;
    // Bridges of USB may not pass the question on in the same sense.
    if !matches!(interface, Interface::Nvme | Interface::Scsi) {
        return Ok(());
    }
    let name = path.display();
    match erasing(path) {
        Some(Erasing::Running(share)) => {
            let share = share.map_or(String::new(), |share| format!(", {:.0} %", share * 100.0));
            let message = format!(
                "{name}: is erasing itself at present{share}, and cannot be read until the end; \
                 wait for it"
            );
            Err(Failure::new(Exit::Busy, message))
        }
        Some(Erasing::Failed) => {
            let message = format!(
                "{name}: an earlier erasure was not completed, and it cannot be read; repeat that \
                 with sg_format or sg_sanitize (SCSI, of sg3-utils), or nvme sanitize (NVMe, of \
                 nvme-cli)"
            );
            Err(Failure::new(Exit::Io, message))
        }
        Some(Erasing::No) | None => Ok(()),
    }
}

/// Returns the refusal of a device, in the words of a command that changes all of it. `file`: the
/// name as the user has typed it.
fn refused(file: &Path, path: &Path, error: OpenError) -> Failure {
    let name = path.display();
    match error.kind {
        OpenErrorKind::Permission => {
            let message = format!("{name}: only root may change all of it; run this with sudo");
            Failure::new(Exit::Permission, message)
        }
        OpenErrorKind::NotFound if file.is_file() => {
            let message = format!(
                "{0}: is a file, not a drive; as a device it gets a name by: losetup --find --show \
                 {0}",
                file.display()
            );
            Failure::new(Exit::Usage, message)
        }
        OpenErrorKind::ReadOnly => {
            let message = format!(
                "{name}: is read-only: a switch of the drive, or the kernel's setting \
                 (blockdev --getro {name}); nothing was changed"
            );
            Failure::new(Exit::Permission, message)
        }
        _ => Failure::from(error),
    }
}

/// Returns the path of a device that is named by its path or its name in /dev.
pub(super) fn path_of(name: &Path) -> PathBuf {
    match name.to_string_lossy().contains('/') {
        true => name.to_owned(),
        false => Path::new("/dev").join(name),
    }
}
