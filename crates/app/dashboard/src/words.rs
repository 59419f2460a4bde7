//! Figures in words, as the pages show them.

pub(crate) use block::Size;
use daemon::units::nanoseconds;
use report::words::grouped;

/// The mark of a figure that is not known.
pub(crate) const NONE: &str = "-";

/// Formats a share as percent.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or(NONE.to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Formats a share of counts as percent.
pub(crate) fn percent_of(part: u64, all: u64) -> String {
    percent((all > 0).then(|| part as f64 / all as f64))
}

/// Formats a number per second.
pub(crate) fn rate(number: f64) -> String {
    match number {
        none if none < 0.05 => "0".to_owned(),
        few if few < 10.0 => format!("{few:.1}"),
        many => grouped(many.round() as u64),
    }
}

/// Formats a number of bytes per second.
pub(crate) fn bytes_rate(bytes: f64) -> String {
    format!("{}/s", size(bytes.max(0.0) as u64))
}

/// Formats bytes.
pub(crate) fn size(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// Formats a time.
pub(crate) fn time(ns: u64) -> String {
    nanoseconds(ns)
}

/// Formats a time that may not be known.
pub(crate) fn time_or_none(ns: Option<u64>) -> String {
    ns.map_or(NONE.to_owned(), nanoseconds)
}

/// Formats a longer time with the two largest units.
pub(crate) fn span(ns: u64) -> String {
    match ns / 1_000_000_000 {
        0..60 => nanoseconds(ns),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds @ 3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        seconds => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Returns a text for a path of a URL, with all but plain letters encoded.
pub(crate) fn path_segment(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => path.push(byte.into()),
            _ => path += &format!("%{byte:02X}"),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!((percent(None), percent(Some(0.9314))), ("-".into(), "93.1 %".into()));
        assert_eq!(percent_of(1, 0), "-");
        assert_eq!([0.0, 3.21, 12345.6].map(rate), ["0", "3.2", "12,346"]);
        let spans = [5_000_000, 61_000_000_000, 7_260_000_000_000, 90_000_000_000_000].map(span);
        assert_eq!(spans, ["5.0 ms", "1 min 1 s", "2 h 1 min", "1 d 1 h"]);
        assert_eq!(path_segment("a b/..\u{e4}"), "a%20b%2F%2E%2E%C3%A4");
    }
}
