//! The load engine: sends requests to any block stack, on any lane, and records the results.
//!
//! ```text
//!   Load (plain data) --start--+
//!   trace --> Replay --of------+--> Running --> workers: tasks on the stack's lane
//!   any other Source --of------+       |         step -> due -> request -> try_now / run -> answer
//!                                      v                  |
//!                                    Record <-------------+   latencies, counts by interval, marks
//! ```
//!
//! A [`Source`] gives the requests, step by step: a [`Load`] follows from a seed, a [`Replay`] is a
//! recording with its times, a [`Dependent`] a recording with its order. [`Ordered`] lets requests
//! that conflict wait for one another. A *closed* load keeps a
//! fixed number of requests under way. An *open* load starts requests at the times of an absolute
//! clock, independent of earlier answers, and measures latency from the time when a request was
//! due: a device that stalls is charged for every request that it delayed. The engine has no clock
//! but the lane's and no randomness but its seed's, so that in virtual time the same load over the
//! same stack gives the same record. The driver of the lane (a world, a ring) also drives the
//! load.
//!
//! A device that returns the completion time of a request when it is submitted needs no lane:
//! [`Alone`] runs the same load there.
#![forbid(unsafe_code)]

mod alone;
mod busy;
mod data;
mod dependent;
mod generator;
mod intervals;
mod latency;
mod next;
mod ordered;
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
pub use ordered::Ordered;
pub use plan::{Arrival, Limit, Load, LoadError, Mix, Order, RunOptions};
pub use record::{End, Interval, Record};
pub use replay::Replay;
pub use running::Running;
pub use source::{Source, Step};
pub use zipf::{Scramble, Zipf};
