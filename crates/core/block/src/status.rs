//! Known state of a device's contents, without reading them.

/// A stretch of a device whose sectors all have the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Length in sectors; never 0.
    pub sectors: u64,
    /// No space is allocated for it: writing there may need space.
    pub hole: bool,
    /// Reads as zeros.
    pub zero: bool,
}

impl Stretch {
    /// A stretch of unknown contents: data.
    pub fn data(sectors: impl Into<u64>) -> Stretch {
        Stretch { sectors: sectors.into(), hole: false, zero: false }
    }

    /// The same state with another length.
    pub fn resized(self, sectors: u64) -> Stretch {
        Stretch { sectors, ..self }
    }

    /// Appends a stretch to a list. Merges it with a neighbour of the same state; skips an empty
    /// stretch.
    pub fn push(list: &mut Vec<Stretch>, next: Stretch) {
        match list.last_mut() {
            _ if next.sectors == 0 => {}
            Some(last) if (last.hole, last.zero) == (next.hole, next.zero) => {
                last.sectors += next.sectors;
            }
            _ => list.push(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_kind_become_one() {
        let hole = Stretch { sectors: 8, hole: true, zero: true };
        let mut list = Vec::new();
        for next in [Stretch::data(8u32), Stretch::data(0u32), Stretch::data(1u32), hole, hole] {
            Stretch::push(&mut list, next);
        }
        assert_eq!(list, [Stretch::data(9u32), hole.resized(16)]);
    }
}
