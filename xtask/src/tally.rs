//! Counting what cargo's test harness reports.

/// Tests that passed and failed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// Adds what a line says, if it is a harness's last one:
    /// `test result: ok. 12 passed; 0 failed; 0 ignored; ...`.
    pub(crate) fn read(&mut self, line: &str) {
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        let count = |kind: &str| {
            let parts = counts.split("; ").filter_map(|part| part.split_once(' '));
            let mut found = parts.filter(|(_, name)| *name == kind);
            found.next().and_then(|(number, _)| number.parse().ok())
        };
        self.passed += count("passed").unwrap_or(0);
        self.failed += count("failed").unwrap_or(0);
    }

    /// Adds one that is no test of a harness.
    pub(crate) fn add(&mut self, passed: bool) {
        *if passed { &mut self.passed } else { &mut self.failed } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_last_lines_of_harnesses_only() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            "test result: nonsense",
        ] {
            tally.read(line);
        }
        let (passed, failed) = (15, 2);
        assert_eq!(tally, Tally { passed, failed });
        tally.add(true);
        tally.add(false);
        assert_eq!((tally.passed, tally.failed), (16, 3));
    }
}
