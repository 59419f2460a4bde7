//! Facts about a machine and a device in words, from the names and values that programs read.

use crate::words::grouped;

/// Names of facts, and their names in words.
const NAMES: [(&str, &str); 17] = [
    ("kernel", "kernel"),
    ("processor", "processor"),
    ("processors", "usable processors"),
    ("memory_bytes", "memory"),
    ("direct_io", "direct I/O"),
    ("kind", "kind"),
    ("device_model", "model"),
    ("device_firmware", "firmware"),
    ("scheduler", "I/O scheduler"),
    ("write_cache", "write cache of the device"),
    ("rotational", "rotating"),
    ("in_use", "in use"),
    ("controller", "controller"),
    ("interface", "interface"),
    ("nand", "flash"),
    ("filesystem", "file system"),
    ("year", "year"),
];

/// Returns a fact in words: its name, and its value with a unit.
pub fn in_words(name: &str, value: &str) -> (String, String) {
    let known =
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, words)| (*words).to_owned());
    let bytes = name.strip_suffix("_bytes");
    let words = known.unwrap_or_else(|| bytes.unwrap_or(name).replace('_', " "));
    let value = match (bytes, value.parse::<u64>()) {
        (Some(_), Ok(bytes)) => size(bytes),
        (None, Ok(flag)) if name == "rotational" => if flag == 0 { "no" } else { "yes" }.to_owned(),
        (None, Ok(number)) if number >= 10_000 => grouped(number),
        _ => value.to_owned(),
    };
    (words, value)
}

/// Returns facts in words, in one line: `memory 23.5 GiB; kernel Linux 6.12`.
pub fn sentence<'a>(facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let fact = |(name, value)| {
        let (name, value) = in_words(name, value);
        format!("{name} {value}")
    };
    facts.into_iter().map(fact).collect::<Vec<_>>().join("; ")
}

/// Formats bytes with at most one decimal: `23.5 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (bytes.max(1).ilog2() / 10) as usize;
    let value = bytes as f64 / 1024f64.powi(power as i32);
    let text = format!("{value:.1}");
    format!("{} {}", text.trim_end_matches(".0"), UNITS[power])
}

/// Returns the time that is this number of seconds after 1970, in UTC: `2026-11-25T10:00:00Z`.
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from 1 March of the year 0: then leap days end years, and every 400 years
    // have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        spring if spring < 10 => (era * 400 + year, spring + 3),
        winter => (era * 400 + year + 1, winter - 9),
    };
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns a date of the form `2026-11-25T10:00:00Z` in words: `25 November 2026, 10:00 UTC`. A
/// text of another form is returned unchanged.
pub fn date(at: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let words = || {
        let (day, time) = at.strip_suffix('Z')?.split_once('T')?;
        let mut parts = day.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        let day: u32 = day.parse().ok()?;
        Some(format!("{day} {month} {year}, {} UTC", time.get(..5)?))
    };
    words().unwrap_or_else(|| at.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_read_as_words() {
        let facts = [
            ("memory_bytes", "25276514304"),
            ("device_firmware", "EXT0BB6Q"),
            ("rotational", "0"),
            ("some_thing", "12345"),
        ];
        assert_eq!(
            sentence(facts),
            "memory 23.5 GiB; firmware EXT0BB6Q; rotating no; some thing 12,345"
        );
        assert_eq!([size(0), size(512), size(1 << 30)], ["0 B", "512 B", "1 GiB"]);
    }

    #[test]
    fn seconds_are_dates() {
        let dates = [0, 951_782_400, 951_868_800, 1_795_601_471, 4_107_542_399].map(utc);
        assert_eq!(
            dates,
            [
                "1970-01-01T00:00:00Z",
                "2000-02-29T00:00:00Z",
                "2000-03-01T00:00:00Z",
                "2026-11-25T10:11:11Z",
                "2100-02-28T23:59:59Z"
            ]
        );
    }

    #[test]
    fn dates_read_as_words() {
        assert_eq!(date("2026-11-05T10:07:59Z"), "5 November 2026, 10:07 UTC");
        for other in
            ["", "yesterday", "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "T Z", "2026-11-05TZ"]
        {
            assert_eq!(date(other), other);
        }
    }
}
