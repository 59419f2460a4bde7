//! Request buffers: pinned, reference-counted, made of pieces, and measured in sectors.

use crate::memory::Memory;
use std::ops::Range;
use std::sync::Arc;

/// A list of stretches of one [`Memory`], read as one run of sectors.
///
/// `grain` is the number of bytes that represent a sector: 512 live, 16 (a stamp) in the crash
/// laboratory, 0 in timing runs, which have no data to copy.
#[derive(Debug)]
pub struct Pieces {
    memory: Arc<Memory>,
    grain: u32,
    sectors: u32,
    list: Vec<Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The first sector, counted from the buffer's start.
    first: u32,
    sectors: u32,
    offset: usize,
}

impl Pieces {
    /// Returns an empty list over `memory`, with room for `capacity` pieces.
    pub fn new(memory: Arc<Memory>, grain: u32, capacity: usize) -> Pieces {
        Pieces { memory, grain, sectors: 0, list: Vec::with_capacity(capacity) }
    }

    /// Removes the pieces; keeps the capacity.
    pub fn clear(&mut self) {
        self.list.clear();
        self.sectors = 0;
    }

    /// Appends `sectors` sectors that start at byte `offset` of the memory.
    pub fn push(&mut self, offset: usize, sectors: u32) {
        let bytes = sectors as usize * self.grain as usize;
        assert!(offset <= self.memory.bytes() && bytes <= self.memory.bytes() - offset);
        if let Some(last) = self.list.last_mut()
            && last.offset + last.sectors as usize * self.grain as usize == offset
        {
            last.sectors += sectors;
        } else {
            self.list.push(Piece { first: self.sectors, sectors, offset });
        }
        self.sectors += sectors;
    }

    /// Length in sectors.
    pub fn sectors(&self) -> u32 {
        self.sectors
    }
}

/// A reference-counted window on pinned memory: the buffer of a request.
///
/// While a request is in flight, its buffer belongs to the device that serves it.
#[derive(Clone, Debug)]
pub struct Buf {
    pieces: Arc<Pieces>,
    range: Range<u32>,
}

impl Buf {
    /// Allocates zeroed memory for `sectors` sectors.
    pub fn new(sectors: u32, grain: u32) -> Buf {
        let memory = Memory::heap(sectors as usize * grain as usize);
        Buf::from_memory(Arc::new(memory), 0, sectors, grain)
    }

    /// Returns a window of `sectors` sectors at byte `offset` of a memory.
    pub fn from_memory(memory: Arc<Memory>, offset: usize, sectors: u32, grain: u32) -> Buf {
        let mut pieces = Pieces::new(memory, grain, 1);
        pieces.push(offset, sectors);
        Buf::of(Arc::new(pieces))
    }

    /// Returns a buffer that covers a whole list of pieces.
    pub fn of(pieces: Arc<Pieces>) -> Buf {
        let range = 0..pieces.sectors;
        Buf { pieces, range }
    }

    /// Length in sectors.
    #[inline]
    pub fn sectors(&self) -> u32 {
        self.range.end - self.range.start
    }

    /// Number of bytes that represent a sector.
    #[inline]
    pub fn grain(&self) -> u32 {
        self.pieces.grain
    }

    /// Length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.sectors() as usize * self.pieces.grain as usize
    }

    /// Returns `count` sectors from `first` on as a separate buffer on the same memory.
    ///
    /// # Panics
    /// If the range exceeds the buffer.
    #[inline]
    pub fn part(&self, first: u32, count: u32) -> Buf {
        assert!(first <= self.sectors() && count <= self.sectors() - first);
        let start = self.range.start + first;
        Buf { pieces: self.pieces.clone(), range: start..start + count }
    }

    /// Returns a reference that keeps the memory alive, for a lane's ticket.
    pub fn keep(&self) -> Arc<Pieces> {
        self.pieces.clone()
    }

    /// Calls `each` with the memory offset and the number of sectors of each stretch, in order.
    #[inline]
    fn stretches(&self, each: impl FnMut(usize, u32)) {
        self.stretches_of(0, self.sectors(), each);
    }

    /// Same as `stretches`, for `count` sectors from `first` on.
    #[inline]
    fn stretches_of(&self, first: u32, count: u32, mut each: impl FnMut(usize, u32)) {
        assert!(first <= self.sectors() && count <= self.sectors() - first);
        let list = &self.pieces.list;
        let grain = self.pieces.grain as usize;
        let mut at = self.range.start + first;
        let end = at + count;
        let mut index = match list.len() {
            1 => 0,
            _ => list.partition_point(|piece| piece.first + piece.sectors <= at),
        };
        while at < end {
            let piece = &list[index];
            let skipped = at - piece.first;
            let count = (piece.sectors - skipped).min(end - at);
            each(piece.offset + skipped as usize * grain, count);
            at += count;
            index += 1;
        }
    }

    /// Calls `each` with the address and the length in bytes of each stretch, for system calls.
    pub fn addresses(&self, mut each: impl FnMut(std::ptr::NonNull<u8>, usize)) {
        let grain = self.pieces.grain as usize;
        self.stretches(|offset, sectors| {
            let bytes = sectors as usize * grain;
            each(self.pieces.memory.address(offset, bytes), bytes);
        });
    }

    /// Copies the buffer into a memory.
    #[inline]
    pub fn copy_to(&self, memory: &Memory, offset: usize) {
        self.copy_part_to(0, self.sectors(), memory, offset);
    }

    /// Copies `count` sectors from `first` on into a memory.
    #[inline]
    pub fn copy_part_to(&self, first: u32, count: u32, memory: &Memory, offset: usize) {
        self.copy_part_by(Memory::copy, first, count, memory, offset);
    }

    /// Same as [`Buf::copy_part_to`], with [`Memory::copy_past_caches`].
    #[inline]
    pub fn copy_part_past_caches(&self, first: u32, count: u32, memory: &Memory, offset: usize) {
        self.copy_part_by(Memory::copy_past_caches, first, count, memory, offset);
    }

    #[inline]
    fn copy_part_by(
        &self,
        copy: impl Fn(&Memory, usize, &Memory, usize, usize),
        first: u32,
        count: u32,
        memory: &Memory,
        mut offset: usize,
    ) {
        let grain = self.pieces.grain as usize;
        if grain == 0 {
            return;
        }
        self.stretches_of(first, count, |from, sectors| {
            let bytes = sectors as usize * grain;
            copy(&self.pieces.memory, from, memory, offset, bytes);
            offset += bytes;
        });
    }

    /// Fills the buffer from a memory.
    #[inline]
    pub fn copy_from(&self, memory: &Memory, offset: usize) {
        self.fill_part(0, self.sectors(), memory, offset);
    }

    /// Fills `count` sectors from `first` on with data from a memory.
    #[inline]
    pub fn fill_part(&self, first: u32, count: u32, memory: &Memory, mut offset: usize) {
        let grain = self.pieces.grain as usize;
        if grain == 0 {
            return;
        }
        self.stretches_of(first, count, |to, sectors| {
            let bytes = sectors as usize * grain;
            memory.copy(offset, &self.pieces.memory, to, bytes);
            offset += bytes;
        });
    }

    /// Fills the buffer from another buffer of the same length.
    pub fn copy_from_buf(&self, from: &Buf) {
        assert_eq!(self.sectors(), from.sectors());
        let mut done = 0;
        let grain = self.pieces.grain as usize;
        self.stretches(|to, sectors| {
            if grain > 0 {
                from.part(done, sectors).copy_to(&self.pieces.memory, to);
            }
            done += sectors;
        });
    }

    /// Fills the buffer from bytes.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn write(&self, from: &[u8]) {
        assert_eq!(from.len(), self.bytes());
        let mut done = 0;
        let grain = self.pieces.grain as usize;
        self.stretches(|to, sectors| {
            let bytes = sectors as usize * grain;
            self.pieces.memory.write(to, &from[done..done + bytes]);
            done += bytes;
        });
    }

    /// Copies the buffer into bytes.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn read(&self, into: &mut [u8]) {
        assert_eq!(into.len(), self.bytes());
        let mut done = 0;
        let grain = self.pieces.grain as usize;
        self.stretches(|from, sectors| {
            let bytes = sectors as usize * grain;
            self.pieces.memory.read(from, &mut into[done..done + bytes]);
            done += bytes;
        });
    }

    /// Returns a copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes()];
        self.read(&mut bytes);
        bytes
    }

    /// Calls `each` with the memory offset and the length of each stretch of `bytes` bytes from
    /// byte `at` on, in order.
    fn byte_stretches(&self, at: usize, bytes: usize, mut each: impl FnMut(usize, usize)) {
        assert!(at <= self.bytes() && bytes <= self.bytes() - at, "outside the buffer");
        if bytes == 0 {
            return;
        }
        let grain = self.pieces.grain as usize;
        let (first, end) = (at / grain, (at + bytes).div_ceil(grain));
        let mut skip = at - first * grain;
        let mut left = bytes;
        self.stretches_of(first as u32, (end - first) as u32, |offset, sectors| {
            let length = (sectors as usize * grain - skip).min(left);
            each(offset + skip, length);
            (skip, left) = (0, left - length);
        });
    }

    /// Fills `bytes` bytes from byte `at` on with bytes of another buffer, from its byte `from_at`
    /// on.
    ///
    /// # Panics
    /// If a range exceeds its buffer.
    pub fn copy_bytes_from(&self, at: usize, from: &Buf, from_at: usize, bytes: usize) {
        let mut done = 0;
        self.byte_stretches(at, bytes, |mut to, length| {
            from.byte_stretches(from_at + done, length, |offset, length| {
                from.pieces.memory.copy(offset, &self.pieces.memory, to, length);
                to += length;
            });
            done += length;
        });
    }

    /// Sets `bytes` bytes from byte `at` on to zeros.
    ///
    /// # Panics
    /// If the range exceeds the buffer.
    pub fn zero_bytes(&self, at: usize, bytes: usize) {
        self.byte_stretches(at, bytes, |offset, length| self.pieces.memory.zero(offset, length));
    }

    /// Sets the buffer to zeros.
    pub fn zero(&self) {
        self.zero_part(0, self.sectors());
    }

    /// Sets `count` sectors from `first` on to zeros.
    pub fn zero_part(&self, first: u32, count: u32) {
        let grain = self.pieces.grain as usize;
        if grain == 0 {
            return;
        }
        self.stretches_of(first, count, |at, sectors| {
            self.pieces.memory.zero(at, sectors as usize * grain);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_pieces() -> (Arc<Memory>, Buf) {
        let memory = Arc::new(Memory::heap(4096));
        let mut pieces = Pieces::new(memory.clone(), 16, 4);
        pieces.push(160, 2);
        pieces.push(0, 3);
        (memory, Buf::of(Arc::new(pieces)))
    }

    #[test]
    fn a_part_crosses_pieces() {
        let (memory, buf) = two_pieces();
        buf.write(&(0..80).collect::<Vec<u8>>());
        assert_eq!(buf.part(1, 2).to_vec(), (16..48).collect::<Vec<u8>>());
        let mut second_piece = [0; 48];
        memory.read(0, &mut second_piece);
        assert_eq!(second_piece.to_vec(), (32..80).collect::<Vec<u8>>());
    }

    #[test]
    fn copies_between_buffers_of_different_pieces() {
        let (_, from) = two_pieces();
        let (_, into) = two_pieces();
        from.write(&[7; 80]);
        into.copy_from_buf(&from);
        assert_eq!(into.to_vec(), [7; 80]);
        into.part(1, 3).zero();
        assert_eq!(into.to_vec().iter().filter(|&&byte| byte == 7).count(), 32);
    }

    #[test]
    fn bytes_are_copied_and_zeroed_across_pieces() {
        let (_, from) = two_pieces();
        let (_, into) = two_pieces();
        from.write(&(0..80).collect::<Vec<u8>>());
        into.copy_bytes_from(25, &from, 30, 41);
        let mut expected = vec![0; 80];
        expected[25..66].copy_from_slice(&(30..71).collect::<Vec<u8>>());
        assert_eq!(into.to_vec(), expected);
        into.zero_bytes(31, 3);
        expected[31..34].fill(0);
        assert_eq!(into.to_vec(), expected);
        into.copy_bytes_from(80, &from, 0, 0);
        assert_eq!(into.to_vec(), expected);
    }

    #[test]
    fn neighbours_become_one_piece() {
        let memory = Arc::new(Memory::heap(4096));
        let mut pieces = Pieces::new(memory, 512, 4);
        pieces.push(0, 2);
        pieces.push(1024, 2);
        assert_eq!(pieces.list.len(), 1);
        let mut count = 0;
        Buf::of(Arc::new(pieces)).addresses(|_, bytes| count += bytes);
        assert_eq!(count, 2048);
    }

    #[test]
    fn a_copy_past_the_caches_moves_the_same_bytes_at_every_alignment() {
        let from = Arc::new(Memory::heap(8192));
        from.write(0, &(0..8192).map(|at| (at % 251) as u8).collect::<Vec<u8>>());
        let expected = |first: usize, bytes: usize| {
            (first..first + bytes).map(|at| (at % 251) as u8).collect::<Vec<u8>>()
        };
        for (first, to, bytes) in [(0, 0, 4096), (24, 64, 4096), (64, 8, 512), (3, 128, 100)] {
            let into = Memory::heap(8192);
            from.copy_past_caches(first, &into, to, bytes);
            let mut found = vec![0; bytes + 1];
            into.read(to, &mut found);
            assert_eq!(found[..bytes], expected(first, bytes), "{bytes} bytes to {to}");
            assert_eq!(found[bytes], 0, "nothing behind them");
        }
    }

    #[test]
    #[should_panic(expected = "a copy onto itself")]
    fn a_copy_past_the_caches_refuses_to_overlap() {
        let memory = Memory::heap(8192);
        memory.copy_past_caches(0, &memory, 64, 4096);
    }

    #[test]
    #[should_panic(expected = "outside the memory")]
    fn memory_refuses_what_is_outside() {
        Memory::heap(8).write(4, &[0; 5]);
    }
}
