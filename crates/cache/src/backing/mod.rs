//! What is asked of the backing, and what is done when it fails or does not answer.

pub(crate) mod flush_gate;
pub(crate) mod health;
pub(crate) mod in_flight;
pub(crate) mod retry;
pub(crate) mod watchdog;
