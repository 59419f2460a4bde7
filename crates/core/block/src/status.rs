//! What is known about a device's contents without reading them.

/// A stretch of a device whose sectors are all alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// How long it is, in sectors; never 0.
    pub sectors: u64,
    /// Nothing is allocated for it: writing there may need space.
    pub hole: bool,
    /// It reads as zeros.
    pub zero: bool,
}

impl Stretch {
    /// A stretch of which nothing is known: data.
    pub fn data(sectors: impl Into<u64>) -> Stretch {
        Stretch { sectors: sectors.into(), hole: false, zero: false }
    }

    /// The same kind over another length.
    pub fn resized(self, sectors: u64) -> Stretch {
        Stretch { sectors, ..self }
    }

    /// Appends a stretch to a list; neighbours of one kind become one, an empty one is left out.
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
