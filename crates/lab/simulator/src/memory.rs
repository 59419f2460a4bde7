//! The memory of a cache.

use crate::blocks::BLOCK_BYTES;
use block::Size;
use std::fmt;
use std::str::FromStr;

/// The memory of a cache.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Memory {
    /// A number of bytes.
    Bytes(u64),
    /// A percentage of the trace's footprint.
    Percent(f64),
}

/// Maximum number of slots: they are numbered in 32 bits, some of which have other uses.
const SLOTS_MAX: u64 = policy::Simulation::SLOTS_MAX as u64;

impl Memory {
    /// Parses `12.5%`. None: it is not a percentage, or is out of range.
    pub fn percent(text: &str) -> Option<Memory> {
        let number: f64 = text.strip_suffix('%')?.parse().ok()?;
        (number > 0.0 && number <= 1000.0).then_some(Memory::Percent(number))
    }

    /// Returns the slots of each shard: whole blocks, at least one; of a percentage, the nearest
    /// number.
    pub(crate) fn slots_of_shard(self, footprint: u64, shards: u32) -> Result<u32, String> {
        let slots = match self {
            Memory::Bytes(bytes) => bytes / BLOCK_BYTES,
            Memory::Percent(percent) => (footprint as f64 * percent / 100.0).round() as u64,
        };
        let each = slots / u64::from(shards);
        if each == 0 {
            return Err(format!(
                "--memory {self}: {slots} blocks of 4 KiB are too few for {shards} shards; use \
                 more memory"
            ));
        }
        let message = format!(
            "--memory {self}: a shard can have at most 4 TiB; use less memory, or more shards"
        );
        u32::try_from(each).ok().filter(|each| u64::from(*each) <= SLOTS_MAX).ok_or(message)
    }
}

impl FromStr for Memory {
    type Err = String;

    /// Parses a size like `64M`, or a percentage like `10%`.
    fn from_str(text: &str) -> Result<Memory, String> {
        if text.contains('%') {
            let message =
                format!("'{text}' is not a share; write it like 10% or 0.5%, up to 1000%");
            return Memory::percent(text).ok_or(message);
        }
        text.parse().map(|size: Size| Memory::Bytes(size.0))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Bytes(bytes) => write!(f, "{bytes}"),
            Memory::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_and_shards_have_equal_parts() {
        assert_eq!(Memory::percent("3%"), Some(Memory::Percent(3.0)));
        for bad in ["3", "%", "x%", "-1%", "0%", "NaN%", "inf%", "1001%"] {
            assert_eq!(Memory::percent(bad), None, "{bad}");
        }
        assert_eq!("64M".parse(), Ok(Memory::Bytes(64 << 20)));
        assert_eq!("0.5%".parse(), Ok(Memory::Percent(0.5)));
        let refused = "0%".parse::<Memory>().expect_err("it has no slots");
        assert!(refused.contains("up to 1000%"), "{refused}");
        let slots = |memory: Memory, shards| memory.slots_of_shard(269_210, shards);
        assert_eq!(slots(Memory::Percent(3.0), 1), Ok(8076));
        assert_eq!(slots(Memory::Percent(10.0), 4), Ok(6730));
        assert_eq!(slots(Memory::Bytes(1 << 30), 32), Ok(8192));
        let none = slots(Memory::Bytes(8191), 2).expect_err("one block for two");
        assert!(none.starts_with("--memory 8191: 1 blocks of 4 KiB are too few"), "{none}");
        assert!(slots(Memory::Bytes(u64::MAX), 1).is_err());
        assert_eq!(slots(Memory::Bytes(4 << 40), 1), Ok(1 << 30));
        assert!(slots(Memory::Bytes((4 << 40) + 4096), 1).is_err(), "no policy has so many");
    }
}
