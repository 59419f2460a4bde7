//! The crash laboratory's second level: the real daemon, over NBD, killed and cut off its power.
//!
//! ```text
//!   clients (threads, stamped writes) --NBD--> overdrive serve --> file of nbdfuse
//!      |                                          |      \              |
//!   Ledger: what each sector may hold             |    od-holder       NBD
//!                                            SIGKILL here               |
//!                                                       \---- backing process: Lossy, which
//!                                                             forgets what was not flushed
//! ```
//!
//! One volume lives through a whole run; the daemon dies and is started again and again, and the
//! clients go on with the same histories. [`run`] is all of it; `main.rs` the command. The backing
//! also serves the tests of the command itself, with file systems and databases above it.
#![forbid(unsafe_code)]

pub mod backing;
mod change;
mod cut;
mod happen;
mod journal;
pub mod ledger;
mod lives;
pub mod lossy;
pub mod plan;
mod run;
mod sector;
pub mod stage;
pub mod stamp;
mod tally;
mod time;
pub mod worker;

pub use lives::{Outcome, run};
pub use plan::Terms;
pub use tally::Tally;
