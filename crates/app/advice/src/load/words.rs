//! Times that may be long.

use report::words::time;

/// Formats a time in the unit that fits it, up to hours. Saved times are summed over requests, and
/// may be more than a day in a day.
pub fn span(ns: f64) -> String {
    match ns / 1e9 {
        seconds if seconds >= 7200.0 => format!("{:.1} hours", seconds / 3600.0),
        seconds if seconds >= 120.0 => format!("{:.1} minutes", seconds / 60.0),
        _ => time(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn long_times_are_minutes_and_hours() {
        assert_eq!(
            [0.3e9, 60e9, 150e9, 59_050e9].map(span),
            ["300.00 ms", "60.00 s", "2.5 minutes", "16.4 hours"]
        );
    }
}
