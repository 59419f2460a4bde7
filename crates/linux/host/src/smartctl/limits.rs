//! Bounds of the possible values of a drive. A value beyond them was misread, miscounted or has
//! another unit, and is not shown.

use serde_json::Value;

/// Maximum age of a drive: 40 years.
const HOURS_MAX: u64 = 350_000;
/// Maximum plausible number of errors.
const ERRORS_MAX: u64 = 1 << 32;
/// Maximum number of replaced sectors if the capacity is unknown.
const REALLOCATED_MAX: u64 = 1 << 24;
/// Maximum and minimum rated erase cycles of flash (SLC is the maximum).
const CYCLES_MAX: u64 = 100_000;
const CYCLES_MIN: u64 = 100;
/// Maximum write amplification over the whole life.
const AMPLIFICATION_MAX: f64 = 100.0;

/// Properties of a drive that bound its counters.
pub(super) struct Limits {
    hours: u64,
    capacity_bytes: Option<u64>,
    bytes_per_second: u64,
}

impl Limits {
    /// Returns the limits of the drive, whose interface transfers at most `bytes_per_second`.
    pub(super) fn new(value: &Value, hours: Option<u64>, bytes_per_second: u64) -> Limits {
        let capacity = value["user_capacity"]["bytes"].as_u64();
        let capacity = capacity.or(value["nvme_total_capacity"].as_u64());
        Limits {
            // The current hour counts too.
            hours: hours.unwrap_or(HOURS_MAX).saturating_add(1),
            capacity_bytes: capacity.filter(|bytes| *bytes > 0),
            bytes_per_second,
        }
    }

    /// Returns the bytes if the interface can have transferred them in the drive's hours.
    pub(super) fn transferred(&self, bytes: u64) -> Option<u64> {
        (u128::from(bytes) <= self.transferred_max()).then_some(bytes)
    }

    /// Returns the maximum bytes that the interface can have transferred.
    fn transferred_max(&self) -> u128 {
        u128::from(self.hours) * 3600 * u128::from(self.bytes_per_second)
    }

    /// Returns the number of replaced sectors if it is at most a tenth of all sectors.
    pub(super) fn reallocated(&self, sectors: u64) -> Option<u64> {
        let most = self.capacity_bytes.map_or(REALLOCATED_MAX, |bytes| bytes / 512 / 10);
        (sectors <= most).then_some(sectors)
    }

    /// Returns the wear if it is possible with the bytes that the host has written, or can have
    /// written in the drive's hours: flash lasts for 100 to 100,000 cycles.
    pub(super) fn wear(&self, percent: u64, host_written_bytes: Option<u64>) -> Option<u64> {
        let Some(capacity) = self.capacity_bytes else { return Some(percent) };
        let written = host_written_bytes.map_or(self.transferred_max(), u128::from);
        // One percent of the minimum cycles, at an amplification of 20; below 5 %, age alone is
        // sufficient.
        let least = u128::from(percent.saturating_sub(5)) * u128::from(CYCLES_MIN) / 100
            * u128::from(capacity)
            / 20;
        let most = u128::from(percent + 1) * u128::from(CYCLES_MAX) / 100 * u128::from(capacity);
        let is_too_little = host_written_bytes.is_some() && written > most;
        (written >= least && !is_too_little).then_some(percent)
    }
}

/// Returns the amplification if it is possible: at least 1 if the drive does not compress.
pub(super) fn amplification(ratio: f64, compresses: bool) -> Option<f64> {
    let least = if compresses { 0.01 } else { 1.0 };
    (least..=AMPLIFICATION_MAX).contains(&ratio).then_some(ratio)
}

/// Returns the share, at most 100: drives may continue to count after their rated life.
pub(super) fn worn(percent: u64) -> u64 {
    percent.min(100)
}

/// Returns a percentage if it is valid.
pub(super) fn percent(value: Option<u64>) -> Option<u64> {
    value.filter(|percent| *percent <= 100)
}

/// Returns a number of errors if it is possible.
pub(super) fn errors(value: Option<u64>) -> Option<u64> {
    value.filter(|errors| *errors < ERRORS_MAX)
}

/// Returns hours if they are possible.
pub(super) fn hours(value: Option<u64>) -> Option<u64> {
    value.filter(|hours| *hours <= HOURS_MAX)
}

/// Returns a temperature if drives can work at it. Drives without a sensor report 0, or 255.
pub(super) fn temperature(value: Option<i64>) -> Option<i64> {
    value.filter(|degrees| (-60..=150).contains(degrees) && *degrees != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn impossible_values_are_dropped() {
        let drive = json!({ "user_capacity": { "bytes": 1_000_000_000_000u64 } });
        let limits = Limits::new(&drive, Some(9), 600_000_000);
        assert_eq!(limits.transferred(21_600_000_000_000), Some(21_600_000_000_000));
        assert_eq!(limits.transferred(21_600_000_000_001), None);
        assert_eq!(limits.reallocated(195_312_500), Some(195_312_500));
        assert_eq!(limits.reallocated(195_312_501), None);
        // Written once: 99 % of the life cannot be used up, and after 100,000 times it cannot be 0
        // %.
        assert_eq!(limits.wear(99, Some(1_000_000_000_000)), None);
        assert_eq!(limits.wear(5, Some(1_000_000_000_000)), Some(5));
        assert_eq!(limits.wear(99, Some(100_000_000_000_000)), Some(99));
        assert_eq!(limits.wear(0, Some(1_000_000_000_000_001)), None);
        // In ten hours the interface transfers the capacity 21 times, which is enough for that
        // wear.
        assert_eq!(limits.wear(99, None), Some(99));
        let new = Limits::new(&drive, Some(0), 600_000_000);
        assert_eq!((new.wear(99, None), new.wear(20, None)), (None, Some(20)));
        let unknown = Limits::new(&json!({}), None, 600_000_000);
        assert_eq!((unknown.transferred(1 << 60), unknown.reallocated(1 << 25)), (None, None));
        assert_eq!((amplification(0.75, false), amplification(0.75, true)), (None, Some(0.75)));
        assert_eq!((amplification(f64::NAN, true), amplification(1.0, false)), (None, Some(1.0)));
    }
}
