//! Atomics and locks for state that several threads share: those of the standard library.
//!
//! With the feature `explore` they are those of the concurrency explorer (shuttle), in which each
//! use is a point where another thread may continue. Shuttle runs all threads on one thread, in an
//! order that it chooses, and models only sequentially consistent memory. Without the feature the
//! explorer is not compiled in.

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
