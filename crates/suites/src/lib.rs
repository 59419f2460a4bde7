//! The test suites of the lab: what is done to a drive, bare or with the cache in front, and what came
//! of it.
//!
//! ```text
//!   Plan (plain data) --run--> suite/: one file a suite: loads, waits, states
//!                                |         over a Bed: a world, a modelled drive, the cache that ships
//!                                v
//!                             Outcome: rows, series --> report/: text, JSON, one HTML page
//! ```
//!
//! A suite runs in virtual time: the cache is charged a measured price for each piece of its work
//! ([`prices`]), and the same plan with the same prices gives the same bytes of output. There is no clock
//! here: a program that measures prices brings one.
#![forbid(unsafe_code)]

mod bed;
mod knee;
mod outcome;
mod plan;
pub mod prices;
pub mod report;
mod suite;
mod target;

pub use bed::{Bed, Halt, Watch};
pub use knee::{Knee, knee};
pub use outcome::{Outcome, Row, Series};
pub use plan::{AGE_OFF_MS, Plan, Suite};
pub use suite::{QD1_READ, QD1_SATURATING, QD1_WRITE, run};
pub use target::{Target, TargetError};
