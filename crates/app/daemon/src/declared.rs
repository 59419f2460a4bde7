//! A configuration as its file declares it: keys and values as text.

use crate::config::{Config, ConfigVolume};
use crate::console::Severity;
use crate::log_level::LOG_LEVEL;
use crate::plan::{MetricsAddress, NbdAddress, StartValues, TlsMode};
use crate::settings::SETTINGS;
use crate::units::{self, WaitTime};
use serde_json::json;
use std::path::Path;

/// A value of a config file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Declared {
    /// Text, which is written in quotes.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
}

impl Declared {
    fn text(self) -> String {
        match self {
            Declared::Text(text) => text,
            Declared::Flag(flag) => flag.to_string(),
        }
    }
}

/// A key and its value.
pub type Pair = (&'static str, Declared);

fn text(key: &'static str, value: Option<impl ToString>) -> Option<Pair> {
    value.map(|value| (key, Declared::Text(value.to_string())))
}

/// Returns a flag that differs from its default.
fn flag(key: &'static str, value: bool, default: bool) -> Option<Pair> {
    (value != default).then_some((key, Declared::Flag(value)))
}

/// Returns an address as it is usually written: `tcp:` is only for other machines.
fn metrics(address: &MetricsAddress) -> String {
    match address {
        MetricsAddress::Tcp(local) if local.ip().is_loopback() => local.to_string(),
        other => other.to_string(),
    }
}

/// Returns the keys of the daemon that are not defaults.
pub fn of_daemon(config: &Config) -> Vec<Pair> {
    let pairs = [
        text("nbd", config.nbd.as_ref()),
        text("tls", Some(config.tls.mode()).filter(|mode| *mode != TlsMode::Off)),
        text("tls_certificates", config.tls.certificates().map(Path::display)),
        flag("tls_verify_peer", config.tls.verifies_peers(), false),
        text("fuse", config.fuse.as_ref().map(|path| path.display())),
        text("metrics", config.metrics.as_ref().map(metrics)),
        text("history", config.history.as_ref()),
        text("drive_samples", config.drive_samples),
        text("threads", config.threads),
        text("poll", config.poll.map(units::polling_text)),
        text(LOG_LEVEL, config.log_level.map(Severity::word)),
    ];
    pairs.into_iter().flatten().collect()
}

/// Returns the keys of a volume that are not defaults and are read only when a daemon starts,
/// besides its backing, its settings and its address.
fn options_of(volume: &ConfigVolume) -> Vec<Pair> {
    let wait_time = Some(volume.wait_time).filter(|time| *time != WaitTime::default());
    let pairs = [
        flag("attach", volume.attach, false),
        text("via", volume.via.map(|route| route.word())),
        text("wait_time", wait_time.map(units::wait_time_text)),
        flag("read_only", volume.read_only, false),
        flag("buffered", volume.buffered, false),
        text("delay", volume.delay.as_ref().map(units::delay_text)),
        text("faults", volume.faults.as_ref().map(units::faults_text)),
        flag("holder", volume.holder, true),
    ];
    pairs.into_iter().flatten().collect()
}

/// Returns the settings that are not defaults.
fn settings_of(volume: &ConfigVolume) -> Vec<Pair> {
    let [own, default] = [json!(volume.cache), json!(block::CacheSpec::default())];
    let settings = SETTINGS.iter().filter_map(|setting| {
        let value = setting.text(&own)?;
        let is_default = setting.text(&default).as_ref() == Some(&value);
        (!is_default).then_some((setting.key, Declared::Text(value)))
    });
    settings.collect()
}

/// Returns the keys of a volume: those that are not defaults, its backing and its format.
pub fn of_volume(volume: &ConfigVolume) -> Vec<Pair> {
    let backing = Some(stack::absolute(&volume.backing));
    let first = [text("backing", backing), text("format", Some("raw"))];
    let address = text("nbd", volume.nbd.as_ref());
    let pairs = first.into_iter().flatten().chain(settings_of(volume));
    pairs.chain(address).chain(options_of(volume)).collect()
}

/// Returns the values of a volume that a daemon reads only when it starts. An address that a daemon
/// chooses for itself, in its runtime directory, is the default.
pub fn start_values(config: &Config, volume: &ConfigVolume, runtime: &Path) -> StartValues {
    let address = volume.nbd.as_ref().or(config.nbd.as_ref());
    let address = address.filter(|address| !is_own(address, runtime));
    // The level of messages can be changed later.
    let daemon = of_daemon(config).into_iter().filter(|(key, _)| !["nbd", LOG_LEVEL].contains(key));
    // The volume's device shows whether it is attached.
    let options = options_of(volume).into_iter().filter(|(key, _)| *key != "attach");
    let pairs = daemon.chain(options).chain(text("nbd", address));
    let values = pairs.map(|(key, value)| (key.to_owned(), value.text())).collect();
    StartValues { values, replaced: Vec::new() }
}

/// Whether this process has chosen the address for itself.
fn is_own(address: &NbdAddress, runtime: &Path) -> bool {
    let NbdAddress::Unix(path) = address else { return false };
    let ending = format!(".{}.sock", std::process::id());
    let name = path.file_name().unwrap_or_default();
    path.parent() == Some(runtime) && name.to_string_lossy().ends_with(&ending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Route;
    use block::Size;
    use ring::Polling;
    use std::time::Duration;

    fn config(volume: ConfigVolume) -> Config {
        Config { volumes: vec![volume], ..Config::default() }
    }

    #[test]
    fn only_values_that_are_no_defaults_are_declared() {
        let mut volume = ConfigVolume::new("db", "/srv/db.img");
        let declared = of_volume(&volume);
        let own = |text: &str| Declared::Text(text.to_owned());
        assert_eq!(declared, [("backing", own("/srv/db.img")), ("format", own("raw"))]);
        volume.cache.memory = Size(2 << 30);
        (volume.attach, volume.holder) = (true, false);
        let declared = of_volume(&volume);
        assert_eq!(
            declared[2..],
            [
                ("memory", own("2G")),
                ("attach", Declared::Flag(true)),
                ("holder", Declared::Flag(false)),
            ]
        );
    }

    #[test]
    fn each_value_that_needs_another_start_is_named() {
        let runtime = Path::new("/run/overdrive");
        let started = config(ConfigVolume::new("db", "/srv/db.img"));
        let values = |config: &Config| start_values(config, &config.volumes[0], runtime);
        let mut wanted = started.clone();
        assert!(values(&started).differences(&values(&wanted)).is_empty());
        wanted.threads = Some(3);
        wanted.poll = Some(Polling::Fixed(Duration::from_millis(20)));
        wanted.metrics = MetricsAddress::parse("127.0.0.1:9469", false).ok();
        wanted.fuse = Some("/run/files".into());
        wanted.nbd = NbdAddress::parse("unix:/run/db.sock", false).ok();
        let volume = &mut wanted.volumes[0];
        (volume.read_only, volume.via, volume.wait_time) = (true, Some(Route::Nbd), WaitTime(None));
        let expected = [
            "fuse=/run/files",
            "metrics=127.0.0.1:9469",
            "nbd=unix:/run/db.sock",
            "poll=20ms",
            "read_only=true",
            "threads=3",
            "via=nbd",
            "wait_time=forever",
        ];
        assert_eq!(values(&started).differences(&values(&wanted)), expected);
        let back = values(&wanted).differences(&values(&started));
        assert!(back.contains(&"threads=default".to_owned()), "{back:?}");
        let replaced = vec!["threads".to_owned(), "poll".to_owned()];
        let replaced = StartValues { replaced, ..values(&started) };
        assert_eq!(replaced.differences(&values(&wanted)).len(), expected.len() - 2);
        // A socket of its own is the default.
        let mut own = started.clone();
        let path = format!("unix:/run/overdrive/db.{}.sock", std::process::id());
        own.nbd = NbdAddress::parse(&path, false).ok();
        assert!(values(&own).differences(&values(&started)).is_empty());
        own.nbd = NbdAddress::parse("unix:/run/overdrive/db.sock", false).ok();
        assert_eq!(values(&own).differences(&values(&started)), ["nbd=default"]);
    }
}
