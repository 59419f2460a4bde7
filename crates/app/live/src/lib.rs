//! Volumes of running daemons, followed over their control sockets: present figures, rates and the
//! last minutes, for the dashboard and `overdrive top`.
//!
//! ```text
//!   daemons/*.sock  --follow (a thread each)-->  fleet  --snapshot-->  a page, a terminal
//!   holders         --scan--------------------->
//! ```
//!
//! A daemon that does not answer delays only its own volumes. A volume whose daemon has ended stays
//! in the list for a while, with its last figures.
#![forbid(unsafe_code)]

mod fleet;
mod follow;
mod interval;
mod shared;
mod volume;

pub use fleet::{Fleet, Snapshot};
pub use interval::{Interval, Rates};
pub use shared::{Source, Unserved};
pub use volume::{POINTS_MAX, Presence, Volume};
