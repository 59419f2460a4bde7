//! The trace of a run: every event folded into a hash, and printed on request.
//!
//! The same seed must give the same events, so that a printed seed reproduces its failure. There is
//! one state per thread, because a history runs on one thread.

use crate::stamp;
use std::cell::Cell;
use std::fmt::Arguments;

thread_local! {
    static HASH: Cell<u64> = const { Cell::new(0) };
    static PRINTS: Cell<bool> = const { Cell::new(false) };
}

/// Starts a trace; with `prints` every event goes to standard output.
pub(crate) fn start(prints: bool) {
    HASH.set(0);
    PRINTS.set(prints);
}

/// Returns the hash of all events until now.
pub(crate) fn hash() -> u64 {
    HASH.get()
}

/// Adds one event: its numbers for the hash, its text for the reader.
#[inline]
pub(crate) fn event(numbers: [u64; 3], text: Arguments<'_>) {
    let folded = stamp::mix(HASH.get() ^ numbers[0], numbers[1]);
    HASH.set(stamp::mix(folded, numbers[2]));
    if PRINTS.get() {
        println!("{text}");
    }
}
