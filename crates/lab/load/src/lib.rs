//! The load engine: requests for any block stack, on any lane, and what became of them.
//!
//! ```text
//!   Load (plain data) --start--+
//!   trace --> Replay --of------+--> Running --> workers: tasks on the stack's lane
//!   any other Source --of------+       |           step -> due -> request -> try_now / run -> answer
//!                                      v                    |
//!                                    Record <---------------+   latencies, counts by interval, marks
//! ```
//!
//! A [`Source`] says what is asked for, step by step; a [`Load`] is one that follows from a seed, a [`Replay`] one
//! that was recorded, with its times, a [`Dependent`] one that was recorded, in its order.
//! A *closed* load keeps so many requests under way. An *open* load starts requests at the times of an
//! absolute clock, whatever became of the earlier ones, and counts latency from when a request was due:
//! a device that stands still is charged for every request that it kept from starting. The engine has
//! no clock but the lane's and no randomness but its seed's, so that in virtual time the same load over
//! the same stack gives the same record. What drives the lane (a world, a ring) drives the load.
//!
//! A device that says at once when a request will be answered needs no lane: [`Alone`] is the same load there.
#![forbid(unsafe_code)]

mod alone;
mod data;
mod dependent;
mod generator;
mod intervals;
mod latency;
mod next;
mod plan;
mod record;
mod replay;
mod running;
mod source;
mod staging;
mod zipf;

pub use alone::{Alone, Foresees};
pub use data::{Content, Data, Found, Mismatch, content_seed};
pub use dependent::Dependent;
pub use latency::Latency;
pub use plan::{Arrival, Limit, Load, LoadError, Mix, Order, Terms};
pub use record::{End, Interval, Record};
pub use replay::Replay;
pub use running::Running;
pub use source::{Source, Step};
pub use zipf::{Scramble, Zipf};
