//! Sizes as users write them.

use crate::SECTOR;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Maximum size of a volume, in bytes: clients and kernels count its bytes in a signed 64-bit
/// number.
pub const VOLUME_BYTES_MAX: u64 = i64::MAX as u64 / SECTOR * SECTOR;

/// A size in bytes. Reads `4K`, `4KiB` (4096), `4KB` (4000), `1.5G`, `512`.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Size(pub u64);

impl Size {
    /// Returns the number of sectors of a volume of this size.
    ///
    /// # Errors
    /// If no volume can have this size: a sentence with the possible sizes.
    pub fn volume_sectors(self) -> Result<u64, String> {
        if self.0 == 0 || !self.0.is_multiple_of(SECTOR) {
            return Err("the size must be a multiple of 512 bytes and more than 0".to_owned());
        }
        if self.0 > VOLUME_BYTES_MAX {
            let message = "the size must be less than 8388608T, the limit of clients";
            return Err(message.to_owned());
        }
        Ok(self.0 / SECTOR)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let bad = || format!("'{text}' is not a size; write it like 512M, 1G, 4KiB or 4KB");
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let unit = unit.trim().to_ascii_lowercase();
        let (letter, rest) = unit.split_at(unit.len().min(1));
        let power = match letter {
            "" | "b" if rest.is_empty() => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            _ => return Err(bad()),
        };
        let base: u64 = match rest {
            "" | "ib" => 1024,
            "b" => 1000,
            _ => return Err(bad()),
        };
        let bytes = number * base.pow(power) as f64;
        if !bytes.is_finite() || bytes < 0.0 || bytes >= u64::MAX as f64 {
            return Err(bad());
        }
        Ok(Size(bytes as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < units.len() {
            value /= 1024.0;
            unit += 1;
        }
        if value.fract() == 0.0 {
            write!(f, "{value} {}", units[unit])
        } else {
            write!(f, "{value:.1} {}", units[unit])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_mean_what_storage_people_mean() {
        let parse = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(parse("4K"), Ok(4096));
        assert_eq!(parse("4KiB"), Ok(4096));
        assert_eq!(parse("4KB"), Ok(4000));
        assert_eq!(parse("512"), Ok(512));
        assert_eq!(parse("1.5G"), Ok(3 << 29));
        for bad in ["", "x", "4Q", "4KiX", "-1", "1e30T", "99999999999T", "."] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Size(3 << 29).to_string(), "1.5 GiB");
    }

    #[test]
    fn volumes_are_of_whole_sectors_and_fit_into_what_clients_count() {
        let sectors = |text: &str| text.parse::<Size>().expect(text).volume_sectors();
        assert_eq!(sectors("1K"), Ok(2));
        assert_eq!(sectors("8388607T"), Ok(8_388_607 << 31));
        assert_eq!(Size(VOLUME_BYTES_MAX).volume_sectors(), Ok((1 << 54) - 1));
        for (bad, says) in [
            ("0", "more than 0"),
            ("100", "multiple of 512"),
            ("8388608T", "less than 8388608T"),
            ("16777215T", "less than 8388608T"),
        ] {
            let refused = sectors(bad).expect_err(bad);
            assert!(refused.contains(says), "{bad}: {refused}");
        }
    }
}
