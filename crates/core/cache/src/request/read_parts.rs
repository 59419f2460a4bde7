//! Reads that are split at the borders of regions and of runs. The parts that need the backing wait
//! for it beside one another: one after the other, a read of several parts would wait as many times
//! as long, which is most of its time where the backing is far away.

use crate::handle::Handle;
use crate::shard::Reader;
use alloc::rc::Rc;
use block::{Buf, Extent, Result};
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use lane::Pooled;

/// Maximum number of parts behind the first waiting one that wait beside it.
const BESIDE_MAX: usize = 8;

/// Parts of a read that wait, in the lane's memory.
struct Waiting {
    parts: [Option<Pooled<Result>>; BESIDE_MAX],
    /// The first error; no further part begins after it.
    result: Result,
}

impl Waiting {
    /// Polls each part, and begins the next ones in the place of those that have ended.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        more: &mut impl Iterator<Item = Pooled<Result>>,
    ) -> Poll<()> {
        for place in 0..BESIDE_MAX {
            loop {
                if self.parts[place].is_none() && self.result.is_ok() {
                    self.parts[place] = more.next();
                }
                let Some(part) = &mut self.parts[place] else { break };
                let Poll::Ready(ended) = Pin::new(part).poll(context) else { break };
                self.parts[place] = None;
                self.note(ended);
            }
        }
        match self.parts.iter().all(Option::is_none) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn note(&mut self, ended: Result) {
        if self.result.is_ok() {
            self.result = ended;
        }
    }
}

impl Handle {
    /// Serves a read. Its parts are served in order up to the first one that waits for the backing;
    /// those behind it begin while it waits.
    pub(crate) async fn read(self: &Rc<Self>, at: Extent, into: Buf, reader: Reader) -> Result {
        if self.part_at(at.first) >= u64::from(at.count) {
            return self.read_part(at, &into, reader).await;
        }
        let mut done = 0;
        let mut parts = core::iter::from_fn(|| {
            let first = at.first + u64::from(done);
            let count = self.part_at(first).min(u64::from(at.count - done)) as u32;
            let part = (Extent::new(first, count), into.part(done, count));
            done += count;
            (count > 0).then_some(part)
        });
        let mut its = reader;
        while let Some((at, into)) = parts.next() {
            let mut part = pin!(self.read_part(at, &into, its));
            match poll_fn(|context| Poll::Ready(part.as_mut().poll(context))).await {
                Poll::Ready(result) => result?,
                Poll::Pending => return self.read_beside(part, parts, reader.further()).await,
            }
            its = reader.further();
        }
        Ok(())
    }

    /// Returns the number of sectors from `sector` on that one part may have.
    fn part_at(&self, sector: u64) -> u64 {
        let block = u64::from(crate::BLOCK_SECTORS);
        let run = u64::from(self.shared.geometry.run_blocks) * block;
        self.shared.shards.stretch(sector).min(run - sector % block)
    }

    /// Serves the rest of a read beside its first part that waits. All parts have ended when it
    /// returns, also after an error.
    async fn read_beside(
        self: &Rc<Self>,
        first: Pin<&mut impl Future<Output = Result>>,
        parts: impl Iterator<Item = (Extent, Buf)>,
        reader: Reader,
    ) -> Result {
        let mut more = parts.map(|(at, into)| {
            let handle = self.clone();
            self.lane.pin(async move { handle.read_part(at, &into, reader).await })
        });
        let mut first = Some(first);
        let mut waiting = Waiting { parts: Default::default(), result: Ok(()) };
        poll_fn(|context| {
            let ended = first.as_mut().map(|part| part.as_mut().poll(context));
            if let Some(Poll::Ready(result)) = ended {
                waiting.note(result);
                first = None;
            }
            let others = waiting.poll(context, &mut more);
            if first.is_some() { Poll::Pending } else { others }
        })
        .await;
        waiting.result
    }
}
