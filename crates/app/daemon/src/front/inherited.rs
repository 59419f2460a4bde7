//! Files that an upgrade leaves open for the next program, each under a name.

use host::File;
use ring::Listener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// The variable that lists them: `NUMBER=NAME`, separated by newlines.
const VARIABLE: &str = "OVERDRIVE_LISTENERS";

/// The files that were found, until the daemon takes them.
static FOUND: OnceLock<Mutex<Vec<(String, OwnedFd)>>> = OnceLock::new();

/// Files that the former program has left open over its exec.
#[derive(Default)]
pub(crate) struct Inherited(Vec<(String, OwnedFd)>);

/// Takes over the files that the former program has left open over its exec. Must be called before
/// any child is started: a holder that inherits a listener would occupy the address long after this
/// process has ended.
pub fn find_inherited() {
    FOUND.get_or_init(|| {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let named = text.lines().filter_map(|line| {
            let (number, name) = line.split_once('=')?;
            let file = host::inherited(number.parse().ok()?).ok()?;
            Some((name.to_owned(), file))
        });
        Mutex::new(named.collect())
    });
}

/// Removes the list from the environment of the next program of this process, if this program has
/// taken the files over: they are closed then, and their numbers may be used again.
pub(crate) fn forget_inherited(command: &mut Command) {
    if FOUND.get().is_some() {
        command.env_remove(VARIABLE);
    }
}

impl Inherited {
    /// Returns the files named in the environment. Invalid entries are ignored.
    pub(crate) fn find() -> Inherited {
        find_inherited();
        let found =
            FOUND.get().map(|found| found.lock().map(|mut list| std::mem::take(&mut *list)));
        Inherited(found.and_then(Result::ok).unwrap_or_default())
    }

    /// Takes the file with this name.
    pub(crate) fn take(&mut self, name: &str) -> Option<OwnedFd> {
        let index = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(index).1)
    }
}

impl Drop for Inherited {
    /// Closes the files that no front has taken, and removes the paths of sockets.
    fn drop(&mut self) {
        for (_, file) in self.0.drain(..) {
            drop(Listener::from_file(file));
        }
    }
}

/// Descriptors left open for the next program. They stay open while this value lives, and some of
/// them are open nowhere else.
pub(crate) struct Handover {
    /// The variable that describes them to the next program.
    pub(crate) variable: &'static str,
    pub(crate) text: String,
    _files: Vec<(String, File)>,
}

/// Leaves these files open over an exec.
pub(super) fn hand_over(files: Vec<(String, File)>) -> std::io::Result<Handover> {
    let mut text = String::new();
    for (name, file) in &files {
        host::set_inherited(file, true)?;
        text.push_str(&format!("{}={name}\n", file.as_raw_fd()));
    }
    Ok(Handover { variable: VARIABLE, text, _files: files })
}
