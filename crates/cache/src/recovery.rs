//! Taking over an arena from an earlier life of the process (C5, C7).
//!
//! Everything that was dirty in any way is dirty again: what was on its way to the backing, or was
//! written but not flushed, is written again. Clean slots are given up. Where two versions of a
//! block are found, the later epoch wins, then the higher sequence. The epoch that was closing
//! stays before the one that was open. Nothing is released before it is durable, so that a crash
//! now finds the same again.

use crate::arena::{ExtentHeader, Header};
use crate::order::Order;
use crate::planted::{Bug, planted};
use crate::shard::Shard;
use crate::shared::Shared;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering;
use lane::Lock;

/// The memory cannot be taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unrecoverable;

impl fmt::Display for Unrecoverable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the memory holds another volume's cache, or one of another size; \
             serve that volume with the memory it had, or drain it first",
        )
    }
}

impl core::error::Error for Unrecoverable {}

/// Whether `one` is before `two`, of numbers that wrap at `bits` bits and are near one another.
fn is_before(one: u64, two: u64, bits: u32) -> bool {
    let half = 1 << (bits - 1);
    one != two && (two.wrapping_sub(one) & ((1 << bits) - 1)) < half
}

pub(crate) fn recover(shared: &mut Shared) -> Result<(), Unrecoverable> {
    match shared.arena.is_mine(&shared.geometry, shared.limits.sectors) {
        None => {
            shared.arena.adopt(&shared.geometry, shared.limits.sectors);
            shared.arena.note_epoch(1);
            return Ok(());
        }
        Some(false) => return Err(Unrecoverable),
        Some(true) => {}
    }
    let epochs = Epochs::find(shared);
    shared.arena.note_epoch(epochs.open);
    for room in &mut shared.rooms {
        room.shard.get_mut().recover(&epochs, &shared.gauges);
    }
    let recovered = shared.gauges.dirty.load(Ordering::Relaxed);
    shared.recovered.store(u64::from(recovered), Ordering::Relaxed);
    let rejected =
        shared.rooms.iter_mut().map(|room| room.shard.get_mut().counters.headers_rejected);
    shared.rejected.store(rejected.sum(), Ordering::Relaxed);
    for room in &mut shared.rooms {
        room.shard.get_mut().counters.headers_rejected = 0;
    }
    shared.order = Lock::new(Order::new(epochs.open, epochs.closing.is_some()));
    shared.gauges.sequence.store(epochs.sequence + 1, Ordering::Relaxed);
    shared.gauges.urgent.store(recovered > 0 || epochs.ranges, Ordering::Relaxed);
    // Also if nothing is dirty any more: what was may have been overtaken by what went past.
    shared.flush_first.store(true, Ordering::Relaxed);
    // As old as can be: the keeper starts at once.
    let since = |there: bool| u64::from(there);
    shared.gauges.open_since.store(since(recovered > 0 || epochs.ranges), Ordering::Relaxed);
    shared.gauges.closing_since.store(since(epochs.closing.is_some()), Ordering::Relaxed);
    Ok(())
}

/// The epochs that the arena's dirty data belongs to: at most two.
struct Epochs {
    /// The open epoch's number from now on.
    open: u64,
    /// The low bits of the one that was closing, if both are found.
    closing: Option<u16>,
    /// The highest sequence.
    sequence: u64,
    /// Pending ranges were found.
    ranges: bool,
}

impl Epochs {
    fn find(shared: &Shared) -> Epochs {
        // The open epoch may have nothing dirty in it; then only the note tells of it.
        let noted = shared.arena.epoch();
        let mut newest: Option<u16> = (noted != 0).then_some(noted as u16);
        let mut oldest: Option<u16> = None;
        let mut sequence: Option<u64> = None;
        let mut ranges = false;
        let mut see = |epoch: u16, number: u64| {
            let before = |one: u16, two: u16| is_before(one.into(), two.into(), 16);
            newest =
                Some(newest.map_or(epoch, |seen| if before(seen, epoch) { epoch } else { seen }));
            oldest =
                Some(oldest.map_or(epoch, |seen| if before(epoch, seen) { epoch } else { seen }));
            let later = sequence.is_none_or(|seen| is_before(seen, number, 44));
            sequence = if later { Some(number) } else { sequence };
        };
        for slot in 0..shared.geometry.slots {
            if let Some(header) = read(&shared.arena, slot)
                && header.state.is_dirty()
            {
                see(header.epoch, header.sequence);
            }
        }
        for number in 0..shared.geometry.shards * shared.geometry.extents {
            if let Ok(Some(range)) = shared.arena.extent(number) {
                see(range.epoch as u16, range.sequence);
                ranges = true;
            }
        }
        let open = newest.map_or(1, u64::from);
        let closing = oldest.filter(|&oldest| newest != Some(oldest));
        // Numbers below 2 have no room for what is durable before them.
        let open = open + (1 << 16);
        Epochs { open, closing, sequence: sequence.unwrap_or(0), ranges }
    }
}

fn read(arena: &crate::arena::Arena, slot: u32) -> Option<Header> {
    if planted(Bug::SkipChecksum) { Some(arena.header(slot)) } else { arena.verified(slot) }
}

impl Shard {
    /// Rebuilds this shard from its headers.
    fn recover(&mut self, epochs: &Epochs, gauges: &crate::shard::Gauges) {
        self.reset(epochs.open);
        let ranges = self.recover_ranges(epochs);
        let mut found: Vec<(u32, Header)> = Vec::new();
        for slot in 0..self.slots() {
            match read(self.arena(), self.number(slot)) {
                Some(header) if header.state.is_dirty() && self.is_plausible(&header) => {
                    found.push((slot, header));
                }
                Some(_) => self.recover_free(slot),
                None => {
                    self.counters.headers_rejected += 1;
                    self.recover_free(slot);
                }
            }
        }
        // Oldest first, so that each version finds the one it overtakes.
        found.sort_unstable_by(|(_, one), (_, two)| {
            let key = |header: &Header| (epochs.is_closing(header.epoch), header.sequence);
            let ((one_closing, one), (two_closing, two)) = (key(one), key(two));
            let order = if is_before(one, two, 44) { -1 } else { i32::from(one != two) };
            two_closing.cmp(&one_closing).then(order.cmp(&0))
        });
        for (slot, header) in found {
            let closing = epochs.is_closing(header.epoch);
            let covered = closing
                && ranges.iter().any(|range| {
                    !epochs.is_closing(range.epoch as u16)
                        && header.block >= range.first
                        && header.block - range.first < u64::from(range.blocks)
                });
            self.recover_dirty(gauges, slot, header, closing, covered);
        }
        if planted(Bug::ReleaseRecovered) {
            self.forget_all(gauges);
        }
        let closing = self.unwritten_ranges();
        gauges.remaining.fetch_add(i64::from(closing), Ordering::Relaxed);
    }

    fn recover_ranges(&mut self, epochs: &Epochs) -> Vec<ExtentHeader> {
        let mut ranges = Vec::new();
        for number in self.range_numbers() {
            match self.arena().extent(number) {
                Ok(Some(range)) => {
                    let closing = epochs.is_closing(range.epoch as u16);
                    let epoch = epochs.open - u64::from(closing);
                    let range = ExtentHeader { epoch, ..range };
                    self.restore_range(number, range);
                    ranges.push(range);
                }
                Ok(None) => {}
                Err(()) => {
                    self.counters.headers_rejected += 1;
                    self.arena().free_extent(number);
                }
            }
        }
        ranges
    }
}

impl Epochs {
    fn is_closing(&self, epoch: u16) -> bool {
        self.closing == Some(epoch) || self.closing.is_some() && epoch == (self.open - 1) as u16
    }
}
