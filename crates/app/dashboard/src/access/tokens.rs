//! The tokens with which a user logs in, each in a file that only this user can read.

use super::Role;
use super::secret::Secret;
use stack::{Exit, Failure};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The tokens of this dashboard. They are new at each start; the files are removed at the end.
pub(crate) struct Tokens {
    viewer: Secret,
    admin: Secret,
    /// The file with the token of a viewer.
    pub(crate) viewer_file: PathBuf,
    /// The file with the token of an administrator.
    pub(crate) admin_file: PathBuf,
    /// A directory for pages, which only this user can enter. It does not exist yet.
    pub(crate) pages: PathBuf,
}

impl Tokens {
    /// Makes new tokens, in `dashboard` of the runtime directory. Files of an earlier dashboard at
    /// the same port, which was killed, are replaced.
    ///
    /// # Errors
    /// Exit status 4: the directory can be changed by others, or the files cannot be written.
    pub(crate) fn create(runtime: &Path, port: u16) -> Result<Tokens, Failure> {
        daemon::check_runtime(runtime)?;
        let directory = runtime.join("dashboard");
        let failed = |path: &Path, error: io::Error| {
            let message = format!(
                "{}: the token cannot be written ({error}); set XDG_RUNTIME_DIR to a private \
                 directory on a disk with free space",
                path.display()
            );
            Failure::new(Exit::Permission, message)
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|error| failed(&directory, error))?;
        daemon::check_runtime(&directory)?;
        let token = |name: &str| {
            let path = directory.join(format!("{port}.{name}"));
            let secret = Secret::new().and_then(|secret| write(&path, &secret).map(|()| secret));
            secret.map_err(|error| failed(&path, error)).map(|secret| (secret, path))
        };
        let (viewer, viewer_file) = token("token")?;
        let (admin, admin_file) = token("admin-token")?;
        let pages = directory.join(format!("{port}.pages"));
        Ok(Tokens { viewer, admin, viewer_file, admin_file, pages })
    }

    /// Removes the files, and the pages.
    pub(crate) fn remove(&self) {
        for path in [&self.viewer_file, &self.admin_file] {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir_all(&self.pages);
    }

    /// Returns the rights that a token gives; None: it is none of these.
    pub(crate) fn role(&self, token: &str) -> Option<Role> {
        let token = token.trim();
        // Both are compared, so that the time does not depend on which one it is.
        let (admin, viewer) = (self.admin.is(token), self.viewer.is(token));
        match (admin, viewer) {
            (true, _) => Some(Role::Admin),
            (false, true) => Some(Role::Viewer),
            (false, false) => None,
        }
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Writes a token to a new file. An existing file, or link, with this name is removed before.
fn write(path: &Path, token: &Secret) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    let written = writeln!(file, "{}", token.text());
    if written.is_err() {
        // A full disk leaves an empty file.
        let _ = fs::remove_file(path);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tokens_are_new_each_time_and_private() {
        let home = tempfile::tempdir().expect("a directory");
        let runtime = home.path().join("overdrive");
        let first = Tokens::create(&runtime, 7780).expect("room");
        let path = first.viewer_file.clone();
        let text = fs::read_to_string(&path).expect("written");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let directory = fs::metadata(path.parent().expect("one")).expect("there");
        assert_eq!(directory.permissions().mode() & 0o777, 0o700);
        assert_eq!(first.role(&text), Some(Role::Viewer));
        let admin = fs::read_to_string(&first.admin_file).expect("written");
        assert_eq!(first.role(&admin), Some(Role::Admin));
        assert_eq!(first.role(""), None);
        let second = Tokens::create(&runtime, 7780).expect("the files are replaced");
        assert_eq!(second.role(&text), None, "a stale token");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("owned");
        let refused = Tokens::create(home.path(), 1).err().expect("not safe");
        assert_eq!(refused.exit, Exit::Permission);
        assert!(refused.message.contains("can be changed by others"), "{refused}");
    }
}
