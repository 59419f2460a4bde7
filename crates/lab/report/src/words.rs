//! Numbers in readable form.

/// Formats a value with its significant digits.
pub fn figure(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => signed(value.round() as i64),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(value.unsigned_abs()))
}

/// Formats a number in groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time in nanoseconds, in a suitable unit.
pub fn time(ns: f64) -> String {
    match ns {
        long if long >= 1e9 => format!("{:.2} s", long / 1e9),
        middle if middle >= 1e6 => format!("{:.2} ms", middle / 1e6),
        short => format!("{:.1} us", short / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_times_read_well() {
        assert_eq!(figure(1_234_567.4), "1,234,567");
        assert_eq!(
            (figure(-1234.0), figure(12.34), figure(3.0)),
            ("-1,234".into(), "12.3".into(), "3.00".into())
        );
        assert_eq!(
            (time(43_500.0), time(2.5e6), time(3e9)),
            ("43.5 us".into(), "2.50 ms".into(), "3.00 s".into())
        );
    }

    #[test]
    fn numbers_are_in_groups() {
        let text = [0, 12, 999, 1000, 123_456, 1_141_869].map(grouped);
        assert_eq!(text, ["0", "12", "999", "1,000", "123,456", "1,141,869"]);
    }
}
