//! What is put on the simulated disk to be tried: the engine, nothing, or a layer that lies.

use crate::setup::Setup;
use crate::stamp::Operation;
use block::{Limits, Memory, Stack, WriteMode};
use cache::Changes;
use lane::Lane;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// Whose I/O is over before the next process starts (C15).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// That of every ring of the one before.
    EveryRing,
    /// That of its first ring.
    FirstRing,
    /// Nothing need be over.
    None,
}

impl Fence {
    /// Whether what was sent by this ring never arrives later.
    pub(crate) fn holds(self, ring: u32) -> bool {
        match self {
            Fence::EveryRing => true,
            Fence::FirstRing => ring == 0,
            Fence::None => false,
        }
    }
}

/// A thing to be tried.
pub trait Subject: Sync {
    /// This thread is about to try it.
    fn prepare(&self) {}

    /// The bytes of memory that it keeps through a kill.
    fn arena_bytes(&self, setup: &Setup) -> usize;

    /// A process starts: whatever the arena holds is recovered.
    ///
    /// # Errors
    /// It refuses what the arena holds, and says why.
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

    /// Whether it refuses memory that it kept for a disk that was larger, and leaves it as it is.
    fn refuses_cut(&self) -> bool {
        false
    }

    /// What of a dead process the next one waits for, so that nothing of it arrives late.
    fn fence(&self) -> Fence {
        Fence::EveryRing
    }

    /// Whether the next process waits until the one before it is gone.
    fn waits_for_owner(&self) -> bool {
        true
    }

    /// From now on, have `midway::saw_store` called after so many stores to the memory that it keeps
    /// through a kill; 0: not at all.
    fn watch_stores(&self, _stores: u32) {}

    /// Whether a flush that succeeds after one that failed can be believed. The simulated disk alone
    /// is like Linux: what a failed flush has given up stays given up.
    fn mends_failed_flushes(&self) -> bool {
        false
    }

    /// Whether its flushes may promise only an order, FUA writes included, or nothing. (The simulated
    /// disk's flushes are what they are; its FUA writes order nothing else.)
    fn has_durabilities(&self) -> bool {
        false
    }

    /// Whether it notices that the disk does not answer, and tells its clients.
    fn notices_hangs(&self) -> bool {
        false
    }

    /// Whether a volume that has failed is still failed in the next process (C8). Without that, a
    /// flush of the next process says nothing about what the one before had lost.
    fn failure_outlives_kill(&self) -> bool {
        false
    }

    /// Where in the arena its checksummed headers of 16 bytes lie: a few flipped bits in one of them
    /// must be noticed. Empty: nowhere.
    fn headers(&self, _setup: &Setup, _arena: &Arc<Memory>) -> Range<usize> {
        0..0
    }
}

/// A discard of what is dirty, under way.
pub type Discarding = Pin<Box<dyn Future<Output = bool>>>;

/// A change of settings, under way.
pub type Changing = Pin<Box<dyn Future<Output = bool>>>;

/// A running subject.
pub trait Process {
    /// The subject as one lane sees it, over that lane's handle on the disk.
    fn attach(&self, lane: &Lane, below: Stack) -> Stack;

    /// A client comes. Dropping what is returned: it has gone.
    fn connect(&self) -> Box<dyn Connection> {
        Box::new(Unnoticed)
    }

    /// Treats writes in another way from now on.
    fn set_mode(&self, _mode: WriteMode) {}

    /// Changes settings while it serves. True: they are in force; false: nothing is changed. `None`:
    /// there is no such thing.
    fn set(&self, _lane: &Lane, _changes: &Changes) -> Option<Changing> {
        None
    }

    /// Steps aside with what reads would keep and writes would leave in memory, or comes back.
    fn force_bypass(&self, _lane: &Lane, _reads: bool, _writes: bool) {}

    /// The policy's window, if it has one, gets this share of the clean blocks, in 1024ths.
    fn force_window_share(&self, _share: u32) {}

    /// Whether it refuses writes because the disk has failed for too long (C8).
    fn has_failed(&self) -> bool {
        false
    }

    /// Whether it lets the first flush of every client fail, for what an earlier process may have
    /// lost (C1).
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// Errors of the disk that it has counted: reads, changes, flushes. `None`: it counts none.
    fn errors(&self) -> Option<[u64; 3]> {
        None
    }

    /// The operator says that the disk is well again.
    fn clear_error(&self) {}

    /// The operator gives up what is dirty. True: it is gone. `None`: there is no such thing.
    fn discard_dirty(&self, _lane: &Lane) -> Option<Discarding> {
        None
    }

    /// Whether it sends one change of a block at a time.
    fn orders_changes(&self) -> bool {
        false
    }

    /// Dirty blocks at this moment.
    fn dirty_blocks(&self) -> u32 {
        0
    }

    /// Epochs that are closed and not durable at this moment.
    fn closed_epochs(&self) -> u32 {
        0
    }

    /// Whether it takes part in the promises of a write buffer: C6, C11, C12.
    fn buffers(&self) -> bool {
        false
    }

    /// Whether it takes FUA writes even where the disk has no such thing.
    fn takes_fua(&self) -> bool {
        false
    }

    /// Requests must not cross a multiple of so many sectors; 0: they may.
    fn cut_sectors(&self) -> u32 {
        0
    }

    /// How it stands, in words, to look into a hang.
    fn describe(&self) -> String {
        String::new()
    }

    /// Asserts what must always hold inside.
    fn check(&self) {}
}

/// A connected client.
pub trait Connection {
    /// It has sent a flush.
    fn flushed(&self);

    /// Asked once for every flush.
    ///
    /// # Errors
    /// The flush is answered with this, if with nothing worse: an earlier process may have lost
    /// what it had answered.
    fn take_doubt(&self) -> block::Result {
        Ok(())
    }
}

struct Unnoticed;

impl Connection for Unnoticed {
    fn flushed(&self) {}
}

/// A part of a change that a write buffer took in.
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
    /// Blocks that wait to be written out, this change included.
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
pub(crate) fn on_behalf_of<R>(operation: Operation, poll: impl FnOnce() -> R) -> R {
    CURRENT.set(operation);
    let result = poll();
    CURRENT.set(0);
    result
}

/// To be called by a write buffer that takes in a change, from within the poll of its request.
/// Epochs count from 1.
pub(crate) fn note_admission(admission: impl FnOnce(Operation) -> Admission) {
    let operation = CURRENT.get();
    if operation != 0 {
        ADMISSIONS.with_borrow_mut(|list| list.push(admission(operation)));
    }
}

/// What was admitted since this was last asked.
pub(crate) fn take_admissions(into: &mut Vec<Admission>) {
    into.clear();
    ADMISSIONS.with_borrow_mut(|list| into.append(list));
}

/// Nothing at all between the clients and the disk.
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
