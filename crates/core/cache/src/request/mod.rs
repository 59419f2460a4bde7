//! The cache as a block layer: loops around the decisions of the shards.

mod advise;
mod compressed;
mod direct;
pub(crate) mod flush;
pub(crate) mod read;
mod read_parts;
pub(crate) mod rests;
pub(crate) mod status;
pub(crate) mod write;
pub(crate) mod write_through;

use crate::blocks::{SLICE, blocks_of};
use crate::handle::Handle;
use crate::shard::{QuickRead, Reader, Source};
use crate::shared::Shared;
use crate::tasks;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{
    Advice, Block, Buf, Extent, Limits, LinkState, Request, Result, Stack, Stall, Stretch,
};
use lane::{Cost, Lane};

/// Requests that are prefetched together.
const WAVE: usize = 16;

/// A volume's cache as one lane sees it.
#[derive(Clone)]
pub struct Cache(pub(crate) Rc<Handle>);

impl Cache {
    /// Joins a lane to a volume's cache, over that lane's way to the backing. Starts the lane's
    /// writeback workers and, on the first lane, the flusher.
    ///
    /// # Panics
    /// If the lane has no room for the workers' tasks ([`Shared::tasks_a_lane`]).
    pub fn attach(shared: &Arc<Shared>, lane: &Lane, below: Stack) -> Cache {
        let handle = Rc::new(Handle::new(shared, lane, below));
        handle.apply_link_policy();
        tasks::start(&handle);
        Cache(handle)
    }

    /// The lane to which it is attached.
    pub fn lane(&self) -> Lane {
        self.0.lane.clone()
    }

    /// The part that all lanes share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
}

impl Cache {
    /// Reads as a client would, for this program itself: nothing is admitted, and neither policy,
    /// streams nor statistics know of it.
    ///
    /// # Errors
    /// Those of the backing, and that it does not answer.
    pub async fn observe(&self, at: Extent, into: Buf) -> Result {
        self.0.read(at, into, Reader::Observer).await
    }
}

impl Block for Cache {
    fn limits(&self) -> &Limits {
        &self.0.shared.limits
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        let at = request.extent()?;
        let shared = &self.0.shared;
        let (first, blocks) = blocks_of(&at);
        if blocks > SLICE || u64::from(at.count) > shared.shards.stretch(at.first) {
            return None;
        }
        let entry = shared.shards.of(first);
        match request {
            Request::Read { into, .. } => {
                let answers_immediately = self.0.answers_immediately.get();
                let quick = entry.shard.with(|shard| {
                    shard.try_hit(
                        shared.bypass.rules(shared.settings.write()),
                        answers_immediately,
                        &at,
                        into,
                        &self.0.decoder,
                    )
                });
                match quick {
                    QuickRead::Hit | QuickRead::HitAhead => {
                        if quick == QuickRead::HitAhead {
                            self.0.note_first_read(&at);
                            self.0.wake_reader();
                        }
                        self.0.lane.charge(Cost::Hit, blocks);
                        Some(Ok(()))
                    }
                    QuickRead::Bypass => {
                        self.0.note_first_read(&at);
                        self.0.wake_reader();
                        self.0.bypass_now(request, first)
                    }
                    QuickRead::Compressed if self.0.decoder.decode_into(&at, into) => {
                        // Some of its blocks may have been fetched ahead.
                        self.0.wake_reader();
                        self.0.lane.charge(Cost::Hit, blocks);
                        Some(Ok(()))
                    }
                    QuickRead::Compressed | QuickRead::Unknown => None,
                }
            }
            Request::Write { from, fua: false, .. } => {
                let change = self.0.change(at, Source::Data(from), false);
                match change.barred {
                    None => self.0.try_absorb(entry, &change),
                    Some(_) => self.0.write_direct(entry, request, &change),
                }
            }
            _ => None,
        }
    }

    fn prefetch(&self, requests: &[Request]) {
        // In waves, so that the waits for memory overlap: each step uses what the step before
        // prefetched.
        for wave in requests.chunks(WAVE) {
            let mut slots = [None; WAVE];
            let locate = |request: &Request| {
                let Request::Read { at, .. } = request else {
                    return None;
                };
                let block = blocks_of(at).0;
                Some((&self.0.shared.shards.of(block).prefetcher, block))
            };
            for (prefetcher, block) in wave.iter().filter_map(locate) {
                prefetcher.prefetch_cell(block);
            }
            for (request, slot) in wave.iter().zip(&mut slots) {
                *slot = locate(request).and_then(|(prefetcher, block)| {
                    Some((prefetcher, prefetcher.prefetch_slot(block)?))
                });
            }
            for (prefetcher, slot) in slots.into_iter().flatten() {
                prefetcher.prefetch_neighbours(slot);
            }
        }
    }

    async fn run(&self, request: Request) -> Result {
        match request {
            Request::Read { at, into } => self.0.read(at, into, Reader::Client).await,
            // In a separate allocation: otherwise the futures of reads would have the size of a
            // writeback's future.
            request => {
                let handle = self.0.clone();
                self.0.lane.pin(async move { handle.change_or_flush(request).await }).await
            }
        }
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.0.status(at).await
    }

    fn stall(&self) -> Option<&Arc<Stall>> {
        Some(&self.0.shared.backing.stall)
    }

    fn link(&self) -> Option<&Arc<LinkState>> {
        self.0.below.link()
    }
}

impl Handle {
    async fn change_or_flush(&self, request: Request) -> Result {
        match request {
            Request::Read { .. } => unreachable!("reads have their own way"),
            Request::Write { at, ref from, fua } => {
                self.change_all(at, Source::Data(from), fua).await
            }
            Request::Discard { at } => self.discard(at).await,
            Request::Zero { at, fua, may_unmap } => {
                let zeros = Source::Zeros { may_unmap, discard: false };
                self.change_all(at, zeros, fua).await
            }
            Request::Advise { at, advice: Advice::WillNeed } => self.will_need(at).await,
            Request::Flush => {
                let start = self.lane.now();
                let result = self.flush_for_client().await;
                self.shared.stats.latencies.flush_ns.record(self.lane.now() - start);
                result
            }
        }
    }
}
