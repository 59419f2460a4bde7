//! Runs histories one after the other on a thread, and catches their panics.

use crate::finding::Finding;
use crate::laboratory::Laboratory;
use crate::setup::Scale;
use crate::stamp::mix;
use crate::subject::Subject;
use crate::tally::Tally;
use crate::trace;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// A broken promise, and its history.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Failure {
    /// The seed of the history.
    pub seed: u64,
    /// Whether it is a history of the exhaustive kind.
    pub exhaustive: bool,
    /// The broken promise.
    pub finding: Finding,
}

impl Failure {
    /// Returns the command that reproduces it.
    pub fn reproduction(&self, bug: Option<&str>) -> String {
        let exhaustive = if self.exhaustive { " --exhaustive" } else { "" };
        let bug = bug.map_or(String::new(), |name| format!(" --bug {name}"));
        format!("cargo xtask crash --seed {:#x}{exhaustive}{bug}", self.seed)
    }
}

/// Result of one history.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The amount of work.
    pub tally: Tally,
    /// The hash of all its events.
    pub trace: u64,
    /// The failure, if there is one.
    pub failure: Option<Failure>,
    /// Whether it ended in a panic: this thread's state is no longer reliable.
    pub panicked: bool,
}

/// Returns the seed of the `number`th history that starts from `base`.
pub fn seed_of(base: u64, number: u64) -> u64 {
    mix(base, number ^ 0x0dd5_eed5)
}

/// Runs the history of one seed with all its crashes; with `prints`, every event goes to standard
/// output. After a panic the caller must leave this thread.
pub fn history(subject: &dyn Subject, seed: u64, scale: Scale, prints: bool) -> Outcome {
    catch_panics();
    subject.prepare();
    trace::start(prints);
    let mut laboratory = Laboratory::new(subject);
    CATCHES.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| laboratory.history(seed, scale)));
    CATCHES.set(false);
    let panicked = result.is_err();
    let result = result.unwrap_or_else(|_| {
        let message = PANIC.with_borrow_mut(std::mem::take);
        Err(Finding::new("panic", message))
    });
    let outcome = Outcome {
        tally: laboratory.tally,
        trace: trace::hash(),
        failure: result.err().map(|finding| Failure {
            seed,
            exhaustive: scale == Scale::Exhaustive,
            finding,
        }),
        panicked,
    };
    if panicked {
        // Its tasks stopped in the middle of their work: dropping them could panic again.
        std::mem::forget(laboratory);
    }
    outcome
}

thread_local! {
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stores panics of a history as text; all others are reported as before.
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if CATCHES.get() {
                let text = panic.to_string().replace('\n', " ");
                PANIC.with_borrow_mut(|kept| *kept = text);
            } else {
                before(panic);
            }
        }));
    });
}
