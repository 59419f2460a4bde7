//! Where the bytes of a signature lie.

/// Positions on a file or device, in bytes.
#[derive(Clone, Copy, Debug)]
enum From {
    /// From the start.
    Start(u64),
    /// From the start, in one of these places.
    Starts(&'static [u64]),
    /// So far before the end, where the end is rounded down to a multiple of a unit.
    End { unit: u64, back: u64 },
}

/// The bytes: one string, or one of several.
#[derive(Clone, Copy, Debug)]
enum Bytes {
    One(&'static [u8]),
    Any(&'static [&'static [u8]]),
}

/// Bytes at a position. Several strings and several positions are alternatives.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    from: From,
    bytes: Bytes,
    step: u64,
    count: u64,
}

/// These bytes, so far from the start.
pub(super) const fn at(offset: u64, bytes: &'static [u8]) -> Mark {
    Mark { from: From::Start(offset), bytes: Bytes::One(bytes), step: 0, count: 1 }
}

/// One of these strings in one of these places from the start.
pub(super) const fn one_of(offsets: &'static [u64], bytes: &'static [&'static [u8]]) -> Mark {
    Mark { from: From::Starts(offsets), bytes: Bytes::Any(bytes), step: 0, count: 1 }
}

/// These bytes, so far before the end, which is rounded down to a multiple of `unit`.
pub(super) const fn end(unit: u64, back: u64, bytes: &'static [u8]) -> Mark {
    Mark { from: From::End { unit, back }, bytes: Bytes::One(bytes), step: 0, count: 1 }
}

/// The mark in one of `count` places, `step` bytes apart.
pub(super) const fn slots(mark: Mark, step: u64, count: u64) -> Mark {
    Mark { step, count, ..mark }
}

impl Mark {
    fn strings(&self) -> Vec<&'static [u8]> {
        match self.bytes {
            Bytes::One(bytes) => vec![bytes],
            Bytes::Any(strings) => strings.to_vec(),
        }
    }

    /// Positions on something of this size, each with the bytes that may lie there.
    pub fn places(&self, size: u64) -> Vec<(u64, &'static [u8])> {
        let firsts: Vec<u64> = match self.from {
            From::Start(offset) => vec![offset],
            From::Starts(offsets) => offsets.to_vec(),
            From::End { unit, back } => {
                (size - size % unit).checked_sub(back).into_iter().collect()
            }
        };
        let offsets = firsts
            .into_iter()
            .flat_map(|first| (0..self.count).map(move |slot| first + slot * self.step));
        let strings = self.strings();
        let all = offsets.flat_map(|offset| strings.iter().map(move |bytes| (offset, *bytes)));
        all.filter(|(offset, bytes)| offset.saturating_add(bytes.len() as u64) <= size).collect()
    }
}
