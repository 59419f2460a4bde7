//! Fields of a line, and numbers in them.

/// Returns the fields between blanks.
pub(crate) fn between_blanks(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// Returns the fields between commas, without the blanks around them.
pub(crate) fn between_commas(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Returns exactly this number of fields. None: there are more or fewer.
pub(crate) fn exactly<'a, const COUNT: usize>(
    mut fields: impl Iterator<Item = &'a [u8]>,
) -> Option<[&'a [u8]; COUNT]> {
    let mut found = [&b""[..]; COUNT];
    for place in &mut found {
        *place = fields.next()?;
    }
    fields.next().is_none().then_some(found)
}

/// Parses a whole number in digits.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    in_base(field, 10)
}

/// Parses a whole number in hexadecimal digits.
pub(crate) fn hexadecimal(field: &[u8]) -> Option<u64> {
    in_base(field.strip_prefix(b"0x").unwrap_or(field), 16)
}

fn in_base(field: &[u8], base: u32) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0u64, |value, byte| {
        let digit = char::from(*byte).to_digit(base)?;
        value.checked_mul(base.into())?.checked_add(digit.into())
    })
}

/// Parses a number like `12.345`, in units of 10^-`digits`; smaller digits are cut off.
pub(crate) fn decimal(field: &[u8], digits: u32) -> Option<u64> {
    let mut parts = field.splitn(2, |byte| *byte == b'.');
    let whole = number(parts.next()?)?;
    let mut value = whole.checked_mul(10u64.checked_pow(digits)?)?;
    let fraction = parts.next().unwrap_or_default();
    let mut unit = 10u64.pow(digits);
    for byte in fraction {
        unit /= 10;
        let digit = char::from(*byte).to_digit(10)?;
        value = value.checked_add(u64::from(digit) * unit)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_or_have_a_fraction() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"18446744073709551616", b"-1", b"+1", b"1.0", b"1e3", b" 1"] {
            assert_eq!(number(bad), None);
        }
        assert_eq!((hexadecimal(b"1f"), hexadecimal(b"0x10")), (Some(31), Some(16)));
        assert_eq!(decimal(b"7961.833", 6), Some(7_961_833_000));
        assert_eq!(decimal(b"5", 9), Some(5_000_000_000));
        assert_eq!(decimal(b"0.1234567899", 9), Some(123_456_789));
        assert_eq!(decimal(b"5.", 3), Some(5000));
        for bad in [&b""[..], b".5", b"1.2.3", b"1.x", b"18446744073709551615", b"-1.5"] {
            assert_eq!(decimal(bad, 9), None);
        }
    }

    #[test]
    fn fields_are_counted() {
        assert_eq!(exactly(between_blanks(b" 1  2\t3\r")), Some([&b"1"[..], b"2", b"3"]));
        assert_eq!(exactly::<2>(between_blanks(b"1 2 3")), None);
        assert_eq!(exactly(between_commas(b"1, ,3")), Some([&b"1"[..], b"", b"3"]));
        assert_eq!(exactly::<4>(between_commas(b"1,2,3")), None);
    }
}
