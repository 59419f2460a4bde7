//! The arena's first words: its format and owner, and the volume's condition when it was last used.
//!
//! ```text
//! word  0  magic           4  ranges per shard     8  the open epoch's number
//!       1  version|grain   5  volume sectors       9  the volume's condition
//!       2  maximum slots   6  backing's identity  10  failed flushes of the backing
//!       3  shards|region   7  checksum of these   11  ... of which this number is mended
//!                             and, above it, the  12  whether the order of flushes is promised
//!                             sectors since the   13  the newest epoch known to be durable
//!                             backing has grown   14  live slots, and their complement above them
//!                                                 15  the flush in progress (flush_note.rs)
//! ```
//!
//! The first eight words are written once, the magic last. Version 2 has no word 14: all its slots
//! are live. Only word 7 is written again, when a process takes over the arena and the backing has
//! grown: one store changes the volume's size and the checksum, so a kill leaves one size or the
//! other. A program that does not support this refuses the arena of a backing that has grown. The
//! condition outlives the process (C8): it is noted before a client sees it. A flush of the backing
//! that has failed may have dropped data that only the process had; until it is certain that
//! nothing was lost, a successor must not trust a flush of its own. The newest durable epoch
//! outlives the process, too (C7): it is noted before anything newer may reach the backing, because
//! a successor that took its blocks for dirty would write them over newer data.

mod flush_note;
#[cfg(test)]
mod tests;

use crate::BLOCK_SECTORS;
use crate::arena::{Arena, Header, State, crc};
use crate::epochs::{CHAIN_MAX, is_before};
use crate::geometry::{Format, Geometry};
use alloc::sync::Arc;
use block::{Memory, SECTOR};
use core::fmt;
use lane::atomic::Ordering;

const MAGIC: u64 = u64::from_le_bytes(*b"overdrv\x01");
/// The number of words that identify the arena.
const FIXED: usize = 8;
/// The index of the volume's size in them.
const SECTORS: usize = 5;
/// Bits of the last of them that hold the checksum; the others hold the size of a backing that has
/// grown.
const CHECKSUM_BITS: u32 = 16;
const CHECKSUM_MASK: u64 = (1 << CHECKSUM_BITS) - 1;
/// Bytes of the superblock.
pub(crate) const BYTES: usize = 128;
const EPOCH_AT: usize = 64;
const CONDITION_AT: usize = 72;
const FLUSHES_FAILED_AT: usize = 80;
const FLUSHES_MENDED_AT: usize = 88;
const ORDERED_AT: usize = 96;
const DURABLE_AT: usize = 104;
const LIVE_AT: usize = 112;
const FLUSH_NOTE_AT: usize = 120;
/// The order of flushes is not promised. Any other value: it is promised, or was by a version that
/// did not note it.
const NOT_ORDERED: u64 = 1;
const ORDERED: u64 = 2;
/// A header has 40 bits for a block's number: no volume is larger.
pub(crate) const BLOCKS_MAX: u64 = 1 << 40;
const SECTORS_MAX: u64 = BLOCK_SECTORS as u64 * BLOCKS_MAX;
/// Maximum size of a volume that is cached, in bytes: 4080 TiB. The positions of a shard are those
/// of whole rows of regions, and a row has at most 2^32 blocks.
pub const CACHED_BYTES_MAX: u64 = SECTOR * (SECTORS_MAX - ((BLOCK_SECTORS as u64) << 32));

/// The reason why a memory cannot be taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unrecoverable {
    /// It holds no cache, or one whose first words are damaged.
    NotAnArena,
    /// It holds the cache of another backing.
    AnotherVolume,
    /// It holds this backing's cache, but of another size, or the backing has shrunk.
    AnotherSize,
    /// It holds a cache made by another version of the program.
    UnknownVersion,
}

impl fmt::Display for Unrecoverable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unrecoverable::NotAnArena => {
                "the memory holds no cache, or its first words are damaged; give it to the program that \
                 made it, or start with fresh memory"
            }
            Unrecoverable::AnotherVolume => {
                "the memory holds the cache of another backing; serve that backing with it, or start \
                 with fresh memory"
            }
            Unrecoverable::AnotherSize => {
                "the memory holds a cache of another size, or the backing has shrunk; serve it with \
                 the sizes that it had, and drain it first"
            }
            Unrecoverable::UnknownVersion => {
                "the memory holds a cache of another version of this program; drain it with the \
                 version that made it"
            }
        })
    }
}

impl core::error::Error for Unrecoverable {}

/// The condition of a volume, as its memory shows it to the next process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    /// It serves.
    Well = 0,
    /// It has failed, and the operator has not decided yet (C8).
    Failed = 1,
    /// The operator has begun to discard dirty data; the discard must be completed.
    Discarding = 2,
}

/// The epochs whose blocks and ranges are durable, although the memory may still hold them as
/// dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DurableEpochs(Option<u16>);

impl DurableEpochs {
    /// Whether none is known.
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_none()
    }

    /// Whether this epoch, one of those that can be dirty at the same time, is durable.
    pub(crate) fn cover(self, epoch: u16) -> bool {
        self.0.is_some_and(|newest| !is_before(newest.into(), epoch.into(), 16))
    }
}

impl Arena {
    fn superblock(&self, geometry: &Geometry, sectors: u64, identity: u64) -> [u64; FIXED] {
        let mut words = [
            MAGIC,
            (geometry.format as u64) << 32 | u64::from(self.grain()),
            u64::from(geometry.slots_max()),
            u64::from(geometry.shards) << 32 | u64::from(geometry.region_blocks),
            u64::from(geometry.extents),
            sectors,
            identity,
            0,
        ];
        words[FIXED - 1] = checksum(&words, 0);
        words
    }

    fn fixed(&self) -> [u64; FIXED] {
        core::array::from_fn(|index| self.memory().word(index * 8).load(Ordering::Acquire))
    }

    /// Whether the memory holds an arena of exactly this kind, of this size or, where the backing
    /// has grown since, of a smaller one. Returns false if it holds nothing (zeros, or the remains
    /// of a kill during [`Arena::adopt`]).
    ///
    /// # Errors
    /// The memory holds something else.
    pub(crate) fn is_mine(
        &self,
        geometry: &Geometry,
        sectors: u64,
        identity: u64,
    ) -> Result<bool, Unrecoverable> {
        let mine = self.superblock(geometry, sectors, identity);
        let found = self.fixed();
        if found == mine {
            return Ok(true);
        }
        if has_begun(&found, &mine) {
            return Ok(false);
        }
        sound(&found)?;
        if found[6] != mine[6] {
            return Err(Unrecoverable::AnotherVolume);
        }
        let is_same = found[..SECTORS] == mine[..SECTORS];
        if is_same && noted_sectors(&found) <= sectors {
            return Ok(true);
        }
        Err(Unrecoverable::AnotherSize)
    }

    /// Returns the volume's size when the arena was made, in sectors.
    pub(crate) fn sectors_at_first(&self) -> u64 {
        self.fixed()[SECTORS]
    }

    /// Notes the size of a backing that may have grown since the arena was made: before anything
    /// beyond the noted size is served.
    pub(crate) fn note_sectors(&self, sectors: u64) {
        let words = self.fixed();
        if noted_sectors(&words) < sectors {
            let word = sectors << CHECKSUM_BITS | checksum(&words, sectors);
            self.store((FIXED - 1) * 8, word);
        }
    }

    /// Writes the superblock: from now on the memory is this arena.
    pub(crate) fn adopt(&self, geometry: &Geometry, sectors: u64, identity: u64) {
        self.note_live(geometry);
        // The first word last: without it the memory does not belong to a volume yet.
        let words = self.superblock(geometry, sectors, identity);
        for (index, word) in words.into_iter().enumerate().rev() {
            self.store(index * 8, word);
        }
    }

    pub(super) fn load_word(&self, offset: usize) -> u64 {
        self.memory().word(offset).load(Ordering::Acquire)
    }

    /// Notes the number of live slots: before a new slot is used, and after the last removed slot
    /// is empty.
    pub(crate) fn note_live(&self, geometry: &Geometry) {
        if geometry.format != Format::Two {
            let live = u64::from(geometry.slots);
            self.store(LIVE_AT, !live << 32 | live);
        }
    }

    /// Returns the geometry with the number of live slots that was noted last: the maximum if the
    /// note is damaged, so that no slot is missed.
    pub(crate) fn as_noted(&self, geometry: &Geometry) -> Geometry {
        let word = self.load_word(LIVE_AT);
        let live = word as u32;
        let is_sound = (word >> 32) as u32 == !live
            && (1..=geometry.slots_max()).contains(&live)
            && live.is_multiple_of(geometry.shards);
        let slots = match geometry.format {
            Format::Three | Format::Four if is_sound => live,
            _ => geometry.slots_max(),
        };
        Geometry { slots, slots_spare: geometry.slots_max() - slots, ..*geometry }
    }

    /// Whether the slots that are live in `now` and spare in `next` contain neither dirty data nor
    /// a held copy.
    pub(crate) fn can_leave(&self, now: &Geometry, next: &Geometry) -> bool {
        let is_clean = |header: Header| !header.state.is_dirty() && !self.is_unflushed(&header);
        now.live_beyond(next).all(|slot| self.verified(slot).is_some_and(is_clean))
    }

    /// Returns the number of the open epoch, as last noted; 0: never.
    pub(crate) fn epoch(&self) -> u64 {
        self.load_word(EPOCH_AT)
    }

    /// Notes the number of the open epoch, before any block has it.
    pub(crate) fn note_epoch(&self, epoch: u64) {
        self.store(EPOCH_AT, epoch);
    }

    /// Returns the epochs that are known to be durable.
    pub(crate) fn durable(&self) -> DurableEpochs {
        let (open, durable) = (self.epoch(), self.load_word(DURABLE_AT));
        // If the note is far from the current epochs, it is about another version's epochs, or
        // about discarded ones.
        let is_near = (1..=CHAIN_MAX as u64 + 2).contains(&open.wrapping_sub(durable));
        DurableEpochs((durable != 0 && is_near).then_some(durable as u16))
    }

    /// Notes that no epoch is durable: the durable data was dropped, and the epochs are about to
    /// get new numbers.
    pub(crate) fn note_none_durable(&self) {
        self.store(DURABLE_AT, 0);
    }

    /// Notes that every epoch up to this one is durable, before anything newer may reach the
    /// backing.
    pub(crate) fn note_durable(&self, epoch: u64) {
        self.store(DURABLE_AT, epoch);
    }

    /// Returns the volume's condition.
    pub(crate) fn condition(&self) -> Condition {
        match self.load_word(CONDITION_AT) {
            2 => Condition::Discarding,
            0 if !self.has_lost_flush() => Condition::Well,
            _ => Condition::Failed,
        }
    }

    /// Notes the volume's condition, before a client sees it.
    pub(crate) fn note_condition(&self, condition: Condition) {
        self.store(CONDITION_AT, condition as u64);
    }

    /// Returns the number of failed flushes of the backing.
    pub(crate) fn flushes_failed(&self) -> u64 {
        self.load_word(FLUSHES_FAILED_AT)
    }

    /// Counts a failed flush of the backing. One flush runs at a time, so no other task counts.
    pub(crate) fn note_flush_failed(&self) {
        self.store(FLUSHES_FAILED_AT, self.flushes_failed().wrapping_add(1));
    }

    /// Notes the number of failed flushes that have lost nothing, or that the operator has
    /// acknowledged.
    pub(crate) fn note_flushes_mended(&self, count: u64) {
        self.store(FLUSHES_MENDED_AT, count);
    }

    /// Whether a flush of the backing has failed and may have lost data.
    pub(crate) fn has_lost_flush(&self) -> bool {
        self.flushes_failed() != self.load_word(FLUSHES_MENDED_AT)
    }

    /// Whether clients were promised that data covered by a flush precedes data that they sent
    /// later.
    pub(crate) fn is_ordered(&self) -> bool {
        self.load_word(ORDERED_AT) != NOT_ORDERED
    }

    /// Notes whether that is promised: before the promise begins, and after it ends and all data
    /// concerned is durable.
    pub(crate) fn note_ordered(&self, ordered: bool) {
        self.store(ORDERED_AT, if ordered { ORDERED } else { NOT_ORDERED });
    }

    /// Reads the superblock of an unknown memory. Does not panic, whatever the memory holds.
    /// `None`: it is not an arena of this version, or the memory is too small for it.
    pub fn found(memory: &Arc<Memory>) -> Option<Found> {
        if memory.bytes() < BYTES {
            return None;
        }
        let words: [u64; FIXED] =
            core::array::from_fn(|index| memory.word(index * 8).load(Ordering::Acquire));
        sound(&words).ok()?;
        let grain = words[1] as u32;
        let geometry = Geometry {
            format: Format::of(words[1] >> 32)?,
            slots: u32::try_from(words[2]).ok()?,
            shards: (words[3] >> 32) as u32,
            region_blocks: words[3] as u32,
            extents: u32::try_from(words[4]).ok()?,
            ..Geometry::default()
        };
        // Before any multiplication: all sizes of a real arena are far below these.
        geometry.shards.checked_mul(geometry.extents)?;
        let sectors = noted_sectors(&words);
        let sane = grain <= 4096
            && sectors <= SECTORS_MAX
            && geometry.slots > 0
            // Zero shards fail this check.
            && geometry.slots.is_multiple_of(geometry.shards)
            && (geometry.format == Format::Two || geometry.shards.is_power_of_two())
            && geometry.region_blocks.is_power_of_two();
        if !sane || memory.bytes() < Arena::bytes(&geometry, grain) {
            return None;
        }
        let arena = Arena::from_memory(memory.clone(), &geometry, grain);
        let geometry = arena.as_noted(&geometry);
        Some(Found { arena, geometry, grain, sectors, identity: words[6] })
    }
}

/// Returns the checksum of the fixed words, and of the size to which the backing has grown; 0: it
/// has not.
fn checksum(words: &[u64; FIXED], grown: u64) -> u64 {
    let fixed = words[..FIXED - 1].iter().fold(0, |crc, word| crc::step(crc, *word));
    u64::from(fixed ^ crc::step(0, grown))
}

/// Returns the size to which the backing has grown since the arena was made; 0: it has not.
fn grown(words: &[u64; FIXED]) -> u64 {
    words[FIXED - 1] >> CHECKSUM_BITS
}

/// Returns the volume's size, as last noted.
fn noted_sectors(words: &[u64; FIXED]) -> u64 {
    words[SECTORS].max(grown(words))
}

/// Whether a kill during [`Arena::adopt`] has left these words, for the backing of `mine` or before
/// that backing has grown. No data was in the memory yet.
fn has_begun(found: &[u64; FIXED], mine: &[u64; FIXED]) -> bool {
    // The checksum, written first, covers a size that may be missing.
    let same = |index: usize| found[index] == 0 || found[index] == mine[index];
    found[0] == 0 && found[SECTORS] <= mine[SECTORS] && [1, 2, 3, 4, 6].into_iter().all(same)
}

/// Whether these words can be read as a superblock.
fn sound(words: &[u64; FIXED]) -> Result<(), Unrecoverable> {
    if words[0] != MAGIC {
        return Err(Unrecoverable::NotAnArena);
    }
    // Another version may have its checksum elsewhere.
    if Format::of(words[1] >> 32).is_none() {
        return Err(Unrecoverable::UnknownVersion);
    }
    if words[FIXED - 1] & CHECKSUM_MASK != checksum(words, grown(words)) {
        return Err(Unrecoverable::NotAnArena);
    }
    Ok(())
}

/// The contents of a superblock, in a memory that is large enough for them.
#[derive(Clone, Debug)]
pub struct Found {
    pub(crate) arena: Arena,
    /// The sizes with which the arena was made; the sizes that they do not determine (`fills`,
    /// `run_blocks`) are as in [`Geometry::default`].
    pub geometry: Geometry,
    /// Bytes per sector.
    pub grain: u32,
    /// The volume's size, in sectors of 512 bytes.
    pub sectors: u64,
    /// The identity of the volume's backing.
    pub identity: u64,
}

/// Data in an arena that is not on its backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// Dirty versions of blocks. (A block may have several, one per epoch.)
    pub dirty_blocks: u64,
    /// Blocks that are on the backing, or held until they are durable there.
    pub clean_blocks: u64,
    /// Pending ranges of zeros.
    pub ranges: u64,
    /// The volume has failed (C8).
    pub failed: bool,
    /// A flush of the backing covered write-throughs, and its result is unknown: the next process
    /// must be notified of that (C1).
    pub in_doubt: bool,
    /// Headers and ranges whose checksum is wrong.
    pub rejected: u64,
}

impl Survey {
    /// Whether data would be lost with the memory.
    pub fn is_dirty(&self) -> bool {
        self.dirty_blocks > 0 || self.ranges > 0
    }
}

impl Found {
    /// Returns the geometry for taking over this arena with this number of slots. `None`: the arena
    /// has no room for them, or the slots that would be removed contain dirty data.
    pub fn resized(&self, slots: u32) -> Option<Geometry> {
        let wanted = self.geometry.resized(slots)?;
        self.arena.can_leave(&self.geometry, &wanted).then_some(wanted)
    }

    /// Notes that the backing may have lost changes of the earlier process that no flush has
    /// covered (C1). [`crate::Shared::take_over`] then treats them as after a kill during a flush.
    pub fn note_changes_lost(&self) {
        self.arena.note_changes_lost();
    }

    /// Searches all headers of an arena that no process uses.
    pub fn survey(&self) -> Survey {
        let (condition, durable) = (self.arena.condition(), self.arena.durable());
        let is_lost = |header: &Header| header.state.is_dirty() && !durable.cover(header.epoch);
        let mut survey = Survey { failed: condition == Condition::Failed, ..Survey::default() };
        let mut holds_copies = false;
        for slot in self.geometry.live_slots() {
            match self.arena.verified(slot) {
                Some(header) => {
                    survey.dirty_blocks += u64::from(is_lost(&header));
                    survey.clean_blocks += u64::from(header.state == State::Clean);
                    holds_copies |= self.arena.is_unflushed(&header);
                }
                None => survey.rejected += 1,
            }
        }
        survey.in_doubt = self.arena.must_outlive_process(holds_copies);
        for number in 0..self.geometry.ranges_max() {
            match self.arena.extent(number) {
                Ok(range) => {
                    let is_lost = range.is_some_and(|range| !durable.cover(range.epoch as u16));
                    survey.ranges += u64::from(is_lost);
                }
                Err(()) => survey.rejected += 1,
            }
        }
        if condition == Condition::Discarding {
            // The process that takes it over discards all of that.
            return Survey { rejected: survey.rejected, ..Survey::default() };
        }
        survey
    }
}
