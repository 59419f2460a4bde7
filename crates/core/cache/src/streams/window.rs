//! The distance of readahead ahead of its stream.
//!
//! The window grows only when its blocks arrive late, and only if the window was the limit; it
//! shrinks when its blocks are wasted. (The law of ZFS's zfetch, "dmu_zfetch.c", and of Linux's
//! AMP-like readers; B. Gill, L. Bathen, "AMP: Adaptive Multi-stream Prefetching in a Shared
//! Cache", FAST 2007.) Lengths are in sectors.

use crate::BLOCK_SECTORS;
use crate::streams::detector::Stream;
use crate::streams::order::Order;
use block::Extent;

/// Maximum length of a window: 32 MiB.
pub(super) const WINDOW_MAX: u64 = 32 << 11;
/// Approximate number of pieces in a window ...
const PIECES: u64 = 32;
/// ... of at most this length, unless the stream's requests are longer, or more pieces would have
/// to be in flight than there are tasks for them: 128 KiB.
const PIECE_MAX: u64 = 128 << 1;
/// Maximum length of a piece over a long link: 1 MiB.
const PIECE_LONG_MAX: u64 = 1024 << 1;
/// Number of pieces that fill the backing at least.
const FILLING: u64 = 16;
/// A late window grows at once to the length that fills the backing, but to no more than this
/// multiple of the sectors that the stream has read: what a stream that ends wastes.
const FILLING_TIMES_READ: u64 = 8;
/// Requests in the first window, which has at least two blocks.
const FIRST_REQUESTS: u64 = 2;
const FIRST_SECTORS: u64 = 2 * BLOCK_SECTORS as u64;
/// A window shorter than this, 128 KiB, need not be full to grow, if the stream has read more than
/// its length: its pieces are too short to get ahead of a client with several requests in flight.
const SHORT: u64 = 128 << 1;
/// Short windows have fewer pieces, of at most this length: 32 KiB.
const PIECES_SHORT: u64 = 4;
const PIECE_SHORT_MAX: u64 = 32 << 1;

/// The window of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    length: u64,
    /// The start of the next piece; of a backward stream, its end.
    ahead: u64,
    /// The window does not grow before the stream has reached this sector: sectors that are late
    /// before that were already requested too late.
    grown_at: u64,
    /// Maximum length of a piece.
    piece_max: u64,
}

/// Returns the maximum length of a piece, in sectors, over a backing that has this number of blocks
/// under way while it is busy.
pub(super) fn piece_max(under_way_blocks: u32) -> u64 {
    let sectors = u64::from(under_way_blocks) * u64::from(BLOCK_SECTORS) / FILLING;
    round_up(sectors.clamp(PIECE_MAX, PIECE_LONG_MAX))
}

/// Returns `sector`, or the next border of a block after it.
fn round_up(sector: u64) -> u64 {
    round_down(sector.saturating_add(u64::from(BLOCK_SECTORS) - 1))
}

fn round_down(sector: u64) -> u64 {
    sector - sector % u64::from(BLOCK_SECTORS)
}

/// Returns the distance of `to` beyond `from`, in the direction of the stream.
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
    pub(super) const NONE: Window =
        Window { length: 0, ahead: 0, grown_at: 0, piece_max: PIECE_MAX };

    /// Makes the first window of a stream.
    pub(super) fn of(stream: &Stream) -> Window {
        let length = (FIRST_REQUESTS * u64::from(stream.request_sectors)).max(FIRST_SECTORS);
        Window { length, ahead: stream.next, grown_at: stream.next, ..Window::NONE }
    }

    /// Sets the maximum length of a piece: see [`piece_max`].
    pub(super) fn set_piece_max(&mut self, sectors: u64) {
        self.piece_max = sectors;
    }

    /// Returns its distance ahead of the stream.
    fn distance(&self, stream: &Stream) -> u64 {
        beyond(stream, stream.next, self.ahead)
    }

    /// Follows the stream, which may have overtaken the readahead.
    pub(super) fn follow(&mut self, stream: &Stream) {
        if beyond(stream, self.ahead, stream.next) > 0 {
            self.ahead = stream.next;
        }
    }

    /// Whether the sectors of a request were requested ahead of it.
    pub(super) fn has_requested(&self, stream: &Stream, at: &Extent) -> bool {
        match stream.order {
            Order::Backward => at.end() > self.ahead,
            Order::Forward => at.first < self.ahead,
            Order::Strided(_) => beyond(stream, at.first, self.ahead) > 0,
        }
    }

    /// Handles blocks that were read before they had arrived. `under_way`: the sectors that are
    /// under way while the backing is busy, as far as is known. `most`: the maximum length.
    pub(super) fn note_late(&mut self, stream: &Stream, under_way: u64, most: u64) {
        let is_full = self.distance(stream) + self.piece_sectors(stream) > self.length;
        let is_short = self.length < SHORT.min(stream.sectors);
        if (is_full || is_short) && beyond(stream, stream.next, self.grown_at) == 0 {
            // A shorter window leaves the backing idle, and a doubling takes a round trip.
            let filling = under_way.min(stream.sectors.saturating_mul(FILLING_TIMES_READ));
            self.length = (self.length * 2).max(filling).min(most).max(self.length);
            self.grown_at = self.ahead;
        }
    }

    /// Handles blocks that were dropped unread, or could not be fetched.
    pub(super) fn note_wasted(&mut self, stream: &Stream) {
        self.length = (self.length / 2).max(Window::of(stream).length);
    }

    /// Handles a lack of room for a piece that it has requested.
    pub(super) fn note_refused(&mut self, stream: &Stream, at: &Extent) {
        self.note_wasted(stream);
        self.ahead = match stream.order {
            Order::Backward => at.end(),
            Order::Forward => at.first.max(stream.next),
            Order::Strided(_) => stream.next,
        };
    }

    /// Whether a block was requested in the last window.
    pub(super) fn has_recent(&self, stream: &Stream, sector: u64) -> bool {
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
                round_up(request.max(short).max((self.length / PIECES).min(self.piece_max)))
            }
        }
    }

    /// Whether there is room in it for another piece.
    pub(super) fn has_room(&self, stream: &Stream) -> bool {
        self.distance(stream) + self.piece_sectors(stream) <= self.length.max(1)
    }

    /// Returns the next piece, of whole blocks, on a volume of `sectors` sectors. None: the stream
    /// ends with the volume.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::detector::{Detector, Found};

    #[test]
    fn pieces_are_longer_only_where_more_is_under_way_than_a_few_of_them_hold() {
        // A disk, an SSD, a link of 1 Gbit/s with 10 ms and with 50 ms, and one of 10 Gbit/s.
        let lengths = [0, 64, 305, 1525, 15_250].map(piece_max);
        assert_eq!(lengths, [PIECE_MAX, PIECE_MAX, PIECE_MAX, 768, PIECE_LONG_MAX]);
    }

    #[test]
    fn a_late_window_grows_to_the_backing_that_is_known_as_far_as_the_stream_is_trusted() {
        let mut detector = Detector::new(1 << 30);
        let found = (0..8).map(|number| detector.add(&Extent::new(number * 128, 128))).last();
        let Some(Found::Continues(place)) = found else { panic!("{found:?}") };
        let stream = detector.stream(place);
        let grown = |under_way| {
            let mut window = Window::of(stream);
            let length = window.length;
            window.ahead = stream.next + length;
            window.grown_at = stream.next;
            window.note_late(stream, under_way, WINDOW_MAX);
            (window.length, length)
        };
        let (twice, length) = grown(0);
        assert_eq!(twice, 2 * length);
        assert_eq!(grown(4096).0, 4096, "all that is under way");
        assert_eq!(grown(1 << 20).0, stream.sectors * FILLING_TIMES_READ);
    }
}
