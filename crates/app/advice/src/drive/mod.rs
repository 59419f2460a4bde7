//! The verdict on a drive: one word, its reasons, and a forecast of its wear.

mod attributes;
mod forecast;
mod verdict;

pub use attributes::meaning;
pub use forecast::{Forecast, Past, Unknown, forecast};
pub use verdict::{Level, Verdict, judge};
