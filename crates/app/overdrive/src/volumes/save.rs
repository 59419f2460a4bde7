//! Settings written into a config file: its comments and its order stay, and the file is replaced
//! as a whole or not at all.

use daemon::LOG_LEVEL;
use daemon::config::{self, DIRECTORY};
use stack::{Exit, Failure};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use toml_edit::{DocumentMut, Value};

/// A changed config file that is complete and checked, under another name.
pub(super) struct Edit {
    path: PathBuf,
    draft: NamedTempFile,
}

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    let message = format!("{}: cannot be written: {error}; no setting was changed", path.display());
    Failure::new(Exit::Permission, message)
}

/// Returns the configuration that names a volume: this one, or one of those in the directory of
/// configurations.
fn configuration_of(path: &Path, volume: &str) -> Result<(PathBuf, PathBuf), Failure> {
    let all = match path == Path::new(DIRECTORY) {
        true => config::all_in(path)?,
        false => vec![path.to_owned()],
    };
    for configuration in all {
        if let Some(file) = config::file_of(&configuration, volume)? {
            return Ok((configuration, file));
        }
    }
    let message = format!(
        "{}: no config file there has [volume.{volume}]; name the file with --save=FILE",
        path.display()
    );
    Err(Failure::new(Exit::Negative, message))
}

/// Returns the text of a config file with these settings of a volume, each `KEY=VALUE`.
fn edited(text: &str, volume: &str, changes: &[String]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    for (key, value) in changes.iter().filter_map(|change| change.split_once('=')) {
        let key = key.replace('-', "_");
        let volumes = document.get_mut("volume").and_then(|volumes| volumes.as_table_like_mut());
        let table = volumes.and_then(|volumes| volumes.get_mut(volume));
        let table = table.and_then(|table| table.as_table_like_mut());
        let mut table = table.ok_or_else(|| format!("has no [volume.{volume}]"))?;
        if key == LOG_LEVEL {
            // A key of the daemon.
            table = document.as_table_mut();
        }
        let mut value = Value::from(value);
        match table.get_mut(&key).and_then(|item| item.as_value_mut()) {
            Some(present) => {
                // The comment behind a value belongs to it.
                *value.decor_mut() = present.decor().clone();
                *present = value;
            }
            None => drop(table.insert(&key, value.into())),
        }
    }
    Ok(document.to_string())
}

impl Edit {
    /// Prepares the change of the config file that names a volume. Nothing is changed yet.
    ///
    /// # Errors
    /// No file names the volume; the changed file would not be valid, or cannot be written.
    pub(super) fn prepare(path: &Path, volume: &str, changes: &[String]) -> Result<Edit, Failure> {
        let (configuration, file) = configuration_of(path, volume)?;
        let real = fs::canonicalize(&file).map_err(|error| failed(&file, error))?;
        let text = fs::read_to_string(&real).map_err(|error| failed(&file, error))?;
        let text = edited(&text, volume, changes).map_err(|why| failed(&file, why))?;
        let draft = draft_of(&real, &text).map_err(|error| failed(&file, error))?;
        let mut files = config::files(&configuration)?;
        for one in files.iter_mut().filter(|one| **one == file) {
            *one = draft.path().to_owned();
        }
        config::read_files(&files)?;
        Ok(Edit { path: real, draft })
    }

    /// Replaces the file. Returns its path.
    ///
    /// # Errors
    /// It cannot be replaced; the settings are in force nevertheless.
    pub(super) fn commit(self) -> Result<PathBuf, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            let path = self.path.display();
            let message =
                format!("{path}: cannot be replaced: {error}; the settings are set, not saved");
            Failure::new(Exit::Io, message)
        };
        self.draft.persist(&self.path).map_err(|error| failed(&error.error))?;
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let synced = fs::File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| failed(&error))?;
        Ok(self.path)
    }
}

/// Writes a text beside the file that it will replace, with the same owner and mode.
fn draft_of(path: &Path, text: &str) -> std::io::Result<NamedTempFile> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    // Hidden: it is no config file.
    let mut draft =
        tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(directory)?;
    draft.write_all(text.as_bytes())?;
    let data = fs::metadata(path)?;
    let own = draft.as_file().metadata()?;
    // Also the group: a daemon may read the file as one of its members.
    if (own.uid(), own.gid()) != (data.uid(), data.gid()) {
        fchown(draft.as_file(), Some(data.uid()), Some(data.gid()))?;
    }
    draft.as_file().set_permissions(data.permissions())?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_order_and_other_values_stay() {
        let text = "# mine\n[volume.db] # the database\nbacking = \"/dev/sdb\"\n\
                    write = \"back\"   # safe\n\n# other\n[volume.x]\nbacking = \"ram:1G\"\n";
        let changes = ["write=through", "dirty-age=2s"].map(str::to_owned);
        let expected = "# mine\n[volume.db] # the database\nbacking = \"/dev/sdb\"\n\
                        write = \"through\"   # safe\ndirty_age = \"2s\"\n\n# other\n[volume.x]\n\
                        backing = \"ram:1G\"\n";
        assert_eq!(edited(text, "db", &changes).as_deref(), Ok(expected));
        assert!(edited(text, "y", &changes).is_err());
        let louder =
            edited(text, "db", &["log-level=debug".to_owned()]).expect("it has the volume");
        let table: toml_edit::DocumentMut = louder.parse().expect("a config file");
        assert_eq!(table["log_level"].as_str(), Some("debug"), "{louder}");
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_or_not_at_all() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().expect("room");
        let path = place.path().join("host.toml");
        fs::write(&path, "[volume.db]\nbacking = \"ram:1G\"\n").expect("room");
        // Only the superuser can give it to another group.
        let _ = std::os::unix::fs::chown(&path, None, Some(1));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("ours");
        let owner = || fs::metadata(&path).map(|data| (data.uid(), data.gid())).expect("there");
        let owner_before = owner();
        let names = || fs::read_dir(place.path()).expect("there").count();
        let change = |text: &str| [text.to_owned()];
        let wrong = Edit::prepare(&path, "db", &change("write=fast")).err().expect("no mode");
        assert_eq!((wrong.exit, names()), (Exit::Usage, 1), "{wrong}");
        assert!(Edit::prepare(&path, "other", &change("write=back")).is_err());
        let edit = Edit::prepare(&path, "db", &change("write=through")).expect("good");
        assert!(!fs::read_to_string(&path).expect("there").contains("through"), "not yet");
        edit.commit().expect("the directory is ours");
        assert!(fs::read_to_string(&path).expect("there").contains("write = \"through\""));
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!((mode & 0o777, names(), owner()), (0o640, 1, owner_before));
    }
}
