//! The executor of Overdrive: one **lane** per thread, and the **world** that simulates several.
//!
//! A lane polls a fixed number of tasks, has timers, and issues *tickets* for work that something
//! outside will complete (the kernel, or a simulated disk). It starts no thread, makes no system
//! call and reads no clock: an outer loop drives it. There are two such loops: the live one on
//! io_uring (crate `ring`), and [`World`], which advances a virtual clock and lets a seed choose
//! among all possible next events. Both drive the same lane code, so the simulation runs the code
//! that ships.
//!
//! This requires some rules, which the laboratory enforces:
//! - a future that has been polled once is polled until it completes, unless its whole world dies;
//! - every future tolerates spurious polls;
//! - between two polls a task enters at most one [`Lock`] section; two sections are joined by an
//!   await ([`Lane::turn`] where there is nothing to wait for);
//! - a task that waits for a change calls [`Event::seen`] *before* it checks the condition.

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

pub use crate::core::{Full, Lane, SleepWatch, TASKS_MAX, Turn};
pub use inbox::{Inbox, Refused};
pub use mailbox::{Bell, Mailbox, TaskRef};
pub use pool::Pooled;
pub use price::{Cost, Prices};
pub use primitives::atomic;
pub use random::{Random, mix_bits};
pub use sync::{Event, Guarded, Lock, Wait, first};
pub use tickets::{Keep, Ticket};
pub use world::World;
