//! RAPID, Samsung's cache of 2013, as settings of this project's engine and costs of a driver.
//!
//! Only the lab has it: the daemon knows no such mode. All numbers are in one file, each with its
//! source, or marked as assumed.

use crate::driver::DriverCost;
use block::{CacheSpec, Size};
use lane::{Cost, Prices};
use std::collections::BTreeMap;
use toml::Value;

/// The numbers.
const NUMBERS: &str = include_str!("../presets/rapid.toml");

/// RAPID as a plan has it.
#[derive(Clone, PartialEq, Debug)]
pub struct Rapid {
    /// The settings of the engine.
    pub cache: CacheSpec,
    /// The price of each piece of work.
    pub prices: Prices,
    /// The driver in front.
    pub driver: DriverCost,
}

/// A number of the file, with its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sourced {
    /// Its name: the section and the key.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The source, or why it is assumed.
    pub source: String,
}

/// Sections, each of keys with a value and a source.
type Sections = BTreeMap<String, BTreeMap<String, (Value, String)>>;

fn read(text: &str) -> Result<Sections, String> {
    let sections: Sections = toml::from_str(text).map_err(|error| error.to_string())?;
    let without = sections.iter().flat_map(|(section, keys)| {
        let without = keys.iter().filter(|(_, (_, source))| source.is_empty());
        without.map(move |(key, _)| format!("{section}.{key} has no source"))
    });
    without.into_iter().next().map_or(Ok(()), Err)?;
    Ok(sections)
}

/// Returns the numbers with their sources.
///
/// # Panics
/// If the program's own file is damaged.
pub fn rapid_numbers() -> Vec<Sourced> {
    let sections = read(NUMBERS).expect("the program's own numbers are sound");
    let numbers = sections.into_iter().flat_map(|(section, keys)| {
        keys.into_iter().map(move |(key, (value, source))| Sourced {
            name: format!("{section}.{key}"),
            value: value.to_string(),
            source,
        })
    });
    numbers.collect()
}

impl Rapid {
    /// Returns RAPID with the numbers of the program.
    ///
    /// # Panics
    /// If they are damaged.
    pub fn new() -> Rapid {
        Rapid::parse(NUMBERS).expect("the program's own numbers are sound")
    }

    /// Reads the numbers of a file.
    ///
    /// # Errors
    /// The number that is missing or has the wrong kind.
    fn parse(text: &str) -> Result<Rapid, String> {
        let sections = read(text)?;
        let value = |section: &str, key: &str| {
            let found = sections.get(section).and_then(|keys| keys.get(key));
            found.map(|(value, _)| value).ok_or_else(|| format!("{section}.{key} is missing"))
        };
        let number = |section: &str, key: &str| {
            let number = value(section, key)?.as_integer().and_then(|it| u64::try_from(it).ok());
            number.ok_or_else(|| format!("{section}.{key} is not a whole number"))
        };
        let word = |key: &str| {
            let word = value("policy", key)?.as_str();
            word.ok_or_else(|| format!("policy.{key} is not a word"))
        };
        let flag = |section: &str, key: &str| {
            let flag = value(section, key)?.as_bool();
            flag.ok_or_else(|| format!("{section}.{key} is not true or false"))
        };
        let small = |section: &str, key: &str| -> Result<u32, String> {
            let number = number(section, key)?;
            u32::try_from(number).map_err(|_| format!("{section}.{key} is too large"))
        };
        let share = number("memory", "machine_bytes")? / 100 * number("memory", "share_percent")?;
        let memory = Size(number("memory", "bytes_max")?.min(share));
        let cache = CacheSpec {
            memory,
            policy: word("policy")?.parse()?,
            write: word("write")?.parse()?,
            durability: word("durability")?.parse()?,
            absorb_bytes_max: Size(number("policy", "absorb_bytes_max")?),
            dirty_bytes: Some(Size(memory.0 / 100 * number("policy", "dirty_percent")?)),
            flush_target_ms: number("policy", "flush_target_ms")?,
            dirty_age_ms: number("policy", "dirty_age_ms")?,
            readahead: flag("policy", "readahead")?,
            compress: word("compress")?.parse()?,
            // The driver has a rule of its own.
            guard: false,
            ..CacheSpec::default()
        };
        let mut prices = Prices::default();
        for cost in Cost::ALL {
            prices.ns[cost as usize] = number("driver", &format!("{}_ns", cost.name()))?;
        }
        let driver = DriverCost {
            served_ns: number("driver", "served_ns")?,
            passed_ns: number("driver", "passed_ns")?,
            processors: small("processor", "processors")?,
            other_load_percent: small("processor", "other_load_percent")?,
            load_percent_max: small("processor", "load_percent_max")?,
            stream_bytes_max: memory.0 / 100 * number("driver", "stream_percent")?,
            part_bytes: small("policy", "absorb_bytes_max")?,
            counts_final_flush: flag("suites", "final_flush")?,
        };
        Ok(Rapid { cache, prices, driver })
    }
}

impl Default for Rapid {
    fn default() -> Rapid {
        Rapid::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, QD1_WRITE, Target, find, run};
    use block::WriteMode;

    #[test]
    fn every_number_has_a_source_and_names_no_test_of_a_suite() {
        for number in rapid_numbers() {
            assert!(number.source.len() >= 7, "{number:?}");
            for suite in crate::ALL {
                let name = suite.profile().name;
                assert!(!number.name.contains(name), "{number:?}: a number for {name} alone");
            }
        }
        let damaged = NUMBERS.replace("served_ns", "served");
        let missing = Rapid::parse(&damaged).expect_err("it is missing");
        assert_eq!(missing, "driver.served_ns is missing");
        let text = NUMBERS.replace("\"assumed: nothing else ran\"", "\"\"");
        let without = Rapid::parse(&text).expect_err("no source");
        assert_eq!(without, "processor.other_load_percent has no source");
        assert_eq!(Rapid::new().cache.memory, Size(1 << 30));
    }

    fn qd1(driver: DriverCost) -> f64 {
        let rapid = Rapid::new();
        let target = Target::parse("model:samsung-840-evo-250?size=16GB").expect("a model");
        let plan = Plan::new(find("qd1").expect("a suite").profile(), target);
        let plan = Plan {
            cache: Some(CacheSpec { memory: Size(64 << 20), dirty_bytes: None, ..rapid.cache }),
            prices: rapid.prices,
            driver: Some(driver),
            only: Some(QD1_WRITE.to_owned()),
            time_ns: 200_000_000,
            span_bytes: Some(1 << 30),
            ..plan
        };
        let (outcome, ended) = run(&plan, &mut ());
        assert_eq!(ended, Ok(()));
        outcome.row(QD1_WRITE).expect("it ran").value
    }

    #[test]
    fn a_busy_machine_passes_requests_through() {
        let idle = Rapid::new().driver;
        assert_eq!(Rapid::new().cache.write, WriteMode::BackNow);
        let busy = qd1(DriverCost { other_load_percent: 90, ..idle });
        let idle = qd1(idle);
        assert!(idle > 1.5 * busy, "{idle} against {busy}");
        assert!(busy > 5_000.0, "the drive itself is as fast as that: {busy}");
    }
}
