//! Parses the output of cargo's test harness: passed, failed and skipped tests.

/// Results of the harnesses of the steps.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Lines that name a failed test, or the place and the message of a panic.
    pub(crate) failures: Vec<String>,
    /// Tests that were not run, or that stopped early, with the reason.
    pub(crate) skipped: Vec<String>,
    /// Name of the test whose output is being read, within the output of passed tests.
    test: String,
    /// Whether the current line is within the output of passed tests.
    hides: bool,
    /// Whether the current line is the message of a panic.
    panicked: bool,
}

/// Maximum number of lines that are kept of failures.
const FAILURE_LINES_MAX: usize = 40;

impl Tally {
    /// Adds a line. Returns whether to show it to the user. The output of passed tests is not
    /// shown; it is requested (`--show-output`) because it contains the reasons of skipped tests.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        if line == "successes:" {
            self.hides = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.hides = false;
            self.test.clear();
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.count(counts);
        } else if self.hides
            && let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.split(' ').next())
        {
            self.test = format!("{test}: ");
        } else if let Some(why) = line.strip_prefix("skipped: ") {
            self.skipped.push(format!("{}{why}", self.test));
        } else if let Some((test, how)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
            && let Some(why) = how.strip_prefix("ignored")
        {
            self.skipped.push(format!("{test}{}", why.replacen(", ", ": ", 1)));
        }
        self.note_failure(line);
        !self.hides
    }

    fn note_failure(&mut self, line: &str) {
        let panics = line.starts_with("thread '") && line.contains(" panicked at ");
        let fails = line.starts_with("test ") && line.ends_with(" ... FAILED");
        let is_shown = (panics || fails || self.panicked) && !self.hides;
        if is_shown && self.failures.len() < FAILURE_LINES_MAX {
            self.failures.push(line.to_owned());
        }
        self.panicked = panics;
    }

    /// Adds the counts of a harness's last line: `ok. 12 passed; 0 failed; 0 ignored; ...`.
    fn count(&mut self, counts: &str) {
        let Some((_, counts)) = counts.split_once(". ") else { return };
        let count = |kind: &str| {
            let parts = counts.split("; ").filter_map(|part| part.split_once(' '));
            let mut found = parts.filter(|(_, name)| *name == kind);
            found.next().and_then(|(number, _)| number.parse().ok())
        };
        self.passed += count("passed").unwrap_or(0);
        self.failed += count("failed").unwrap_or(0);
    }

    /// Adds one result of a step that is not a test harness.
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
            assert!(tally.read(line), "{line}");
        }
        assert_eq!((tally.passed, tally.failed), (15, 2));
        tally.add(true);
        tally.add(false);
        assert_eq!((tally.passed, tally.failed), (16, 3));
    }

    #[test]
    fn what_is_skipped_is_reported_with_its_reason_and_what_passed_is_not_shown() {
        let mut tally = Tally::default();
        let shown = [
            ("test one::works ... ok", true),
            ("test one::fails ... FAILED", true),
            ("test trim ... ignored, a minute", true),
            ("test src/lib.rs - later (line 3) ... ignored", true),
            ("successes:", false),
            ("---- one::works stdout ----", false),
            ("it prints much", false),
            ("thread 'x' panicked at one.rs:1:1:", false),
            ("as expected", false),
            ("skipped: no mounts here", false),
            ("successes:", false),
            ("    one::works", false),
            ("failures:", true),
            ("---- one::fails stdout ----", true),
            ("thread 'x' panicked at one.rs:7:1:", true),
            ("not 1", true),
            ("stack backtrace:", true),
            ("test result: FAILED. 1 passed; 1 failed; 2 ignored", true),
            ("skipped: no /dev/fuse", true),
        ];
        for (line, expected) in shown {
            assert_eq!(tally.read(line), expected, "{line}");
        }
        let expected = [
            "trim: a minute",
            "src/lib.rs - later (line 3)",
            "one::works: no mounts here",
            "no /dev/fuse",
        ];
        assert_eq!(tally.skipped, expected);
        let expected =
            ["test one::fails ... FAILED", "thread 'x' panicked at one.rs:7:1:", "not 1"];
        assert_eq!(tally.failures, expected);
        assert_eq!((tally.passed, tally.failed), (1, 1));
    }
}
