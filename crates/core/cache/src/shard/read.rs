//! Reads: what is held is copied, what is missing is fetched once.

use super::Shard;
use crate::admission::{Admission, Candidate, Origin, Rules, SkipReason};
use crate::arena::{Clean, Header, State};
use crate::blocks::{bits, blocks_of, share, stretches};
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use crate::shard::fetches::{FillId, Joined};
use crate::streams::Heard;
use block::{Buf, Extent};
use core::ops::RangeInclusive;

/// What a first look at a read says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glance {
    /// All of it was copied.
    Hit,
    /// The same, and some of it for the first time since it was fetched ahead.
    HitAhead,
    /// Nothing of it is held or would be kept: the backing alone answers.
    Bypass,
    /// It needs a closer look.
    Unknown,
}

/// What wants a read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A client: it may be a part of a stream.
    Client,
    /// What follows advice: that has said by itself what will be read.
    Adviser,
}

impl Reader {
    fn origin(self) -> Origin {
        match self {
            Reader::Client => Origin::Read,
            Reader::Adviser => Origin::Advised,
        }
    }
}

/// What a read has to do.
pub(crate) enum Look {
    /// Nothing: all of it was copied.
    Hit,
    /// Wait until the shard changes: another read fetches the same, or no fill is free.
    Wait,
    /// Read this much of the backing, then come back with it.
    Fetch(Fetch),
}

/// How much of a block was there for a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    All,
    Partly,
    Nothing,
}

/// A fetch: the part of a read that the backing must answer.
#[derive(Clone, Copy)]
pub(crate) struct Fetch {
    pub(crate) id: FillId,
    /// What to read.
    pub(crate) at: Extent,
    /// Where it stands in the request, in sectors.
    pub(crate) skip: u32,
}
use policy::{Access, Cause, Hash, Held, Verdict};

/// What of these sectors lies in the blocks from `from` to `to`.
fn within(at: &Extent, from: u64, to: u64) -> Extent {
    let (sector, _, _) = share(at, from);
    let (last_sector, last_sectors, _) = share(at, to);
    let start = from * u64::from(crate::BLOCK_SECTORS) + u64::from(sector);
    let end = to * u64::from(crate::BLOCK_SECTORS) + u64::from(last_sector + last_sectors);
    Extent::new(start, (end - start) as u32)
}

impl Shard {
    /// Answers a read if all of it is held, or says that it is no business of the cache: nothing of
    /// it is held, and it would not be kept (only asked if the backing can answer `at_once`).
    #[inline]
    pub(crate) fn glance(
        &mut self,
        rules: Rules,
        at_once: bool,
        at: &Extent,
        into: &Buf,
    ) -> Glance {
        let (first, blocks) = blocks_of(at);
        for (done, block) in (first..first + u64::from(blocks)).enumerate() {
            match self.copy_block(at, block, into) {
                Copied::All => {}
                Copied::Nothing if done == 0 && at_once && blocks == 1 => {
                    return self.decline(rules, at, block);
                }
                _ => {
                    self.settle_found();
                    return Glance::Unknown;
                }
            }
        }
        self.count_hit(at)
    }

    /// All of a read was held. Whether it has found what was fetched ahead of it.
    #[inline]
    fn count_hit(&mut self, at: &Extent) -> Glance {
        let (first, blocks) = blocks_of(at);
        self.counters.read_hits += 1;
        self.counters.blocks_hit += u64::from(blocks);
        if self.ahead.has_found() {
            self.hear_found(at);
            return Glance::HitAhead;
        }
        self.accessed(first, blocks, 0, Access::Read);
        Glance::Hit
    }

    /// The streams hear of a read that has found what was fetched ahead of it.
    #[cold]
    fn hear_found(&mut self, at: &Extent) {
        let (first, blocks) = blocks_of(at);
        let found = self.ahead.take_found();
        let heard = match found.blocks {
            0 => Heard::default(),
            _ => self.streams.read(at, found.blocks, false),
        };
        // Streams that are not kept are no business of policies either.
        match found.passing {
            false => self.accessed(first, blocks, found.kept, Access::Read),
            true => self.goes_past(found.blocks),
        }
        self.note_long(at, heard, found.passing);
    }

    /// A miss of one block that nothing is held of: whether it goes past without being kept.
    #[inline]
    fn decline(&mut self, rules: Rules, at: &Extent, block: u64) -> Glance {
        let Admission::Skip(reason) = Candidate::new(rules, Origin::Read).admission() else {
            return Glance::Unknown;
        };
        match reason {
            // Nothing is fetched ahead either: it does not matter what streams there are.
            SkipReason::GuardAll => self.accessed(block, 1, 1, Access::Read),
            _ => self.announce(at, block),
        }
        self.counters.read_misses += 1;
        reason.count(&mut self.counters);
        Glance::Bypass
    }

    /// A miss of one block that is not kept: a policy and the streams may learn from it all the
    /// same.
    fn announce(&mut self, at: &Extent, block: u64) {
        let heard = self.streams.read(at, 0, true);
        self.goes_past(1);
        if !heard.passes {
            let _ = self.policy.miss(Hash::of(block));
            self.accessed(block, 1, 1, Access::Read);
        }
        self.note_long(at, heard, heard.passes);
    }

    /// Copies what a read wants of one block, if all of that is held.
    #[inline]
    fn copy_block(&mut self, at: &Extent, block: u64, into: &Buf) -> Copied {
        let (sector, sectors, skip) = share(at, block);
        let wanted = bits(sector, sectors);
        match self.current_soon(block) {
            Some((slot, header)) if wanted & !header.mask == 0 => {
                self.arena.get(self.base + slot, sector, into, skip, sectors);
                match header.is_ahead() {
                    false => self.used(slot, &header),
                    true => self.found_ahead(slot, &header),
                }
                Copied::All
            }
            Some(_) => Copied::Partly,
            None if self.zeroes.cover(block) => {
                into.zero_part(skip, sectors);
                Copied::All
            }
            None => Copied::Nothing,
        }
    }

    /// The policy hears of an access to a block that is held.
    #[inline]
    pub(super) fn used(&mut self, slot: u32, header: &Header) {
        let clean = header.state == State::Clean;
        debug_assert!(!header.is_ahead());
        let held = if clean { Held::Clean } else { Held::Dirty };
        self.policy.hit(&mut self.links, slot, || Hash::of(header.block), held);
    }

    /// The newest version of a block, with its bytes asked for as soon as the index names a slot:
    /// header, links and bytes then come from memory at the same time.
    #[inline]
    fn current_soon(&self, block: u64) -> Option<(u32, Header)> {
        self.current_after(block, |slot| {
            self.arena.prefetch(self.base + slot);
            block::prefetch(self.links.link(slot));
        })
    }

    /// Decides about a read, and copies what is held of it.
    pub(crate) fn look(&mut self, rules: Rules, reader: Reader, at: &Extent, into: &Buf) -> Look {
        let (first, blocks) = blocks_of(at);
        let (mut missing, mut missed): (Option<(u64, u64)>, u32) = (None, 0);
        // Even a miss that is not kept must mind what is held in its middle, or in part.
        let mut present = false;
        for block in first..first + u64::from(blocks) {
            let copied = self.copy_block(at, block, into);
            present |= copied != Copied::Nothing;
            if copied != Copied::All {
                missing = Some((missing.map_or(block, |(from, _)| from), block));
                missed += 1;
            }
        }
        let Some((from, to)) = missing else {
            self.count_hit(at);
            return Look::Hit;
        };
        let span = (to - from + 1) as u32;
        if let Some(joined) = self.fills.covers(from, span) {
            self.join(at, joined);
            return Look::Wait;
        }
        // Also what will not be kept is noted while it is under way: a change that is absorbed
        // meanwhile must mark it, or it could show a later change before this one was seen.
        if self.fills.is_full() {
            self.settle_found();
            return Look::Wait;
        }
        let found = self.ahead.take_found();
        let heard = match reader {
            Reader::Client => self.streams.read(at, found.blocks, true),
            Reader::Adviser => {
                self.streams.found(found.blocks);
                Heard::default()
            }
        };
        self.counters.readahead_late += u64::from(heard.was_asked);
        let mut candidate = Candidate {
            is_long_stream: heard.passes,
            free: self.free.length,
            ..Candidate::new(rules, reader.origin())
        };
        // Blocks of a stream that is not kept are not reported to the policy.
        let passes = candidate.would_pollute();
        candidate.is_wanted = !passes && self.policy_wants(from..=to);
        let admission = candidate.admission();
        if !passes {
            self.accessed(first, blocks, missed + found.kept, Access::Read);
        }
        if admission != Admission::Keep {
            self.goes_past(missed + if passes { found.blocks } else { 0 });
        }
        self.note_long(at, heard, passes);
        self.counters.read_misses += 1;
        if let Admission::Skip(reason) = admission {
            reason.count(&mut self.counters);
        }
        let keep = admission == Admission::Keep && !self.write_through.meet(from, span);
        let fetch = self.begin_fetch(at, from, to, keep);
        if present {
            for block in from..=to {
                let held = self.kept_from_fetch(block);
                self.fills.set_mark(fetch.id, block, held);
            }
        }
        Look::Fetch(fetch)
    }

    /// A read waits for fetches of others.
    fn join(&mut self, at: &Extent, joined: Joined) {
        self.counters.read_joins += 1;
        self.settle_found();
        if joined == Joined::Ahead {
            self.counters.readahead_late += 1;
            self.streams.waits(at);
        }
    }

    /// A read that will look again has found blocks that were fetched ahead of it.
    fn settle_found(&mut self) {
        if self.ahead.has_found() {
            let found = self.ahead.take_found();
            self.streams.found(found.blocks);
        }
    }

    /// Which sectors of a block memory answers, whatever a fetch of it brings that begins now. Of a
    /// clean copy beside a pass, whose sectors it has lost, none: the backing has the same. When
    /// the fetch is back, the next pass may be under way, and what memory lacks then would have to
    /// be fetched again, as long as others go on to write there.
    fn kept_from_fetch(&self, block: u64) -> u8 {
        match self.current(block) {
            // One that became clean since the pass began is whole: reads must go on to show it
            // until that ends.
            Some((_, header))
                if header.state == State::Clean
                    && header.mask != 0xff
                    && self.write_through.meet(block, 1) =>
            {
                0
            }
            _ => self.presence(block),
        }
    }

    /// Announces the blocks of a fetch to the policy. Whether it keeps any of them: a fetch is kept
    /// as a whole, with what was held in its middle.
    fn policy_wants(&mut self, blocks: RangeInclusive<u64>) -> bool {
        blocks.fold(false, |any, block| any | (self.policy.miss(Hash::of(block)) == Verdict::Keep))
    }

    fn begin_fetch(&mut self, at: &Extent, from: u64, to: u64, keep: bool) -> Fetch {
        let id = self.fills.begin(from, (to - from + 1) as u32, keep);
        Fetch { id, at: within(at, from, to), skip: share(at, from).2 }
    }

    /// The part of these sectors that a read of them would have to fetch: from the first missing
    /// block to the last.
    pub(crate) fn missing(&self, at: &Extent) -> Option<Extent> {
        let (first, blocks) = blocks_of(at);
        let is_missing = |block: &u64| {
            let (sector, sectors, _) = share(at, *block);
            bits(sector, sectors) & !self.presence(*block) != 0
        };
        let mut missing = (first..first + u64::from(blocks)).filter(is_missing);
        let from = missing.next()?;
        Some(within(at, from, missing.next_back().unwrap_or(from)))
    }

    /// A fetch has come back into its part of the request's buffer. Puts what memory knows better
    /// of these blocks over what was fetched. False: some of that is held no longer; the read must
    /// look again. To be done for all blocks before anything is kept: keeping may evict what is
    /// needed.
    pub(crate) fn overlay(
        &mut self,
        fetch: &Fetch,
        into: &Buf,
        blocks: core::ops::Range<u64>,
    ) -> bool {
        let mut complete = true;
        for block in blocks {
            let (sector, sectors, skip) = share(&fetch.at, block);
            let skip = fetch.skip + skip;
            let marked = self.fills.mark(fetch.id, block, bits(sector, sectors));
            if marked != 0 && !planted(Bug::KeepMarkedFill) {
                self.counters.fills_marked += 1;
                complete &= self.copy_marked(block, marked, into, skip, sector);
            }
        }
        complete
    }

    /// Keeps what may be kept of these blocks of a fetch. Returns how many were.
    pub(crate) fn keep(
        &mut self,
        gauges: &Gauges,
        fetch: &Fetch,
        into: &Buf,
        blocks: core::ops::Range<u64>,
    ) -> u64 {
        let (careless, before) = (planted(Bug::KeepMarkedFill), self.counters.blocks_filled);
        if !self.fills.keeps(fetch.id) && !careless {
            return 0;
        }
        for block in blocks {
            let (sector, sectors, skip) = share(&fetch.at, block);
            let skip = fetch.skip + skip;
            let wanted = bits(sector, sectors);
            let marked = if careless { 0 } else { self.fills.mark(fetch.id, block, wanted) };
            if wanted & !marked != 0 {
                self.install(gauges, block, wanted & !marked, into, skip, sector);
            }
        }
        self.counters.blocks_filled - before
    }

    /// The fetch is over, with its blocks or without.
    pub(crate) fn end_fetch(&mut self, gauges: &Gauges, fetch: &Fetch) {
        self.fills.end(fetch.id);
        // The backing's latency may have been measured anew.
        self.settle(gauges);
    }

    /// Puts sectors that memory holds into a read; `skip` is where `sector` stands in it.
    fn copy_marked(&self, block: u64, mask: u8, into: &Buf, skip: u32, sector: u32) -> bool {
        match self.current(block) {
            Some((slot, header)) if mask & !header.mask == 0 => {
                stretches(mask, |first, length| {
                    self.arena.get(self.base + slot, first, into, skip + first - sector, length);
                });
                true
            }
            None if self.zeroes.cover(block) => {
                stretches(mask, |first, length| into.zero_part(skip + first - sector, length));
                true
            }
            _ => false,
        }
    }

    /// Keeps fetched sectors of a block, beside what is held of it.
    fn install(
        &mut self,
        gauges: &Gauges,
        block: u64,
        mask: u8,
        into: &Buf,
        skip: u32,
        sector: u32,
    ) {
        let old = self.current(block);
        if let Some((_, header)) = old
            && (header.state != State::Clean || mask & !header.mask == 0)
            && !(planted(Bug::KeepMarkedFill) && header.state == State::Clean)
        {
            return;
        }
        let Some(slot) = self.take_slot(block) else {
            return SkipReason::NoSlot.count(&mut self.counters);
        };
        let number = self.base + slot;
        stretches(mask, |first, length| {
            self.arena.put(number, first, into, skip + first - sector, length);
        });
        let (mut held, mut stamp) = (mask, 0);
        // Taking the slot may have evicted what was held of the block.
        if let Some((old, header)) = old
            && old != slot
        {
            stamp = self.stamp_of(&header);
            stretches(header.mask & !mask, |first, length| {
                self.arena.carry(self.base + old, number, first, length);
            });
            held |= header.mask;
            if stamp != 0 {
                // Killed before the last store, a successor would else find neither copy.
                self.arena.publish(number, &Header::of_copy(block, held, Clean::Kept, stamp));
            }
            self.retire(gauges, old, &header);
        }
        self.publish_clean(slot, block, held, stamp, Cause::Fetch);
        self.counters.blocks_filled += 1;
    }
}
