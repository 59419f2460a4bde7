//! A file of loads for the suite `custom`, in TOML.
//!
//! ```toml
//! [[load]]
//! name = "log"
//! order = "sequential"
//! block = "16K"
//! reads = 0
//!
//! [[load]]
//! depth = 16                # the default of the rest is as without a file: random reads of 4 KiB
//! idle_before = "10s"
//! ```

use super::{DEPTH, PERCENT, RATE, block_bytes};
use daemon::section::{self, Section, Wrong};
use daemon::units;
use stack::Failure;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use suites::{Job, SECONDS_MAX};

const KEYS: [&str; 12] = [
    "name",
    "order",
    "block",
    "depth",
    "reads",
    "rate",
    "time",
    "span",
    "data",
    "dedupe",
    "flush",
    "idle_before",
];
/// Longest name, because it is shown in a table.
const NAME_CHARACTERS_MAX: usize = 60;

/// Reads the loads of a file. Each has a name.
///
/// # Errors
/// One sentence with the file, the line, the key and a correction.
pub(super) fn read(path: &Path) -> Result<Vec<Job>, Failure> {
    section::read(path, "job file", parse)
}

fn parse(text: &str) -> Result<Vec<Job>, Wrong> {
    section::parse(text, |top| {
        top.check_keys(&["load"])?;
        let mut names = BTreeSet::new();
        let mut jobs = Vec::new();
        for section in top.list("load")? {
            let job = job(&section)?;
            let name = job.name();
            if !names.insert(name.clone()) {
                let message = format!("two loads are called '{name}'; give each a different name");
                return Err((section.at(), message));
            }
            jobs.push(Job { name: Some(name), ..job });
        }
        match jobs.is_empty() {
            true => Err((0..0, "there is no load; write [[load]], once for each".to_owned())),
            false => Ok(jobs),
        }
    })
}

fn job(section: &Section<'_>) -> Result<Job, Wrong> {
    section.check_keys(&KEYS)?;
    let usual = Job::default();
    let percent = |key| section.text(key, number(PERCENT));
    let block = |text: &str| units::size(text).and_then(block_bytes);
    let time_ns = |text: &str| {
        let us = units::time_us(text)?;
        match us <= u64::from(SECONDS_MAX) * 1_000_000 {
            true => Ok(us * 1000),
            false => Err(format!("'{text}': write at most {SECONDS_MAX} s")),
        }
    };
    Ok(Job {
        name: section.text("name", name)?,
        pattern: section.text("order", str::parse)?.unwrap_or(usual.pattern),
        block_bytes: section.text("block", block)?.unwrap_or(usual.block_bytes),
        depth: section.text("depth", number(DEPTH))?.unwrap_or(usual.depth),
        reads_percent: percent("reads")?.unwrap_or(usual.reads_percent),
        rate: section.text("rate", number(RATE))?,
        time_ns: section.text("time", |text| above_zero(time_ns(text)?))?,
        span_bytes: section.text("span", |text| above_zero(units::size(text)?.0))?,
        data_percent: percent("data")?,
        dedupe_percent: percent("dedupe")?,
        flush: section.flag("flush")?,
        idle_before_ns: section.text("idle_before", time_ns)?.unwrap_or(0),
    })
}

fn above_zero(number: u64) -> Result<u64, String> {
    if number > 0 { Ok(number) } else { Err("write more than 0".to_owned()) }
}

/// Parses a name, which is shown in tables and job files.
fn name(text: &str) -> Result<String, String> {
    let fits = (1..=NAME_CHARACTERS_MAX).contains(&text.chars().count());
    match fits && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(format!("write 1 to {NAME_CHARACTERS_MAX} characters of one line")),
    }
}

/// Parses a whole number in a range.
fn number(range: RangeInclusive<i64>) -> impl Fn(&str) -> Result<u32, String> {
    move |text| {
        let found = text.parse().ok().filter(|number: &i64| range.contains(number));
        let wrong = || format!("'{text}': write {} to {}", range.start(), range.end());
        found.and_then(|number| u32::try_from(number).ok()).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::Order;
    use suites::Pattern;

    fn wrong(text: &str) -> String {
        parse(text).expect_err(text).1
    }

    #[test]
    fn a_whole_file_is_understood() {
        let text = r#"
            [[load]]
            name = "log"
            order = "sequential"
            block = "16K"
            depth = 4
            reads = 30
            rate = 2000
            time = "500ms"
            span = "1G"
            data = 50
            dedupe = "20"
            flush = false
            idle_before = "10s"
            [[load]]
            order = "zipf:1.1"
        "#;
        let [log, rest] = &parse(text).expect("a good file")[..] else { panic!("two loads") };
        let wanted = Job {
            name: Some("log".to_owned()),
            pattern: Pattern(Order::Sequential),
            block_bytes: 16 << 10,
            depth: 4,
            reads_percent: 30,
            rate: Some(2000),
            time_ns: Some(500_000_000),
            span_bytes: Some(1 << 30),
            data_percent: Some(50),
            dedupe_percent: Some(20),
            flush: Some(false),
            idle_before_ns: 10_000_000_000,
        };
        assert_eq!(*log, wanted);
        let usual = Job::default();
        let name = Some("zipf 1.1 4 KiB reads, QD1".to_owned());
        let pattern = Pattern(Order::Zipf { exponent: 1.1 });
        assert_eq!(*rest, Job { name, pattern, ..usual });
    }

    #[test]
    fn what_is_wrong_is_named_with_its_mend() {
        for (text, says) in [
            ("", "write [[load]]"),
            ("load = 1", "load: write [[load]]"),
            ("load = [1]", "load: write [[load]]"),
            ("[load]\ndepth = 1", "load: write [[load]]"),
            ("depth = 1\n[[load]]", "unknown key depth; the known names are load"),
            ("[[load]]\ndeph = 1", "unknown key deph in [[load]]; did you mean 'depth'?"),
            ("[[load]]\nxyzzy = 1", "the known names are name, order, block"),
            ("[[load]]\norder = \"up\"", "order in [[load]]: 'up': write random, sequential"),
            ("[[load]]\norder = \"zipf:nan\"", "write random, sequential"),
            ("[[load]]\nblock = 1000", "block in [[load]]: write a multiple of 512 bytes"),
            ("[[load]]\nblock = \"2G\"", "to 1 GiB"),
            ("[[load]]\nblock = \"1Q\"", "not a size"),
            ("[[load]]\ndepth = 0", "depth in [[load]]: '0': write 1 to 2048"),
            ("[[load]]\ndepth = 2.5", "depth in [[load]]: "),
            ("[[load]]\nreads = 101", "'101': write 0 to 100"),
            ("[[load]]\nreads = -1", "'-1': write 0 to 100"),
            ("[[load]]\nrate = 99999999999999999999", "write 1 to 10000000"),
            ("[[load]]\ntime = 5", "write it like 500us, 2ms, 5s, 10min or 1h"),
            ("[[load]]\ntime = \"0s\"", "time in [[load]]: write more than 0"),
            ("[[load]]\nspan = 0", "span in [[load]]: write more than 0"),
            ("[[load]]\nflush = 1", "flush in [[load]]: write true or false"),
            ("[[load]]\nname = \"\"", "name in [[load]]: write 1 to 60 characters"),
            ("[[load]]\nname = \"a\\nb\"", "of one line"),
            ("[[load]]\n[[load]]", "two loads are called 'random 4 KiB reads, QD1'"),
            ("[[load]]\nname = 'a'\n[[load]]\nname = 'a'", "two loads are called 'a'"),
        ] {
            let message = wrong(text);
            assert!(message.contains(says), "{text}: {message}");
        }
        assert!(!wrong("[[load]\n").is_empty());
    }

    #[test]
    fn the_file_and_the_line_are_reported() {
        let file = tempfile::NamedTempFile::new().expect("a place for it");
        let text = "[[load]]\nname = \"a\"\n\n[[load]]\ndepth = 4\nreads = \"most\"\n";
        std::fs::write(file.path(), text).expect("room");
        let failure = read(file.path()).expect_err("no number");
        let wanted = format!("{}:6: reads in [[load]]: 'most': ", file.path().display());
        assert!(failure.message.starts_with(&wanted), "{failure}");
        let missing = read(Path::new("/no/such/job.toml")).expect_err("nothing is there");
        assert!(missing.message.contains("cannot be read"), "{missing}");
    }
}
