//! The crash laboratory: the very engine that ships, on a simulated disk, where a seed decides every
//! interleaving and every crash, and an oracle knows what was promised.
//!
//! A *history* is some clients on some lanes that read, write, zero, discard and flush. Wherever
//! something has changed, the laboratory crashes: by *power cut* (memory is gone; each unit of the
//! disk holds what was durable or any later version) and by *kill* (memory and disk live on; each
//! write in flight lands or does not). Each state so made is recovered by the engine, read back, and
//! judged by the contract of SEMANTICS.md. Some states go on with clients and crashes of their own.
//!
//! # In which order to read it
//!
//! Each step uses those above it, and none below.
//!
//! | files | what they are |
//! |---|---|
//! | `stamp`, `finding`, `trace` | what stands for a sector; what is found; the hash of all that happens |
//! | `model`, `disk`, `device` | the simulated disk: its kind, its state, its face as a block device |
//! | `setup` | a history's numbers, drawn from its seed |
//! | `subject`, `midway`; `cached`, `liars`, `catalogue` | what is tried: the engine, or a layer that lies; its memory in the middle of a section |
//! | `version`, `oracle`, `verdict` | what clients were told, what reads may show, what a crash may leave |
//! | `pending`, `plan`, `operator`, `book`, `client` | what clients do, and the record of requests and answers |
//! | `life`, `run`, `takeover` | a process on its lanes; a run, step by step; a kill that the run survives |
//! | `survivors`, `recovery`, `tally`, `laboratory` | what a crash leaves; the process that starts on it; every crash of a run |
//! | `drive`, `hunt` | many histories, on one thread and on many |

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
pub use catalogue::{Bug, bugs, by_name, honest};
pub use device::{Disk, DiskLane};
pub use disk::State;
pub use drive::{Failure, Outcome, history, seed_of};
pub use finding::Finding;
pub use hunt::{Hunt, Terms, hunt};
pub use laboratory::Laboratory;
pub use liars::{Liar, Lie};
pub use model::{Fault, Faults, Model};
pub use setup::{EngineSetup, Limits, Mix, Scale, Setup};
pub use stamp::{FIRST, GRAIN, INITIAL, Operation, Wrong, ZERO, decode, encode, fill};
pub use subject::{Bare, Changing, Connection, Discarding, Fence, Process, Subject};
pub use tally::Tally;
