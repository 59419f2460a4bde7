//! The preparation of a drive before it is measured, as plain data: figures depend on it, so it is
//! printed with every row.

use block::{DriveState, Size};
use std::fmt;
use std::str::FromStr;

/// A step of a preparation, on the prepared part of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// One sequential write of it, in no time. A drive that compresses stores the data in this
    /// percentage of its size, if it can; any other drive stores all of it.
    Fill {
        /// 0 to 100; 100 for data that cannot be compressed.
        data_percent: u32,
    },
    /// Random 4 KiB writes of this percentage of it, in no time.
    Random {
        /// 100: as much as its size.
        percent: u32,
    },
    /// Random writes for some time: reviewers call this torture.
    Torture {
        /// Bytes of a write.
        block_bytes: u32,
        /// Queue depth.
        depth: u32,
        /// Seconds of the drive's time.
        seconds: u32,
    },
    /// Trims all of it, by commands of at most this size.
    Trim {
        /// A multiple of 4 KiB.
        command_bytes: u64,
    },
    /// Leaves the drive idle.
    Idle {
        /// Seconds of the drive's time.
        seconds: u32,
    },
}

impl Step {
    /// Returns the usual random writes for this time, in whole seconds.
    pub fn torture(time_ns: u64) -> Step {
        let seconds = u32::try_from(time_ns.div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
        Step::Torture { block_bytes: BLOCK_BYTES, depth: DEPTH, seconds }
    }
}

/// Default size of a TRIM command: its limit is 65,535 sectors in each of 64 ranges, and hosts send
/// about a gigabyte.
pub const TRIM_BYTES: u64 = 1 << 30;

/// The first words of the steps.
const STEPS: [&str; 5] = ["fill", "random", "torture", "trim", "idle"];

/// Steps, one after the other. None: the drive is new, or was erased.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Preparation(pub Vec<Step>);

/// Named preparations: name, steps, and description.
pub const PRESETS: [(&str, &str, &str); 11] = [
    ("fresh", "", "nothing: new, or erased"),
    ("filled", "fill", "written once in order"),
    ("used", "fill,random:100%", "filled, then as much again written in random 4 KiB"),
    ("steady", "fill,random:400%", "filled, then four times as much written in random 4 KiB"),
    ("trimmed", "fill,random:100%,trim", "used, then all of it trimmed"),
    ("rested", "idle:60s", "idle for a minute"),
    ("laid-out", "fill,idle:60s", "written once in order, and idle for a minute"),
    // AnandTech's consistency test. Iometer's own data is repetitive, which matters only to a
    // compressing drive.
    ("consistency", "fill:14%", "written once in order, with data that can be compressed"),
    ("torture-20m", "fill,torture:1200s,trim", "AnandTech's TRIM test of 2011"),
    ("torture-40m", "fill,torture:2400s,trim", "the same of 2014, for 40 minutes"),
    ("torture-60m", "fill,torture:3600s,trim", "the same for an hour"),
];

impl Preparation {
    /// Parses a preset's name, or steps as they are printed.
    ///
    /// # Errors
    /// The part that is not understood, and the accepted input.
    pub fn parse(text: &str) -> Result<Preparation, String> {
        let preset = PRESETS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text));
        let steps = preset.map_or(text, |(_, steps, _)| steps);
        let steps = steps.split(',').filter(|step| !step.is_empty());
        steps.map(str::parse).collect::<Result<_, _>>().map(Preparation)
    }

    /// Returns the preset of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn preset(name: &str) -> Preparation {
        let known = PRESETS.iter().any(|(known, ..)| *known == name);
        assert!(known, "no preparation is called {name}");
        Preparation::parse(name).expect("the presets are sound")
    }

    /// Returns the same with more steps appended.
    pub fn then(&self, more: &Preparation) -> Preparation {
        Preparation(self.0.iter().chain(&more.0).copied().collect())
    }

    /// Returns the steps before the first TRIM, and the rest.
    pub fn at_trim(&self) -> (Preparation, Preparation) {
        let at = self.0.iter().position(|step| matches!(step, Step::Trim { .. }));
        let (before, after) = self.0.split_at(at.unwrap_or(self.0.len()));
        (Preparation(before.to_vec()), Preparation(after.to_vec()))
    }

    /// Whether the whole prepared part contains data after these steps.
    pub fn leaves_all_written(&self) -> bool {
        let written = |was: bool, step: &Step| match step {
            Step::Fill { .. } => true,
            Step::Trim { .. } => false,
            Step::Random { .. } | Step::Torture { .. } | Step::Idle { .. } => was,
        };
        self.0.iter().fold(false, written)
    }

    /// Returns the name of the preset with these steps, if there is one.
    pub fn name(&self) -> Option<&'static str> {
        let is_it = |steps: &str| Preparation::parse(steps).as_ref() == Ok(self);
        PRESETS.iter().find(|(_, steps, _)| is_it(steps)).map(|(name, ..)| *name)
    }
}

impl From<DriveState> for Preparation {
    fn from(state: DriveState) -> Preparation {
        Preparation::preset(match state {
            DriveState::Purged => "fresh",
            DriveState::Filled => "filled",
            DriveState::Used => "used",
            DriveState::Steady => "steady",
            DriveState::Trimmed => "trimmed",
        })
    }
}

impl fmt::Display for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("fresh");
        }
        for (number, step) in self.0.iter().enumerate() {
            write!(f, "{}{step}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Longest duration of a step or a load: it is added to clocks.
pub const SECONDS_MAX: u32 = 10_000_000;
/// Defaults of a write.
const BLOCK_BYTES: u32 = 4096;
const DEPTH: u32 = 32;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Fill { data_percent: 100 } => write!(f, "fill"),
            Step::Fill { data_percent } => write!(f, "fill:{data_percent}%"),
            Step::Random { percent } => write!(f, "random:{percent}%"),
            Step::Torture { block_bytes: BLOCK_BYTES, depth: DEPTH, seconds } => {
                write!(f, "torture:{seconds}s")
            }
            Step::Torture { block_bytes, depth, seconds } => {
                write!(f, "torture:{block_bytes}:{depth}:{seconds}s")
            }
            Step::Trim { command_bytes: TRIM_BYTES } => write!(f, "trim"),
            Step::Trim { command_bytes } => write!(f, "trim:{command_bytes}"),
            Step::Idle { seconds } => write!(f, "idle:{seconds}s"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Step, String> {
        let mut parts = text.split(':');
        let word = parts.next().unwrap_or_default();
        let parts: Vec<&str> = parts.collect();
        let percent = |part: &str, most: u32| number(text, part, "%", 0, most);
        let seconds = |part: &str| number(text, part, "s", 0, SECONDS_MAX);
        Ok(match (word, parts.as_slice()) {
            ("fill", []) => Step::Fill { data_percent: 100 },
            ("fill", [data]) => Step::Fill { data_percent: percent(data, 100)? },
            ("random", [all]) => Step::Random { percent: percent(all, 10_000)? },
            ("torture", [time]) => {
                let seconds = seconds(time)?;
                Step::Torture { block_bytes: BLOCK_BYTES, depth: DEPTH, seconds }
            }
            ("torture", [bytes, depth, time]) => {
                let block_bytes = u32::try_from(size(text, bytes)?).ok();
                let block_bytes = block_bytes.filter(|bytes| *bytes <= 1 << 30);
                let wrong = || format!("'{text}': '{bytes}' must be at most 1 GiB");
                let block_bytes = block_bytes.ok_or_else(wrong)?;
                let depth = number(text, depth, "", 1, 1024)?;
                Step::Torture { block_bytes, depth, seconds: seconds(time)? }
            }
            ("trim", []) => Step::Trim { command_bytes: TRIM_BYTES },
            ("trim", [bytes]) => Step::Trim { command_bytes: size(text, bytes)? },
            ("idle", [time]) => Step::Idle { seconds: seconds(time)? },
            _ => {
                let names: Vec<&str> = PRESETS.iter().map(|(name, ..)| *name).collect();
                let words = STEPS.iter().chain(&names).copied();
                if let Some(near) = stack::near(word, words) {
                    return Err(format!("'{text}' is not a step; did you mean {near}?"));
                }
                return Err(format!(
                    "'{text}' is not a step; write fill, fill:DATA%, random:PERCENT%, \
                     torture:SECONDSs, torture:BYTES:DEPTH:SECONDSs, trim, trim:BYTES or \
                     idle:SECONDSs, with commas between; or one of {}",
                    names.join(", ")
                ));
            }
        })
    }
}

fn number(text: &str, part: &str, unit: &str, low: u32, high: u32) -> Result<u32, String> {
    let digits = part.strip_suffix(unit).unwrap_or(part);
    let number = digits.parse().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| format!("'{text}': '{part}' must be {low}{unit} to {high}{unit}"))
}

/// Parses whole slots, of at most a terabyte.
fn size(text: &str, part: &str) -> Result<u64, String> {
    let size = part.parse::<Size>().map(|size| size.0).ok();
    let size = size.filter(|bytes| bytes % 4096 == 0 && (4096..=1 << 40).contains(bytes));
    size.ok_or_else(|| format!("'{text}': '{part}' must be a multiple of 4 KiB, up to 1 TiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preparations_are_printed_as_they_are_read() {
        for (name, steps, about) in PRESETS {
            let preparation = Preparation::preset(name);
            let printed = preparation.to_string();
            assert_eq!(printed, if steps.is_empty() { "fresh" } else { steps }, "{about}");
            assert_eq!(Preparation::parse(&printed), Ok(preparation.clone()));
            assert_eq!(preparation.name(), Some(name));
        }
        let long = "fill:0%,torture:65536:4:30s,trim:1048576,idle:5s";
        assert_eq!(Preparation::parse(long).map(|it| it.to_string()), Ok(long.to_owned()));
        let (before, after) = Preparation::preset("torture-20m").at_trim();
        assert_eq!(
            (before.to_string().as_str(), after.to_string().as_str()),
            ("fill,torture:1200s", "trim")
        );
        for (wrong, says) in [
            ("fil", "did you mean fill?"),
            ("stedy", "did you mean steady?"),
            ("xyz", "write fill"),
            ("fill:120%", "0% to 100%"),
            ("torture:5000:4:1s", "multiple of 4 KiB"),
            ("torture:4K:0:1s", "1 to 1024"),
            ("torture:4G:1:1s", "'4G' must be at most 1 GiB"),
            ("idle:x", "'x' must be"),
        ] {
            let message = Preparation::parse(wrong).expect_err(wrong);
            assert!(message.contains(says), "{message}");
        }
    }
}
