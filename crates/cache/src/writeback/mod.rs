//! Writing dirty blocks out: workers carry runs, commits make epochs durable, the flusher begins them in time.

pub(crate) mod commit;
pub(crate) mod estimator;
pub(crate) mod flusher;
pub(crate) mod worker;
