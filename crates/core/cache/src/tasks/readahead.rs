//! Readahead of streams, of the start-up list and of the list of hot blocks: fixed tasks on every
//! lane that pull pieces, independent of any request. Pieces of the lists are begun only if no
//! stream needs one, and only as far as clients leave the backing some parallelism.
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

/// Result of fetching a piece.
struct Fetched {
    /// There was anything to fetch.
    asked: bool,
    /// It was requested as a whole, and has arrived.
    came: bool,
}

impl Handle {
    /// Wakes a task to look for a piece, if there may be one. That task wakes the next one.
    #[inline]
    pub(crate) fn wake_reader(&self) {
        let shared = &self.shared;
        if shared.streams.has_due() && self.may_read_ahead() {
            shared.streams.wake(self.reads());
        } else if shared.warming.is_reading()
            && self.may_read_list()
            && shared.warming.has_room(self.requests_of_others(), self.lane.now())
        {
            shared.streams.work.notify_one();
        }
    }

    /// The number of requests that the backing has not answered, without those of the list.
    fn requests_of_others(&self) -> u32 {
        let in_flight = &self.shared.backing.in_flight;
        let waiting = |kind| in_flight.waiting(kind);
        let ahead = waiting(RequestKind::Readahead);
        let of_streams = ahead.saturating_sub(self.shared.warming.in_flight());
        let changes = waiting(RequestKind::Change) + waiting(RequestKind::Flush);
        waiting(RequestKind::Read) + changes + of_streams
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

    /// Notes for the start-up list that a client reads these sectors, unless that was a hit of a
    /// block in use.
    #[inline]
    pub(crate) fn note_first_read(&self, at: &Extent) {
        let (first, blocks) = blocks_of(at);
        let now_ns = || self.lane.now();
        self.shared.warming.note_blocks(first..first + u64::from(blocks), now_ns);
    }

    /// Whether blocks of a list may be fetched at the moment. The guard decides
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

    /// Returns the next piece of a stream, if there is one and it may be fetched now.
    fn next_piece(&self) -> Option<Piece> {
        let streams = &self.shared.streams;
        let may = streams.has_due() && self.may_read_ahead();
        if may { streams.next(self.lane.now(), self.reads()) } else { None }
    }

    /// Fetches the next piece of a stream, or else of the list of hot blocks. None: there is none.
    /// Otherwise returns whether there was anything to fetch.
    async fn fetch_next(&self, buffer: &mut Option<Buf>) -> Option<bool> {
        let shared = &self.shared;
        if let Some(piece) = self.next_piece() {
            self.wake_reader();
            let of = AheadOf::Stream { bypasses: piece.bypasses };
            let Fetched { asked, came } = self.fetch_piece(&piece.at, of, buffer).await;
            match came {
                true => {
                    shared.streams.set_under_way_blocks(shared.backing.pipe.blocks_under_way());
                    shared.streams.end(&piece, self.lane.now());
                }
                // A piece that was not requested as a whole cannot be used as a sample.
                false => shared.streams.skip(),
            }
            return Some(asked);
        }
        if !shared.warming.is_reading() || !self.may_read_list() {
            return None;
        }
        let (others, now_ns) = (self.requests_of_others(), self.lane.now());
        let pipe = &shared.backing.pipe;
        let read_ns = pipe.round_trip_ns().unwrap_or(shared.gauges.backing_read_ns());
        let times = warming::Times { read_ns, block_ns: pipe.block_ns() };
        let (piece, begun) = shared.warming.begin_piece(others, times, now_ns)?;
        self.wake_reader();
        let warming::Piece { at, listed } = piece;
        let Fetched { asked, came } = self.fetch_piece(&at, AheadOf::List(listed), buffer).await;
        let blocks = came.then(|| blocks_of(&at).1);
        let block_ns = shared.backing.pipe.block_ns();
        shared.warming.end_piece(begun, listed.source, blocks, block_ns, self.lane.now());
        Some(asked)
    }

    /// Fetches a piece, region by region, and in each region the missing part with one request.
    async fn fetch_piece(&self, at: &Extent, of: AheadOf, buffer: &mut Option<Buf>) -> Fetched {
        let shared = &self.shared;
        let most = shared.geometry.run_blocks;
        let (mut first, end) = (at.first, at.end());
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
            came = fetch.at == *at && result.is_ok();
            first = if result.is_ok() { fetch.at.end() } else { end };
        }
        Fetched { asked, came }
    }

    fn begin_ahead(&self, entry: &ShardEntry, part: &Extent, of: AheadOf) -> Begin {
        let rules = self.rules_of_read(part);
        let may = match of {
            AheadOf::Stream { .. } => {
                Candidate::new(rules, Origin::Ahead).is_admitted() && self.may_read_ahead()
            }
            AheadOf::List(_) => !rules.is_unsettled && self.may_read_list(),
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
                let sent_ns = self.lane.now();
                let result = self.below.run(request).await;
                in_flight.note_answered(sent);
                if result.is_ok() {
                    let blocks = blocks_of(&at).1;
                    self.shared.backing.pipe.note(sent_ns, self.lane.now(), blocks);
                }
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
        match handle.fetch_next(&mut buffer).await {
            Some(true) => {}
            // The next piece may be empty, too.
            Some(false) => handle.lane.rest().await,
            None => streams.work.after(seen).await,
        }
    }
}
