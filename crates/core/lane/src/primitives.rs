//! The atomics and locks of what several threads share: those of the standard library.
//!
//! With the feature `explore` they are those of the concurrency explorer (shuttle), to which each use is a moment in
//! which another thread may go on. It runs all threads on one, in an order that it chooses, and knows only the
//! strongest order of memory. Without the feature nothing of it is there.

#[cfg(not(feature = "explore"))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "explore")]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};

/// Atomics.
pub mod atomic {
    pub use core::sync::atomic::Ordering;
    #[cfg(not(feature = "explore"))]
    pub use core::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    };

    #[cfg(feature = "explore")]
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    };
}
