//! Compares the results of suites: which differences are larger than noise.
//!
//! ```text
//!   A.json, B.html --saved--> Run, Run --comparison--> lines: value, interval, difference, verdict
//!                                                        |
//!                                                        +--> text, JSON, a page
//! ```
//!
//! The input is the output of a suite (`overdrive.bench/1`), but it may come from anywhere: no part
//! of it is trusted.
//!
//! # Method
//! Only a figure that has parts has an interval. A figure without one gets no verdict. Runs and
//! rounds count as independent. The seconds of one run do not, since each starts in the state in
//! which the last one ended: neighbouring seconds are combined into batches, and the means of the
//! batches count as independent (the method of batch means: R. W. Conway, "Some tactical problems
//! in digital simulation", Management Science 1963; 10 to 30 batches are enough: B. Schmeiser,
//! "Batch size effects in the analysis of simulation output", Operations Research 1982). The
//! interval of one mean is Student's; that of a difference is B. L. Welch's ("The generalization of
//! Student's problem", Biometrika 1947), which does not assume equal variances.
//!
//! If a run is not in a steady state, its seconds also differ because the device changes, not only
//! by chance. The interval is then wider than that of repeated runs.
#![forbid(unsafe_code)]

mod comparison;
mod json;
mod method;
mod page;
mod saved;
mod statistics;
mod text;
mod winner;

pub use comparison::{Against, Comparison, Line, Verdict};
pub use json::json;
pub use page::page;
pub use saved::{Run, read};
pub use statistics::{BATCHED_SECONDS_MIN, Estimate, LEVEL_PERCENT};
pub use text::text;
