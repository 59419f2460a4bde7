//! Readahead of streams: fixed tasks on every lane that pull pieces, independent of any request.
//!
//! Their fetches are registered in the shard like every fetch: changes mark them, reads may join
//! them. They do not count in the measured latency of reads, and writeback does not yield to them.
//! Their errors are not reported: a read that has joined looks again, and sends its own request to
//! the backing.

use crate::BLOCK_SECTORS;
use crate::admission::{Candidate, Origin};
use crate::backing::in_flight::RequestKind;
use crate::blocks::{blocks_of, cut, slices};
use crate::bypass::balance::is_slow;
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::shards::ShardEntry;
use crate::shard::{Begin, Fetch};
use crate::streams::Piece;
use block::{Buf, Extent, Request, Result};
use lane::Cost;

impl Handle {
    /// Wakes a task to look for a piece, if there may be one. That task wakes the next one.
    #[inline]
    pub(crate) fn wake_reader(&self) {
        if self.shared.streams.has_due() && self.may_read_ahead() {
            self.shared.streams.wake(self.reads());
        }
    }

    /// The number of clients' reads that the backing has not answered.
    fn reads(&self) -> u32 {
        self.shared.backing.in_flight.waiting(RequestKind::Read)
    }

    /// Whether readahead is allowed at the moment. Not over a backing that is as fast as memory:
    /// there a copy costs more than it saves.
    fn may_read_ahead(&self) -> bool {
        let shared = &self.shared;
        let read_ns = shared.gauges.backing_read_ns();
        shared.settings.readahead()
            && is_slow(read_ns, shared.settings.fill_cost_ns)
            && !shared.backing.stall.is_on()
            && !shared.backing.health.has_failed()
    }

    /// Returns the next piece, if there is one and it may be fetched now.
    fn next_piece(&self) -> Option<Piece> {
        let streams = &self.shared.streams;
        let may = streams.has_due() && self.may_read_ahead();
        if may { streams.next(self.lane.now(), self.reads()) } else { None }
    }

    /// Fetches a piece, region by region, and in each region the missing part with one request.
    /// Returns whether there was anything to fetch.
    async fn fetch_piece(&self, piece: &Piece, buffer: &mut Option<Buf>) -> bool {
        let shared = &self.shared;
        let most = shared.geometry.run_blocks;
        let (mut first, end) = (piece.at.first, piece.at.end());
        let (mut came, mut asked) = (false, false);
        while first < end {
            let count = shared.shards.stretch(first).min(cut(first, most.into())).min(end - first);
            let part = Extent::new(first, count as u32);
            let entry = shared.shards.of(blocks_of(&part).0);
            self.lane.turn().await;
            let fetch = match self.begin_readahead(entry, &part) {
                Begin::Fetch(fetch) => fetch,
                Begin::Nothing => {
                    first = part.end();
                    continue;
                }
                Begin::Full => {
                    shared.streams.refused(&part);
                    break;
                }
            };
            asked = true;
            let into = buffer
                .get_or_insert_with(|| Buf::new(most * BLOCK_SECTORS, shared.limits.grain))
                .part(0, fetch.at.count);
            let result = self.read_ahead_below(fetch.at, into.clone()).await;
            self.end_readahead(entry, &fetch, result.is_ok().then_some(&into), piece.bypasses)
                .await;
            came = fetch.at == piece.at && result.is_ok();
            first = if result.is_ok() { fetch.at.end() } else { end };
        }
        match came {
            true => shared.streams.end(piece, self.lane.now()),
            // A piece that was not requested as a whole cannot be used as a sample.
            false => shared.streams.skip(),
        }
        asked
    }

    fn begin_readahead(&self, entry: &ShardEntry, part: &Extent) -> Begin {
        let shared = &self.shared;
        let rules = shared.bypass.rules(shared.settings.write());
        if !Candidate::new(rules, Origin::Ahead).is_admitted() || !self.may_read_ahead() {
            return Begin::Nothing;
        }
        entry.shard.with(|shard| shard.begin_readahead(part))
    }

    async fn read_ahead_below(&self, at: Extent, into: Buf) -> Result {
        let request = Request::Read { at, into };
        self.lane.turn().await;
        let now = self.below.try_now(&request);
        let is_now = now.is_some();
        let result = match now {
            Some(result) => result,
            None => {
                let in_flight = &self.shared.backing.in_flight;
                let sent = in_flight.note_sent(RequestKind::Readahead);
                let result = self.below.run(request).await;
                in_flight.note_answered(sent);
                result
            }
        };
        if result.is_err() {
            self.shared.backing.health.count_read_error();
        }
        if is_now {
            // The backing may answer a whole window this way.
            self.lane.rest().await;
        }
        result
    }

    /// Ends a fetch: `from` has its data; None if it failed.
    async fn end_readahead(
        &self,
        entry: &ShardEntry,
        fetch: &Fetch,
        from: Option<&Buf>,
        bypasses: bool,
    ) {
        let gauges = &self.shared.gauges;
        let (first, blocks) = blocks_of(&fetch.at);
        let all = first..first + u64::from(blocks);
        if let Some(from) = from {
            for slice in slices(all) {
                self.lane.turn().await;
                entry.shard.with(|shard| {
                    shard.keep_readahead(gauges, fetch, from, slice.clone(), bypasses);
                    if slice.end == first + u64::from(blocks) {
                        shard.end_fetch(gauges, fetch);
                    }
                });
            }
            self.lane.charge(Cost::Fill, blocks);
        } else {
            self.lane.turn().await;
            if planted(Bug::AnswerReadaheadError) {
                self.shared.streams.plant_failed(first);
            }
            entry.shard.with(|shard| shard.fail_readahead(gauges, fetch));
        }
        entry.changed.notify();
    }
}

/// A task that fetches one piece after the other.
pub(crate) async fn read_ahead(handle: &Handle) {
    let streams = &handle.shared.streams;
    let mut buffer = None;
    loop {
        let seen = streams.work.seen();
        if handle.shared.tasks.are_stopping() {
            return;
        }
        match handle.next_piece() {
            Some(piece) => {
                handle.wake_reader();
                if !handle.fetch_piece(&piece, &mut buffer).await {
                    // The next piece may be empty, too.
                    handle.lane.rest().await;
                }
            }
            None => streams.work.after(seen).await,
        }
    }
}
