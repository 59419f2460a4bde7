//! The figures that are read from the output of their commands, as data.

use anyhow::{Context, anyhow};

/// A number in the output of a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// The number after the text `after`, in the first line that begins with `line`.
    Text { line: &'static str, after: &'static str },
    /// The number at this pointer (RFC 6901) of the JSON output.
    Json(&'static str),
}

use Number::{Json, Text};

/// How to read a row's measured column from the output of its command.
#[derive(Debug)]
pub(super) struct Reading {
    /// Figure of the row.
    pub(super) figure: &'static str,
    /// The numbers, in the order of their use in `measured`.
    pub(super) numbers: &'static [Number],
    /// Number of decimals of each number.
    pub(super) decimals: usize,
    /// Text of the column, with `{}` for each number.
    pub(super) measured: &'static str,
}

/// The readings. Each command takes less than a minute when it is built.
pub(super) const READINGS: [Reading; 7] = [
    Reading {
        figure: "4 KiB hit against a bare copy, 1 GiB of huge pages",
        numbers: &[Text { line: "a hit, against a bare copy", after: "ratio" }],
        decimals: 2,
        measured: "{}",
    },
    Reading {
        figure: "4 KiB hit in batches of 16 against a bare copy, 1 GiB",
        numbers: &[Text { line: "a hit in batches of 16,", after: "ratio" }],
        decimals: 2,
        measured: "{}",
    },
    Reading {
        figure: "two threads on any blocks",
        numbers: &[
            Text { line: "two threads on any blocks", after: "blocks" },
            Text { line: "two threads on any blocks", after: "(bare copies:" },
        ],
        decimals: 2,
        measured: "{} x (bare copies {} x)",
    },
    Reading {
        figure: "a hit over a null device that answers immediately, no data, 64 MiB of cache",
        numbers: &[Text { line: "a hit ", after: "a hit" }],
        decimals: 0,
        measured: "{} ns",
    },
    Reading {
        figure: "a miss over a null device that answers immediately, no data, 64 MiB of cache",
        numbers: &[Text { line: "a miss ", after: "a miss" }],
        decimals: 0,
        measured: "{} ns",
    },
    Reading {
        figure: "metadata per slot",
        numbers: &[Text { line: "", after: "" }],
        decimals: 1,
        measured: "{} bytes",
    },
    Reading {
        figure: "crash states per second and core, swarm and exhaustive",
        numbers: &[
            Json("/states_per_second_per_core"),
            Json("/exhaustive_states_per_second_per_core"),
        ],
        decimals: 0,
        measured: "{}, {}",
    },
];

impl Number {
    fn find(self, printed: &str) -> anyhow::Result<f64> {
        match self {
            Text { line, after } => {
                let found = printed.lines().find(|printed| printed.starts_with(line));
                let found = found.with_context(|| format!("no line begins with '{line}'"))?;
                let (_, rest) = found
                    .split_once(after)
                    .with_context(|| format!("no '{after}' in the line '{found}'"))?;
                let word = rest.split_whitespace().next().unwrap_or_default();
                word.parse().map_err(|_| anyhow!("no number behind '{after}' in '{found}'"))
            }
            Json(pointer) => {
                let value: serde_json::Value =
                    serde_json::from_str(printed).context("it does not print JSON")?;
                let number = value.pointer(pointer).and_then(serde_json::Value::as_f64);
                number.with_context(|| format!("no number at {pointer} of the JSON"))
            }
        }
    }
}

/// Formats a number with these decimals; without decimals, thousands are grouped.
fn format_number(number: f64, decimals: usize) -> String {
    let digits = format!("{number:.decimals$}");
    if decimals > 0 {
        return digits;
    }
    let (sign, digits) = digits.split_at(usize::from(digits.starts_with('-')));
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(text).collect();
    format!("{sign}{}", groups.join(","))
}

fn text(digits: &[u8]) -> &str {
    std::str::from_utf8(digits).unwrap_or_default()
}

impl Reading {
    /// Returns the text of the measured column, from the output of the command.
    ///
    /// # Errors
    /// A number is missing.
    pub(super) fn measured(&self, printed: &str) -> anyhow::Result<String> {
        let mut measured = self.measured.to_owned();
        for number in self.numbers {
            let number = format_number(number.find(printed)?, self.decimals);
            measured = measured.replacen("{}", &number, 1);
        }
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::{READINGS, format_number};

    /// An output of `bench engine --gib 1`.
    const ENGINE: &str = "\
1 GiB, 261954 slots, huge pages
a hit, against a bare copy                      512.1 ns  against    371.9 ns  ratio 0.726 (0.700 to 0.750)  target 0.70: reached
a hit in batches of 16, against a bare copy     400.0 ns  against    362.0 ns  ratio 0.905 (0.890 to 0.920)  target 0.95: MISSED
two threads on any blocks                     1.82 x one (bare copies: 1.90 x) target 1.70: reached
";
    const VIRTUAL: &str = "\
64 MiB of cache in front of a null device of 256 MiB that answers at once
a miss   292.4 ns of processor time (280.0 to 310.0)  target 300: reached
a hit     45.1 ns of processor time (44.0 to 46.0)  target 50: reached
64 MiB of cache in front of a null device of 256 MiB that makes each miss wait
a miss   492.4 ns of processor time (480.0 to 510.0)  target 300: MISSED
";
    const CRASH: &str = r#"{"states_per_second_per_core": 248000.4,
        "exhaustive_states_per_second_per_core": 1327000.0}"#;

    #[test]
    fn each_figure_is_read_from_what_its_command_prints() {
        let printed = [ENGINE, ENGINE, ENGINE, VIRTUAL, VIRTUAL, "29.33 bytes a slot (...)", CRASH];
        let expected = [
            "0.73",
            "0.91",
            "1.82 x (bare copies 1.90 x)",
            "45 ns",
            "292 ns",
            "29.3 bytes",
            "248,000, 1,327,000",
        ];
        for ((reading, printed), expected) in READINGS.iter().zip(printed).zip(expected) {
            let measured = reading.measured(printed).expect("it is there");
            assert_eq!(measured, expected, "{}", reading.figure);
        }
    }

    #[test]
    fn output_without_the_figure_is_an_error_that_says_what_is_missing() {
        for reading in &READINGS {
            for printed in ["", "nothing of it", "{}", "a hit, against nothing", "a miss ?"] {
                assert!(reading.measured(printed).is_err(), "{}: {printed}", reading.figure);
            }
        }
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(format_number(7.4, 0), "7");
        assert_eq!(format_number(248_000.0, 0), "248,000");
        assert_eq!(format_number(-248_000.0, 0), "-248,000");
        assert_eq!(format_number(1_327_000.0, 0), "1,327,000");
        assert_eq!(format_number(1_327.25, 1), "1327.2");
    }
}
