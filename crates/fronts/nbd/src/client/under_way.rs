//! The requests that a client has sent and that are not answered yet, by cookie.

use crate::codec::*;
use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Maximum number of separate pieces of a read at a time. A server that sends more scattered pieces
/// than that exceeds the client's bounds.
pub const PIECES_MAX: usize = 1024;

/// Hashes cookies, which the client chooses itself.
#[derive(Default)]
struct CookieHasher(u64);

impl Hasher for CookieHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing. The table uses the highest and the lowest bits.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// The bytes of a read that have arrived in chunks. No byte may come twice.
#[derive(Default)]
struct Covered {
    /// Number of bytes from the start on without a gap.
    from_start: u32,
    /// Pieces after that, in the order of arrival.
    apart: Vec<Range<u32>>,
}

impl Covered {
    /// Adds a piece. False: some of its bytes have already arrived, or there are too many pieces.
    fn add(&mut self, piece: Range<u32>) -> bool {
        let overlaps = |known: &Range<u32>| piece.start < known.end && known.start < piece.end;
        if piece.start < self.from_start || self.apart.iter().any(overlaps) {
            return false;
        }
        if piece.start > self.from_start {
            let fits = self.apart.len() < PIECES_MAX;
            if fits {
                self.apart.push(piece);
            }
            return fits;
        }
        self.from_start = piece.end;
        while let Some(next) = self.apart.iter().position(|next| next.start == self.from_start) {
            self.from_start = self.apart.swap_remove(next).end;
        }
        true
    }
}

/// A request in flight, and the state of its reply.
pub(super) struct RequestState {
    pub(super) flags: u16,
    pub(super) command: u16,
    pub(super) offset: u64,
    pub(super) length: u32,
    covered: Covered,
    /// Number of data bytes in the current chunk.
    pub(super) data_bytes: u32,
    /// Contexts whose block status has arrived.
    pub(super) contexts: Vec<u32>,
    /// The first error in a chunk; 0: none.
    pub(super) error: u32,
}

impl RequestState {
    /// Returns the position in the request of a piece at `offset` of the export. None: it is not
    /// inside the request, or some of it has already arrived.
    pub(super) fn place(&mut self, offset: u64, length: u32) -> Option<u32> {
        let at = u32::try_from(offset.checked_sub(self.offset)?).ok()?;
        let end = at.checked_add(length).filter(|&end| end <= self.length)?;
        (length > 0 && self.covered.add(at..end)).then_some(at)
    }

    /// Whether all bytes have arrived.
    pub(super) fn is_whole(&self) -> bool {
        self.covered.from_start == self.length
    }
}

/// The requests in flight. Allocates memory only if more of them are in flight than ever before, or
/// if replies come in pieces.
#[derive(Default)]
pub struct UnderWay {
    table: HashMap<u64, RequestState, BuildHasherDefault<CookieHasher>>,
}

impl UnderWay {
    /// Returns an empty table with room for this number of requests.
    pub fn with_capacity(requests: usize) -> UnderWay {
        UnderWay {
            table: HashMap::with_capacity_and_hasher(requests, BuildHasherDefault::default()),
        }
    }

    /// Records a request that is being sent. The client chooses the cookie, and may reuse it once
    /// the request is answered.
    ///
    /// # Panics
    /// If a request with this cookie is in flight: their replies could not be distinguished.
    pub fn note(&mut self, header: &RequestHeader) {
        let request = RequestState {
            flags: header.flags,
            command: header.command,
            offset: header.offset,
            length: header.length,
            covered: Covered::default(),
            data_bytes: 0,
            contexts: Vec::new(),
            error: 0,
        };
        let before = self.table.insert(header.cookie, request);
        assert!(before.is_none(), "cookie {} is under way already", header.cookie);
    }

    /// Appends a request to the bytes to send, and records it. The payload of a write must follow
    /// it. A farewell (`NBD_CMD_DISC`) is not recorded, as it gets no answer.
    ///
    /// # Panics
    /// As [`UnderWay::note`].
    #[inline]
    pub fn ask(&mut self, header: &RequestHeader, out: &mut Vec<u8>) {
        if header.command != NBD_CMD_DISC {
            self.note(header);
        }
        out.extend_from_slice(&header.encode());
    }

    /// Whether a request with this cookie is in flight.
    pub fn holds(&self, cookie: u64) -> bool {
        self.table.contains_key(&cookie)
    }

    /// Number of requests in flight.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    #[inline]
    pub(super) fn find(&mut self, cookie: u64) -> Option<&mut RequestState> {
        self.table.get_mut(&cookie)
    }

    #[inline]
    pub(super) fn end(&mut self, cookie: u64) -> Option<RequestState> {
        self.table.remove(&cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_overlap_are_found_in_any_order() {
        let mut covered = Covered::default();
        assert!(covered.add(10..20) && covered.add(30..40) && !covered.add(15..16));
        assert!(!covered.add(5..11) && !covered.add(0..50) && covered.add(0..10));
        assert_eq!(covered.from_start, 20);
        assert!(!covered.add(19..30) && covered.add(20..30));
        assert_eq!((covered.from_start, covered.apart.len()), (40, 0));
    }

    #[test]
    fn a_read_in_too_many_pieces_is_refused() {
        let mut covered = Covered::default();
        let pieces = (0..PIECES_MAX as u32).map(|index| 2 * index + 1..2 * index + 2);
        assert!(pieces.into_iter().all(|piece| covered.add(piece)));
        assert!(!covered.add(1 << 20..(1 << 20) + 1), "one too many");
        assert!(covered.add(0..1), "but the first is still taken");
    }
}
