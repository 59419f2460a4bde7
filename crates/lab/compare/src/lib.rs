//! Results of suites beside one another: which differences are more than noise.
//!
//! ```text
//!   A.json, B.html --saved--> Run, Run --comparison--> lines: value, interval, difference, verdict
//!                                                        |
//!                                                        +--> text, JSON, a page
//! ```
//!
//! What is read was written by a suite (`overdrive.bench/1`), or by anything else: nothing of it is trusted.
//!
//! # Method
//! A figure that is made of parts has an interval; one that is not has none, and is called neither equal nor different.
//! Runs and rounds count as independent. The seconds of one run do not, since each begins where the last one has ended:
//! neighbouring seconds are put together into batches, and the batches' means count as independent (the method of batch
//! means: R. W. Conway, "Some tactical problems in digital simulation", Management Science 1963; 10 to 30 batches do:
//! B. Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research 1982). The interval
//! of one mean is Student's; that of a difference is B. L. Welch's ("The generalization of Student's problem", Biometrika
//! 1947), which takes no equal variances for granted.
//!
//! Seconds of a run that is not in a steady state differ because the device changes, and not by chance: the interval is
//! then wider than that of repeated runs would be.
#![forbid(unsafe_code)]

mod comparison;
mod json;
mod method;
mod page;
mod saved;
mod statistics;
mod text;

pub use comparison::{Against, Comparison, Line, Verdict};
pub use json::json;
pub use page::page;
pub use saved::{Run, read};
pub use statistics::{BATCHED_SECONDS_MIN, Estimate, LEVEL_PERCENT};
pub use text::text;
