//! The state directory of a user, for files that outlive a boot.
//!
//! ```text
//!   <state>/hot/ID.hot     lists of hot blocks, one per identity of a volume's contents
//!   <state>/hot/ID.start   start-up lists, in the same way
//!   <state>/hot/ID.policy  states of the caches' policies, in the same way
//!   <state>/samples.sqlite3  samples of volumes and drives (crate `history`)
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Returns the directory: `$STATE_DIRECTORY`, which systemd sets; `$XDG_STATE_HOME/overdrive`; for
/// root `/var/lib/overdrive`, for others `~/.local/state/overdrive`. None: there is no home.
pub fn state_directory() -> Option<PathBuf> {
    directory_of(|name| std::env::var_os(name), rustix::process::geteuid().is_root())
}

fn directory_of(variable: impl Fn(&str) -> Option<OsString>, is_root: bool) -> Option<PathBuf> {
    // Relative paths are to be ignored, as the XDG specification says.
    let absolute = |path: PathBuf| Some(path).filter(|path| path.is_absolute());
    let given = |name: &str| absolute(PathBuf::from(variable(name)?));
    // systemd separates several directories by colons; the first one is the unit's own.
    let first = |name: &str| {
        let all = variable(name)?;
        let first = all.as_bytes().split(|byte| *byte == b':').next()?;
        absolute(PathBuf::from(OsString::from_vec(first.to_vec())))
    };
    first("STATE_DIRECTORY")
        .or_else(|| Some(given("XDG_STATE_HOME")?.join("overdrive")))
        .or_else(|| is_root.then(|| PathBuf::from("/var/lib/overdrive")))
        .or_else(|| Some(given("HOME")?.join(".local/state/overdrive")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_that_is_given_is_used() {
        let found = |variables: &[(&str, &str)], is_root| {
            let value = |name: &str| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| OsString::from(value))
            };
            directory_of(value, is_root).map(|path| path.display().to_string())
        };
        let all = [("STATE_DIRECTORY", "/s/a:/s/b"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(found(&all, true).as_deref(), Some("/s/a"));
        assert_eq!(found(&all[1..], true).as_deref(), Some("/x/overdrive"));
        assert_eq!(found(&all[2..], true).as_deref(), Some("/var/lib/overdrive"));
        assert_eq!(found(&all[2..], false).as_deref(), Some("/h/.local/state/overdrive"));
        assert_eq!(found(&[("HOME", "here"), ("XDG_STATE_HOME", "")], false), None);
    }
}
