//! A review of a drive: the same tests bare, behind the cache, and beside other caches, with a
//! verdict.
//!
//! ```text
//!   columns of rows (overdrive.bench/1) --lines--> ratios, noise --verdict--> three sentences
//!                                                        --score----> percent of a baseline
//!                                                        --published-> RAPID's own figures
//!                                        text, JSON (overdrive.review/1), one HTML page
//! ```
//!
//! Everything follows from the rows alone, so that an interrupted review continues from the rows
//! that it has stored.
#![forbid(unsafe_code)]

mod json;
mod line;
mod page;
mod published;
mod review;
mod score;
mod text;
mod verdict;

pub use json::{SCHEMA, json};
pub use line::{Change, Line, lines};
pub use page::page;
pub use published::{Agreement, Comparison, RAPID, compare_with_rapid};
pub use review::{AGAIN, BARE, COLD, Column, Drive, PAGE_CACHE, RAPID_COLUMN, Review, Run, WARM};
pub use score::{Score, score};
pub use text::text;
pub use verdict::{RULES, Verdict, verdict};
