//! A configuration with the origin of each of its values (`overdrive config show`).

use super::{KIND, TOP_KEYS, check_sizes, config, files, volume_keys, volumes_of};
use crate::console::Severity;
use crate::log_level::LOG_LEVEL;
use crate::section::{self, Section, Texts};
use crate::settings::Setting;
use serde::Serialize;
use stack::Failure;
use std::path::{Path, PathBuf};

/// A key, its value, and where the value comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Value {
    /// The key.
    pub key: &'static str,
    /// The value as it is written, or the default.
    pub value: String,
    /// The file that sets it. None: it is the default.
    pub file: Option<PathBuf>,
    /// The line there, from 1.
    pub line: Option<usize>,
    /// Whether it is set for this volume, or this daemon, by itself. A volume has the daemon's
    /// address if it has none.
    #[serde(skip)]
    pub is_own: bool,
}

impl Value {
    /// Returns the value of a key in a table; without it, the one that holds for all tables.
    fn of(
        key: &'static str,
        own: &Section<'_>,
        for_all: Option<&Section<'_>>,
        texts: &Texts,
    ) -> Value {
        let written = own.written(key);
        let is_own = written.is_some();
        match written.or_else(|| for_all?.written(key)) {
            Some((value, at)) => {
                let (file, line) = texts.locate(at);
                Value { key, value, file: Some(file.to_owned()), line: Some(line), is_own }
            }
            None => Value { key, value: default_of(key), file: None, line: None, is_own },
        }
    }
}

/// A volume of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EffectiveVolume {
    /// Its name.
    pub name: String,
    /// All its keys.
    pub values: Vec<Value>,
}

/// A configuration with the origin of each value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Effective {
    /// Its files, in the order in which they are read.
    pub files: Vec<PathBuf>,
    /// The keys of the daemon.
    pub daemon: Vec<Value>,
    /// The volumes, in the order of their names.
    pub volumes: Vec<EffectiveVolume>,
}

impl Effective {
    /// Removes the values that no file sets for the daemon or the volume in whose list they are.
    pub fn retain_own(&mut self) {
        let lists = self.volumes.iter_mut().map(|volume| &mut volume.values);
        lists.chain([&mut self.daemon]).for_each(|values| values.retain(|value| value.is_own));
    }
}

/// Reads a configuration, and returns each value with its origin.
///
/// # Errors
/// All its mistakes, at least one; each as of [`super::read`].
pub fn effective(path: &Path) -> Result<Effective, Vec<Failure>> {
    let files = files(path).map_err(|failure| vec![failure])?;
    let read = |top: &Section<'_>, texts: &Texts| {
        check_sizes(&config(top)?, top)?;
        let keys = TOP_KEYS.into_iter().filter(|key| *key != "volume");
        let daemon = keys.map(|key| Value::of(key, top, None, texts)).collect();
        let volumes = volumes_of(top)?.into_iter().map(|(name, section)| {
            let value = |key| Value::of(key, &section, Some(top).filter(|_| key == "nbd"), texts);
            EffectiveVolume { name, values: volume_keys().into_iter().map(value).collect() }
        });
        Ok((daemon, volumes.collect()))
    };
    let (daemon, volumes) = section::read_merged(&files, KIND, read)?;
    Ok(Effective { files, daemon, volumes })
}

/// Returns the default of a key, as it is shown.
pub(super) fn default_of(key: &str) -> String {
    let text = match key {
        "format" => "raw",
        "raw" | "holder" => "true",
        "attach" | "read_only" | "buffered" | "insecure_tcp" | "tls_verify_peer" => "false",
        "tls" => "off",
        "wait_time" => "30s",
        "via" => "the best way that the kernel offers",
        "poll" => "adaptive",
        LOG_LEVEL => Severity::default().word(),
        "history" => "samples.sqlite3 in the state directory",
        "drive_samples" => "1h",
        "threads" => "one for each two processors, at most 8",
        "nbd" => "a private socket, if nothing else is named",
        _ => return Setting::named(key).map_or_else(|| "none".to_owned(), Setting::default),
    };
    text.to_owned()
}
