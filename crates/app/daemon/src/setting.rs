//! `KEY=VALUE` as an operator writes it while the volume is served.

use crate::log_level::LOG_LEVEL;
use crate::section::nearest;
use crate::settings::{RULES, SETTINGS, Setting};
use block::{CacheSpec, Rules, SECTOR, Size};
use cache::{BLOCK_SECTORS, Changes, Geometry};
use stack::check_dirty;
use stack::{Exit, Failure};

/// Returns what can be changed: settings of the volume, and the level of its daemon's messages.
fn keys() -> Vec<&'static str> {
    let live = SETTINGS.iter().filter(|setting| setting.is_live());
    live.map(|setting| setting.key).chain([LOG_LEVEL]).collect()
}

/// Changes of settings.
#[derive(Debug, Default)]
pub(crate) struct SettingChanges {
    /// Those of the engine.
    pub(crate) engine: Changes,
    /// The rules for files. None: unchanged.
    pub(crate) rules: Option<Rules>,
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

/// Parses changes, all of them or none, for a cache of this geometry. Values are those of
/// `overdrive serve`.
///
/// # Errors
/// Usage: one sentence with the key, the value and a correction.
pub(crate) fn changes(pairs: &[String], geometry: &Geometry) -> Result<SettingChanges, Failure> {
    let mut changes = SettingChanges::default();
    let mut seen = Vec::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(usage(format!(
                "'{pair}' is not KEY=VALUE; the keys are {}",
                keys().join(", ")
            )));
        };
        // Written like the options of `overdrive serve`, or like the keys of a config file.
        let key = key.replace('-', "_");
        if seen.contains(&key) {
            return Err(usage(format!("{key}: is given twice; give it once")));
        }
        read(&mut changes, &key, value, geometry)?;
        seen.push(key);
    }
    if seen.is_empty() {
        return Err(usage(format!("nothing to set; write KEY=VALUE, with {}", keys().join(", "))));
    }
    Ok(changes)
}

fn read(
    changes: &mut SettingChanges,
    key: &str,
    value: &str,
    geometry: &Geometry,
) -> Result<(), Failure> {
    let Some(setting) = Setting::named(key) else {
        return Err(usage(format!("unknown key {key}; {}", nearest(key, &keys()))));
    };
    if !setting.is_live() {
        return Err(usage(format!(
            "{key}: cannot be changed while the volume is served; stop its daemon, or detach the \
             volume, and serve it with another --{}; these can: {}",
            setting.option(),
            keys().join(", "),
        )));
    }
    let mut spec = CacheSpec::default();
    setting.read(&mut spec, value).map_err(|why| usage(format!("{key}: {why}")))?;
    if let Some(dirty) = spec.dirty_bytes {
        let memory = u64::from(geometry.slots) * u64::from(BLOCK_SECTORS) * SECTOR;
        check_dirty(dirty, Size(memory))?;
    }
    setting.change(&mut changes.engine, &spec, geometry);
    if key == RULES {
        changes.rules = Some(spec.rules);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Durability, WriteMode};

    fn read_all(pairs: &[&str]) -> Result<Changes, Failure> {
        let pairs: Vec<String> = pairs.iter().map(|&pair| pair.to_owned()).collect();
        let read = changes(&pairs, &Geometry { slots: 1024, ..Geometry::default() });
        read.map(|changes| changes.engine)
    }

    #[test]
    fn all_values_of_serve_are_accepted() {
        let all = ["write=back-now", "durability=scratch", "dirty_age=2s", "guard=off"];
        let expected = Changes {
            write: Some(WriteMode::BackNow),
            durability: Some(Durability::Scratch),
            dirty_age_ns: Some(2_000_000_000),
            guard: Some(false),
            ..Changes::default()
        };
        assert_eq!(read_all(&all).expect("good"), expected);
        let read = read_all(&["dirty-bytes=3M", "flush-target=0", "retry_time=10s"]).expect("good");
        assert_eq!((read.dirty_blocks_max, read.flush_target_ns), (Some(768), Some(0)));
        assert_eq!(read_all(&["absorb-bytes-max=64K"]).expect("good").absorb_blocks_max, Some(16));
        assert_eq!(read.retry_time_ns, Some(10_000_000_000));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_mend() {
        let wrong = |pairs: &[&str]| {
            let failure = read_all(pairs).expect_err("it is wrong");
            assert_eq!(failure.exit, Exit::Usage);
            failure.message
        };
        assert!(wrong(&["dirty_bytes=4M"]).contains("at most fifteen sixteenths"));
        assert!(wrong(&["dirty_bytes=4K"]).contains("at least 8 KiB"));
        assert!(wrong(&["write=fast"]).contains("back-now"));
        assert!(wrong(&["durability=scr"]).contains("flush, ordered or scratch"), "typed in full");
        assert!(wrong(&["dirty_age=5"]).contains("write it like"));
        assert!(wrong(&["dirtyage=5s"]).contains("did you mean 'dirty_age'?"));
        assert!(wrong(&["memory=1G"]).contains("these can: write"));
        assert!(wrong(&["memory=1G"]).contains("serve it with another --memory"));
        assert!(wrong(&["dirty-age=1s", "dirty_age=1s"]).contains("twice"));
        assert!(wrong(&["absorb_bytes_max=2K"]).contains("'2K' is out of range; write 4K to 512K"));
        assert!(wrong(&["guard=maybe"]).contains("on or off"));
        assert!(wrong(&["write"]).contains("KEY=VALUE"));
        assert!(wrong(&["write=back", "write=none"]).contains("twice"));
        assert!(wrong(&[]).contains("nothing to set"));
        assert!(wrong(&["durability=flush", "write=x"]).contains("write"), "all or nothing");
    }
}
