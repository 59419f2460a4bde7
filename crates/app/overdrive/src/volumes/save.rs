//! Settings written into config files: their comments and their order stay, and a file is replaced
//! as a whole or not at all.

use daemon::LOG_LEVEL;
use daemon::config::{self, DIRECTORY};
use stack::{Exit, Failure};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use toml_edit::{DocumentMut, TableLike, Value};

/// A changed config file that is complete and checked, under another name.
struct Draft {
    path: PathBuf,
    file: NamedTempFile,
}

/// A key and its value.
type Change<'a> = (String, &'a str);

/// The changed files of a configuration. One file, unless drop-ins set the keys.
pub(super) struct Edit(Vec<Draft>);

fn failed(path: &Path, error: impl std::fmt::Display) -> Failure {
    let message = format!("{}: cannot be written: {error}; no setting was changed", path.display());
    Failure::new(Exit::Permission, message)
}

/// Returns the configuration that names a volume: this one, or one of those in the directory of
/// configurations.
fn configuration_of(path: &Path, volume: &str) -> Result<PathBuf, Failure> {
    let all = match path == Path::new(DIRECTORY) {
        true => config::all_in(path)?,
        false => vec![path.to_owned()],
    };
    for configuration in all {
        if config::file_of(&configuration, volume)?.is_some() {
            return Ok(configuration);
        }
    }
    let message = format!(
        "{}: no config file there has [volume.{volume}]; name the file with --save=FILE",
        path.display()
    );
    Err(Failure::new(Exit::Negative, message))
}

/// Returns the changes, each `KEY=VALUE`, by the files of a configuration in which they count.
fn by_file<'a>(
    configuration: &Path,
    volume: &str,
    changes: &'a [String],
) -> Result<BTreeMap<PathBuf, Vec<Change<'a>>>, Failure> {
    let mut all: BTreeMap<PathBuf, Vec<Change<'_>>> = BTreeMap::new();
    for (key, value) in changes.iter().filter_map(|change| change.split_once('=')) {
        let key = key.replace('-', "_");
        let file = config::file_to_change(configuration, volume, &key)?;
        let file = file.unwrap_or_else(|| configuration.to_owned());
        all.entry(file).or_default().push((key, value));
    }
    Ok(all)
}

/// Returns the text of a config file with these settings of a volume.
fn edited(text: &str, volume: &str, changes: &[Change<'_>]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    for (key, value) in changes {
        let table = match key == LOG_LEVEL {
            // A key of the daemon.
            true => Some(document.as_table_mut() as &mut dyn TableLike),
            false => {
                let volumes = document.get_mut("volume");
                let volumes = volumes.and_then(|volumes| volumes.as_table_like_mut());
                let table = volumes.and_then(|volumes| volumes.get_mut(volume));
                table.and_then(|table| table.as_table_like_mut())
            }
        };
        let table = table.ok_or_else(|| format!("has no [volume.{volume}]"))?;
        let mut value = Value::from(*value);
        match table.get_mut(key).and_then(|item| item.as_value_mut()) {
            Some(present) => {
                // The comment behind a value belongs to it.
                *value.decor_mut() = present.decor().clone();
                *present = value;
            }
            None => drop(table.insert(key, value.into())),
        }
    }
    Ok(document.to_string())
}

impl Draft {
    fn prepare(file: &Path, volume: &str, changes: &[Change<'_>]) -> Result<Draft, Failure> {
        let path = fs::canonicalize(file).map_err(|error| failed(file, error))?;
        let text = fs::read_to_string(&path).map_err(|error| failed(file, error))?;
        let text = edited(&text, volume, changes).map_err(|why| failed(file, why))?;
        let draft = draft_of(&path, &text).map_err(|error| failed(file, error))?;
        Ok(Draft { path, file: draft })
    }

    fn commit(self) -> Result<PathBuf, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            let path = self.path.display();
            let message =
                format!("{path}: cannot be replaced: {error}; the settings are set, not saved");
            Failure::new(Exit::Io, message)
        };
        self.file.persist(&self.path).map_err(|error| failed(&error.error))?;
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let synced = fs::File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| failed(&error))?;
        Ok(self.path)
    }
}

impl Edit {
    /// Prepares the change of the configuration that names a volume. Nothing is changed yet.
    ///
    /// # Errors
    /// No file names the volume; a changed file would not be valid, or cannot be written.
    pub(super) fn prepare(path: &Path, volume: &str, changes: &[String]) -> Result<Edit, Failure> {
        let configuration = configuration_of(path, volume)?;
        let mut files = config::files(&configuration)?;
        let mut drafts = Vec::new();
        for (file, changes) in by_file(&configuration, volume, changes)? {
            let draft = Draft::prepare(&file, volume, &changes)?;
            for one in files.iter_mut().filter(|one| **one == file) {
                *one = draft.file.path().to_owned();
            }
            drafts.push(draft);
        }
        config::read_files(&files)?;
        Ok(Edit(drafts))
    }

    /// Replaces the files. Returns their paths.
    ///
    /// # Errors
    /// One cannot be replaced; the settings are in force nevertheless.
    pub(super) fn commit(self) -> Result<Vec<PathBuf>, Failure> {
        self.0.into_iter().map(Draft::commit).collect()
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
        let changes = [("write".to_owned(), "through"), ("dirty_age".to_owned(), "2s")];
        let expected = "# mine\n[volume.db] # the database\nbacking = \"/dev/sdb\"\n\
                        write = \"through\"   # safe\ndirty_age = \"2s\"\n\n# other\n[volume.x]\n\
                        backing = \"ram:1G\"\n";
        assert_eq!(edited(text, "db", &changes).as_deref(), Ok(expected));
        assert!(edited(text, "y", &changes).is_err());
        let louder =
            edited(text, "db", &[("log_level".to_owned(), "debug")]).expect("it has the volume");
        let table: toml_edit::DocumentMut = louder.parse().expect("a config file");
        assert_eq!(table["log_level"].as_str(), Some("debug"), "{louder}");
    }

    #[test]
    fn each_setting_is_written_where_it_counts() {
        let place = tempfile::tempdir().expect("room");
        let drop_ins = place.path().join("conf.d");
        fs::create_dir(&drop_ins).expect("room");
        let [main, level, age] = ["overdrive.toml", "conf.d/10-level.toml", "conf.d/20-age.toml"]
            .map(|name| place.path().join(name));
        fs::write(&main, "log_level = \"error\"\n[volume.db]\nbacking = \"ram:1G\"\n")
            .expect("room");
        fs::write(&level, "log_level = \"notice\"  # loud\n").expect("room");
        fs::write(&age, "[volume.db]\ndirty_age = \"3s\"\n").expect("room");
        let changes = ["log-level=debug", "dirty_age=2s", "write=through"].map(str::to_owned);
        let edit = Edit::prepare(place.path(), "db", &changes).expect("good");
        assert_eq!(edit.commit().expect("ours"), [level.clone(), age.clone()]);
        let text = |path: &Path| fs::read_to_string(path).expect("there");
        assert_eq!(text(&level), "log_level = \"debug\"  # loud\n");
        assert_eq!(text(&age), "[volume.db]\ndirty_age = \"2s\"\nwrite = \"through\"\n");
        assert!(text(&main).contains("error") && !text(&main).contains("write"));
        let read = config::read(place.path()).expect("good");
        assert_eq!(read.log_level.map(|level| level.word()), Some("debug"));
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
