//! The executor of Overdrive: one **lane** per thread, and the **world** that simulates several.
//!
//! A lane polls a fixed number of tasks, keeps timers, and hands out *tickets* for work that
//! something outside will complete (the kernel, or a simulated disk). It starts no thread, makes no
//! system call and reads no clock: an outer loop drives it. There are two such loops, the live one
//! on io_uring (crate `uring`) and [`World`], which jumps a virtual clock and lets a seed choose
//! among everything that could happen next. Both drive the very same lane, so what is simulated is
//! what ships.
//!
//! Rules that make this work, and that the laboratory enforces:
//! - a future, once polled, is polled to its end, or its whole world dies;
//! - every future tolerates a spurious poll;
//! - between two polls a task enters at most one [`Lock`] section; two sections are joined by an
//!   await ([`Lane::turn`] where there is nothing to wait for);
//! - a task that waits for a change takes [`Event::seen`] *before* looking.

mod core;
mod inbox;
mod mailbox;
pub mod planted;
mod pool;
mod price;
mod primitives;
mod random;
mod sync;
mod tickets;
mod timers;
mod waker;
mod world;

pub use crate::core::{Full, Lane, TASKS_MAX, Turn};
pub use inbox::{Inbox, Refused};
pub use mailbox::{Bell, Mailbox, TaskRef};
pub use pool::Pooled;
pub use price::{Cost, Prices};
pub use primitives::atomic;
pub use random::Random;
pub use sync::{Event, Guarded, Lock, Wait, first};
pub use tickets::{Keep, Ticket};
pub use world::World;
