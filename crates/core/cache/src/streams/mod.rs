//! Streams: their detection, the readahead of streams of reads, and the decision that a stream is
//! too long to be cached.
//!
//! All lanes and shards of a volume share them. A shard reports its misses, and its hits that are
//! due to readahead, in the section in which it decides, under separate locks. No other lock is
//! taken under these. Fixed tasks pull the pieces to fetch, one by one (`tasks/readahead.rs`).
//!
//! ```text
//!   a read -- misses, or hits readahead ---> detector.rs   the stream to which it belongs
//!                                            window.rs     the distance of its readahead
//!   a task -- requests the next piece -----> gate.rs       whether readahead was useful
//!                                            depth.rs      the number of pieces in flight
//! ```

mod depth;
mod detector;
mod gate;
mod lone;
mod order;
mod reuse;
mod window;

use crate::BLOCK_SECTORS;
use crate::geometry::Geometry;
use alloc::boxed::Box;
use alloc::vec;
use block::Extent;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use depth::{Begun, Depth};
use detector::{Detector, Found, Part, STREAMS};
use gate::Gate;
use lane::{Event, Lock};
use policy::Hash;
use reuse::Reuse;
use window::{WINDOW_MAX, Window, piece_max};

/// Once one in this number of all slots has an unread block, each shard is limited to its share.
const UNREAD_ONE_IN: u32 = 8;

/// Maximum number of reads that count as outside streams although a stream begins with them: it is
/// detected at its third or fourth read, or at the next one that misses.
const BEGINNING: u32 = 4;
/// Maximum count of reads outside streams.
const ALONE_MAX: u32 = 64;

/// One of this number of slots may hold blocks fetched ahead of one stream.
const WINDOW_ONE_IN: u32 = 16;

/// The streams of a volume.
#[derive(Debug)]
pub(crate) struct Streams {
    followed: Lock<Followed>,
    /// The streams of writes.
    written: Lock<Detector>,
    depth: Depth,
    /// A stream may need a piece: checked before the lock is taken.
    has_due: AtomicBool,
    /// Notified when there may be a piece to fetch.
    pub(crate) work: Event,
    /// Blocks that were fetched ahead, or are being fetched, and were not read yet.
    unread: AtomicU32,
    unread_max: u32,
    /// The end of the volume's last whole block.
    sectors: u64,
    /// A stream with more sectors than this is a long one.
    long_sectors: u64,
    reuse: Lock<Reuse>,
    /// Whether the blocks of long streams are worth caching.
    long_pays: AtomicBool,
    /// Blocks that a cache which admits everything would have admitted, modulo 2^32: of reads that
    /// missed or were the first to read blocks fetched ahead, and of writes while no slot was free.
    accessed: AtomicU32,
    /// The blocks that are under way while the backing is busy, as far as is known.
    under_way_blocks: AtomicU32,
    /// For a planted bug: the first block of the last piece that failed.
    failed: AtomicU64,
}

#[derive(Debug)]
struct Followed {
    detector: Detector,
    windows: Box<[Window]>,
    /// The largest window, in sectors.
    window_max: u64,
    /// A bit for each stream whose window may have room for a piece.
    due: u64,
    /// The stream whose turn it is.
    turn: usize,
    gate: Gate,
    /// Reads outside streams, except those with which streams began.
    alone: u32,
}

/// The result of the detector for a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamUpdate {
    /// It belongs to a long stream: see [`Streams::note_long`].
    pub(crate) is_long: bool,
    /// It belongs to a stream that is too long to be cached.
    pub(crate) is_bypassed: bool,
    /// It has missed sectors that were requested ahead of it.
    pub(crate) was_requested: bool,
}

/// A piece to fetch ahead of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) at: Extent,
    /// The stream is too long to be cached.
    pub(crate) bypasses: bool,
    begun: Begun,
}

impl Streams {
    /// Makes the streams of a volume of `sectors` sectors, over a cache of this geometry. Streams
    /// of more than `long_blocks` blocks are long.
    pub(crate) fn new(sectors: u64, geometry: &Geometry, long_blocks: u32) -> Streams {
        let (slots, sectors_each) = (geometry.slots, u64::from(BLOCK_SECTORS));
        let window_blocks = slots / WINDOW_ONE_IN;
        let followed = Followed {
            detector: Detector::new(sectors),
            windows: vec![Window::NONE; STREAMS].into_boxed_slice(),
            window_max: WINDOW_MAX.min(u64::from(window_blocks) * sectors_each),
            due: 0,
            turn: 0,
            gate: Gate::default(),
            alone: 0,
        };
        Streams {
            followed: Lock::new(followed),
            written: Lock::new(Detector::new(sectors)),
            depth: Depth::new(),
            has_due: AtomicBool::new(false),
            work: Event::new(),
            unread: AtomicU32::new(0),
            unread_max: slots / UNREAD_ONE_IN,
            sectors: sectors - sectors % sectors_each,
            long_sectors: u64::from(long_blocks) * sectors_each,
            reuse: Lock::new(Reuse::new(slots)),
            long_pays: AtomicBool::new(false),
            accessed: AtomicU32::new(0),
            under_way_blocks: AtomicU32::new(0),
            failed: AtomicU64::new(u64::MAX),
        }
    }

    /// Reports a read that has missed, or was the first to read `found` blocks that were fetched
    /// ahead, or both.
    pub(crate) fn read(&self, at: &Extent, found: u32, has_missed: bool) -> StreamUpdate {
        self.read_part(at, found, has_missed, Part::First)
    }

    /// Reports a further part of a read, which has missed. Without this, a long read would be a
    /// stream of its own, and something would be fetched behind it.
    pub(crate) fn read_further(&self, at: &Extent, found: u32) -> StreamUpdate {
        self.read_part(at, found, true, Part::Further)
    }

    fn read_part(&self, at: &Extent, found: u32, has_missed: bool, part: Part) -> StreamUpdate {
        if found > 0 {
            self.unread.fetch_sub(found, Ordering::Relaxed);
        }
        self.count_accesses(at);
        self.followed.peek(|followed| {
            followed.gate.count(found, true);
            let update = followed.read(at, part, has_missed, self.under_way_sectors());
            self.has_due.store(followed.due != 0, Ordering::Relaxed);
            let Some((place, was_requested)) = update else {
                if followed.alone > BEGINNING {
                    self.depth.note_lone_read();
                }
                return StreamUpdate::default();
            };
            if followed.alone == 0 {
                self.depth.cancel_lone_reads();
            }
            let is_long = followed.detector.stream(place).sectors > self.long_sectors;
            StreamUpdate { is_long, is_bypassed: is_long && !self.long_pays(), was_requested }
        })
    }

    /// Reports a write of data.
    pub(crate) fn write(&self, at: &Extent) -> StreamUpdate {
        self.count_accesses(at);
        let sectors = self.written.peek(|written| match written.add(at) {
            Found::Alone => 0,
            Found::Begins(place) | Found::Continues(place) => written.stream(place).sectors,
        });
        let is_long = sectors > self.long_sectors;
        StreamUpdate { is_long, is_bypassed: is_long && !self.long_pays(), was_requested: false }
    }

    fn count_accesses(&self, at: &Extent) {
        self.accessed.fetch_add(at.count.div_ceil(BLOCK_SECTORS), Ordering::Relaxed);
    }

    fn long_pays(&self) -> bool {
        self.long_pays.load(Ordering::Relaxed)
    }

    /// Reports a read of a block of the sample.
    pub(crate) fn note_read(&self, hash: Hash) {
        let now = self.accessed.load(Ordering::Relaxed);
        let pays = self.reuse.peek(|reuse| {
            reuse.check_read(hash, now);
            reuse.pays()
        });
        self.long_pays.store(pays, Ordering::Relaxed);
    }

    /// Reports a block of the sample that a long stream has accessed.
    pub(crate) fn note_long(&self, hash: Hash) {
        let now = self.accessed.load(Ordering::Relaxed);
        let pays = self.reuse.peek(|reuse| {
            reuse.note(hash, now);
            reuse.pays()
        });
        self.long_pays.store(pays, Ordering::Relaxed);
    }

    /// Counts blocks fetched ahead that were read for the first time, by a read that will be
    /// reported later.
    pub(crate) fn found(&self, blocks: u32) {
        self.unread.fetch_sub(blocks, Ordering::Relaxed);
        self.followed.peek(|followed| followed.gate.count(blocks, true));
    }

    /// Reports a read that waits for blocks that are being fetched ahead of it.
    pub(crate) fn waits(&self, at: &Extent) {
        self.followed.peek(|followed| {
            followed.late(at, self.under_way_sectors());
            self.has_due.store(followed.due != 0, Ordering::Relaxed);
        });
    }

    /// Reports a block that was fetched ahead and dropped unread.
    pub(crate) fn wasted(&self, block: u64) {
        self.unread.fetch_sub(1, Ordering::Relaxed);
        self.followed.peek(|followed| followed.wasted(block));
    }

    /// Reports that there is no room for a piece: the stream requests it again, and less, at its
    /// next read. Not before: a task that requested it again immediately would block its lane, and
    /// so wait forever for room.
    pub(crate) fn refused(&self, at: &Extent) {
        self.followed.peek(|followed| {
            if let Some(place) = followed.requested_for(at) {
                followed.windows[place].note_refused(followed.detector.stream(place), at);
                followed.due &= !(1 << place);
                self.has_due.store(followed.due != 0, Ordering::Relaxed);
            }
        });
    }

    /// Counts `blocks` more blocks that are being fetched ahead.
    pub(crate) fn will_be_unread(&self, blocks: u32) {
        self.unread.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Removes from that count blocks that were fetched ahead and not cached.
    pub(crate) fn not_unread(&self, blocks: u32) {
        self.unread.fetch_sub(blocks, Ordering::Relaxed);
    }

    /// Returns the number of blocks that were fetched ahead, or are being fetched, and were not
    /// read yet.
    pub(crate) fn unread(&self) -> u32 {
        self.unread.load(Ordering::Relaxed)
    }

    /// Whether the number of unread blocks allows no shard to have more than its share.
    pub(crate) fn is_full(&self) -> bool {
        self.unread() >= self.unread_max
    }

    /// Whether a stream may need a piece.
    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        self.has_due.load(Ordering::Relaxed)
    }

    /// Wakes a task, if there may be a piece for it beside `reads` reads of clients. That task
    /// wakes the next one.
    pub(crate) fn wake(&self, reads: u32) {
        if self.depth.has_room(reads) {
            self.work.notify_one();
        }
    }

    /// Returns the next piece to fetch, if there is one, beside `reads` reads of clients. It must
    /// be ended with [`Streams::end`] or [`Streams::skip`].
    pub(crate) fn next(&self, now_ns: u64, reads: u32) -> Option<Piece> {
        let begun = self.depth.begin(now_ns, reads)?;
        let next = self.followed.peek(|followed| {
            let piece_max = piece_max(self.under_way_blocks.load(Ordering::Relaxed));
            let next = followed.next(self.sectors, piece_max);
            if followed.due == 0 {
                self.has_due.store(false, Ordering::Relaxed);
            }
            next.map(|(at, place)| (at, followed.detector.stream(place).sectors))
        });
        match next {
            Some((at, sectors)) => {
                let bypasses = sectors > self.long_sectors && !self.long_pays();
                Some(Piece { at, bypasses, begun })
            }
            None => {
                self.depth.cancel();
                None
            }
        }
    }

    /// Ends a piece that has arrived.
    pub(crate) fn end(&self, piece: &Piece, now_ns: u64) {
        self.depth.end(piece.begun, now_ns, piece.at.count);
    }

    /// Sets the number of blocks that are under way while the backing is busy: pieces follow it.
    pub(crate) fn set_under_way_blocks(&self, blocks: u64) {
        self.under_way_blocks.store(u32::try_from(blocks).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn under_way_sectors(&self) -> u64 {
        let blocks = self.under_way_blocks.load(Ordering::Relaxed);
        u64::from(blocks) * u64::from(BLOCK_SECTORS)
    }

    /// For a planted bug: notes that the piece that begins with this block has failed.
    pub(crate) fn plant_failed(&self, block: u64) {
        self.failed.store(block, Ordering::Relaxed);
    }

    /// For a planted bug: whether the last failed piece began with this block.
    pub(crate) fn was_failed(&self, block: u64) -> bool {
        self.failed.load(Ordering::Relaxed) == block
    }

    /// Ends a piece that was not requested, or has failed.
    pub(crate) fn skip(&self) {
        self.depth.cancel();
    }
}

impl Followed {
    /// Returns the stream of a read, and whether the read has missed sectors that were requested
    /// ahead of it.
    fn read(
        &mut self,
        at: &Extent,
        part: Part,
        has_missed: bool,
        under_way: u64,
    ) -> Option<(usize, bool)> {
        let (place, was_requested) = match self.detector.add_part(at, part) {
            Found::Alone if part == Part::Further => return None,
            Found::Alone => {
                self.alone = (self.alone + 1).min(ALONE_MAX);
                return None;
            }
            Found::Begins(place) => {
                self.alone = self.alone.saturating_sub(BEGINNING);
                // The stream that had this index may have needed a piece; it ends here.
                self.due &= !(1 << place);
                self.windows[place] = Window::of(self.detector.stream(place));
                (place, false)
            }
            Found::Continues(place) => {
                let (stream, window) = (self.detector.stream(place), &mut self.windows[place]);
                let was_requested = has_missed && window.has_requested(stream, at);
                if was_requested {
                    window.note_late(stream, under_way, self.window_max);
                }
                window.follow(stream);
                (place, was_requested)
            }
        };
        self.mark_due(place);
        Some((place, was_requested))
    }

    /// Marks a stream as in need of a piece, if it is trusted and its window has room.
    fn mark_due(&mut self, place: usize) {
        let stream = self.detector.stream(place);
        if self.gate.trusts(stream, self.alone) && self.windows[place].has_room(stream) {
            self.due |= 1 << place;
        }
    }

    /// Returns the stream for which these sectors were requested.
    fn requested_for(&self, at: &Extent) -> Option<usize> {
        let brought = |place: &usize| {
            let stream = self.detector.stream(*place);
            self.windows[*place].has_recent(stream, at.first)
        };
        (0..STREAMS).find(brought)
    }

    fn late(&mut self, at: &Extent, under_way: u64) {
        if let Some(place) = self.requested_for(at) {
            let stream = self.detector.stream(place);
            self.windows[place].note_late(stream, under_way, self.window_max);
            self.mark_due(place);
        }
    }

    fn wasted(&mut self, block: u64) {
        self.gate.count(1, false);
        let at = Extent::new(block * u64::from(BLOCK_SECTORS), BLOCK_SECTORS);
        if let Some(place) = self.requested_for(&at) {
            self.windows[place].note_wasted(self.detector.stream(place));
        }
    }

    /// Returns the next piece of a stream that needs one, and the stream's index: the streams take
    /// turns. `piece_max`: the maximum length of a piece, unless the stream's requests are longer.
    fn next(&mut self, sectors: u64, piece_max: u64) -> Option<(Extent, usize)> {
        while self.due != 0 {
            let behind = self.due & (u64::MAX << self.turn);
            let place = if behind != 0 { behind } else { self.due }.trailing_zeros() as usize;
            self.turn = (place + 1) % STREAMS;
            let (stream, window) = (self.detector.stream(place), &mut self.windows[place]);
            window.set_piece_max(piece_max);
            let next = window.has_room(stream).then(|| window.next(stream, sectors)).flatten();
            if next.is_none() || !window.has_room(stream) {
                self.due &= !(1 << place);
            }
            if let Some(at) = next {
                return Some((at, place));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two reads of 1 MiB that follow each other, behind this number of reads outside streams.
    /// Returns whether something is fetched behind them.
    fn fetches_behind_two(alone: u64) -> bool {
        let geometry = Geometry { slots: 1 << 16, ..Geometry::default() };
        let streams = Streams::new(1 << 40, &geometry, 1 << 14);
        let read = |first: u64| streams.read(&Extent::new(first, 2048), 0, true);
        // In no steps of the same length.
        for number in 0..alone {
            read((number * number + 7) << 20);
        }
        read(0);
        read(2048);
        streams.next(0, 0).is_some()
    }

    #[test]
    fn two_long_reads_among_many_others_are_no_stream_yet() {
        assert!(fetches_behind_two(0));
        assert!(fetches_behind_two(8));
        assert!(!fetches_behind_two(30));
    }

    #[test]
    fn a_new_stream_wants_nothing_because_another_did_that_had_its_place() {
        let geometry = Geometry { slots: 1 << 16, ..Geometry::default() };
        let streams = Streams::new(1 << 30, &geometry, 1 << 12);
        let read = |stream: u64, number: u64| {
            streams.read(&Extent::new((stream << 20) + number * 8, 8), 0, true);
        };
        // As many streams as there are entries, all of which need a piece, and one more that
        // begins.
        for stream in 0..STREAMS as u64 {
            (0..8).for_each(|number| read(stream, number));
        }
        let last = STREAMS as u64;
        (0..2).for_each(|number| read(last, number));
        for _ in 0..4 * STREAMS {
            let Some(piece) = streams.next(0, 0) else { break };
            assert!(piece.at.first < last << 20, "{piece:?} is of a stream of two requests");
            streams.skip();
        }
        (2..8).for_each(|number| read(last, number));
        let pieces = core::iter::from_fn(|| streams.next(0, 0).inspect(|_| streams.skip()));
        assert!(pieces.take(4 * STREAMS).any(|piece| piece.at.first >= last << 20));
    }
}
