//! `overdrive config reload`: changed settings, for volumes that are served.

use crate::terminal;
use crate::volumes::{Named, Target, find_device};
use daemon::config::{Config, ConfigVolume};
use daemon::console::Severity;
use daemon::control::words::Ask;
use daemon::declared::start_values;
use daemon::settings::{SETTINGS, Setting};
use daemon::{LOG_LEVEL, StartValues};
use serde_json::{Value, json};
use stack::Failure;
use std::process::ExitCode;

/// A setting that differs, as text.
struct Change {
    key: &'static str,
    now: String,
    wanted: String,
}

/// The changes that a reload makes to one volume.
struct Reload {
    name: String,
    /// None: no daemon serves it.
    target: Option<Box<Target>>,
    /// Settings that are applied.
    live: Vec<Change>,
    /// Differences that need another start, each `KEY=VALUE`.
    later: Vec<String>,
    /// Whether the daemon is older, and does not report the values that it has read at its start.
    is_older: bool,
}

/// Returns the settings of a served volume that differ from its configuration: those that can be
/// changed now, and the others. A setting that is left to a default that depends on others is not
/// compared.
fn differences(
    volume: &ConfigVolume,
    level: Severity,
    shown: &Value,
) -> (Vec<Change>, Vec<String>) {
    let (wanted, now) = (json!(volume.cache), &shown["stack"]["cache"]);
    let (mut live, mut later) = (Vec::new(), Vec::new());
    // An older daemon has no level.
    if let Some(now) = shown["log_level"].as_str().filter(|now| *now != level.word()) {
        let (now, wanted) = (now.to_owned(), level.word().to_owned());
        live.push(Change { key: LOG_LEVEL, now, wanted });
    }
    if now.is_null() {
        if volume.cache.memory.0 > 0 {
            later.push(format!("memory={}", volume.cache.memory));
        }
        return (live, later);
    }
    let differs = |setting: &'static Setting| {
        let wanted = setting.text(&wanted)?;
        let now = setting.text(now).or_else(|| amount_in_force(setting, shown))?;
        (wanted != now).then_some((setting, Change { key: setting.key, now, wanted }))
    };
    for (setting, change) in SETTINGS.iter().filter_map(differs) {
        match setting.is_live() {
            true => live.push(change),
            false => later.push(format!("{}={}", change.key, change.wanted)),
        }
    }
    (live, later)
}

/// Returns the amount of dirty data in force where the default holds, which depends on the memory.
fn amount_in_force(setting: &Setting, shown: &Value) -> Option<String> {
    let is_dirty = setting.key == "dirty_bytes";
    is_dirty.then(|| setting.text(&json!({ setting.field: shown["cache"]["dirty_bytes_max"] })))?
}

impl Reload {
    /// Compares a volume with its daemon. Nothing is changed.
    ///
    /// # Errors
    /// The daemon does not answer.
    fn of(config: &Config, volume: &ConfigVolume) -> Result<Reload, Failure> {
        let name = volume.name.clone();
        let Named::Served(mut target) = find_device(&name)? else {
            let (live, later) = (Vec::new(), Vec::new());
            return Ok(Reload { name, target: None, live, later, is_older: false });
        };
        let shown = target.daemon.ask(&Ask::Show { volume: name.clone() })?;
        let started: Option<StartValues> = serde_json::from_value(shown["start"].clone()).ok();
        let is_replaced = |key: &str| {
            started.as_ref().is_some_and(|started| started.replaced.iter().any(|one| one == key))
        };
        let level = config.log_level.unwrap_or_default();
        let (mut live, mut later) = differences(volume, level, &shown);
        live.retain(|change| !is_replaced(change.key));
        later.retain(|change| !change.split_once('=').is_some_and(|(key, _)| is_replaced(key)));
        if target.row.backing != stack::absolute(&volume.backing) {
            later.push(format!("backing={}", volume.backing));
        }
        if target.row.device.is_empty() == volume.attach {
            later.push(format!("attach={}", volume.attach));
        }
        if let Some(started) = &started {
            let wanted = start_values(config, volume, &daemon::runtime_directory());
            later.extend(started.differences(&wanted));
        }
        Ok(Reload { name, target: Some(target), live, later, is_older: started.is_none() })
    }

    fn set(&mut self, value: impl Fn(&Change) -> &str) -> Result<(), Failure> {
        let changes = self.live.iter().map(|one| format!("{}={}", one.key, value(one)));
        let changes: Vec<String> = changes.collect();
        match &mut self.target {
            Some(target) if !changes.is_empty() => {
                let volume = self.name.clone();
                target.daemon.ask(&Ask::Set { volume, changes }).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    fn applied(&self) -> Vec<String> {
        self.live.iter().map(|one| format!("{}={}", one.key, one.wanted)).collect()
    }

    fn line(&self) -> String {
        let older = "; its daemon is older, and keys that are read at its start were not compared";
        self.changes() + if self.is_older { older } else { "" }
    }

    fn changes(&self) -> String {
        let (name, set, later) = (&self.name, self.applied().join(" "), self.later.join(" "));
        match (self.target.is_some(), set.is_empty(), later.is_empty()) {
            (false, ..) => format!("{name}: no daemon serves it; its next start reads its values"),
            (true, true, true) => format!("{name}: unchanged"),
            (true, false, true) => format!("{name}: set {set}"),
            (true, true, false) => format!("{name}: at its next start: {later}"),
            (true, false, false) => format!("{name}: set {set}; at its next start: {later}"),
        }
    }
}

/// Applies all changes, or none: if one volume refuses, those before it get their values back.
fn apply(all: &mut [Reload]) -> Result<(), Failure> {
    for index in 0..all.len() {
        let Err(mut failure) = all[index].set(|change| &change.wanted) else { continue };
        // Each of them, although one before it refuses.
        let reverted: Vec<Result<(), Failure>> =
            all[..index].iter_mut().rev().map(|one| one.set(|change| &change.now)).collect();
        failure.message = match reverted.into_iter().find_map(Result::err) {
            None => format!("{failure}; no volume was changed"),
            Some(second) => format!("{failure}; and earlier volumes keep their changes: {second}"),
        };
        return Err(failure);
    }
    Ok(())
}

/// Applies the settings of the volumes of valid configurations, and the levels of messages of their
/// daemons.
///
/// # Errors
/// A daemon does not answer or refuses; no volume is changed then.
pub(super) fn run(configs: &[Config], is_json: bool) -> Result<ExitCode, Failure> {
    let volumes = configs
        .iter()
        .flat_map(|config| config.volumes.iter().map(move |volume| Reload::of(config, volume)));
    let mut all = volumes.collect::<Result<Vec<_>, Failure>>()?;
    apply(&mut all)?;
    if is_json {
        let of = |one: &Reload| {
            let (served, set) = (one.target.is_some(), one.applied());
            json!({
                "name": one.name, "served": served, "set": set, "at_next_start": one.later,
                "start_compared": served && !one.is_older,
            })
        };
        let volumes: Vec<Value> = all.iter().map(of).collect();
        daemon::say!("{}", json!({ "schema": "overdrive.config-reload/1", "volumes": volumes }));
    } else {
        all.iter().for_each(|one| terminal::print_text(&one.line(), 4, &[]));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_change_now_is_set_and_the_rest_is_named() {
        let mut volume = ConfigVolume::new("db", "ram:1G");
        let shown = json!({ "stack": { "cache": json!(volume.cache) }, "log_level": "notice" });
        let differences =
            |volume: &ConfigVolume, shown: &Value| differences(volume, Severity::Notice, shown);
        let (live, later) = differences(&volume, &shown);
        assert!(live.is_empty() && later.is_empty(), "{later:?}");
        volume.cache.memory = block::Size(2 << 20);
        volume.cache.dirty_age_ms = 2_000;
        let (live, later) = differences(&volume, &shown);
        assert_eq!(later, ["memory=2M"]);
        let [change] = &live[..] else { panic!("{}", live.len()) };
        assert_eq!((change.key, &*change.now, &*change.wanted), ("dirty_age", "5s", "2s"));
        let louder = json!({ "stack": shown["stack"], "log_level": "debug" });
        let (live, _) = differences(&volume, &louder);
        let [level, _] = &live[..] else { panic!("{}", live.len()) };
        assert_eq!((level.key, &*level.now, &*level.wanted), (LOG_LEVEL, "debug", "notice"));
        let (live, later) = differences(&volume, &json!({ "stack": {} }));
        assert_eq!((live.len(), later.len()), (0, 1), "no cache is served");
        // An amount that has replaced a default.
        let mut volume = ConfigVolume::new("db", "ram:1G");
        volume.cache.dirty_bytes = Some(block::Size(1 << 20));
        let served = json!({ "stack": shown["stack"], "cache": { "dirty_bytes_max": 16 << 20 } });
        let (live, _) = differences(&volume, &served);
        let [change] = &live[..] else { panic!("{}", live.len()) };
        assert_eq!((change.key, &*change.now, &*change.wanted), ("dirty_bytes", "16M", "1M"));
    }
}
