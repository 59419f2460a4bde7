//! Times as users write them.

/// Parses a time such as `500us`, `2ms`, `5s`, `10min` or `1h`, and returns microseconds. Minutes
/// may also be `m`, as in systemd's times.
///
/// # Errors
/// A sentence with a correction.
pub fn time_us(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is not a time; write it like 500us, 2ms, 5s, 10min or 1h");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let factor = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "min" | "m" => 60_000_000,
        "h" => 3_600_000_000,
        "" if number == 0 => 1,
        _ => return Err(bad()),
    };
    number.checked_mul(factor).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_with_their_unit() {
        assert_eq!(time_us("500us"), Ok(500));
        assert_eq!(time_us("5s"), Ok(5_000_000));
        assert_eq!((time_us("10min"), time_us("10m")), (Ok(600_000_000), Ok(600_000_000)));
        assert_eq!(time_us("1h"), Ok(3_600_000_000));
        assert_eq!(time_us("0"), Ok(0));
        for bad in ["", "5", "s", "5d", "5H", "-5s", "1.5s", "1min5s", "99999999999999999999s"] {
            let message = time_us(bad).expect_err(bad);
            assert!(message.contains("500us, 2ms, 5s, 10min or 1h"), "{message}");
        }
    }
}
