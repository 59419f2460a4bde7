//! Positions and bytes of a signature.

/// Possible positions on a file or device, in bytes.
#[derive(Clone, Copy, Debug)]
enum Position {
    /// This offset from the start.
    Start(u64),
    /// One of these offsets from the start.
    Starts(&'static [u64]),
    /// `back` bytes before the end, where the end is rounded down to a multiple of `unit`.
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
    position: Position,
    bytes: Bytes,
    step: u64,
    count: u64,
}

/// Creates a mark with these bytes at this offset from the start.
pub(super) const fn at(offset: u64, bytes: &'static [u8]) -> Mark {
    Mark { position: Position::Start(offset), bytes: Bytes::One(bytes), step: 0, count: 1 }
}

/// Creates a mark with one of these strings at one of these offsets from the start.
pub(super) const fn one_of(offsets: &'static [u64], bytes: &'static [&'static [u8]]) -> Mark {
    Mark { position: Position::Starts(offsets), bytes: Bytes::Any(bytes), step: 0, count: 1 }
}

/// Creates a mark with these bytes, `back` bytes before the end, which is rounded down to a
/// multiple of `unit`.
pub(super) const fn end(unit: u64, back: u64, bytes: &'static [u8]) -> Mark {
    Mark { position: Position::End { unit, back }, bytes: Bytes::One(bytes), step: 0, count: 1 }
}

/// Repeats the mark at `count` positions, `step` bytes apart.
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

    /// Returns the possible positions for this size, each with its bytes.
    pub fn places(&self, size: u64) -> Vec<(u64, &'static [u8])> {
        let firsts: Vec<u64> = match self.position {
            Position::Start(offset) => vec![offset],
            Position::Starts(offsets) => offsets.to_vec(),
            Position::End { unit, back } => {
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
