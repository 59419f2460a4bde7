//! The crash laboratory's second level: the real daemon, over NBD, under kills and power cuts.
//!
//! ```text
//!   clients (threads, stamped writes) --NBD--> overdrive serve --> file of nbdfuse
//!      |                                          |      \              |
//!   Ledger: what each sector may hold             |    od-holder       NBD
//!                                            SIGKILL here               |
//!                                                       \---- backing process: Lossy, which
//!                                                             forgets unflushed data
//! ```
//!
//! One volume lives through a whole run; the daemon is killed and restarted many times, and the
//! clients continue the same histories. [`run`] is the whole run; `main.rs` the command. The
//! backing also serves the tests of the command itself, with file systems and databases above it.
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
pub use plan::RunOptions;
pub use tally::Tally;
