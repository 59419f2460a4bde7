//! The fill level of the write buffer, and the speed at which writers may fill it.

pub(crate) mod claims;
pub(crate) mod decision;
pub(crate) mod gauges;
pub(crate) mod level;
pub(crate) mod limits;
pub(crate) mod throttle;
