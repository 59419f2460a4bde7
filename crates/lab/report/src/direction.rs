//! The direction of a test, from its name: reads are blue, writes orange, mixes green.

/// The direction of a test's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Both.
    Mixed,
}

impl Direction {
    /// Returns its name in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "reads",
            Direction::Write => "writes",
            Direction::Mixed => "reads and writes",
        }
    }

    /// Returns the number of its colour.
    pub(crate) fn colour(self) -> usize {
        match self {
            Direction::Read => 0,
            Direction::Write => 1,
            Direction::Mixed => 2,
        }
    }
}

/// Colour of a test without a direction, such as a score or a copy.
pub(crate) const UNDIRECTED: usize = 3;

/// Returns the direction of a test. None: its name has none.
pub fn direction(test: &str) -> Option<Direction> {
    if let Some(percent) = reads_percent(test) {
        return Some(match percent {
            0 => Direction::Write,
            100 => Direction::Read,
            _ => Direction::Mixed,
        });
    }
    let has = |names: &[&str]| {
        let words = test.split(|letter: char| !letter.is_alphanumeric());
        words.into_iter().any(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name)))
    };
    match (has(&["read", "reads"]), has(&["write", "writes", "written", "filled", "fill"])) {
        (true, false) => Some(Direction::Read),
        (false, true) => Some(Direction::Write),
        (true, true) => Some(Direction::Mixed),
        (false, false) => None,
    }
}

/// Returns the share of reads of `65/35, random 4 KiB` and of `70 % reads, random 4 KiB`.
fn reads_percent(test: &str) -> Option<u32> {
    let first = test.split(", ").next()?;
    if let Some(percent) = first.strip_suffix(" % reads") {
        return percent.parse().ok();
    }
    let (reads, writes) = first.split_once('/')?;
    let (reads, writes): (u32, u32) = (reads.parse().ok()?, writes.parse().ok()?);
    (reads + writes == 100).then_some(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_direction() {
        for (test, wanted) in [
            ("RND4K Q1T1 write", Some(Direction::Write)),
            ("sequential read, 128 KiB", Some(Direction::Read)),
            ("65/35, random 4 KiB", Some(Direction::Mixed)),
            ("0/100, random 4 KiB, QD1", Some(Direction::Write)),
            ("100 % reads, random 4 KiB, QD32", Some(Direction::Read)),
            ("random writes before the used state", Some(Direction::Write)),
            ("MP3, fresh", None),
            ("ready", None),
            ("1/2, x", None),
        ] {
            assert_eq!(direction(test), wanted, "{test}");
        }
    }
}
