//! Streams: which they are, what is fetched ahead of those of reads, and when they are too long to
//! be kept.
//!
//! All lanes and shards of a volume have these in common. A shard tells of what it misses, and of
//! what it finds only because it was fetched ahead, in the section in which it decides: under a
//! lock of their own, which no section is entered beneath. What is to be fetched is pulled, piece
//! by piece, by fixed tasks (`tasks/readahead.rs`).
//!
//! ```text
//!   a read -- misses, or finds what came ahead --> detector.rs   which stream it belongs to
//!                                                  window.rs     how far ahead of that is fetched
//!   a task -- asks for the next piece -----------> gate.rs       whether that has paid so far
//!                                                  depth.rs      how many pieces are under way
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
use detector::{Detector, Found, STREAMS};
use gate::Gate;
use lane::{Event, Lock};
use policy::Hash;
use reuse::Reuse;
use window::{WINDOW_MAX, Window};

/// Of so many slots, one may hold what was fetched ahead and not read yet, before shards keep to
/// their share.
const UNREAD_ONE_IN: u32 = 8;

/// Reads that belong to none when a stream begins, at most: it is known from the third or fourth
/// on, or from the next one that is not found in memory.
const BEGINNING: u32 = 4;
/// More of them are not counted.
const ALONE_MAX: u32 = 64;

/// One in so many may hold what is fetched ahead of one stream.
const WINDOW_ONE_IN: u32 = 16;

/// The streams of a volume.
#[derive(Debug)]
pub(crate) struct Streams {
    followed: Lock<Followed>,
    /// Those of writes.
    written: Lock<Detector>,
    depth: Depth,
    /// A stream may want a piece: looked at before the lock is entered.
    has_wants: AtomicBool,
    /// There may be a piece to be fetched.
    pub(crate) work: Event,
    /// Blocks that were fetched ahead, or are being, and were not read yet.
    unread: AtomicU32,
    unread_max: u32,
    /// The end of the volume's last whole block.
    sectors: u64,
    /// A stream that has gone on for so long is a long one.
    long_sectors: u64,
    reuse: Lock<Reuse>,
    /// What long streams bring is worth its place.
    long_pays: AtomicBool,
    /// Blocks that were brought, modulo 2^32.
    brought: AtomicU32,
    /// For a planted bug: the first block of the piece that has failed last.
    failed: AtomicU64,
}

#[derive(Debug)]
struct Followed {
    detector: Detector,
    windows: Box<[Window]>,
    /// The largest window, in sectors.
    window_max: u64,
    /// A bit for each stream whose window may have room for a piece.
    wants: u64,
    /// Whose turn it is.
    turn: usize,
    gate: Gate,
    /// Reads that belonged to no stream, without those with which streams began.
    alone: u32,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// It belongs to a long stream: see [`Streams::note`].
    pub(crate) is_long: bool,
    /// It belongs to a stream that is too long to be kept.
    pub(crate) passes: bool,
    /// It has missed what was asked for ahead of it.
    pub(crate) was_asked: bool,
}

/// A piece to be fetched ahead of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) at: Extent,
    /// The stream is too long to be kept.
    pub(crate) passing: bool,
    begun: Begun,
}

impl Streams {
    /// Of a volume of so many sectors, over a cache of this geometry, where streams longer than so
    /// many blocks are long.
    pub(crate) fn new(sectors: u64, geometry: &Geometry, long_blocks: u32) -> Streams {
        let (slots, sectors_each) = (geometry.slots, u64::from(BLOCK_SECTORS));
        let window_blocks = slots / WINDOW_ONE_IN;
        let followed = Followed {
            detector: Detector::new(sectors),
            windows: vec![Window::NONE; STREAMS].into_boxed_slice(),
            window_max: WINDOW_MAX.min(u64::from(window_blocks) * sectors_each),
            wants: 0,
            turn: 0,
            gate: Gate::default(),
            alone: 0,
        };
        Streams {
            followed: Lock::new(followed),
            written: Lock::new(Detector::new(sectors)),
            depth: Depth::new(),
            has_wants: AtomicBool::new(false),
            work: Event::new(),
            unread: AtomicU32::new(0),
            unread_max: slots / UNREAD_ONE_IN,
            sectors: sectors - sectors % sectors_each,
            long_sectors: u64::from(long_blocks) * sectors_each,
            reuse: Lock::new(Reuse::new(slots)),
            long_pays: AtomicBool::new(false),
            brought: AtomicU32::new(0),
            failed: AtomicU64::new(u64::MAX),
        }
    }

    /// A read has found so many blocks for the first time that were fetched ahead, or has missed,
    /// or both.
    pub(crate) fn read(&self, at: &Extent, found: u32, has_missed: bool) -> Heard {
        self.unread.fetch_sub(found, Ordering::Relaxed);
        self.brings(at);
        self.followed.peek(|followed| {
            followed.gate.settled(found, true);
            let heard = followed.read(at, has_missed);
            self.has_wants.store(followed.wants != 0, Ordering::Relaxed);
            let Some((place, was_asked)) = heard else {
                if followed.alone > BEGINNING {
                    self.depth.note_alone();
                }
                return Heard::default();
            };
            if followed.alone == 0 {
                self.depth.was_none_alone();
            }
            let is_long = followed.detector.stream(place).sectors > self.long_sectors;
            Heard { is_long, passes: is_long && !self.long_pays(), was_asked }
        })
    }

    /// A write of data.
    pub(crate) fn write(&self, at: &Extent) -> Heard {
        self.brings(at);
        let sectors = self.written.peek(|written| match written.hear(at) {
            Found::Alone => 0,
            Found::Begins(place) | Found::Goes(place) => written.stream(place).sectors,
        });
        let is_long = sectors > self.long_sectors;
        Heard { is_long, passes: is_long && !self.long_pays(), was_asked: false }
    }

    fn brings(&self, at: &Extent) {
        self.brought.fetch_add(at.count.div_ceil(BLOCK_SECTORS), Ordering::Relaxed);
    }

    fn long_pays(&self) -> bool {
        self.long_pays.load(Ordering::Relaxed)
    }

    /// A block of the sample is read.
    pub(crate) fn asked(&self, hash: Hash) {
        let now = self.brought.load(Ordering::Relaxed);
        let pays = self.reuse.peek(|reuse| {
            reuse.asked(hash, now);
            reuse.pays()
        });
        self.long_pays.store(pays, Ordering::Relaxed);
    }

    /// A long stream has brought a block of the sample.
    pub(crate) fn note(&self, hash: Hash) {
        let now = self.brought.load(Ordering::Relaxed);
        let pays = self.reuse.peek(|reuse| {
            reuse.note(hash, now);
            reuse.pays()
        });
        self.long_pays.store(pays, Ordering::Relaxed);
    }

    /// So many blocks that were fetched ahead were read for the first time, by a read that will be
    /// told of later.
    pub(crate) fn found(&self, blocks: u32) {
        self.unread.fetch_sub(blocks, Ordering::Relaxed);
        self.followed.peek(|followed| followed.gate.settled(blocks, true));
    }

    /// A read waits for what is being fetched ahead of it.
    pub(crate) fn waits(&self, at: &Extent) {
        self.followed.peek(|followed| {
            followed.late(at);
            self.has_wants.store(followed.wants != 0, Ordering::Relaxed);
        });
    }

    /// A block that was fetched ahead is given up without having been read.
    pub(crate) fn wasted(&self, block: u64) {
        self.unread.fetch_sub(1, Ordering::Relaxed);
        self.followed.peek(|followed| followed.wasted(block));
    }

    /// There is no room for a piece: the stream asks for it again, and for less, when it is read
    /// next. Not before: a task that asked at once would let nothing else on its lane go on, and so
    /// wait for ever for room.
    pub(crate) fn refused(&self, at: &Extent) {
        self.followed.peek(|followed| {
            if let Some(place) = followed.asked(at) {
                followed.windows[place].was_refused(followed.detector.stream(place), at);
                followed.wants &= !(1 << place);
                self.has_wants.store(followed.wants != 0, Ordering::Relaxed);
            }
        });
    }

    /// So many blocks more are being fetched ahead.
    pub(crate) fn will_be_unread(&self, blocks: u32) {
        self.unread.fetch_add(blocks, Ordering::Relaxed);
    }

    /// So many of those are not there: they were not kept.
    pub(crate) fn not_unread(&self, blocks: u32) {
        self.unread.fetch_sub(blocks, Ordering::Relaxed);
    }

    /// Blocks that were fetched ahead, or are being, and were not read yet.
    pub(crate) fn unread(&self) -> u32 {
        self.unread.load(Ordering::Relaxed)
    }

    /// Whether so much is unread that no shard is to have more of it than its share.
    pub(crate) fn is_full(&self) -> bool {
        self.unread() >= self.unread_max
    }

    /// Whether a stream may want a piece.
    #[inline]
    pub(crate) fn has_wants(&self) -> bool {
        self.has_wants.load(Ordering::Relaxed)
    }

    /// Wakes a task, if there may be a piece for it beside so many reads of clients. It wakes the
    /// next one.
    pub(crate) fn wake(&self, reads: u32) {
        if self.depth.has_room(reads) {
            self.work.notify_one();
        }
    }

    /// The next piece to be fetched, if there is one, beside so many reads of clients. It must be
    /// ended with [`Streams::end`] or [`Streams::skip`].
    pub(crate) fn next(&self, now_ns: u64, reads: u32) -> Option<Piece> {
        let begun = self.depth.begin(now_ns, reads)?;
        let next = self.followed.peek(|followed| {
            let next = followed.next(self.sectors);
            if followed.wants == 0 {
                self.has_wants.store(false, Ordering::Relaxed);
            }
            next.map(|(at, place)| (at, followed.detector.stream(place).sectors))
        });
        match next {
            Some((at, sectors)) => {
                let passing = sectors > self.long_sectors && !self.long_pays();
                Some(Piece { at, passing, begun })
            }
            None => {
                self.depth.cancel();
                None
            }
        }
    }

    /// A piece has come.
    pub(crate) fn end(&self, piece: &Piece, now_ns: u64) {
        self.depth.end(piece.begun, now_ns, piece.at.count);
    }

    /// For a planted bug: the piece that begins with this block has failed.
    pub(crate) fn plant_failed(&self, block: u64) {
        self.failed.store(block, Ordering::Relaxed);
    }

    /// For a planted bug: whether that was the last one that failed.
    pub(crate) fn was_failed(&self, block: u64) -> bool {
        self.failed.load(Ordering::Relaxed) == block
    }

    /// A piece was not asked for, or has failed.
    pub(crate) fn skip(&self) {
        self.depth.cancel();
    }
}

impl Followed {
    /// The stream to which a read belongs, and whether it has missed what was asked for ahead of
    /// it.
    fn read(&mut self, at: &Extent, has_missed: bool) -> Option<(usize, bool)> {
        let found = self.detector.hear(at);
        let (place, was_asked) = match found {
            Found::Alone => {
                self.alone = (self.alone + 1).min(ALONE_MAX);
                return None;
            }
            Found::Begins(place) => {
                self.alone = self.alone.saturating_sub(BEGINNING);
                // The one that had this place may have wanted a piece; it ends here.
                self.wants &= !(1 << place);
                self.windows[place] = Window::of(self.detector.stream(place));
                (place, false)
            }
            Found::Goes(place) => {
                let (stream, window) = (self.detector.stream(place), &mut self.windows[place]);
                let was_asked = has_missed && window.has_asked(stream, at);
                if was_asked {
                    window.was_late(stream, self.window_max);
                }
                window.follow(stream);
                (place, was_asked)
            }
        };
        self.want(place);
        Some((place, was_asked))
    }

    /// A stream wants a piece, if it is trusted and its window has room.
    fn want(&mut self, place: usize) {
        let stream = self.detector.stream(place);
        if self.gate.trusts(stream) && self.windows[place].has_room(stream) {
            self.wants |= 1 << place;
        }
    }

    /// The stream for which these sectors were asked for.
    fn asked(&self, at: &Extent) -> Option<usize> {
        let brought = |place: &usize| {
            let stream = self.detector.stream(*place);
            self.windows[*place].brought(stream, at.first)
        };
        (0..STREAMS).find(brought)
    }

    fn late(&mut self, at: &Extent) {
        if let Some(place) = self.asked(at) {
            self.windows[place].was_late(self.detector.stream(place), self.window_max);
            self.want(place);
        }
    }

    fn wasted(&mut self, block: u64) {
        self.gate.settled(1, false);
        let at = Extent::new(block * u64::from(BLOCK_SECTORS), BLOCK_SECTORS);
        if let Some(place) = self.asked(&at) {
            self.windows[place].was_wasted(self.detector.stream(place));
        }
    }

    /// The next piece of a stream that wants one, and its place: the streams take turns.
    fn next(&mut self, sectors: u64) -> Option<(Extent, usize)> {
        while self.wants != 0 {
            let behind = self.wants & (u64::MAX << self.turn);
            let place = if behind != 0 { behind } else { self.wants }.trailing_zeros() as usize;
            self.turn = (place + 1) % STREAMS;
            let (stream, window) = (self.detector.stream(place), &mut self.windows[place]);
            let next = window.has_room(stream).then(|| window.next(stream, sectors)).flatten();
            if next.is_none() || !window.has_room(stream) {
                self.wants &= !(1 << place);
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

    #[test]
    fn a_new_stream_wants_nothing_because_another_did_that_had_its_place() {
        let geometry = Geometry { slots: 1 << 16, ..Geometry::default() };
        let streams = Streams::new(1 << 30, &geometry, 1 << 12);
        let read = |stream: u64, number: u64| {
            streams.read(&Extent::new((stream << 20) + number * 8, 8), 0, true);
        };
        // As many as there are places, all of which want a piece, and one more that begins.
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
