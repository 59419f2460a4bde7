//! How far ahead of a stream is fetched.
//!
//! The window grows only when what it brings comes late, and only where the window was what held it
//! back; it shrinks when what it has brought is wasted. (The law of ZFS's zfetch, "dmu_zfetch.c",
//! and of Linux's AMP-like readers; B. Gill, L. Bathen, "AMP: Adaptive Multi-stream Prefetching in
//! a Shared Cache", FAST 2007.) Lengths are in sectors.

use crate::BLOCK_SECTORS;
use crate::streams::detector::Stream;
use crate::streams::order::Order;
use block::Extent;

/// The largest window: 32 MiB.
pub(super) const WINDOW_MAX: u64 = 32 << 11;
/// Pieces in a window, more or less ...
const PIECES: u64 = 32;
/// ... which are no longer than this, unless the stream's requests are: 128 KiB.
const PIECE_MAX: u64 = 128 << 1;
/// Requests in the first window, which has two blocks at least.
const FIRST_REQUESTS: u64 = 2;
const FIRST_SECTORS: u64 = 2 * BLOCK_SECTORS as u64;
/// A window shorter than this, 128 KiB, need not be full to grow, as long as the stream has read as
/// much: its pieces are too short to get ahead of a client that has several requests under way.
const SHORT: u64 = 128 << 1;
/// Short windows have fewer pieces, which are no longer than this: 32 KiB.
const PIECES_SHORT: u64 = 4;
const PIECE_SHORT_MAX: u64 = 32 << 1;

/// The window of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    length: u64,
    /// Where the next piece begins; of a backward stream, where it ends.
    ahead: u64,
    /// It grows no more before the stream has come here: what is late until then was asked for too
    /// late already.
    grown_at: u64,
}

/// `sector`, or the next border of a block behind it.
fn round_up(sector: u64) -> u64 {
    round_down(sector.saturating_add(u64::from(BLOCK_SECTORS) - 1))
}

fn round_down(sector: u64) -> u64 {
    sector - sector % u64::from(BLOCK_SECTORS)
}

/// What a stream has read when `at` comes next, measured in its direction: how far `to` lies beyond
/// `from`.
fn beyond(stream: &Stream, from: u64, to: u64) -> u64 {
    match stream.order {
        Order::Forward => to.saturating_sub(from),
        Order::Backward => from.saturating_sub(to),
        Order::Strided(step) => {
            let steps = (to.wrapping_sub(from) as i64) / step;
            u64::try_from(steps).unwrap_or(0).saturating_mul(stream.request_sectors.into())
        }
    }
}

impl Window {
    pub(super) const NONE: Window = Window { length: 0, ahead: 0, grown_at: 0 };

    /// The first window of a stream.
    pub(super) fn of(stream: &Stream) -> Window {
        let length = (FIRST_REQUESTS * u64::from(stream.request_sectors)).max(FIRST_SECTORS);
        Window { length, ahead: stream.next, grown_at: stream.next }
    }

    /// How far it has come ahead of the stream.
    fn distance(&self, stream: &Stream) -> u64 {
        beyond(stream, stream.next, self.ahead)
    }

    /// The stream has gone on, and may have overtaken what was fetched.
    pub(super) fn follow(&mut self, stream: &Stream) {
        if beyond(stream, self.ahead, stream.next) > 0 {
            self.ahead = stream.next;
        }
    }

    /// Whether the sectors of a request were asked for ahead of it.
    pub(super) fn has_asked(&self, stream: &Stream, at: &Extent) -> bool {
        match stream.order {
            Order::Backward => at.end() > self.ahead,
            Order::Forward => at.first < self.ahead,
            Order::Strided(_) => beyond(stream, at.first, self.ahead) > 0,
        }
    }

    /// What it brought was not there yet when it was read. `most`: what it may grow to.
    pub(super) fn was_late(&mut self, stream: &Stream, most: u64) {
        let is_full = self.distance(stream) + self.piece_sectors(stream) > self.length;
        let is_short = self.length < SHORT.min(stream.sectors);
        if (is_full || is_short) && beyond(stream, stream.next, self.grown_at) == 0 {
            self.length = (self.length * 2).min(most).max(self.length);
            self.grown_at = self.ahead;
        }
    }

    /// What it brought was given up before it was read, or could not be fetched.
    pub(super) fn was_wasted(&mut self, stream: &Stream) {
        self.length = (self.length / 2).max(Window::of(stream).length);
    }

    /// There was no room for a piece that it has asked for.
    pub(super) fn was_refused(&mut self, stream: &Stream, at: &Extent) {
        self.was_wasted(stream);
        self.ahead = match stream.order {
            Order::Backward => at.end(),
            Order::Forward => at.first.max(stream.next),
            Order::Strided(_) => stream.next,
        };
    }

    /// Whether a block was asked for in the last window.
    pub(super) fn brought(&self, stream: &Stream, sector: u64) -> bool {
        let (behind, ahead) =
            (beyond(stream, sector, self.ahead), beyond(stream, self.ahead, sector));
        ahead == 0 && behind <= 2 * self.length
    }

    fn piece_sectors(&self, stream: &Stream) -> u64 {
        let request = u64::from(stream.request_sectors);
        match stream.order {
            Order::Strided(_) => request,
            _ => {
                let short = (self.length / PIECES_SHORT).min(PIECE_SHORT_MAX);
                round_up(request.max(short).max((self.length / PIECES).min(PIECE_MAX)))
            }
        }
    }

    /// Whether there is room in it for another piece.
    pub(super) fn has_room(&self, stream: &Stream) -> bool {
        self.distance(stream) + self.piece_sectors(stream) <= self.length.max(1)
    }

    /// The next piece, of whole blocks, on a volume of so many sectors. None: the stream's way
    /// ends.
    pub(super) fn next(&mut self, stream: &Stream, sectors: u64) -> Option<Extent> {
        let length = self.piece_sectors(stream);
        let (first, end) = match stream.order {
            Order::Forward => {
                let first = round_down(self.ahead);
                (first, first.saturating_add(length))
            }
            Order::Backward => {
                let end = round_up(self.ahead);
                (end.saturating_sub(length), end)
            }
            Order::Strided(_) if self.ahead >= sectors => return None,
            Order::Strided(_) => (
                round_down(self.ahead),
                round_up(self.ahead.saturating_add(stream.request_sectors.into())),
            ),
        };
        self.ahead = match stream.order {
            Order::Forward => end,
            Order::Backward => first,
            Order::Strided(step) => self.ahead.wrapping_add_signed(step),
        };
        let end = end.min(sectors);
        (first < end).then(|| Extent::new(first, (end - first) as u32))
    }
}
