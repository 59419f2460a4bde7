//! The crash laboratory: the very engine that ships, on a simulated disk, where a seed decides every
//! interleaving and every crash, and an oracle knows what was promised.
//!
//! A *history* is some clients on some lanes that read, write, zero, discard and flush. Wherever
//! something has changed, the laboratory crashes: by *power cut* (memory is gone; each unit of the
//! disk holds what was durable or any later version) and by *kill* (memory and disk live on; each
//! write in flight lands or does not). Each state so made is recovered by the engine, read back, and
//! judged by the contract of SEMANTICS.md. Some states go on with clients and crashes of their own.

#![forbid(unsafe_code)]

mod book;
mod cached;
mod catalogue;
mod client;
mod device;
mod disk;
mod drive;
mod finding;
mod hunt;
mod laboratory;
mod liars;
mod life;
mod midway;
mod model;
mod operator;
mod oracle;
mod plan;
mod recovery;
mod run;
mod setup;
mod stamp;
mod subject;
mod survivors;
mod trace;
mod verdict;
mod version;

pub use cached::Engine;
pub use catalogue::{Bug, bugs, by_name, honest};
pub use device::{Disk, DiskLane};
pub use disk::State;
pub use drive::{Failure, Outcome, history, seed_of};
pub use finding::Finding;
pub use hunt::{Hunt, Terms, hunt};
pub use laboratory::{Laboratory, Tally};
pub use liars::{Liar, Lie};
pub use model::{Fault, Faults, Model};
pub use setup::{EngineSetup, Limits, Mix, Scale, Setup};
pub use stamp::{FIRST, GRAIN, INITIAL, Operation, Wrong, ZERO, decode, encode, fill};
pub use subject::{Bare, Changing, Connection, Discarding, Process, Subject};
