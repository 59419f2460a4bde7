//! The crash laboratory: the product's engine on a simulated disk. A seed decides every
//! interleaving and every crash, and an oracle records all promises.
//!
//! A *history* is some clients on some lanes that read, write, zero, discard and flush. After every
//! change of state, the laboratory crashes: by *power cut* (memory is lost; each unit of the disk
//! holds its durable version or any later one) and by *kill* (memory and disk survive; each write
//! in flight lands or does not). Each resulting state is recovered by the engine, read back, and
//! judged by the contract of SEMANTICS.md. Some states continue with clients and crashes of their
//! own.
//!
//! # Reading order
//!
//! Each step uses those above it, and none below.
//!
//! - `stamp`, `finding`, `trace`: the stand-in for a sector; findings; the hash of all events.
//! - `model`, `disk`, `device`: the simulated disk: its kind, its state, its block device.
//! - `link`: connections to the disk, if it is a server's.
//! - `setup`: a history's numbers, drawn from its seed.
//! - `subject`, `midway`; `cached`, `liars`, `catalogue`: the subjects: the engine, or a lying
//!   layer; its memory in the middle of a section.
//! - `version`, `oracle`, `verdict`: the answers to clients, the allowed results of reads, the
//!   allowed states after a crash.
//! - `pending`, `plan`, `operator`, `book`, `client`: the actions of clients, and the record of
//!   requests and answers.
//! - `life`, `run`, `takeover`: a process on its lanes; a run, step by step; a kill that the run
//!   survives.
//! - `survivors`, `recovery`, `tally`, `laboratory`: the states after a crash; the process that
//!   starts on them; every crash of a run.
//! - `drive`, `hunt`: many histories, on one thread and on many.

#![forbid(unsafe_code)]

mod book;
mod cached;
mod catalogue;
mod client;
mod cold_starts;
mod device;
mod disk;
mod drive;
mod finding;
mod hunt;
mod laboratory;
mod liars;
mod life;
mod link;
mod link_events;
mod midway;
mod model;
mod operator;
mod oracle;
mod pending;
mod plan;
mod recovery;
mod run;
mod setup;
mod stamp;
mod subject;
mod survivors;
mod takeover;
mod tally;
mod trace;
mod verdict;
mod version;

pub use cached::Engine;
pub use catalogue::{Bug, bugs, by_name, honest, honest_over_link};
pub use device::{Disk, DiskLane};
pub use disk::State;
pub use drive::{Failure, Outcome, history, seed_of};
pub use finding::Finding;
pub use hunt::{Hunt, HuntOptions, hunt};
pub use laboratory::Laboratory;
pub use liars::{Liar, Lie};
pub use model::{Fault, Faults, Model};
pub use setup::{EngineSetup, Limits, LinkPlan, Mix, Scale, Setup};
pub use stamp::{FIRST, GRAIN, INITIAL, Operation, Wrong, ZERO, decode, encode, fill};
pub use subject::{
    Bare, Changing, Connection, Discarding, Fence, Hinting, Objects, Observing, Process, Subject,
    Warming,
};
pub use tally::Tally;
