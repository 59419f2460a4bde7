//! Recovery: taking over an arena from an earlier process (C5, C7).
//!
//! Everything that was dirty in any state is dirty again: blocks that were in flight to the
//! backing, or were written but not flushed, are written again. So are the held copies of
//! write-throughs: a flush of the backing may have been in progress that has lost them (C1). Other
//! clean slots are freed, unless nothing can have changed the backing since (C9, `clean/`), and so
//! are the pages of compressed blocks. Of
//! two versions of a block, the later epoch wins, then the higher sequence.
//! Epochs that were closed stay before the one that was open, in their order. Data that was already
//! durable is not written again: it may be older than the data on the backing. Nothing else is
//! released before it is durable, so that recovery after another crash finds the same again.

mod clean;
mod pages;
#[cfg(test)]
mod tests;

pub use clean::CleanBlocks;

use crate::BLOCK_SECTORS;
use crate::arena::superblock::{Condition, Unrecoverable};
use crate::arena::{Arena, ExtentHeader, Header, State};
use crate::backing::health::Health;
use crate::compressed::FoundPage;
use crate::dirty::gauges::Gauges;
use crate::epochs::{CHAIN_MAX, Epochs, FIRST, NUMBERS, is_before};
use crate::geometry::{Format, Geometry};
use crate::planted::{Bug, planted};
use crate::settings::Live;
use crate::shard::Shard;
use crate::shard::shards::Shards;
use crate::spread::Spread;
use crate::stats::volume::VolumeStats;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use block::{Error, Kind};
use core::ops::Range;

const FAILED_BEFORE: Error = Error::new(
    Kind::Io,
    "write or flush: the volume had failed before it was started again, clear the error first",
);

pub(crate) const ORDER_IN_DOUBT: Error = Error::new(
    Kind::Io,
    "write or flush: an earlier process was killed while it flushed the backing, and what its clients' flushes had put \
     in order may be lost; clear the error first",
);

/// The parts of the shared state that a recovery fills.
pub(crate) struct Parts<'a> {
    pub(crate) geometry: Geometry,
    pub(crate) sectors: u64,
    pub(crate) settings: &'a Live,
    pub(crate) arena: &'a Arena,
    pub(crate) shards: &'a mut Shards,
    pub(crate) gauges: &'a Gauges,
    pub(crate) health: &'a Health,
    pub(crate) stats: &'a VolumeStats,
    pub(crate) clean: CleanBlocks,
}

/// Takes over the contents of the arena, or makes a fresh arena. Returns the epochs; the closed
/// ones must be published before a task sees them.
///
/// # Errors
/// The memory holds other data, an arena of another geometry or backing, or of a backing that was
/// larger.
pub(crate) fn recover(shared: &mut Parts<'_>, identity: u64) -> Result<Epochs, Unrecoverable> {
    let (geometry, sectors) = (shared.geometry, shared.sectors);
    if !shared.arena.is_mine(&geometry, sectors, identity)? {
        shared.arena.adopt(&geometry, sectors, identity);
        shared.arena.note_epoch(FIRST);
        if shared.settings.wants_order() {
            return Ok(shared.begin_ordered());
        }
        shared.arena.note_ordered(false);
        return Ok(Epochs::new(FIRST, 0, 0));
    }
    if planted(Bug::SpreadAnew) {
        shared.shards.spread = Spread::of(&Geometry { format: Format::Four, ..geometry });
    }
    if !planted(Bug::KeepOldSize) {
        shared.arena.note_sectors(sectors);
    }
    let condition = shared.arena.condition();
    let clean = shared.clean.as_trusted(shared.arena, &geometry, condition);
    if condition == Condition::Discarding {
        finish_discard(shared.arena, &shared.arena.as_noted(&geometry));
    }
    resize(shared.arena, &geometry)?;
    forget_durable(shared.arena, &geometry);
    shared.arena.note_none_durable();
    let keeps_pages = pages::keep(shared, clean);
    let mut recovered_epochs = RecoveredEpochs::find(shared.arena, &geometry);
    if planted(Bug::MergeRecovered) {
        recovered_epochs.closed = recovered_epochs.closed.min(1);
    }
    // Even if this process makes another promise: the earlier one's clients were promised an order.
    let promised = shared.arena.is_ordered() && !planted(Bug::ForgetOrder);
    let orders = shared.settings.wants_order() || promised;
    if orders && !planted(Bug::PassAfterTakeover) {
        // The earlier process's write-throughs may have been flushed by its clients: they form a
        // closed epoch, even if no copy of them is held.
        recovered_epochs.closed = match recovered_epochs.holds_copies {
            // Older than all dirty data, even if clients have flushed in between.
            true => recovered_epochs.closed + 1,
            false => recovered_epochs.closed.max(1),
        };
        shared.gauges.begin_order(shared.arena);
    }
    shared.arena.note_epoch(recovered_epochs.open);
    for entry in shared.shards.iter_mut() {
        entry.shard.get_mut().recover(&recovered_epochs, shared.gauges, clean, keeps_pages);
    }
    // All held copies are dirty now.
    shared.arena.note_flush_taken_over();
    let recovered = shared.gauges.dirty();
    let rejected =
        shared.shards.iter_mut().map(|entry| entry.shard.get_mut().counters.headers_rejected.get());
    shared.stats.set_recovered(recovered, rejected.sum());
    for entry in shared.shards.iter_mut() {
        entry.shard.get_mut().counters.headers_rejected.set(0);
    }
    let is_dirty = recovered > 0 || recovered_epochs.ranges;
    let mut epochs =
        Epochs::new(recovered_epochs.open, recovered_epochs.closed, u64::from(is_dirty));
    // Even if only this process promises an order: the earlier write-throughs belong before all its
    // own changes. An FUA write promises that, too, and no doubt makes it fail.
    if shared.arena.is_in_doubt() && orders && !planted(Bug::ServeInDoubt) {
        shared.health.fail_in_doubt(&mut epochs, ORDER_IN_DOUBT);
    }
    if condition == Condition::Failed && !planted(Bug::ForgetFailure) {
        shared.health.fail(&mut epochs, FAILED_BEFORE);
    }
    // Even if nothing is dirty any more: dirty data may have been overtaken by write-throughs.
    shared.health.set_flush_first(true);
    shared.gauges.recovered(recovered_epochs.sequence, is_dirty);
    Ok(epochs)
}

impl Parts<'_> {
    /// Begins an `ordered` volume in fresh memory: the previous user of the backing may not have
    /// flushed it. An empty epoch is closed before the open one, and nothing is written through or
    /// written back before its flush.
    fn begin_ordered(&mut self) -> Epochs {
        self.gauges.begin_order(self.arena);
        for entry in self.shards.iter_mut() {
            entry.shard.get_mut().open_at(FIRST, 1);
        }
        self.health.set_flush_first(true);
        Epochs::new(FIRST, 1, 0)
    }
}

/// Finishes a discard of dirty data (C8) that the operator had requested: the process died before
/// all of it was freed.
fn finish_discard(arena: &Arena, geometry: &Geometry) {
    (0..geometry.ranges_max()).for_each(|number| arena.free_extent(number));
    geometry.live_slots().for_each(|slot| arena.free(slot));
    // Before the condition is well: compressed blocks may show changes that are lost.
    arena.drop_pages(geometry);
    arena.note_flushes_mended(arena.flushes_failed());
    arena.note_condition(Condition::Well);
}

/// Changes the number of live slots.
///
/// # Errors
/// Slots that would become spare are dirty: [`Found::resized`](crate::Found::resized) reports that
/// beforehand.
fn resize(arena: &Arena, geometry: &Geometry) -> Result<(), Unrecoverable> {
    let before = arena.as_noted(geometry);
    if !arena.can_leave(&before, geometry) && !planted(Bug::LeaveDirtySlots) {
        return Err(Unrecoverable::AnotherSize);
    }
    before.live_beyond(geometry).for_each(|slot| {
        arena.free(slot);
        arena.drop_page(slot);
    });
    // An older program may have left marks in slots that it did not use any more.
    geometry.live_beyond(&before).for_each(|slot| arena.drop_page(slot));
    arena.note_live(geometry);
    Ok(())
}

/// Frees data that was already durable and not released yet. Newer data of the same block may be on
/// the backing, and the epochs are about to get new numbers, for which the record of durable epochs
/// is not valid.
fn forget_durable(arena: &Arena, geometry: &Geometry) {
    let durable = arena.durable();
    if durable.is_empty() {
        return;
    }
    // Ranges first: after a kill in between, no range may be found without the slots that were
    // newer than it.
    for number in 0..geometry.ranges_max() {
        if let Ok(Some(range)) = arena.extent(number)
            && durable.cover(range.epoch as u16)
        {
            arena.free_extent(number);
        }
    }
    for slot in geometry.live_slots() {
        if let Some(header) = read(arena, slot)
            && header.state.is_dirty()
            && durable.cover(header.epoch)
        {
            arena.free(slot);
        }
    }
}

/// The epochs of the arena's dirty data.
pub(crate) struct RecoveredEpochs {
    /// The open epoch's number from now on; the low sixteen bits are unchanged.
    open: u64,
    /// The number of epochs before it that are closed and not durable.
    closed: u64,
    /// The highest sequence.
    sequence: u64,
    /// Pending ranges were found.
    ranges: bool,
    /// Held copies were found.
    holds_copies: bool,
}

impl RecoveredEpochs {
    /// Searches all live slots and range headers.
    pub(crate) fn find(arena: &Arena, geometry: &Geometry) -> RecoveredEpochs {
        // The open epoch may have no dirty data; then only the record shows its number.
        let last_epoch = arena.epoch();
        let mut newest: Option<u16> = (last_epoch != 0).then_some(last_epoch as u16);
        let mut oldest: Option<u16> = None;
        let mut sequence: Option<u64> = None;
        let (mut ranges, mut holds_copies) = (false, false);
        let mut see = |epoch: u16, number: u64| {
            let before = |one: u16, two: u16| is_before(one.into(), two.into(), 16);
            newest =
                Some(newest.map_or(epoch, |seen| if before(seen, epoch) { epoch } else { seen }));
            oldest =
                Some(oldest.map_or(epoch, |seen| if before(epoch, seen) { epoch } else { seen }));
            let later = sequence.is_none_or(|seen| is_before(seen, number, 44));
            sequence = if later { Some(number) } else { sequence };
        };
        for slot in geometry.live_slots() {
            match read(arena, slot) {
                Some(header) if header.state.is_dirty() => see(header.epoch, header.sequence),
                Some(header) => holds_copies |= arena.is_unflushed(&header),
                None => {}
            }
        }
        for number in 0..geometry.ranges_max() {
            if let Ok(Some(range)) = arena.extent(number) {
                see(range.epoch as u16, range.sequence);
                ranges = true;
            }
        }
        let newest = newest.unwrap_or(1);
        let closed = newest.wrapping_sub(oldest.unwrap_or(newest));
        // A larger distance can only come from a damaged header, which counts as the oldest then.
        let closed = u64::from(closed).min(CHAIN_MAX as u64 + 1);
        // The closed epochs before it have numbers above this base, too.
        let open = NUMBERS + (1 << 16) + u64::from(newest);
        let sequence = sequence.unwrap_or(0);
        RecoveredEpochs { open, closed, sequence, ranges, holds_copies }
    }
}

fn read(arena: &Arena, slot: u32) -> Option<Header> {
    if planted(Bug::SkipChecksum) { Some(arena.header(slot)) } else { arena.verified(slot) }
}

/// Returns a dirty header as read by planted bugs that use the backing's first size instead of its
/// current one. `None`: the header is dropped.
fn as_planted(arena: &Arena, header: Header) -> Option<Header> {
    let first = header.block * u64::from(BLOCK_SECTORS);
    let is_beyond = |sector: u64| sector >= arena.sectors_at_first();
    if planted(Bug::DropBeyondOldEnd) && is_beyond(first) {
        return None;
    }
    let last = first + u64::from(BLOCK_SECTORS) - 1;
    if planted(Bug::WidenLastBlock) && !is_beyond(first) && is_beyond(last) {
        let behind = 0xff << (arena.sectors_at_first() - first);
        return Some(Header { mask: header.mask | behind as u8, ..header });
    }
    Some(header)
}

impl Shard {
    /// Rebuilds this shard from its headers.
    fn recover(
        &mut self,
        recovered_epochs: &RecoveredEpochs,
        gauges: &Gauges,
        clean: CleanBlocks,
        keeps_pages: bool,
    ) {
        self.begin_recovery(recovered_epochs.open, recovered_epochs.closed);
        let ranges = self.recover_ranges(recovered_epochs);
        let mut found: Vec<(u32, Header)> = Vec::new();
        let mut held: Vec<(u32, Header)> = Vec::new();
        let mut kept: Vec<u32> = Vec::new();
        let mut pages: Vec<FoundPage> = Vec::new();
        let takes_held = !planted(Bug::ForgetHeldCopies);
        for slot in 0..self.slots() {
            match read(self.arena(), self.number(slot)) {
                Some(header) if header.state.is_dirty() => match as_planted(self.arena(), header) {
                    Some(header) => found.push((slot, header)),
                    None => self.recover_free(slot),
                },
                Some(header) if takes_held && self.arena().is_unflushed(&header) => {
                    held.push((slot, header));
                }
                Some(header) if clean.keeps(&header) => kept.push(slot),
                Some(header) if header.state == State::Free => {
                    pages.extend(self.recover_page(slot, keeps_pages));
                }
                Some(_) => self.recover_free(slot),
                None => {
                    self.counters.headers_rejected.add(1);
                    self.recover_free(slot);
                }
            }
        }
        // Oldest first, so that each version finds the one that it overtakes.
        found.sort_unstable_by_key(|(_, header)| {
            (recovered_epochs.number(header.epoch), recovered_epochs.rank(header.sequence))
        });
        for (slot, header) in found {
            let epoch = recovered_epochs.number(header.epoch);
            let covered = ranges.covers_after(epoch, self.position_of(header.block));
            self.recover_dirty(gauges, slot, header, epoch, covered);
        }
        // The copy of an unanswered change contains all data of an older copy of its block.
        held.sort_by_key(|(_, header)| (header.block, !header.is_unanswered()));
        let mut unanswered = None;
        for (slot, header) in held {
            if unanswered == Some(header.block) {
                self.recover_free(slot);
                continue;
            }
            unanswered = header.is_unanswered().then_some(header.block);
            self.recover_held(gauges, slot, header, recovered_epochs, &ranges);
        }
        // After all versions that may be newer.
        self.recover_clean(&kept, &ranges);
        let keeps_zeroed = planted(Bug::KeepUnderZeros);
        self.recover_compressed(pages, |position| ranges.covers(position) && !keeps_zeroed);
        if planted(Bug::ReleaseRecovered) {
            self.forget_all(gauges);
        }
        let closing = self.unwritten_ranges();
        gauges.closing_waits(closing);
    }

    /// Takes over a held copy: it belongs to the oldest epoch. If dirty data covers it, the process
    /// died after it had published that data and before it freed the copy.
    fn recover_held(
        &mut self,
        gauges: &Gauges,
        slot: u32,
        header: Header,
        recovered_epochs: &RecoveredEpochs,
        ranges: &Cover,
    ) {
        if self.holds(header.block) || ranges.covers(self.position_of(header.block)) {
            if gauges.is_ordered() && !header.is_unanswered() {
                // The dirty data may be of a later epoch.
                self.note_lost_copy(&header);
            }
            return self.recover_free(slot);
        }
        let epoch = recovered_epochs.open - recovered_epochs.closed;
        let header = Header { sequence: recovered_epochs.sequence, ..header };
        self.recover_dirty(gauges, slot, header, epoch, false);
    }

    fn recover_ranges(&mut self, recovered_epochs: &RecoveredEpochs) -> Cover {
        let mut ranges = Cover::default();
        for number in self.range_numbers() {
            match self.arena().extent(number) {
                Ok(Some(range)) => {
                    let epoch = recovered_epochs.number(range.epoch as u16);
                    let range = ExtentHeader { epoch, ..range };
                    self.restore_range(number, range);
                    ranges.add(epoch, range.first..range.first + u64::from(range.blocks));
                }
                Ok(None) => {}
                Err(()) => {
                    self.counters.headers_rejected.add(1);
                    self.arena().free_extent(number);
                }
            }
        }
        ranges.sort();
        ranges
    }
}

/// Ranges of zeros, in blocks or in positions, by their epoch: a lookup does not visit each range.
#[derive(Default)]
pub(crate) struct Cover(BTreeMap<u64, Vec<Range<u64>>>);

impl Cover {
    /// Adds a range; to be followed by [`Cover::sort`].
    pub(crate) fn add(&mut self, epoch: u64, blocks: Range<u64>) {
        self.0.entry(epoch).or_default().push(blocks);
    }

    /// Sorts and merges the ranges, after all have been added.
    pub(crate) fn sort(&mut self) {
        self.0.values_mut().for_each(merge);
    }

    /// Whether a range of an epoch after this one covers this block, or position.
    pub(crate) fn covers_after(&self, epoch: u64, block: u64) -> bool {
        self.0.range(epoch + 1..).any(|(_, ranges)| contain(ranges, block))
    }

    /// Whether a range of any epoch covers this block, or position.
    pub(crate) fn covers(&self, block: u64) -> bool {
        self.0.values().any(|ranges| contain(ranges, block))
    }
}

/// Whether one of these ranges, which are sorted and disjoint, contains a block.
fn contain(ranges: &[Range<u64>], block: u64) -> bool {
    let after = ranges.partition_point(|range| range.start <= block);
    after > 0 && ranges[after - 1].contains(&block)
}

/// Sorts ranges, and joins adjacent ones.
pub(crate) fn merge(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|after, kept| {
        let touch = after.start <= kept.end;
        if touch {
            kept.end = kept.end.max(after.end);
        }
        touch
    });
}

impl RecoveredEpochs {
    /// Returns the rank of a sequence among the found ones; the newest has the highest. (Unlike
    /// `is_before` it orders any numbers: a header that seems dirty may have any value.)
    pub(crate) fn rank(&self, sequence: u64) -> u64 {
        sequence.wrapping_sub(self.sequence + 1) & ((1 << 44) - 1)
    }

    /// Returns the number of an epoch from now on, from the low bits of its earlier number.
    pub(crate) fn number(&self, epoch: u16) -> u64 {
        let before = u64::from((self.open as u16).wrapping_sub(epoch));
        self.open - before.min(self.closed)
    }
}
