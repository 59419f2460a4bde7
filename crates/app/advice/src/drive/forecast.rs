//! A forecast of wear: a line through the samples, with the uncertainty of its slope.
//!
//! Drives report wear in whole percent, so that a short history shows steps and no slope. The bytes
//! that the host has written grow smoothly: if they are known, the line is fitted through them, and
//! the wear of a byte is the ratio of the two at the last sample.

const DAY_S: f64 = 86_400.0;
/// Shortest history for a forecast, in days.
const DAYS_MIN: f64 = 7.0;
/// Minimum number of samples.
const SAMPLES_MIN: usize = 5;
/// Longest history that is used, in days: loads change.
const DAYS_USED: f64 = 180.0;
/// Lives beyond this are not distinguished, in days: 50 years.
const DAYS_MAX: f64 = 50.0 * 365.25;

/// A drive's health at an earlier time. None: not reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Past {
    /// The time, in seconds since 1970.
    pub at_s: i64,
    /// Used share of the flash's rated life, in percent.
    pub worn_percent: Option<i64>,
    /// Bytes that the host wrote.
    pub host_written_bytes: Option<i64>,
    /// Reads or writes whose errors could not be corrected.
    pub media_errors: Option<i64>,
    /// Replaced sectors or blocks.
    pub reallocated: Option<i64>,
}

/// When a drive's rated life ends if it is used as until now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Forecast {
    /// Wear for each day, in percent of the rated life.
    pub percent_per_day: f64,
    /// Days until the wear is 100 %; 50 years at most.
    pub days_left: f64,
    /// The same with the steepest and the flattest line of the 95 % interval.
    pub days_left_interval: (f64, f64),
    /// Days of history that were used.
    pub history_days: f64,
    /// Number of samples that were used.
    pub samples: usize,
}

/// Reasons why there is no forecast.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Unknown {
    /// There is no sample: the drive has no history, as a modelled one.
    NoHistory,
    /// The drive does not report its wear.
    NoWear,
    /// There are this number of samples, over this number of days.
    TooShort {
        /// Number of samples.
        samples: usize,
        /// Days between the first and the last.
        days: f64,
    },
    /// Nothing was written and the wear has not changed in the days of the history.
    Unused {
        /// Days of history.
        days: f64,
    },
    /// The values go back: the counters were reset, or belong to several drives.
    GoesBack,
}

/// Returns the forecast that these samples give, oldest first.
///
/// # Errors
/// The reason why there is none.
pub fn forecast(samples: &[Past]) -> Result<Forecast, Unknown> {
    let last = samples.last().ok_or(Unknown::NoHistory)?;
    let Some(worn) = last.worn_percent else { return Err(Unknown::NoWear) };
    let last_s = samples.last().map_or(0, |last| last.at_s);
    let day = |sample: &Past| sample.at_s.saturating_sub(last_s) as f64 / DAY_S;
    let used: Vec<&Past> = samples.iter().filter(|it| day(it) >= -DAYS_USED).collect();
    let by = |value: fn(&Past) -> Option<i64>| -> Vec<(f64, f64)> {
        used.iter().filter_map(|it| Some((day(it), value(it)? as f64))).collect()
    };
    let wear = by(|sample| sample.worn_percent);
    let bytes = by(|sample| sample.host_written_bytes);
    let total = samples.last().and_then(|last| last.host_written_bytes);
    // At low wear its rounding dominates the wear of a byte.
    let points = match total {
        Some(total) if total > 0 && worn >= 2 && is_long(&bytes) => {
            let scale = worn as f64 / total as f64;
            bytes.into_iter().map(|(day, bytes)| (day, bytes * scale)).collect()
        }
        _ => wear,
    };
    let days = points.first().map_or(0.0, |(day, _)| day.abs());
    if !is_long(&points) {
        return Err(Unknown::TooShort { samples: points.len(), days });
    }
    if points.windows(2).any(|pair| pair[1].1 < pair[0].1) {
        return Err(Unknown::GoesBack);
    }
    let (slope, error) = line(&points);
    if slope <= 0.0 || points.first().map(|it| it.1) == points.last().map(|it| it.1) {
        return Err(Unknown::Unused { days });
    }
    let left = (100 - worn.min(100)) as f64;
    let at = |slope: f64| if slope > 0.0 { (left / slope).min(DAYS_MAX) } else { DAYS_MAX };
    let spread = student(points.len() - 2) * error;
    Ok(Forecast {
        percent_per_day: slope,
        days_left: at(slope),
        days_left_interval: (at(slope + spread), at(slope - spread)),
        history_days: days,
        samples: points.len(),
    })
}

fn is_long(points: &[(f64, f64)]) -> bool {
    points.len() >= SAMPLES_MIN && points.first().is_some_and(|(day, _)| -day >= DAYS_MIN)
}

/// Returns the slope of the line with the least squares, and its standard error.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|it| it.0), mean(|it| it.1));
    let xx: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let xy: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    if xx <= 0.0 {
        return (0.0, 0.0);
    }
    let slope = xy / xx;
    let rest = |(x, y): &(f64, f64)| (y - y_mean - slope * (x - x_mean)).powi(2);
    let residual: f64 = points.iter().map(rest).sum();
    (slope, (residual / (count - 2.0) / xx).sqrt())
}

/// Returns the factor of a 95 % interval for these degrees of freedom (Student's t, rounded up).
fn student(freedom: usize) -> f64 {
    match freedom {
        0..=3 => 3.19,
        4..=5 => 2.78,
        6..=9 => 2.45,
        10..=19 => 2.23,
        20..=39 => 2.09,
        _ => 2.03,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(day: i64, worn: i64, written: Option<i64>) -> Past {
        let (at_s, worn_percent) = (day * 86_400, Some(worn));
        Past { at_s, worn_percent, host_written_bytes: written, ..Past::default() }
    }

    #[test]
    fn wear_that_grows_evenly_ends_on_the_day_of_the_line() {
        let samples: Vec<_> = (0..100).map(|day| sample(day, day / 2, None)).collect();
        let found = forecast(&samples).expect("a long history");
        assert!((found.percent_per_day - 0.5).abs() < 0.01, "{found:?}");
        assert!((found.days_left - 102.0).abs() < 3.0, "{found:?}");
        let (low, high) = found.days_left_interval;
        assert!(low < found.days_left && found.days_left < high && high - low < 10.0, "{found:?}");
    }

    #[test]
    fn written_bytes_show_a_slope_where_whole_percents_do_not() {
        let written = |day: i64| Some((1000 + day) * 1_000_000_000);
        let samples: Vec<_> = (0..20).map(|day| sample(day, 10, written(day))).collect();
        let found = forecast(&samples).expect("bytes grow");
        let expected = 10.0 / 1019.0;
        assert!((found.percent_per_day - expected).abs() < expected * 0.01, "{found:?}");
        let without: Vec<_> = (0..20).map(|day| sample(day, 10, None)).collect();
        assert_eq!(forecast(&without), Err(Unknown::Unused { days: 19.0 }));
    }

    #[test]
    fn a_load_that_varies_has_a_wide_interval() {
        let mut total = 100_000_000_000_000;
        let samples: Vec<_> = (0..14)
            .map(|day| {
                total += if day % 5 == 0 { 3_000_000_000_000 } else { 1_000_000 };
                sample(day, 50, Some(total))
            })
            .collect();
        let (low, high) = forecast(&samples).expect("grows").days_left_interval;
        assert!(high > low * 1.3, "{low} {high}");
    }

    #[test]
    fn a_short_or_senseless_history_gives_none() {
        assert_eq!(forecast(&[]), Err(Unknown::NoHistory));
        let short: Vec<_> = (0..4).map(|day| sample(day, 3, None)).collect();
        assert_eq!(forecast(&short), Err(Unknown::TooShort { samples: 4, days: 3.0 }));
        let back: Vec<_> = (0..20).map(|day| sample(day, 20 - day, None)).collect();
        assert_eq!(forecast(&back), Err(Unknown::GoesBack));
        let same = vec![sample(5, 3, Some(i64::MAX)); 9];
        assert_eq!(forecast(&same), Err(Unknown::TooShort { samples: 9, days: 0.0 }));
    }
}
