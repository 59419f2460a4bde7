//! Lying layers, each with one lie: stand-ins for the bugs that the oracle must find.
//!
//! A liar stands on the honest disk and breaks one promise. They test the laboratory without the
//! engine; bugs that can only be planted inside the engine are in its own crate.

use crate::setup::Setup;
use crate::stamp::GRAIN;
use crate::subject::{Admission, Fence, Process, Subject, note_admission};
use block::{Block, Buf, Extent, Limits, Memory, Request, Result, Stack};
use lane::{Lane, Lock};
use std::sync::Arc;

/// The lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Answers a flush without one.
    AckFlush,
    /// Sends the flush on, but before the latest write.
    Reorder,
    /// Sends each half of a write separately.
    Tear,
    /// Keeps returning the first contents read.
    StaleRead,
    /// Answers every request with success.
    LostError,
    /// Sometimes writes to the neighbouring block.
    WrongPlace,
    /// Ignores that a write must be durable immediately.
    PlainFua,
    /// Claims a new epoch for every write, and orders none.
    Epochs,
    /// Discards one sector too many.
    WideDiscard,
    /// Answers a write and sends it later.
    AckWrite,
    /// Never answers a failed request.
    Hang,
    /// Fails without a cause.
    FalseError,
    /// Reports more dirty data than the limit.
    TooDirty,
    /// Changes the bytes of a write while the disk has it.
    Scribble,
    /// Returns one block with a new sector and an old one.
    Mixture,
    /// Sends a write a second time, long after it was answered.
    Echo,
    /// Lets the requests of a dead process arrive late.
    SkipFence,
}

impl Lie {
    /// All lies, each with the clause that it breaks first.
    pub const ALL: [(Lie, &'static str); 17] = [
        (Lie::AckFlush, "C1"),
        (Lie::Reorder, "C1"),
        (Lie::Tear, "C4"),
        (Lie::StaleRead, "C10"),
        (Lie::LostError, "C1"),
        (Lie::WrongPlace, "C4"),
        (Lie::PlainFua, "C1"),
        (Lie::Epochs, "C2"),
        (Lie::WideDiscard, "C14"),
        (Lie::AckWrite, "C11"),
        (Lie::Hang, "hang"),
        (Lie::FalseError, "C8"),
        (Lie::TooDirty, "C6"),
        (Lie::Scribble, "C4"),
        (Lie::Mixture, "C10"),
        (Lie::Echo, "C10"),
        (Lie::SkipFence, "C7"),
    ];
}

/// Delay of an echo, in virtual nanoseconds.
const ECHO_NS: u64 = 100_000;

/// A lying subject.
pub struct Liar(pub Lie);

impl Subject for Liar {
    fn arena_bytes(&self, _: &Setup) -> usize {
        64
    }

    fn start(
        &self,
        _: &Setup,
        below: &Limits,
        _: &Arc<Memory>,
    ) -> std::result::Result<Box<dyn Process>, String> {
        let memory = Lock::new(Lies {
            changes: 0,
            epoch: 0,
            first_read: vec![0; below.sectors as usize * GRAIN],
            known: vec![false; below.sectors as usize],
            held: None,
        });
        Ok(Box::new(Lying { lie: self.0, shared: Arc::new(memory) }))
    }

    fn fence(&self) -> Fence {
        if self.0 == Lie::SkipFence { Fence::None } else { Fence::EveryRing }
    }
}

struct Lies {
    changes: u64,
    epoch: u32,
    first_read: Vec<u8>,
    known: Vec<bool>,
    held: Option<Request>,
}

struct Lying {
    lie: Lie,
    shared: Arc<Lock<Lies>>,
}

impl Process for Lying {
    fn attach(&self, lane: &Lane, below: Stack) -> Stack {
        let layer = LyingLane {
            lie: self.lie,
            limits: below.limits().clone(),
            shared: self.shared.clone(),
            lane: lane.clone(),
            below,
        };
        Stack::new(lane, layer)
    }

    fn buffers(&self) -> bool {
        matches!(self.lie, Lie::AckWrite | Lie::TooDirty)
    }

    fn dirty_blocks(&self) -> u32 {
        match self.lie {
            Lie::TooDirty => self.shared.peek(|lies| lies.changes as u32 * 8),
            _ => 0,
        }
    }
}

struct LyingLane {
    lie: Lie,
    limits: Limits,
    shared: Arc<Lock<Lies>>,
    lane: Lane,
    below: Stack,
}

impl Block for LyingLane {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let number = self.shared.peek(|lies| {
            lies.changes += u64::from(request.is_change());
            lies.changes
        });
        match (self.lie, &request) {
            (Lie::AckFlush, Request::Flush) => Ok(()),
            (Lie::Reorder, _) => self.reorder(request).await,
            (Lie::Tear, Request::Write { at, .. }) if at.count > 1 => self.tear(request).await,
            (Lie::StaleRead, Request::Read { at, into }) => {
                self.below.run(request.clone()).await?;
                self.show_first(at, into);
                Ok(())
            }
            (Lie::LostError, Request::Flush | Request::Write { .. }) => {
                _ = self.below.run(request).await;
                Ok(())
            }
            (Lie::WrongPlace, Request::Write { at, from, fua }) if number.is_multiple_of(8) => {
                let first = if at.first >= 8 { at.first - 8 } else { at.first };
                let at = Extent::new(first, at.count);
                let (from, fua) = (from.clone(), *fua);
                self.below.run(Request::Write { at, from, fua }).await
            }
            (Lie::PlainFua, Request::Write { at, from, fua: true }) => {
                let (at, from) = (*at, from.clone());
                self.below.run(Request::Write { at, from, fua: false }).await
            }
            (Lie::Epochs, Request::Write { at, .. }) => {
                let epoch = self.shared.peek(|lies| {
                    lies.epoch += 1;
                    lies.epoch
                });
                note_admission(|operation| Admission {
                    operation,
                    first: at.first as u32,
                    count: at.count,
                    epoch,
                    dirty_blocks: 0,
                    dirty_blocks_max: 0,
                    debt_blocks: 0,
                    allowance_blocks: 0,
                });
                self.below.run(request).await
            }
            (Lie::WideDiscard, Request::Discard { at }) => {
                let unit = self.limits.block_logical_bytes / 512;
                let room = at.end() < self.limits.sectors;
                let count = at.count + if room { unit } else { 0 };
                self.below.run(Request::Discard { at: Extent::new(at.first, count) }).await
            }
            (Lie::AckWrite, Request::Write { .. }) => {
                let below = self.below.clone();
                let later = async move { _ = below.run(request).await };
                self.lane.spawn(later).expect("room for a task");
                Ok(())
            }
            (Lie::Hang, _) => match self.below.run(request).await {
                Ok(()) => Ok(()),
                Err(_) => std::future::pending().await,
            },
            (Lie::FalseError, Request::Read { .. }) if number % 16 == 15 => {
                Err(block::Error::new(block::Kind::Io, "read"))
            }
            (Lie::Scribble, Request::Write { from, .. }) if number.is_multiple_of(8) => {
                let (from, lane) = (from.clone(), self.lane.clone());
                let later = async move {
                    lane.rest().await;
                    from.part(0, 1).zero();
                };
                self.lane.spawn(later).expect("room for a task");
                self.below.run(request).await
            }
            (Lie::Echo, Request::Write { .. }) if number.is_multiple_of(4) => {
                let (below, lane, again) = (self.below.clone(), self.lane.clone(), request.clone());
                let later = async move {
                    lane.sleep_until(lane.now() + ECHO_NS).await;
                    _ = below.run(again).await;
                };
                let result = self.below.run(request).await;
                self.lane.spawn(later).expect("room for a task");
                result
            }
            (Lie::Mixture, Request::Read { at, into }) if at.count > 1 => {
                let part = |skip: u32, count: u32| Request::Read {
                    at: Extent::new(at.first + u64::from(skip), count),
                    into: into.part(skip, count),
                };
                let unit = self.limits.block_logical_bytes / 512;
                let half = (at.count / 2 / unit * unit).max(unit).min(at.count - 1);
                if !half.is_multiple_of(unit) {
                    return self.below.run(request).await;
                }
                self.below.run(part(0, half)).await?;
                self.below.run(part(half, at.count - half)).await
            }
            _ => self.below.run(request).await,
        }
    }
}

impl LyingLane {
    /// Holds every write back until the next request, and beyond it if that is a flush.
    async fn reorder(&self, request: Request) -> Result {
        let held = self.shared.peek(|lies| lies.held.take());
        let is_flush = matches!(request, Request::Flush);
        if let Some(held) = held {
            if is_flush {
                self.below.run(request).await?;
                return self.below.run(held).await;
            }
            self.below.run(held).await?;
        }
        let plain = matches!(request, Request::Write { fua: false, .. });
        if plain && self.shared.peek(|lies| lies.changes.is_multiple_of(4)) {
            self.shared.peek(|lies| lies.held = Some(request));
            return Ok(());
        }
        self.below.run(request).await
    }

    async fn tear(&self, request: Request) -> Result {
        let Request::Write { at, from, fua } = request else {
            return self.below.run(request).await;
        };
        let unit = self.limits.block_logical_bytes / 512;
        let half = at.count / 2 / unit * unit;
        for (skip, count) in [(0, half), (half, at.count - half)] {
            if count > 0 {
                let at = Extent::new(at.first + u64::from(skip), count);
                let from = from.part(skip, count);
                self.below.run(Request::Write { at, from, fua }).await?;
            }
        }
        Ok(())
    }

    fn show_first(&self, at: &Extent, into: &Buf) {
        self.shared.peek(|lies| {
            for (index, sector) in (at.first..at.end()).enumerate() {
                let range = sector as usize * GRAIN..(sector as usize + 1) * GRAIN;
                let part = into.part(index as u32, 1);
                if lies.known[sector as usize] {
                    part.write(&lies.first_read[range]);
                } else {
                    part.read(&mut lies.first_read[range]);
                    lies.known[sector as usize] = true;
                }
            }
        });
    }
}
