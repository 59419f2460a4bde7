//! The concurrency explorer: what lanes on several threads share, under every order that a scheduler thinks of.
//!
//! The laboratory (crate `crash`) lets whole lock sections follow one another in any order. Between two sections
//! threads also read and change atomics: mailboxes, events, gauges. Here shuttle runs the threads, and chooses at each
//! use of an atomic or a lock which of them goes on (`lane::atomic`). A run that ends with every thread waiting is a
//! wake-up that was lost.
//!
//! Shuttle knows only the strongest order of memory: what a weaker one lets a processor do besides is not tried here.
//!
//! Run it by `cargo xtask explore`; without the feature `explore` the crate is empty.
#![cfg(feature = "explore")]

mod disk;
mod ledger;
mod search;
mod thread;
mod volume;

pub use disk::Disk;
pub use ledger::Ledger;
pub use search::{explore, explore_all, is_found};
pub use thread::{Clock, drive};
pub use volume::{Plan, run};
