//! Readahead of streams, and of the list of hot blocks: fixed tasks on every lane that pull pieces,
//! independent of any request. Pieces of the list are begun only if no stream needs one, and only
//! in places of the backing's depth that clients leave free.
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
use crate::shard::{AheadOf, Begin, Fetch};
use crate::streams::Piece;
use crate::warming;
use block::{Buf, Extent, Request, Result, Warm};
use lane::Cost;

impl Handle {
    /// Wakes a task to look for a piece, if there may be one. That task wakes the next one.
    #[inline]
    pub(crate) fn wake_reader(&self) {
        let shared = &self.shared;
        if shared.streams.has_due() && self.may_read_ahead() {
            shared.streams.wake(self.reads(), 1);
        } else if shared.warming.is_reading() && self.may_read_list() {
            shared.streams.wake(self.reads(), 0);
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
            && self.is_backing_well()
    }

    /// Whether blocks of the list of hot blocks may be fetched at the moment. The guard decides
    /// about them as about misses.
    fn may_read_list(&self) -> bool {
        let shared = &self.shared;
        let rules = shared.bypass.rules(shared.settings.write());
        shared.settings.warm() == Warm::List
            && Candidate::new(rules, Origin::Listed).is_admitted()
            && self.is_backing_well()
    }

    fn is_backing_well(&self) -> bool {
        !self.shared.backing.stall.is_on() && !self.shared.backing.health.has_failed()
    }

    /// Returns the next piece, if there is one and it may be fetched now.
    fn next_piece(&self) -> Option<(Piece, AheadOf)> {
        let shared = &self.shared;
        let (streams, now_ns, reads) = (&shared.streams, self.lane.now(), self.reads());
        if streams.has_due()
            && self.may_read_ahead()
            && let Some(piece) = streams.next(now_ns, reads)
        {
            return Some((piece, AheadOf::Stream { bypasses: piece.bypasses }));
        }
        if !shared.warming.is_reading() || !self.may_read_list() {
            return None;
        }
        let gap = warming::gap(shared.gauges.backing_read_ns(), streams.depth());
        let take = || shared.warming.next(gap, now_ns);
        let (piece, listed) = streams.begin_below(now_ns, reads, take)?;
        Some((piece, AheadOf::List(listed)))
    }

    /// Fetches a piece, region by region, and in each region the missing part with one request.
    /// Returns whether there was anything to fetch.
    async fn fetch_piece(&self, piece: &Piece, of: AheadOf, buffer: &mut Option<Buf>) -> bool {
        let shared = &self.shared;
        let most = shared.geometry.run_blocks;
        let (mut first, end) = (piece.at.first, piece.at.end());
        let (mut came, mut asked) = (false, false);
        while first < end {
            let count = shared.shards.stretch(first).min(cut(first, most.into())).min(end - first);
            let part = Extent::new(first, count as u32);
            let entry = shared.shards.of(blocks_of(&part).0);
            self.lane.turn().await;
            let fetch = match self.begin_ahead(entry, &part, of) {
                Begin::Fetch(fetch) => fetch,
                Begin::Nothing => {
                    first = part.end();
                    continue;
                }
                Begin::Full => {
                    if let AheadOf::Stream { .. } = of {
                        shared.streams.refused(&part);
                    }
                    break;
                }
            };
            asked = true;
            let into = buffer
                .get_or_insert_with(|| Buf::new(most * BLOCK_SECTORS, shared.limits.grain))
                .part(0, fetch.at.count);
            let result = self.read_ahead_below(fetch.at, into.clone()).await;
            self.end_ahead(entry, &fetch, result.is_ok().then_some(&into), of).await;
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

    fn begin_ahead(&self, entry: &ShardEntry, part: &Extent, of: AheadOf) -> Begin {
        let shared = &self.shared;
        let rules = shared.bypass.rules(shared.settings.write());
        let may = match of {
            AheadOf::Stream { .. } => {
                Candidate::new(rules, Origin::Ahead).is_admitted() && self.may_read_ahead()
            }
            AheadOf::List(_) => self.may_read_list(),
        };
        if !may {
            return Begin::Nothing;
        }
        entry.shard.with(|shard| shard.begin_ahead(part, of))
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
    async fn end_ahead(&self, entry: &ShardEntry, fetch: &Fetch, from: Option<&Buf>, of: AheadOf) {
        let gauges = &self.shared.gauges;
        let (first, blocks) = blocks_of(&fetch.at);
        let all = first..first + u64::from(blocks);
        if let Some(from) = from {
            for slice in slices(all) {
                self.lane.turn().await;
                entry.shard.with(|shard| {
                    shard.keep_ahead(gauges, fetch, from, slice.clone(), of);
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
            entry.shard.with(|shard| shard.fail_ahead(gauges, fetch, of));
            if let AheadOf::List(_) = of {
                // Clients find out what else the backing cannot read.
                self.shared.warming.stop(self.lane.now());
            }
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
            Some((piece, of)) => {
                handle.wake_reader();
                if !handle.fetch_piece(&piece, of, &mut buffer).await {
                    // The next piece may be empty, too.
                    handle.lane.rest().await;
                }
            }
            None => streams.work.after(seen).await,
        }
    }
}
