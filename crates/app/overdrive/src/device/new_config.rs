//! The configuration file of a volume that was attached by the command line.

use daemon::config::{self, Config};
use daemon::declared::{Declared, Pair, of_daemon, of_volume};
use stack::{Exit, Failure};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use toml_edit::{DocumentMut, Item, Table, Value, value};

/// A configuration file that is complete and checked, under another name.
pub(super) struct NewConfig {
    path: PathBuf,
    /// The name of its volume.
    volume: String,
    /// None: the file exists, and declares the same.
    draft: Option<NamedTempFile>,
}

fn failed(path: &Path, error: &std::io::Error, result: &str) -> Failure {
    let exit = match error.kind() {
        std::io::ErrorKind::PermissionDenied => Exit::Permission,
        _ => Exit::Io,
    };
    Failure::new(exit, format!("{}: cannot be written: {error}; {result}", path.display()))
}

fn item(declared: Declared) -> Item {
    value(match declared {
        Declared::Flag(flag) => Value::from(flag),
        Declared::Text(text) => Value::from(text),
    })
}

fn insert(table: &mut Table, pairs: Vec<Pair>) {
    for (key, declared) in pairs {
        table.insert(key, item(declared));
    }
}

/// Returns the text of a configuration file with these values.
fn text(config: &Config) -> String {
    let mut document = DocumentMut::new();
    insert(&mut document, of_daemon(config));
    let mut volumes = Table::new();
    volumes.set_implicit(true);
    for volume in &config.volumes {
        let mut table = Table::new();
        insert(&mut table, of_volume(volume));
        volumes.insert(&volume.name, Item::Table(table));
    }
    document.insert("volume", Item::Table(volumes));
    format!(
        "# Written by 'overdrive attach --save'; docs/OPTIONS.md describes the keys.\n{document}"
    )
}

/// Returns the file as it would be read.
fn read_again(draft: &NamedTempFile) -> Result<Config, Failure> {
    config::read_files(&[draft.path().to_owned()])
}

/// Refuses a volume that another configuration in the directory names.
fn check_name(path: &Path, volume: &str) -> Result<(), Failure> {
    let directory = path.parent().unwrap_or(Path::new("."));
    for other in config::all_in(directory).unwrap_or_default() {
        if let Some(file) = config::file_of(&other, volume)? {
            let message = format!(
                "{}: has [volume.{volume}] already; remove it there, or attach without --save",
                file.display()
            );
            return Err(Failure::new(Exit::Usage, message));
        }
    }
    Ok(())
}

impl NewConfig {
    /// Prepares the file. A file that exists is never changed.
    ///
    /// # Errors
    /// The file exists with other values; another configuration beside it names the volume; it
    /// cannot be written.
    pub(super) fn prepare(path: &Path, config: &Config) -> Result<NewConfig, Failure> {
        let volume = config.volumes.first().map(|volume| volume.name.clone()).unwrap_or_default();
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let written = draft_of(directory, &text(config));
        let draft = written.map_err(|error| failed(path, &error, "nothing was attached"))?;
        let declared = read_again(&draft)?;
        if path.exists() {
            if config::read(path)? == declared {
                return Ok(NewConfig { path: path.to_owned(), volume, draft: None });
            }
            let message = format!(
                "{}: exists with other values; change it, or attach without --save",
                path.display()
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        check_name(path, &volume)?;
        Ok(NewConfig { path: path.to_owned(), volume, draft: Some(draft) })
    }

    /// Gives the file its name. Returns a sentence with the next step.
    ///
    /// # Errors
    /// There is a file of that name by now, or the directory cannot be changed; the volume is
    /// attached nevertheless.
    pub(super) fn commit(self) -> Result<String, Failure> {
        let path = &self.path;
        let failed = |error: &std::io::Error| failed(path, error, "the volume is attached");
        if let Some(draft) = self.draft {
            draft.persist_noclobber(path).map_err(|error| failed(&error.error))?;
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = std::fs::File::open(directory.unwrap_or(Path::new(".")));
            directory.and_then(|directory| directory.sync_all()).map_err(|error| failed(&error))?;
        }
        let place = path.display();
        let unit = format!("overdrive-device@{}", self.volume);
        // Names of units have no other letters, except escaped ones.
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let is_unit = self.volume.chars().all(is_plain)
            && *path == Path::new(config::DIRECTORY).join(format!("{}.toml", self.volume));
        let next = match is_unit {
            true => format!("; 'systemctl enable {unit}' attaches the volume at each boot"),
            false => String::new(),
        };
        Ok(format!("saved in {place}{next}"))
    }
}

/// Writes a text beside the file that it will become.
fn draft_of(directory: &Path, text: &str) -> std::io::Result<NamedTempFile> {
    if directory == Path::new(config::DIRECTORY) {
        std::fs::create_dir_all(directory)?;
    }
    // Hidden: it is no config file yet.
    let mut draft =
        tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(directory)?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Size;
    use daemon::config::ConfigVolume;
    use daemon::units::{self, WaitTime};
    use daemon::{MetricsAddress, Route};

    /// Returns a configuration whose values all differ from the defaults.
    fn full() -> Config {
        let mut volume = ConfigVolume::new("my db", "/srv/my \"db\".img");
        volume.cache.memory = Size(3 << 20);
        volume.cache.policy = block::Policy::Sieve;
        volume.cache.write = block::WriteMode::BackNow;
        volume.cache.durability = block::Durability::Ordered;
        volume.cache.dirty_bytes = Some(Size(1 << 20));
        (volume.cache.dirty_age_ms, volume.cache.retry_time_ms) = (1_500, 3_000);
        volume.cache.flush_target_ms = 0;
        volume.cache.absorb_bytes_max = Size(8 << 10);
        (volume.cache.readahead, volume.cache.guard) = (false, false);
        (volume.cache.warm, volume.cache.warm_save_ms) = (block::Warm::Off, 60_000);
        volume.delay = units::delay("read=2ms,bandwidth=1M").ok();
        volume.faults = units::faults("write=3,hang=2s").ok();
        (volume.read_only, volume.buffered, volume.raw) = (true, true, true);
        (volume.attach, volume.via) = (true, Some(Route::Fuse));
        (volume.wait_time, volume.holder) = (WaitTime(None), false);
        let (threads, poll) = (Some(3), units::polling("5ms").ok());
        let metrics = MetricsAddress::parse("127.0.0.1:9469", false).ok();
        let log_level = Some(daemon::console::Severity::Debug);
        let history = "/srv/samples.sqlite3".parse().ok();
        let drive_samples = "90s".parse().ok();
        Config {
            metrics,
            history,
            drive_samples,
            threads,
            poll,
            log_level,
            volumes: vec![volume],
            ..Config::default()
        }
    }

    #[test]
    fn the_file_declares_each_value_and_the_format() {
        let place = tempfile::tempdir().expect("room");
        let mut plain = full();
        plain.volumes = vec![ConfigVolume { raw: true, ..ConfigVolume::new("x", "/srv/x.img") }];
        for config in [full(), plain] {
            let text = text(&config);
            assert!(text.contains("format = \"raw\"\n"), "{text}");
            let draft = draft_of(place.path(), &text).expect("room");
            assert_eq!(read_again(&draft).expect("good"), config, "{text}");
        }
    }

    #[test]
    fn a_file_that_exists_is_never_replaced() {
        let place = tempfile::tempdir().expect("room");
        let path = place.path().join("new/x.toml");
        std::fs::create_dir(place.path().join("new")).expect("room");
        let config = full();
        let names = || std::fs::read_dir(place.path().join("new")).expect("there").count();
        drop(NewConfig::prepare(&path, &config).expect("room"));
        assert_eq!(names(), 0, "nothing is left of an attach that fails");
        let said = NewConfig::prepare(&path, &config).and_then(NewConfig::commit).expect("room");
        assert!(said.starts_with("saved in ") && !said.contains("systemctl"), "{said}");
        // The same command again, as after a kill.
        NewConfig::prepare(&path, &config).and_then(NewConfig::commit).expect("the same values");
        let mut other = config.clone();
        other.threads = None;
        let refused = NewConfig::prepare(&path, &other).err().expect("other values");
        assert_eq!((refused.exit, names()), (Exit::Usage, 1), "{refused}");
        let second = place.path().join("new/y.toml");
        let refused = NewConfig::prepare(&second, &config).err().expect("the same volume");
        assert!(refused.message.contains("x.toml: has [volume.my db]"), "{refused}");
    }
}
