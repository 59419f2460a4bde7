//! The configuration of a daemon: several volumes, by name.
//!
//! `overdrive.toml` has its drop-ins in `conf.d` beside it, in the order of their names; a key of a
//! later file replaces that of an earlier one. Any other file is a configuration of its own. All of
//! them are read here, and nowhere else.
//!
//! ```toml
//! nbd = "unix:/run/overdrive/nbd.sock"   # for volumes without an address
//! fuse = "/run/overdrive/files"          # a directory in which every volume is a file
//! insecure_tcp = false
//! metrics = "127.0.0.1:9469"             # for Prometheus
//!
//! [volume.db]
//! backing = "/dev/sdb"
//! memory = "2G"
//! attach = true                          # a block device, /dev/overdrive/db
//! ```

mod effective;

pub use effective::{Effective, EffectiveVolume, Value, effective};

use crate::console::Severity;
use crate::log_level::LOG_LEVEL;
use crate::plan::{MetricsAddress, NbdAddress, Route, TlsPlan};
use crate::recording::{DriveSamples, HistoryFile};
use crate::section::{self, Mistakes, Section, Texts, Wrong};
use crate::settings::SETTINGS;
use crate::units::{self, WaitTime};
use block::{CacheSpec, DelaySpec, FaultsSpec, Size, Spec};
use ring::Polling;
use stack::{Exit, Failure, Plan, target};
use std::path::{Path, PathBuf};

/// Top-level keys besides the volumes.
const TOP_KEYS: [&str; 13] = [
    "nbd",
    "tls",
    "tls_certificates",
    "tls_verify_peer",
    "fuse",
    "insecure_tcp",
    "metrics",
    "history",
    "drive_samples",
    "threads",
    "poll",
    LOG_LEVEL,
    "volume",
];
/// Keys of a volume besides its settings: options of `overdrive serve`, with `_` for `-`.
const OPTION_KEYS: [&str; 11] = [
    "format",
    "nbd",
    "attach",
    "via",
    "wait_time",
    "raw",
    "read_only",
    "buffered",
    "delay",
    "faults",
    "holder",
];

/// A volume to be served, from a config file and the command line.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigVolume {
    /// Name of the volume.
    pub name: String,
    /// The backing, as it is written.
    pub backing: String,
    /// The cache. If its memory is 0, there is none.
    pub cache: CacheSpec,
    /// Slows the backing down, for tests and demonstrations.
    pub delay: Option<DelaySpec>,
    /// Makes requests to the backing fail, for tests.
    pub faults: Option<FaultsSpec>,
    /// Whether to refuse changes.
    pub read_only: bool,
    /// Whether to use the host's page cache below the volume.
    pub buffered: bool,
    /// Whether to serve a file byte by byte even if it looks like an image format.
    pub raw: bool,
    /// The volume's address, if it does not share the daemon's.
    pub nbd: Option<NbdAddress>,
    /// Whether to make it a block device of this machine.
    pub attach: bool,
    /// How the kernel reaches the volume of a block device. None: the best way it offers.
    pub via: Option<Route>,
    /// How long requests to its device or its mounted file wait for a daemon that has ended.
    pub wait_time: WaitTime,
    /// Whether a holder retains its memory.
    pub holder: bool,
}

impl ConfigVolume {
    /// Returns a volume with the default options.
    pub fn new(name: &str, backing: &str) -> ConfigVolume {
        ConfigVolume {
            name: name.to_owned(),
            backing: backing.to_owned(),
            cache: CacheSpec::default(),
            delay: None,
            faults: None,
            read_only: false,
            buffered: false,
            raw: false,
            nbd: None,
            attach: false,
            via: None,
            wait_time: WaitTime::default(),
            holder: true,
        }
    }

    /// Returns its stack.
    ///
    /// # Errors
    /// As [`target`].
    pub fn spec(&self) -> Result<Spec, Failure> {
        let plan = Plan {
            cache: (self.cache.memory > Size(0)).then(|| self.cache.clone()),
            delay: self.delay.clone(),
            faults: self.faults.clone(),
            read_only: self.read_only,
            buffered: self.buffered,
        };
        target(&self.backing, &plan)
    }
}

/// A config file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Config {
    /// Address of volumes without one.
    pub nbd: Option<NbdAddress>,
    /// How clients at all addresses use TLS.
    pub tls: TlsPlan,
    /// A directory in which every volume is a file.
    pub fuse: Option<PathBuf>,
    /// Where metrics are served.
    pub metrics: Option<MetricsAddress>,
    /// Where samples are recorded, if the file says so.
    pub history: Option<HistoryFile>,
    /// How often drives are sampled, if the file says so.
    pub drive_samples: Option<DriveSamples>,
    /// Threads that serve clients.
    pub threads: Option<usize>,
    /// Whether to poll for work before sleeping, if the file says so.
    pub poll: Option<Polling>,
    /// Level of messages, if the file says so.
    pub log_level: Option<Severity>,
    /// The volumes, in the order of their names.
    pub volumes: Vec<ConfigVolume>,
}

/// The directory of configurations.
pub const DIRECTORY: &str = "/etc/overdrive";
/// Name of the configuration that has drop-ins.
const MAIN: &str = "overdrive.toml";
/// Name of the directory of drop-ins, beside it.
const DROP_INS: &str = "conf.d";
const KIND: &str = "config file";

/// Reads a configuration: a file, or a directory with `overdrive.toml` and its drop-ins.
///
/// # Errors
/// One sentence with the file, the line, the key and a correction.
pub fn read(path: &Path) -> Result<Config, Failure> {
    read_files(&files(path)?)
}

/// Reads the files of a configuration, in this order.
///
/// # Errors
/// As [`read`].
pub fn read_files(files: &[PathBuf]) -> Result<Config, Failure> {
    section::read_merged(files, KIND, |top, _| config(top)).map_err(first)
}

/// Returns the first mistake.
fn first(mut failures: Vec<Failure>) -> Failure {
    failures.swap_remove(0)
}

/// Returns the last file of a configuration that has a table for this volume: its keys count. None:
/// no file has one.
///
/// # Errors
/// As [`read`].
pub fn file_of(path: &Path, volume: &str) -> Result<Option<PathBuf>, Failure> {
    locate(path, volume, |_, section| section.last_at())
}

/// Returns the file of a configuration in which a changed key of a volume, or the level of its
/// daemon's messages, counts: the last one that sets the key, or else that of [`file_of`].
///
/// # Errors
/// As [`read`].
pub fn file_to_change(path: &Path, volume: &str, key: &str) -> Result<Option<PathBuf>, Failure> {
    locate(path, volume, |top, section| {
        let owner = if key == LOG_LEVEL { top } else { section };
        owner.written(key).map_or(section.last_at(), |(_, at)| at)
    })
}

/// Returns the file with a position, which is found from the outermost table and that of a volume.
/// None: no file has such a table.
fn locate(
    path: &Path,
    volume: &str,
    position: impl FnOnce(&Section<'_>, &Section<'_>) -> usize,
) -> Result<Option<PathBuf>, Failure> {
    let find = |top: &Section<'_>, texts: &Texts| {
        config(top)?;
        let all = volumes_of(top)?;
        let found = all.into_iter().find(|(name, _)| name == volume);
        Ok(found.map(|(_, section)| texts.locate(position(top, &section)).0.to_owned()))
    };
    section::read_merged(&files(path)?, KIND, find).map_err(first)
}

/// Returns the tables of the volumes.
fn volumes_of<'a>(top: &Section<'a>) -> Result<Vec<(String, Section<'a>)>, Vec<Wrong>> {
    Ok(top.named("volume").map_err(|wrong| vec![wrong])?.unwrap_or_default())
}

/// Returns the files with this ending in a directory, in the order of their names. Empty if there
/// is no such directory.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("{}: cannot be read: {error}", directory.display());
        Failure::new(Exit::Permission, message)
    };
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let paths: std::io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failed)?;
    // Editors leave hidden files beside those that they edit.
    let is_hidden =
        |path: &Path| path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let is_config = |path: &Path| path.extension().is_some_and(|ending| ending == "toml");
    paths.retain(|path| is_config(path) && !is_hidden(path));
    paths.sort();
    Ok(paths)
}

/// Returns the files of a configuration, in the order in which they are read.
///
/// # Errors
/// The drop-ins cannot be listed; a directory has no configuration.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let directory = match path.file_name() {
        _ if path.is_dir() => path,
        Some(name) if name == MAIN => path.parent().unwrap_or(Path::new("")),
        _ => return Ok(vec![path.to_owned()]),
    };
    let main = directory.join(MAIN);
    let mut all = if main.exists() || path == main { vec![main.clone()] } else { Vec::new() };
    all.extend(files_in(&directory.join(DROP_INS))?);
    if all.is_empty() {
        let message = format!("{}: is not there; name a config file", main.display());
        return Err(Failure::new(Exit::Negative, message));
    }
    Ok(all)
}

/// Returns the configurations in a directory: `overdrive.toml` with its drop-ins, and each other
/// file.
///
/// # Errors
/// The directory cannot be listed, or has no configuration.
pub fn all_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut all = files_in(directory)?;
    let main = directory.join(MAIN);
    let has_drop_ins = !files_in(&directory.join(DROP_INS))?.is_empty();
    if has_drop_ins && !all.contains(&main) {
        all.insert(0, directory.to_owned());
    }
    if all.is_empty() {
        let message = format!(
            "{}: has no config file; name one, or let 'overdrive attach BACKING --save' write one",
            directory.display()
        );
        return Err(Failure::new(Exit::Negative, message));
    }
    Ok(all)
}

/// Checks the limits of dirty data against the memory. A daemon may get another memory on its
/// command line, so only the check of a file does this.
fn check_sizes(config: &Config, top: &Section<'_>) -> Result<(), Vec<Wrong>> {
    let mut mistakes = Mistakes::default();
    for (name, section) in volumes_of(top)? {
        let volume = config.volumes.iter().find(|volume| volume.name == name);
        let cache = volume.map(|volume| &volume.cache);
        let Some((dirty, memory)) = cache.and_then(|it| it.dirty_bytes.zip(Some(it.memory))) else {
            continue;
        };
        if let Err(failure) = stack::check_dirty(dirty, memory) {
            mistakes.extend([(section.span("dirty_bytes"), failure.message)]);
        }
    }
    mistakes.check()
}

fn config(top: &Section<'_>) -> Result<Config, Vec<Wrong>> {
    let mut mistakes = Mistakes::default();
    mistakes.extend(top.unknown_keys(&TOP_KEYS));
    let insecure_tcp = mistakes.note(top.flag("insecure_tcp")).unwrap_or(false);
    let tls = mistakes.note(tls(top).map(Some));
    // A mistake in the keys of TLS is noted, not its effect on addresses.
    let permits_tcp = insecure_tcp || tls.as_ref().is_none_or(TlsPlan::protects_all);
    let metrics =
        |text: &str| MetricsAddress::parse(text, insecure_tcp).map_err(|failure| failure.message);
    let mut config = Config {
        nbd: mistakes.note(place(top, permits_tcp)),
        tls: tls.unwrap_or_default(),
        fuse: mistakes.note(top.text("fuse", units::directory)),
        metrics: mistakes.note(top.text("metrics", metrics)),
        history: mistakes.note(top.text("history", str::parse)),
        drive_samples: mistakes.note(top.text("drive_samples", str::parse)),
        threads: mistakes.note(top.text("threads", crate::parse_threads)),
        poll: mistakes.note(top.text("poll", units::polling)),
        log_level: mistakes.note(top.text(LOG_LEVEL, str::parse)),
        volumes: Vec::new(),
    };
    let named = mistakes.note(top.named("volume")).unwrap_or_default();
    let volumes = named.iter().filter_map(|(name, section)| {
        volume(name, section, permits_tcp).map_err(|wrong| mistakes.extend(wrong)).ok()
    });
    config.volumes = volumes.collect();
    // Another mistake may have hidden the volumes.
    if named.is_empty() && mistakes.count() == 0 {
        let message = "no volume is named; write [volume.NAME] with backing = ...";
        mistakes.extend([(0..0, message.to_owned())]);
    }
    mistakes.check().map(|()| config)
}

fn volume_keys() -> Vec<&'static str> {
    let settings = SETTINGS.iter().map(|setting| setting.key);
    ["backing"].into_iter().chain(settings).chain(OPTION_KEYS).collect()
}

fn volume(
    name: &str,
    section: &Section<'_>,
    permits_tcp: bool,
) -> Result<ConfigVolume, Vec<Wrong>> {
    let mut mistakes = Mistakes::default();
    mistakes.extend(section.unknown_keys(&volume_keys()));
    let backing = section.text("backing", |text| Ok(text.to_owned()));
    let missing =
        || (section.at(), format!("[volume.{name}] has no backing; name an image or a device"));
    let backing = mistakes.note(backing.and_then(|found| found.ok_or_else(missing).map(Some)));
    let is_raw = mistakes.note(section.text("format", format)).is_some();
    let volume = ConfigVolume {
        cache: cache(section, &mut mistakes),
        delay: mistakes.note(section.text("delay", units::delay)),
        faults: mistakes.note(section.text("faults", units::faults)),
        read_only: mistakes.note(section.flag("read_only")).unwrap_or(false),
        buffered: mistakes.note(section.flag("buffered")).unwrap_or(false),
        raw: mistakes.note(section.flag("raw")).unwrap_or(false) || is_raw,
        nbd: mistakes.note(place(section, permits_tcp)),
        attach: mistakes.note(section.flag("attach")).unwrap_or(false),
        via: mistakes.note(section.text("via", Route::parse)),
        wait_time: mistakes.note(section.text("wait_time", units::wait_time)).unwrap_or_default(),
        holder: mistakes.note(section.flag("holder")).unwrap_or(true),
        ..ConfigVolume::new(name, &backing.unwrap_or_default())
    };
    // A spec shows faults of the backing, and of values together; its other parts must be good.
    if mistakes.count() == 0
        && let Err(failure) = volume.spec()
    {
        mistakes.extend([(section.span("backing"), failure.message)]);
    }
    mistakes.check().map(|()| volume)
}

/// Reads the format of a backing: the declaration that its bytes are served as they are, whatever a
/// client has written into it.
fn format(text: &str) -> Result<(), String> {
    match text {
        "raw" => Ok(()),
        _ => Err(format!(
            "'{text}' is not a format that is served; write \"raw\", after converting the image \
             with 'qemu-img convert -O raw'"
        )),
    }
}

/// Reads the use of TLS.
fn tls(top: &Section<'_>) -> Result<TlsPlan, Wrong> {
    let mode = top.text("tls", str::parse)?.unwrap_or_default();
    let certificates = top.text("tls_certificates", units::directory)?;
    let verifies_peers = top.flag("tls_verify_peer")?.unwrap_or(false);
    let keys = ["tls", "tls_certificates", "tls_verify_peer"];
    let key = keys.into_iter().find(|key| top.written(key).is_some()).unwrap_or("tls");
    TlsPlan::new(mode, certificates, verifies_peers).map_err(|why| (top.span(key), why))
}

fn place(section: &Section<'_>, permits_tcp: bool) -> Result<Option<NbdAddress>, Wrong> {
    section
        .text("nbd", |text| NbdAddress::parse(text, permits_tcp).map_err(|failure| failure.message))
}

fn cache(section: &Section<'_>, mistakes: &mut Mistakes) -> CacheSpec {
    let mut spec = CacheSpec::default();
    for setting in SETTINGS {
        mistakes.note(section.text(setting.key, |text| setting.read(&mut spec, text)));
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::effective::default_of;
    use super::*;
    use crate::settings::RULES;
    use block::{Durability, WriteMode};
    use std::time::Duration;

    fn parse(text: &str) -> Result<Config, Vec<Wrong>> {
        section::parse(text, |top| Ok(config(top))).unwrap_or_else(|wrong| Err(vec![wrong]))
    }

    fn wrong(text: &str) -> String {
        parse(text).expect_err(text).swap_remove(0).1
    }

    #[test]
    fn a_complete_config_file_is_parsed() {
        let text = r#"
            nbd = "unix:/run/overdrive/nbd.sock"
            fuse = "/run/files"
            metrics = "127.0.0.1:9469"
            history = "/srv/history/samples.sqlite3"
            drive_samples = "30min"
            threads = 3
            poll = "20ms"
            log_level = "debug"
            [volume.db]
            backing = "/dev/sdb"
            memory = "2G"
            write = "back-now"
            durability = "ordered"
            dirty_age = "2s"
            guard = "off"
            absorb_bytes_max = "64K"
            [volume.scratch]
            backing = "ram:1G"
            memory = 0
            nbd = "unix:/run/scratch.sock"
            attach = true
            via = "nbd"
            wait_time = "2s"
            holder = false
        "#;
        let config = parse(text).expect("a good file");
        let polling = Polling::Fixed(Duration::from_millis(20));
        assert_eq!((config.threads, config.poll), (Some(3), Some(polling)));
        assert_eq!(config.log_level, Some(Severity::Debug));
        assert_eq!(config.metrics, MetricsAddress::parse("127.0.0.1:9469", false).ok());
        assert_eq!(config.history, Some(HistoryFile::File("/srv/history/samples.sqlite3".into())));
        assert_eq!(config.drive_samples, Some(DriveSamples(Some(Duration::from_secs(1800)))));
        assert_eq!(config.fuse.as_deref(), Some(Path::new("/run/files")));
        let [db, scratch] = &config.volumes[..] else { panic!("{config:?}") };
        let Ok(Spec::Cache { cache, .. }) = db.spec() else { panic!("{db:?}") };
        assert_eq!((cache.memory, cache.dirty_age_ms), (Size(2 << 30), 2_000));
        assert_eq!((cache.write, cache.durability), (WriteMode::BackNow, Durability::Ordered));
        assert_eq!(cache.retry_time_ms, CacheSpec::default().retry_time_ms);
        assert_eq!(cache.absorb_bytes_max, Size(64 << 10));
        assert!(!cache.guard && CacheSpec::default().guard);
        assert!(matches!(scratch.spec(), Ok(Spec::Ram { .. })), "memory = 0 is no cache");
        assert!(db.holder && !scratch.holder);
        assert!(!db.attach && scratch.attach);
        assert_eq!((db.via, scratch.via), (None, Some(Route::Nbd)));
        assert_eq!(db.wait_time, WaitTime::default());
        assert_eq!(scratch.wait_time, WaitTime(Some(2_000)));
        assert_eq!(scratch.nbd, Some(NbdAddress::Unix("/run/scratch.sock".into())));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_mend() {
        let typo = wrong("[volume.db]\nbacking = \"x\"\nmemroy = \"2G\"\n");
        assert_eq!(typo, "unknown key memroy in [volume.db]; did you mean 'memory'?");
        assert!(wrong("fuse = \"\"").contains("name a directory"));
        assert!(wrong("history = \"on\"").contains("the absolute path of a file, or 'off'"));
        assert!(wrong("drive_samples = \"0s\"").contains("at least a second, or 'off'"));
        assert!(wrong("volumes = 1").contains("did you mean 'volume'?"));
        assert!(
            wrong("[volume.db]\nbacking = \"x\"\nxyzzy = 1")
                .contains("the known names are backing")
        );
        assert!(wrong("").contains("[volume.NAME]"));
        assert!(wrong("[volume.db]\nmemory = \"1G\"").contains("has no backing"));
        assert!(wrong("[volume.db]\nbacking = \"x\"\nmemory = \"1Q\"").contains("not a size"));
        assert!(wrong("[volume.db]\nbacking = \"x\"\nraw = 1").contains("true or false"));
        assert!(wrong("[volume.db]\nbacking = \"x\"\nvia = \"iscsi\"").contains("ublk, fuse, nbd"));
        assert!(wrong("[volume.db]\nbacking = \"x\"\nwrite = \"fast\"").contains("back-now"));
        assert!(wrong("[volume.db]\nbacking = \"null:1\"").contains("multiple of 512"));
        assert!(
            wrong("nbd = \"tcp:127.0.0.1\"\n[volume.a]\nbacking=\"x\"").contains("insecure_tcp")
        );
        assert!(!wrong("[volume.db\n").is_empty());
    }

    #[test]
    fn drop_ins_replace_single_keys_and_each_value_has_its_origin() {
        let place = tempfile::tempdir().expect("a place for it");
        let (main, drop_ins) = (place.path().join(MAIN), place.path().join(DROP_INS));
        std::fs::create_dir(&drop_ins).expect("room");
        let text = "threads = 2\n[volume.db]\nbacking = \"/dev/sdb\"\nmemory = \"1G\"\n";
        std::fs::write(&main, text).expect("room");
        let add = |name: &str, text: &str| std::fs::write(drop_ins.join(name), text).expect("room");
        add("20-more.toml", "[volume.db]\n\nmemory = \"2G\"\nformat = \"raw\"\n");
        add("10-less.toml", "[volume.db]\nmemory = \"3G\"\n[volume.x]\nbacking = \"ram:1G\"\n");
        add(".swap.toml", "no TOML");
        for path in [&main, &place.path().to_owned()] {
            let config = read(path).expect("good");
            let names: Vec<&str> = config.volumes.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, ["db", "x"]);
            let db = &config.volumes[0];
            assert_eq!((db.cache.memory, db.raw), (Size(2 << 30), true));
            assert_eq!(config.threads, Some(2));
        }
        let shown = effective(&main).expect("good");
        assert_eq!(shown.files.len(), 3);
        let origin = |key: &str| {
            let value = shown.volumes[0].values.iter().find(|value| value.key == key);
            let Value { value, file, line, .. } = value.expect(key).clone();
            let file = file.as_deref().and_then(Path::file_name);
            (value, file.map(|name| name.to_string_lossy().into_owned()), line)
        };
        assert_eq!(origin("memory"), ("2G".into(), Some("20-more.toml".into()), Some(3)));
        assert_eq!(origin("backing"), ("/dev/sdb".into(), Some(MAIN.into()), Some(3)));
        assert_eq!(origin("write"), ("back".into(), None, None));
        add("30-wrong.toml", "[volume.db]\nmemroy = \"2G\"\n");
        let wrong = read(&main).expect_err("a typo").message;
        assert!(wrong.contains("30-wrong.toml:2: unknown key memroy"), "{wrong}");
        assert!(wrong.contains("'memory'"), "{wrong}");
        add("30-wrong.toml", "[volume.y]\nmemory = \"2G\"\n");
        let wrong = read(&main).expect_err("no backing").message;
        assert!(wrong.contains("30-wrong.toml:1: [volume.y] has no backing"), "{wrong}");
    }

    #[test]
    fn every_key_has_a_default_that_is_shown() {
        let without = [
            "backing",
            "nbd",
            "tls_certificates",
            "fuse",
            "metrics",
            "delay",
            "faults",
            "volume",
            RULES,
        ];
        for key in volume_keys().into_iter().chain(TOP_KEYS) {
            let is_none = default_of(key) == "none";
            assert!(!is_none || without.contains(&key), "{key}");
        }
        assert!(wrong("[volume.db]\nbacking = \"x\"\nformat = \"qcow2\"").contains("qemu-img"));
    }

    #[test]
    fn rules_are_a_table_or_a_text() {
        let rules = |text: &str| {
            let config = parse(&format!("[volume.db]\nbacking = \"ram:1G\"\n{text}"));
            config.map(|config| config.volumes[0].cache.rules.to_string())
        };
        let table = "[volume.db.rules]\nmetadata = 4\n\"*.iso\" = \"archives\"\n\
                     big-media = \"0.5 usual\"\n\"/srv/mail\" = \"databases\"\n";
        let expected = "*.iso=archives,/srv/mail=databases,big-media=0.5 usual,metadata=4";
        assert_eq!(rules(table).as_deref(), Ok(expected));
        let text = format!("rules = \"{expected}\"\n");
        assert_eq!(rules(&text).as_deref(), Ok(expected));
        for (table, words) in [
            ("[volume.db.rules]\nfilms = 4\n", "'films' is no class of files"),
            ("[volume.db.rules]\n\"*.iso\" = 4\n", "'4' is no class of files"),
            ("[volume.db.rules.metadata]\nx = 4\n", "write each value of the table in quotes"),
            ("rules = true\n", "in quotes"),
        ] {
            let wrong = rules(table).expect_err(table).swap_remove(0).1;
            assert!(wrong.contains(words), "{wrong}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        let file = tempfile::NamedTempFile::new().expect("a place for it");
        std::fs::write(file.path(), "[volume.db]\nbacking = \"x\"\nraw = 1\n").expect("room");
        let failure = read(file.path()).expect_err("raw is no flag here");
        assert!(failure.message.contains(":3: raw in [volume.db]"), "{failure}");
    }
}
