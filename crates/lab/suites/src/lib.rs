//! The test suites of the lab: run tests on a drive, bare or with the cache in front, and return
//! the results.
//!
//! ```text
//!   Plan (plain data) --run--> suite/: one file a suite: loads, waits, states
//!                                |         a TestRig: our cache, on a Rig: device and loop
//!                                v
//!                             Outcome: rows, series --> report/: text, JSON, one HTML page
//! ```
//!
//! On a modelled drive a suite runs in virtual time: the cache is charged a measured price for each
//! piece of its work ([`prices`]), and the same plan with the same prices gives the same bytes of
//! output. The crate has no clock: a program that measures prices supplies one, and so does a rig
//! in real time.
#![forbid(unsafe_code)]

mod access;
mod driver;
mod file_set;
pub mod fio;
pub mod generated;
mod halt;
mod in_front;
mod job;
mod knee;
mod listing;
pub mod only;
mod outcome;
mod plan;
mod plan_options;
mod plots;
mod preparation;
pub mod prices;
pub mod published;
mod rapid;
mod recording;
pub mod report;
mod rig;
mod suite;
mod target;
mod test_rig;

pub use access::Access;
pub use driver::DriverCost;
pub use file_set::{FILE_SETS, FileSet};
pub use halt::{Halt, Watch};
pub use job::{Job, Pattern};
pub use knee::{Knee, knee};
pub use listing::{Listing, Work, list};
pub use outcome::{IN_USE, Outcome, Published, Punctual, Row, SERIES_SECONDS_MIN, Second, Series};
pub use plan::{AGE_OFF_MS, Plan, Profile, SPAN_MIN};
pub use plan_options::PlanOptions;
pub use preparation::{PRESETS, Preparation, SECONDS_MAX, Step, TRIM_BYTES};
pub use rapid::{Rapid, Sourced, rapid_numbers};
pub use recording::{About, Recording};
pub use rig::{Modelled, Rig};
pub use suite::{
    ALL, Era, Pass, QD1_READ, QD1_SATURATING, QD1_WRITE, Suite, WithoutWrites, find, plan_in, run,
    run_on, run_passes, title, usual_cache,
};
pub use target::{Target, TargetError};
pub use test_rig::TestRig;
