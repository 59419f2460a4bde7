//! `limit:KEY=VALUE,...:BACKING`: rate limits as users write them, in every command.

use crate::near::near;
use block::{RateLimitSpec, Size, Stack, time_us};
use layers::{RateLimit, RateLimitShared};

const KEYS: [&str; 3] = ["iops", "bandwidth", "burst"];
const IOPS_MAX: u64 = 1_000_000_000;
/// A block per second; a lower bandwidth lacks its unit.
const BANDWIDTH_MIN: u64 = 4 << 10;
const BANDWIDTH_MAX: u64 = 1 << 40;
/// A week.
const BURST_US_MAX: u64 = 604_800_000_000;

/// Splits a backing into its rate limits, outermost first, and the backing below them.
///
/// # Errors
/// A sentence with a correction.
pub fn split_limits(backing: &str) -> Result<(Vec<RateLimitSpec>, &str), String> {
    let wrong = |why: String| format!("{backing}: {why}");
    let (mut limits, mut below) = (Vec::new(), backing);
    while let Some(rest) = below.strip_prefix("limit:") {
        let form = || wrong("write limit:iops=N,bandwidth=SIZE,burst=TIME:BACKING".to_owned());
        let (list, next) = rest.split_once(':').ok_or_else(form)?;
        limits.push(parse(list).map_err(wrong)?);
        below = next;
    }
    Ok((limits, below))
}

/// Returns a backing without its rate limits. A faulty one is returned unchanged.
pub fn below_limits(backing: &str) -> &str {
    split_limits(backing).map_or(backing, |(_, below)| below)
}

/// Returns a device behind these limits, outermost first, for one lane. Their buckets are full.
pub fn limited(device: Stack, limits: &[RateLimitSpec]) -> Stack {
    limits.iter().rev().fold(device, |below, spec| {
        let lane = below.lane().clone();
        Stack::new(&lane, RateLimit::attach(RateLimitShared::new(spec), &lane, below))
    })
}

fn parse(list: &str) -> Result<RateLimitSpec, String> {
    let mut spec = RateLimitSpec::default();
    let mut seen = Vec::new();
    for pair in list.split(',') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |form: &str| format!("'{pair}': write {key}={form}");
        match key {
            "iops" => {
                let iops = value.parse().ok().filter(|iops| (1..=IOPS_MAX).contains(iops));
                spec.iops = iops.ok_or_else(|| {
                    wrong("N, requests per second, from 1 to 1000000000; omit it for no limit")
                })?;
            }
            "bandwidth" => {
                let is_good = |size: &Size| (BANDWIDTH_MIN..=BANDWIDTH_MAX).contains(&size.0);
                spec.bandwidth = value.parse().ok().filter(is_good).ok_or_else(|| {
                    wrong("SIZE, bytes per second, from 4K to 1T, as 125M; omit it for no limit")
                })?;
            }
            "burst" => {
                let burst_us = time_us(value).ok().filter(|us| *us <= BURST_US_MAX);
                spec.burst_us =
                    burst_us.ok_or_else(|| wrong("TIME, from 0 to 604800s, as 500ms or 30s"))?;
            }
            _ => return Err(unknown(key)),
        }
        if seen.contains(&key) {
            return Err(format!("'{key}' is given twice; give it once"));
        }
        seen.push(key);
    }
    match spec.iops == 0 && spec.bandwidth == Size(0) {
        true => Err(format!("'{list}' limits nothing; add iops=N or bandwidth=SIZE")),
        false => Ok(spec),
    }
}

fn unknown(key: &str) -> String {
    match near(key, KEYS.into_iter()) {
        Some(near) => format!("'{key}' is unknown; did you mean '{near}'?"),
        None => format!("'{key}' is unknown; the known keys are {}", KEYS.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed_outermost_first() {
        let (limits, below) =
            split_limits("limit:iops=3000:limit:iops=300,bandwidth=125M,burst=18000s:ram:1G")
                .expect("good limits");
        let peak = RateLimitSpec { iops: 3000, ..RateLimitSpec::default() };
        let long =
            RateLimitSpec { iops: 300, bandwidth: Size(125 << 20), burst_us: 18_000_000_000 };
        assert_eq!((limits, below), (vec![peak, long], "ram:1G"));
        for other in ["disk.img", "ram:1G", "./limit:1", "pool:a,b", ""] {
            assert_eq!(split_limits(other), Ok((vec![], other)));
            assert_eq!(below_limits(other), other);
        }
        assert_eq!(below_limits("limit:iops=1:limit:bandwidth=4K:a:b"), "a:b");
        assert_eq!(below_limits("limit:iops=x:a"), "limit:iops=x:a");
    }

    #[test]
    fn wrong_limits_are_refused_with_the_nearest_form() {
        for (list, words) in [
            ("", "the known keys are iops, bandwidth, burst"),
            ("iops", "'iops': write iops=N, requests per second, from 1 to 1000000000"),
            ("iops=0", "'iops=0': write iops=N, requests per second, from 1"),
            ("iops=-1", "from 1 to 1000000000; omit it for no limit"),
            ("iops=3K", "write iops=N"),
            ("iops=1000000001", "from 1 to 1000000000"),
            ("iops=99999999999999999999999", "from 1 to 1000000000"),
            ("iop=3000", "'iop' is unknown; did you mean 'iops'?"),
            ("bandwith=125M", "did you mean 'bandwidth'?"),
            ("latency=1ms", "the known keys are iops, bandwidth, burst"),
            ("bandwidth=125", "from 4K to 1T, as 125M"),
            ("bandwidth=0", "omit it for no limit"),
            ("bandwidth=2T", "from 4K to 1T"),
            ("bandwidth=9999999999T", "from 4K to 1T"),
            ("bandwidth=NaN", "from 4K to 1T"),
            ("iops=1,burst=30", "'burst=30': write burst=TIME, from 0 to 604800s"),
            ("iops=1,burst=604801s", "from 0 to 604800s"),
            ("iops=1,burst=18446744073709551615s", "from 0 to 604800s"),
            ("burst=1s", "'burst=1s' limits nothing; add iops=N or bandwidth=SIZE"),
            ("iops=1,iops=2", "'iops' is given twice"),
            ("iops=1,", "'' is unknown"),
        ] {
            let text = format!("limit:{list}:disk.img");
            let message = split_limits(&text).expect_err(list);
            assert!(message.starts_with(&text) && message.contains(words), "{message}");
        }
        for text in ["limit:", "limit:disk.img", "limit:iops=1", "limit:iops=1:limit:disk.img"] {
            let message = split_limits(text).expect_err(text);
            assert!(message.contains("write limit:iops=N,bandwidth=SIZE,burst=TIME:BACKING"));
        }
    }
}
