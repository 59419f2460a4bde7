//! Raw values of ATA attributes.

use serde_json::Value;

/// Returns the number that an attribute counts.
///
/// A raw value may be packed from several words; smartctl then prints its count first in
/// `raw.string` ("0 (2000 0)", "31 (Min/Max 23/44)"). Hexadecimal words ("0x0026_0014_0026") are
/// not a count, and neither is a value of all ones, which drives report for values that they do not
/// count.
pub(super) fn count(attribute: &Value) -> Option<u64> {
    let raw = &attribute["raw"];
    let counted = match raw["string"].as_str() {
        Some(string) => leading(string),
        None => raw["value"].as_u64(),
    };
    let all_ones = [u64::from(u32::MAX), (1 << 48) - 1, (1 << 56) - 1, u64::MAX];
    counted.filter(|count| !all_ones.contains(count))
}

/// Parses the decimal number at the beginning, if a space or the end follows.
fn leading(string: &str) -> Option<u64> {
    let word = string.split_whitespace().next()?;
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_count_of_a_packed_value_is_first_in_its_string() {
        for (value, string, expected) in [
            (8_589_934_592_000, json!("0 (2000 0)"), Some(0)),
            (188_980_068_383, json!("31 (Min/Max 23/44)"), Some(31)),
            (163_210_068_006, json!("0x0026_0014_0026"), None),
            (16_778_378, json!("1/1162"), None),
            (5, json!("12h+34m"), None),
            (5, json!(""), None),
            (7, json!(null), Some(7)),
            (u64::from(u32::MAX), json!("4294967295"), None),
            (u64::MAX, json!(null), None),
            (1, json!("99999999999999999999999999"), None),
        ] {
            let attribute = json!({ "raw": { "value": value, "string": string } });
            assert_eq!(count(&attribute), expected, "{attribute}");
        }
        assert_eq!(count(&json!({})), None);
    }
}
