//! Imitates recorded traces (`overdrive trace generate --like`).
//!
//! ```text
//!   a trace --read--> Recorded --History--> for each request: new, or again after N requests
//!                        |                        |
//!                        |  bursts, in a new order within windows
//!                        v                        v
//!                     imitate: an extent of the same history, last used about N requests ago
//!                        |
//!                        v
//!                     Imitation --judge--> miss ratios of caches, recorded and imitated
//! ```
//!
//! The imitation has the recording's extents, and as many requests of each. Bursts of requests are
//! in a new order. A request for an extent that was used before gets another one, chosen by its
//! history: its size, the number of its uses before and after, the last operation, the distance of
//! the last two uses, and the time since the last one. So the distribution of reuse distances is
//! that of the recording for hot and for cold data, in each part of the time, but the sequence is
//! another one.
//!
//! The order of bursts changes within windows. The widest window is taken whose imitation has the
//! misses of LRU with twelve sizes. Other policies with other sizes only judge the result.
#![forbid(unsafe_code)]

mod blocks;
mod history;
mod imitate;
mod judge;
mod order;
mod read;

pub use imitate::{Imitation, REQUESTS_MIN, imitate};
pub use judge::{Compared, DISTANCE_MAX, Judgement, judge};
pub use read::{Recorded, read};
