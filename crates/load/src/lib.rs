//! The load engine: requests for any block stack, on any lane, and what became of them.
//!
//! ```text
//!   Load (plain data) --start--> Running --> workers: tasks on the stack's lane
//!                                   |           due -> request -> try_now / run -> answer
//!                                   v                    |
//!                                 Record <---------------+   latencies, counts by interval, marks
//! ```
//!
//! A *closed* load keeps so many requests under way. An *open* load starts requests at the times of an
//! absolute clock, whatever became of the earlier ones, and counts latency from when a request was due:
//! a device that stands still is charged for every request that it kept from starting. The engine has
//! no clock but the lane's and no randomness but its seed's, so that in virtual time the same load over
//! the same stack gives the same record. What drives the lane (a world, a ring) drives the load.
#![forbid(unsafe_code)]

mod latency;
mod order;
mod plan;
mod record;
mod running;
mod zipf;

pub use latency::Latency;
pub use plan::{Arrival, Limit, Load, LoadError, Order};
pub use record::{End, Record};
pub use running::Running;
pub use zipf::{Scramble, Zipf};
