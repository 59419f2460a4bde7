//! The config file of a daemon: several volumes, by name.
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

use crate::plan::{MetricsAddress, NbdAddress, Route};
use crate::section::{self, Section, Wrong};
use crate::settings::SETTINGS;
use crate::units::{self, WaitTime};
use block::{CacheSpec, DelaySpec, FaultsSpec, Size, Spec};
use ring::Polling;
use stack::{Failure, Plan, target};
use std::path::{Path, PathBuf};

/// Top-level keys besides the volumes.
const TOP_KEYS: [&str; 7] = ["nbd", "fuse", "insecure_tcp", "metrics", "threads", "poll", "volume"];
/// Keys of a volume besides its settings: options of `overdrive serve`, with `_` for `-`.
const OPTION_KEYS: [&str; 10] = [
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
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Address of volumes without one.
    pub nbd: Option<NbdAddress>,
    /// A directory in which every volume is a file.
    pub fuse: Option<PathBuf>,
    /// Where metrics are served.
    pub metrics: Option<MetricsAddress>,
    /// Threads that serve clients.
    pub threads: Option<usize>,
    /// Whether to poll for work before sleeping, if the file says so.
    pub poll: Option<Polling>,
    /// The volumes, in the order of their names.
    pub volumes: Vec<ConfigVolume>,
}

/// Reads a config file.
///
/// # Errors
/// One sentence with the file, the line, the key and a correction.
pub fn read(path: &Path) -> Result<Config, Failure> {
    section::read(path, "config file", parse)
}

fn parse(text: &str) -> Result<Config, Wrong> {
    section::parse(text, config)
}

fn config(top: &Section<'_>) -> Result<Config, Wrong> {
    top.check_keys(&TOP_KEYS)?;
    let insecure_tcp = top.flag("insecure_tcp")?.unwrap_or(false);
    let nbd = place(top, insecure_tcp)?;
    let fuse = top.text("fuse", units::directory)?;
    let metrics = top.text("metrics", |text| {
        MetricsAddress::parse(text, insecure_tcp).map_err(|failure| failure.message)
    })?;
    let threads = top.text("threads", crate::parse_threads)?;
    let poll = top.text("poll", units::polling)?;
    let nothing =
        || (0..0, "no volume is named; write [volume.NAME] with backing = ...".to_owned());
    let Some(named) = top.named("volume")? else { return Err(nothing()) };
    let volumes = named
        .iter()
        .map(|(name, section)| volume(name, section, insecure_tcp))
        .collect::<Result<Vec<_>, Wrong>>()?;
    if volumes.is_empty() {
        return Err(nothing());
    }
    Ok(Config { nbd, fuse, metrics, threads, poll, volumes })
}

fn volume_keys() -> Vec<&'static str> {
    let settings = SETTINGS.iter().map(|setting| setting.key);
    ["backing"].into_iter().chain(settings).chain(OPTION_KEYS).collect()
}

fn volume(name: &str, section: &Section<'_>, insecure_tcp: bool) -> Result<ConfigVolume, Wrong> {
    section.check_keys(&volume_keys())?;
    let backing = section.text("backing", |text| Ok(text.to_owned()))?.ok_or_else(|| {
        (section.at(), format!("[volume.{name}] has no backing; name an image or a device"))
    })?;
    let volume = ConfigVolume {
        cache: cache(section)?,
        delay: section.text("delay", units::delay)?,
        faults: section.text("faults", units::faults)?,
        read_only: section.flag("read_only")?.unwrap_or(false),
        buffered: section.flag("buffered")?.unwrap_or(false),
        raw: section.flag("raw")?.unwrap_or(false),
        nbd: place(section, insecure_tcp)?,
        attach: section.flag("attach")?.unwrap_or(false),
        via: section.text("via", Route::parse)?,
        wait_time: section.text("wait_time", units::wait_time)?.unwrap_or_default(),
        holder: section.flag("holder")?.unwrap_or(true),
        ..ConfigVolume::new(name, &backing)
    };
    // Parsed here only to report faults of the backing with their position.
    volume.spec().map_err(|failure| (section.span("backing"), failure.message))?;
    Ok(volume)
}

fn place(section: &Section<'_>, insecure_tcp: bool) -> Result<Option<NbdAddress>, Wrong> {
    section.text("nbd", |text| {
        NbdAddress::parse(text, insecure_tcp).map_err(|failure| failure.message)
    })
}

fn cache(section: &Section<'_>) -> Result<CacheSpec, Wrong> {
    let mut spec = CacheSpec::default();
    for setting in SETTINGS {
        section.text(setting.key, |text| setting.read(&mut spec, text))?;
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Durability, WriteMode};
    use std::time::Duration;

    fn wrong(text: &str) -> String {
        parse(text).expect_err(text).1
    }

    #[test]
    fn a_complete_config_file_is_parsed() {
        let text = r#"
            nbd = "unix:/run/overdrive/nbd.sock"
            fuse = "/run/files"
            metrics = "127.0.0.1:9469"
            threads = 3
            poll = "20ms"
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
        assert_eq!(config.metrics, MetricsAddress::parse("127.0.0.1:9469", false).ok());
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
    fn errors_name_the_line() {
        let file = tempfile::NamedTempFile::new().expect("a place for it");
        std::fs::write(file.path(), "[volume.db]\nbacking = \"x\"\nraw = 1\n").expect("room");
        let failure = read(file.path()).expect_err("raw is no flag here");
        assert!(failure.message.contains(":3: raw in [volume.db]"), "{failure}");
    }
}
