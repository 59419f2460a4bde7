//! What `cargo xtask test` does, as data.

/// One thing that must pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// What is checked, in a few words.
    pub(crate) what: &'static str,
    /// The arguments of cargo that check it.
    pub(crate) arguments: &'static str,
}

/// The steps in their order: what is quickest to fail comes first.
pub(crate) const STEPS: [Step; 7] = [
    Step { what: "the format of the source", arguments: "fmt --all --check" },
    Step { what: "the lints", arguments: "clippy --workspace --all-targets -- -D warnings" },
    Step { what: "the house rules", arguments: "test --package xtask --no-fail-fast" },
    Step {
        what: "the tests of every crate",
        arguments: "test --workspace --exclude xtask --no-fail-fast",
    },
    Step { what: "the crash laboratory, 20 seconds", arguments: "xtask crash --seconds 20" },
    Step { what: "every planted bug is found", arguments: "xtask crash --bugs" },
    Step {
        what: "the daemon killed and cut off its power, 40 seconds",
        arguments: "xtask kills --seconds 40 --dirty-bytes default,1M,128K --if-possible",
    },
];
