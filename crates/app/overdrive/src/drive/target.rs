//! A whole device that a command will change: claimed, described, and confirmed by its user.

use host::Erasable;
use host::disks::{DriveIdentity, Roots, drive_identity};
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
        let claim = Erasable::claim(&path).map_err(Failure::from)?;
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

/// Returns the path of a device that is named by its path or its name in /dev.
pub(super) fn path_of(name: &Path) -> PathBuf {
    match name.to_string_lossy().contains('/') {
        true => name.to_owned(),
        false => Path::new("/dev").join(name),
    }
}
