//! Users' names and paths in messages and tables: escapes letters that would move a terminal's
//! cursor or split a line.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether the letter stays as it is. The others are control characters, line ends, and letters
/// that change the direction of their neighbours, so that the displayed line differs from its
/// contents.
fn is_plain(letter: char) -> bool {
    !letter.is_control()
        && !matches!(
            letter,
            '\u{061c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Returns the text with JSON escapes (`\n`, `\u001b`) instead of letters that control a terminal.
/// The result is always one line. A JSON object stays the same object.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            letter if is_plain(letter) => escaped.push(letter),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            // All of these letters are in the first plane.
            letter => _ = write!(escaped, "\\u{:04x}", u32::from(letter)),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert!(matches!(printable("db \u{e4}\\'\"|"), Cow::Borrowed(_)));
        assert_eq!(printable("a\nb\r\tc"), "a\\nb\\r\\tc");
        assert_eq!(printable("\u{1b}[2J\u{7f}\u{9b}1m\0"), "\\u001b[2J\\u007f\\u009b1m\\u0000");
        assert_eq!(printable("gnp\u{202e}exe"), "gnp\\u202eexe");
        let every: String = (0..=0x2100).filter_map(char::from_u32).collect();
        let escaped = printable(&every);
        assert!(!escaped.contains(char::is_control) && escaped.lines().count() == 1);
        assert_eq!(printable(&escaped), escaped, "once is enough");
    }
}
