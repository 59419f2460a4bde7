//! The concurrency explorer: runs lanes on several threads in the orders that a scheduler chooses.
//!
//! The laboratory (crate `crash`) runs whole lock sections in any order. Between two sections,
//! threads also read and change atomics: mailboxes, events, gauges. Here shuttle runs the threads
//! and chooses, at each use of an atomic or a lock, the thread that continues (`lane::atomic`). A
//! run that ends with all threads waiting shows a lost wake-up.
//!
//! Shuttle models sequentially consistent memory only: reorderings that weaker memory orders permit
//! are not explored.
//!
//! Run it with `cargo xtask explore`; without the feature `explore` the crate is empty.
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
