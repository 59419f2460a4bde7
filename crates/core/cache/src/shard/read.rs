//! Reads: held sectors are copied, missing sectors are fetched once.

use super::Shard;
use crate::admission::{Admission, Candidate, Origin, Rules, SkipReason};
use crate::arena::{Clean, Header, State};
use crate::blocks::{bits, blocks_of, share, stretches};
use crate::compressed::decoder::Decoder;
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use crate::shard::fetches::{FillId, Joined};
use crate::shard::rests::RestRules;
use crate::streams::StreamUpdate;
use block::{Buf, Extent};
use core::ops::RangeInclusive;
use policy::{Access, Cause, Hash, Held, Verdict};

/// Result of a first look at a read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuickRead {
    /// All of the read was copied.
    Hit,
    /// All of the read was copied, and some of it for the first time since it was fetched ahead.
    HitAhead,
    /// All of the read was copied, some of it compressed to the lane's decoder.
    Compressed,
    /// Nothing of the read is held or would be admitted: the backing alone answers.
    Bypass,
    /// The read needs [`Shard::look`].
    Unknown,
}

/// Origin of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A client: it may be a part of a stream.
    Client,
    /// The same, for a further part of a client's read.
    Further,
    /// A read made on a client's advice; not part of a stream.
    Adviser,
    /// This program, which looks at the volume's contents: the read changes nothing.
    Observer,
}

impl Reader {
    fn origin(self) -> Origin {
        match self {
            Reader::Client | Reader::Further => Origin::Read,
            Reader::Adviser | Reader::Observer => Origin::Advised,
        }
    }

    /// Returns the origin of the parts of a read behind the first one.
    pub(crate) fn further(self) -> Reader {
        match self {
            Reader::Client => Reader::Further,
            other => other,
        }
    }

    pub(crate) fn is_client(self) -> bool {
        matches!(self, Reader::Client | Reader::Further)
    }
}

/// The next step of a read.
pub(crate) enum Look {
    /// Nothing: all of it was copied.
    Hit,
    /// Wait until the shard changes: another read fetches the same blocks, or no fill is free.
    Wait,
    /// Read these sectors from the backing, then return with them.
    Fetch(Fetch),
}

/// How much of a block a read could copy.
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
    /// The sectors to read.
    pub(crate) at: Extent,
    /// The offset in the request, in sectors.
    pub(crate) skip: u32,
    /// These sectors with the rest of the blocks at their ends, if the rest is fetched as well: see
    /// `rests.rs`.
    pub(crate) whole: Option<Extent>,
    /// The data is in the compressed tier.
    pub(crate) is_compressed: bool,
    /// An observer reads it: it is not measured.
    pub(crate) is_observed: bool,
}

/// The data that a fetch has returned.
#[derive(Clone, Copy)]
pub(crate) struct Fetched<'a> {
    pub(crate) at: Extent,
    pub(crate) from: &'a Buf,
    /// The offset in the buffer, in sectors.
    pub(crate) skip: u32,
}

impl Fetch {
    /// The fetch of these sectors, to the beginning of its buffer.
    pub(super) fn of(id: FillId, at: Extent) -> Fetch {
        Fetch { id, at, skip: 0, whole: None, is_compressed: false, is_observed: false }
    }

    /// Returns the data of the sectors that the read needs, which are in its buffer.
    pub(crate) fn needed<'a>(&self, from: &'a Buf) -> Fetched<'a> {
        Fetched { at: self.at, from, skip: self.skip }
    }

    /// Returns the part of them in a buffer for the sectors of `whole`.
    pub(crate) fn part_of(&self, whole: Extent, buffer: &Buf) -> Buf {
        buffer.part((self.at.first - whole.first) as u32, self.at.count)
    }
}

/// Returns the part of these sectors in the blocks from `from` to `to`.
fn within(at: &Extent, from: u64, to: u64) -> Extent {
    let (sector, _, _) = share(at, from);
    let (last_sector, last_sectors, _) = share(at, to);
    let start = from * u64::from(crate::BLOCK_SECTORS) + u64::from(sector);
    let end = to * u64::from(crate::BLOCK_SECTORS) + u64::from(last_sector + last_sectors);
    Extent::new(start, (end - start) as u32)
}

impl Shard {
    /// Answers a read if all of it is held. Returns `Bypass` if nothing of it is held and it would
    /// not be admitted (only checked for a read of one block, over a backing that
    /// `answers_immediately`).
    #[inline]
    pub(crate) fn try_hit(
        &mut self,
        rules: Rules,
        answers_immediately: bool,
        at: &Extent,
        into: &Buf,
        decoder: &Decoder,
    ) -> QuickRead {
        let (first, blocks) = blocks_of(at);
        let mut compressed = 0;
        for (done, block) in (first..first + u64::from(blocks)).enumerate() {
            match self.copy_block(at, block, into) {
                Copied::All => {}
                Copied::Nothing if self.try_compressed(block, compressed, decoder) => {
                    compressed += 1;
                }
                Copied::Nothing if done == 0 && answers_immediately && blocks == 1 => {
                    return self.try_bypass(rules, at, block);
                }
                _ => {
                    self.settle_found();
                    return QuickRead::Unknown;
                }
            }
        }
        if compressed > 0 {
            self.count_compressed_hit(at, compressed);
            return QuickRead::Compressed;
        }
        self.count_hit(at)
    }

    /// Counts a read of which all was held. The result shows whether it found blocks that were
    /// fetched ahead.
    #[inline]
    pub(super) fn count_hit(&mut self, at: &Extent) -> QuickRead {
        let (first, blocks) = blocks_of(at);
        self.counters.read_hits.add(1);
        self.counters.blocks_hit.add(u64::from(blocks));
        if self.ahead.has_found() {
            self.report_found(at);
            return QuickRead::HitAhead;
        }
        self.accessed(first, blocks, 0, Access::Read);
        QuickRead::Hit
    }

    /// Reports to the streams a read that has found blocks fetched ahead.
    #[cold]
    fn report_found(&mut self, at: &Extent) {
        let (first, blocks) = blocks_of(at);
        let found = self.ahead.take_found();
        let update = match found.blocks {
            0 => StreamUpdate::default(),
            _ => self.streams.read(at, found.blocks, false),
        };
        // Blocks of a bypassed stream are not reported to the samplers.
        match found.bypasses {
            false => self.accessed(first, blocks, found.kept, Access::Read),
            true => self.record_uncached_reads(found.blocks),
        }
        self.note_long(at, update, found.bypasses);
    }

    /// Decides whether a miss of one block, of which nothing is held, bypasses the cache.
    #[inline]
    fn try_bypass(&mut self, rules: Rules, at: &Extent, block: u64) -> QuickRead {
        let Admission::Skip(reason) = Candidate::new(rules, Origin::Read).admission() else {
            return QuickRead::Unknown;
        };
        match reason {
            // With this reason nothing is fetched ahead either, so streams are not followed.
            SkipReason::GuardAll => self.accessed(block, 1, 1, Access::Read),
            _ => self.report_uncached(at, block),
        }
        self.counters.read_misses.add(1);
        reason.count(&self.counters);
        QuickRead::Bypass
    }

    /// Reports a miss of one block that is not admitted: the policy and the streams can still learn
    /// from it.
    fn report_uncached(&mut self, at: &Extent, block: u64) {
        let update = self.streams.read(at, 0, true);
        self.record_uncached_reads(1);
        if !update.is_bypassed {
            let _ = self.policy.miss(Hash::of(block));
            self.accessed(block, 1, 1, Access::Read);
        }
        self.note_long(at, update, update.is_bypassed);
    }

    /// Copies a read's sectors of one block, if all of them are held.
    #[inline]
    fn copy_block(&mut self, at: &Extent, block: u64, into: &Buf) -> Copied {
        let (sector, sectors, skip) = share(at, block);
        let wanted = bits(sector, sectors);
        match self.current_soon(block) {
            Some((slot, header)) if wanted & !header.mask == 0 => {
                // They are loaded during the copy, after which the slot may move in its list.
                self.links.neighbours(slot).for_each(block::prefetch);
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

    /// Reports to the policy an access to a block that is held.
    #[inline]
    pub(super) fn used(&mut self, slot: u32, header: &Header) {
        let clean = header.state == State::Clean;
        debug_assert!(!header.is_ahead());
        if self.retained.remove(slot) {
            self.counters.blocks_retained_used.add(1);
        }
        let held = if clean { Held::Clean } else { Held::Dirty };
        self.policy.hit(&mut self.links, slot, || Hash::of(header.block), held);
    }

    /// Returns the newest version of a block. Prefetches its bytes as soon as the index names a
    /// slot, so that header, links and bytes are loaded from memory in parallel.
    #[inline]
    fn current_soon(&self, block: u64) -> Option<(u32, Header)> {
        self.current_after(block, |slot| {
            self.arena.prefetch(self.base + slot);
            block::prefetch(self.links.link(slot));
        })
    }

    /// Decides about a read, and copies its held part.
    /// `rests`: the rules for the rest of blocks; None: only the missing part is fetched.
    pub(crate) fn look(
        &mut self,
        rules: Rules,
        reader: Reader,
        rests: Option<&RestRules>,
        at: &Extent,
        into: &Buf,
    ) -> Look {
        if reader == Reader::Observer {
            return self.observe(at, into);
        }
        let (first, blocks) = blocks_of(at);
        let (mut missing, mut missed): (Option<(u64, u64)>, u32) = (None, 0);
        // Blocks that are held in the middle of the fetch, or in part, are marked in it, even if
        // the fetch is not admitted.
        let mut present = false;
        let mut is_compressed = true;
        for block in first..first + u64::from(blocks) {
            let copied = self.copy_block(at, block, into);
            present |= copied != Copied::Nothing;
            if copied != Copied::All {
                missing = Some((missing.map_or(block, |(from, _)| from), block));
                missed += 1;
                is_compressed &= copied == Copied::Nothing && self.tier.has(block);
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
        // A fetch that will not be admitted is also registered while it is in flight: a change that
        // is absorbed during the fetch must mark it. Otherwise the read could return a later change
        // without an earlier one.
        if self.fills.is_full() {
            self.settle_found();
            return Look::Wait;
        }
        if is_compressed {
            return self.look_compressed(rules, at, from, to, present);
        }
        let found = self.ahead.take_found();
        let update = match reader {
            Reader::Client => self.streams.read(at, found.blocks, true),
            Reader::Further => self.streams.read_further(at, found.blocks),
            Reader::Adviser | Reader::Observer => {
                self.streams.found(found.blocks);
                StreamUpdate::default()
            }
        };
        self.counters.readahead_late.add(u64::from(update.was_requested));
        let mut candidate = Candidate {
            is_long_stream: update.is_bypassed,
            free: self.free_slots(),
            ..Candidate::new(rules, reader.origin())
        };
        // Blocks of a bypassed stream are reported neither to the policy nor to the samplers.
        let bypasses = candidate.would_pollute();
        candidate.is_wanted = !bypasses && self.policy_admits_any(from..=to);
        let admission = candidate.admission();
        if !bypasses {
            self.accessed(first, blocks, missed + found.kept, Access::Read);
        }
        if admission != Admission::Keep {
            self.record_uncached_reads(missed + if bypasses { found.blocks } else { 0 });
        }
        self.note_long(at, update, bypasses);
        self.counters.read_misses.add(1);
        if let Admission::Skip(reason) = admission {
            reason.count(&self.counters);
        }
        let keep = admission == Admission::Keep && !self.write_through.meet(from, span);
        let mut fetch = self.begin_fetch(at, from, to, keep);
        if keep && let Some(rests) = rests {
            fetch.whole = self.with_rests(&fetch.at, rests, candidate);
        }
        if present {
            self.mark_held(&fetch, from..=to);
        }
        Look::Fetch(fetch)
    }

    /// Marks in a fetch that begins the sectors that memory answers.
    pub(super) fn mark_held(&mut self, fetch: &Fetch, blocks: RangeInclusive<u64>) {
        for block in blocks {
            let held = self.kept_from_fetch(block);
            self.fills.set_mark(fetch.id, block, held);
        }
    }

    /// Counts a read that waits for the fetches of others.
    fn join(&mut self, at: &Extent, joined: Joined) {
        self.counters.read_joins.add(1);
        self.settle_found();
        if joined == Joined::Ahead {
            self.counters.readahead_late.add(1);
            self.streams.waits(at);
        }
    }

    /// Reports blocks fetched ahead that were found by a read that will look again.
    fn settle_found(&mut self) {
        if self.ahead.has_found() {
            let found = self.ahead.take_found();
            self.streams.found(found.blocks);
        }
    }

    /// Returns the sectors of a block that memory answers, and not a fetch that begins now. For a
    /// clean copy that has lost the sectors of a write-through in progress, no sector: the backing
    /// has the same data. The next write-through may remove other sectors from the copy before the
    /// fetch returns. If memory had to answer those, the read would start again, and so on for as
    /// long as others keep writing there.
    fn kept_from_fetch(&self, block: u64) -> u8 {
        match self.current(block) {
            // A copy that became clean after the write-through began is whole: reads must show it
            // until the write-through ends.
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

    /// Reports the blocks of a fetch to the policy. Returns whether the policy admits any of them:
    /// a fetch is admitted as a whole, with the blocks that were held in its middle.
    pub(super) fn policy_admits_any(&mut self, blocks: RangeInclusive<u64>) -> bool {
        blocks.fold(false, |any, block| any | (self.policy.miss(Hash::of(block)) == Verdict::Keep))
    }

    pub(super) fn begin_fetch(&mut self, at: &Extent, from: u64, to: u64, keep: bool) -> Fetch {
        let id = self.fills.begin(from, (to - from + 1) as u32, keep);
        let skip = share(at, from).2;
        Fetch { skip, ..Fetch::of(id, within(at, from, to)) }
    }

    /// Returns the part of these sectors that a read would have to fetch: from the first missing
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

    /// Copies sectors that memory must answer over the fetched data of these blocks, which is in
    /// the fetch's part of the request's buffer. Returns false if some of these sectors are no
    /// longer held; then the read must look again. To be called for all blocks before any is
    /// admitted: admission may evict sectors that are needed.
    pub(crate) fn overlay(
        &mut self,
        fetch: &Fetch,
        into: &Buf,
        blocks: core::ops::Range<u64>,
    ) -> bool {
        if fetch.is_observed && planted(Bug::ObserveBelow) {
            return true;
        }
        let mut complete = true;
        for block in blocks {
            let (sector, sectors, skip) = share(&fetch.at, block);
            let skip = fetch.skip + skip;
            let marked = self.fills.mark(fetch.id, block, bits(sector, sectors));
            if marked != 0 && !planted(Bug::KeepMarkedFill) {
                self.counters.fills_marked.add(u64::from(!fetch.is_observed));
                complete &= self.copy_marked(block, marked, into, skip, sector);
            }
        }
        complete
    }

    /// Admits the fetched data of these blocks where allowed. Returns the number of admitted
    /// blocks.
    pub(crate) fn keep(
        &mut self,
        gauges: &Gauges,
        fetch: &Fetch,
        fetched: &Fetched,
        blocks: core::ops::Range<u64>,
    ) -> u64 {
        let (careless, before) = (planted(Bug::KeepMarkedFill), self.counters.blocks_filled.get());
        let is_barred = !self.fills.keeps(fetch.id) && !careless;
        if is_barred && !planted(Bug::KeepOverRest) {
            return 0;
        }
        for block in blocks {
            let (sector, sectors, skip) = share(&fetched.at, block);
            let skip = fetched.skip + skip;
            let wanted = bits(sector, sectors);
            let needed = share(&fetch.at, block);
            let mut marked = if careless { 0 } else { self.fills.mark(fetch.id, block, wanted) };
            if planted(Bug::KeepOverRest) {
                let needed = bits(needed.0, needed.1);
                marked = if is_barred { needed } else { marked & needed };
            }
            self.counters.blocks_completed.add(u64::from(sectors > needed.1));
            if wanted & !marked != 0 {
                self.install(gauges, block, wanted & !marked, fetched.from, skip, sector);
            }
        }
        self.counters.blocks_filled.get() - before
    }

    /// Ends a fetch, whether or not it has returned its blocks.
    pub(crate) fn end_fetch(&mut self, gauges: &Gauges, fetch: &Fetch) {
        self.fills.end(fetch.id);
        // The backing's latency may have been measured again.
        self.settle(gauges);
    }

    /// Copies sectors from memory into a read; `skip` is the offset of `sector` in it.
    pub(super) fn copy_marked(
        &self,
        block: u64,
        mask: u8,
        into: &Buf,
        skip: u32,
        sector: u32,
    ) -> bool {
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

    /// Admits fetched sectors of a block, and merges them with its held sectors.
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
        let is_proven = self.tier.was_read(block);
        let Some(slot) = self.take_slot(block) else {
            return SkipReason::NoSlot.count(&self.counters);
        };
        let number = self.base + slot;
        if planted(Bug::PublishBeforeFetch) {
            self.arena.publish(number, &Header::of_copy(block, mask, Clean::Kept, 0));
        }
        stretches(mask, |first, length| {
            self.arena.put_cold(number, first, into, skip + first - sector, length);
        });
        let (mut held, mut stamp) = (mask, 0);
        // Taking the slot may have evicted the held version of the block.
        if let Some((old, header)) = old
            && old != slot
        {
            stamp = self.stamp_of(&header);
            stretches(header.mask & !mask, |first, length| {
                self.arena.copy_sectors(self.base + old, number, first, length);
            });
            held |= header.mask;
            if stamp != 0 {
                // After a kill before the last store, a successor would otherwise find neither
                // copy.
                self.arena.publish(number, &Header::of_copy(block, held, Clean::Kept, stamp));
            }
            self.retire(gauges, old, &header);
        }
        let cause = if is_proven { Cause::Compressed } else { Cause::Fetch };
        self.publish_clean(slot, block, held, stamp, cause);
        self.counters.blocks_filled.add(1);
    }
}
