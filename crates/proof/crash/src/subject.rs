//! The subject on the simulated disk: the engine, nothing, or a lying layer.

use crate::setup::Setup;
use crate::stamp::Operation;
use block::{Buf, Extent, Limits, Memory, Stack, WriteMode};
use cache::Changes;
use lane::Lane;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// The I/O that has ended before the next process starts (C15).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// The I/O of every ring of the process before.
    EveryRing,
    /// The I/O of its first ring.
    FirstRing,
    /// No I/O need have ended.
    None,
}

impl Fence {
    /// Whether requests of this ring never arrive later.
    pub(crate) fn holds(self, ring: u32) -> bool {
        match self {
            Fence::EveryRing => true,
            Fence::FirstRing => ring == 0,
            Fence::None => false,
        }
    }
}

/// A subject to be tested.
pub trait Subject: Sync {
    /// Prepares this thread for a test.
    fn prepare(&self) {}

    /// Returns the bytes of memory that survive a kill.
    fn arena_bytes(&self, setup: &Setup) -> usize;

    /// Starts a process, which recovers the contents of the arena.
    ///
    /// # Errors
    /// It refuses the contents of the arena, with the reason.
    fn start(
        &self,
        setup: &Setup,
        below: &Limits,
        arena: &Arc<Memory>,
    ) -> Result<Box<dyn Process>, String>;

    /// Whether it can stand on a disk of any grain, below the layer for parts of blocks.
    fn serves_bytes(&self) -> bool {
        false
    }

    /// Whether it refuses memory retained for a larger disk, and leaves it unchanged.
    fn refuses_cut(&self) -> bool {
        false
    }

    /// Returns the I/O of a dead process for which the next one waits, so that none of it arrives
    /// late.
    fn fence(&self) -> Fence {
        Fence::EveryRing
    }

    /// Whether the next process waits until the one before it has ended.
    fn waits_for_owner(&self) -> bool {
        true
    }

    /// Makes the subject call `midway::saw_store` after this many stores to the memory that
    /// survives a kill; 0: never.
    fn watch_stores(&self, _stores: u32) {}

    /// Whether its disk is the export of a server.
    fn has_link(&self) -> bool {
        false
    }

    /// Notes in the memory of a killed process that the server may have lost changes that no flush
    /// has covered.
    fn note_changes_lost(&self, _arena: &Arc<Memory>) {}

    /// Whether a flush that succeeds after one that failed is reliable. The simulated disk alone is
    /// like Linux: versions that a failed flush has dropped stay dropped.
    fn mends_failed_flushes(&self) -> bool {
        false
    }

    /// Whether its flushes may promise only an order, FUA writes included, or nothing. (The
    /// simulated disk's flushes are fixed; its FUA writes order nothing else.)
    fn has_durabilities(&self) -> bool {
        false
    }

    /// Whether it detects that the disk does not answer, and reports that to its clients.
    fn notices_hangs(&self) -> bool {
        false
    }

    /// Whether a volume that has failed is still failed in the next process (C8). Otherwise a flush
    /// of the next process proves nothing about data that the one before had lost.
    fn failure_outlives_kill(&self) -> bool {
        false
    }

    /// Returns the range of the arena with its checksummed headers of 16 bytes: a few flipped bits
    /// in one of them must be detected. Empty: there are none.
    fn headers(&self, _setup: &Setup, _arena: &Arc<Memory>) -> Range<usize> {
        0..0
    }
}

/// Numbers of compressed blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Objects {
    /// Blocks found in the memory of the process before.
    pub found: u64,
    /// Reads of compressed blocks.
    pub read: u64,
}

/// A discard of dirty data, in progress.
pub type Discarding = Pin<Box<dyn Future<Output = bool>>>;

/// A ranking of the cached blocks, in progress.
pub type Warming = Pin<Box<dyn Future<Output = ()>>>;

/// A change of the hints about files, in progress.
pub type Hinting = Pin<Box<dyn Future<Output = ()>>>;

/// A change of settings, in progress.
pub type Changing = Pin<Box<dyn Future<Output = bool>>>;

/// An observer's read, in progress.
pub type Observing = Pin<Box<dyn Future<Output = block::Result>>>;

/// A running subject.
pub trait Process {
    /// Returns the subject as one lane sees it, over that lane's handle on the disk.
    fn attach(&self, lane: &Lane, below: Stack) -> Stack;

    /// Connects a client. Dropping the result disconnects it.
    fn connect(&self) -> Box<dyn Connection> {
        Box::new(Unnoticed)
    }

    /// Changes the write mode.
    fn set_mode(&self, _mode: WriteMode) {}

    /// Changes settings while it serves. True: they are in force; false: nothing is changed.
    /// `None`: not supported.
    fn set(&self, _lane: &Lane, _changes: &Changes) -> Option<Changing> {
        None
    }

    /// Reads as the program does for itself. `None`: not supported.
    fn observe(&self, _lane: &Lane, _at: Extent, _into: Buf) -> Option<Observing> {
        None
    }

    /// Makes reads or writes bypass the cache, or turns bypass off.
    fn force_bypass(&self, _lane: &Lane, _reads: bool, _writes: bool) {}

    /// Gives the policy's window, if there is one, this share of the clean blocks, in 1024ths.
    fn force_window_share(&self, _share: u32) {}

    /// Ranks the cached blocks, and begins to read back a list of them and of others, which follow
    /// from the seed. `None`: not supported.
    fn warm(&self, _lane: &Lane, _seed: u64) -> Option<Warming> {
        None
    }

    /// Sets hints about files, which follow from the seed, or removes them; then lists the blocks
    /// that memory holds. `None`: not supported.
    fn set_hints(&self, _lane: &Lane, _seed: u64) -> Option<Hinting> {
        None
    }

    /// Whether it refuses writes because the disk has failed for too long (C8).
    fn has_failed(&self) -> bool {
        false
    }

    /// Whether it refuses all changes because the link to its disk is down (C8).
    fn refuses_changes(&self) -> bool {
        false
    }

    /// Whether it lets the first flush of every client fail, for what an earlier process may have
    /// lost (C1).
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// Checks what holds between any two sections, cheaply.
    fn check_step(&self) {}

    /// Errors of the disk that it has counted: reads, changes, flushes. `None`: it counts none.
    fn errors(&self) -> Option<[u64; 3]> {
        None
    }

    /// Clears the error: according to the operator, the disk works again.
    fn clear_error(&self) {}

    /// Discards dirty data, as an operator does. True: it is discarded. `None`: not supported.
    fn discard_dirty(&self, _lane: &Lane) -> Option<Discarding> {
        None
    }

    /// Whether it sends one change of a block at a time.
    fn orders_changes(&self) -> bool {
        false
    }

    /// Returns the number of dirty blocks now.
    fn dirty_blocks(&self) -> u32 {
        0
    }

    /// Returns the number of epochs that are closed and not durable now.
    fn closed_epochs(&self) -> u32 {
        0
    }

    /// Returns the numbers of compressed blocks that it has found and read.
    fn objects(&self) -> Objects {
        Objects::default()
    }

    /// Whether the promises of a write buffer apply to it: C6, C11, C12.
    fn buffers(&self) -> bool {
        false
    }

    /// Whether it accepts FUA writes even if the disk does not support them.
    fn takes_fua(&self) -> bool {
        false
    }

    /// Returns the number of sectors whose multiples requests must not cross; 0: they may.
    fn cut_sectors(&self) -> u32 {
        0
    }

    /// Describes its state, to analyse a hang.
    fn describe(&self) -> String {
        String::new()
    }

    /// Asserts its internal invariants.
    fn check(&self) {}
}

/// A connected client.
pub trait Connection {
    /// Notes that it has sent a flush.
    fn record_flush(&self);

    /// Called once for every flush.
    ///
    /// # Errors
    /// The flush is answered with this error, unless it has a worse one: an earlier
    /// process may have lost answered changes.
    fn take_doubt(&self) -> block::Result {
        Ok(())
    }
}

struct Unnoticed;

impl Connection for Unnoticed {
    fn record_flush(&self) {}
}

/// A part of a change that a write buffer admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    pub(crate) operation: Operation,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) epoch: u32,
    /// Dirty blocks, this change included.
    pub(crate) dirty_blocks: u32,
    /// The hard limit on them (C6).
    pub(crate) dirty_blocks_max: u32,
    /// Blocks that wait to be written back, this change included.
    pub(crate) debt_blocks: u32,
    /// The limit on them (C13).
    pub(crate) allowance_blocks: u32,
}

thread_local! {
    /// The operation whose request is being polled.
    static CURRENT: Cell<Operation> = const { Cell::new(0) };
    static ADMISSIONS: RefCell<Vec<Admission>> = const { RefCell::new(Vec::new()) };
}

/// Runs one poll on behalf of `operation`.
pub(crate) fn run_for<R>(operation: Operation, poll: impl FnOnce() -> R) -> R {
    CURRENT.set(operation);
    let result = poll();
    CURRENT.set(0);
    result
}

/// Notes an admission; called by a write buffer within the poll of the change's request. Epochs
/// count from 1.
pub(crate) fn note_admission(admission: impl FnOnce(Operation) -> Admission) {
    let operation = CURRENT.get();
    if operation != 0 {
        ADMISSIONS.with_borrow_mut(|list| list.push(admission(operation)));
    }
}

/// Returns the admissions since the last call.
pub(crate) fn take_admissions(into: &mut Vec<Admission>) {
    into.clear();
    ADMISSIONS.with_borrow_mut(|list| into.append(list));
}

/// No layer between the clients and the disk.
pub struct Bare;

impl Subject for Bare {
    fn arena_bytes(&self, _: &Setup) -> usize {
        64
    }

    fn start(&self, _: &Setup, _: &Limits, _: &Arc<Memory>) -> Result<Box<dyn Process>, String> {
        Ok(Box::new(Bare))
    }
}

impl Process for Bare {
    fn attach(&self, _: &Lane, below: Stack) -> Stack {
        below
    }
}
