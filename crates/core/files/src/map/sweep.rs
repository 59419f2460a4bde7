//! Extents in the order in which they were found become extents in the order of the volume, which
//! do not overlap.

use super::types::Owner;
use crate::class::Class;

/// An extent as it was found: 16 bytes.
#[derive(Clone, Copy)]
pub(super) struct Raw {
    /// First sector (48 bits), kind of owner (8), class (8). So raw extents sort by their position.
    key: u64,
    pub(super) sectors: u32,
    pub(super) number: u32,
}

/// Kinds of owners, by number.
const KINDS: [fn(u32) -> Owner; 3] = [|_| Owner::None, Owner::File, Owner::Directory];

/// Returns the kind of an owner and its number.
pub(super) fn split(owner: Owner) -> (u8, u32) {
    match owner {
        Owner::None => (0, 0),
        Owner::File(number) => (1, number),
        Owner::Directory(number) => (2, number),
    }
}

/// Returns the owner of this kind with this number. None: there is no such kind.
pub(super) fn join(kind: u8, number: u32) -> Option<Owner> {
    KINDS.get(usize::from(kind)).map(|owner| owner(number))
}

impl Raw {
    pub(super) fn new(first: u64, sectors: u32, class: Class, owner: Owner) -> Raw {
        let (kind, number) = split(owner);
        let key = first << 16 | u64::from(kind) << 8 | u64::from(class.number());
        Raw { key, sectors, number }
    }

    fn first(&self) -> u64 {
        self.key >> 16
    }

    pub(super) fn end(&self) -> u64 {
        self.first() + u64::from(self.sectors)
    }

    pub(super) fn is_of(&self, class: Class, owner: Owner) -> bool {
        let (kind, number) = split(owner);
        self.tag() == (kind, class.number()) && self.number == number
    }

    fn tag(&self) -> (u8, u8) {
        ((self.key >> 8) as u8, self.key as u8)
    }

    fn is_free(&self) -> bool {
        self.key as u8 == Class::Free.number()
    }

    fn piece(&self, first: u64) -> Piece {
        let (kind, class) = self.tag();
        let class = Class::from_number(class).unwrap_or(Class::Unknown);
        let owner = join(kind, self.number).unwrap_or(Owner::None);
        Piece { first, end: self.end(), class, owner }
    }
}

/// Sectors of one class and owner, without overlaps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Piece {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) class: Class,
    pub(super) owner: Owner,
}

/// Sorted raw extents without their overlaps: a sector belongs to the extent that begins first.
struct Disjoint<'a> {
    raw: core::slice::Iter<'a, Raw>,
    end: u64,
}

impl Iterator for Disjoint<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            let raw = self.raw.next()?;
            let first = raw.first().max(self.end);
            if first < raw.end() {
                self.end = raw.end();
                return Some(raw.piece(first));
            }
        }
    }
}

/// Calls `each` with disjoint pieces in ascending order. Free space has only the sectors that no
/// other extent has: a list of free space and the files of a mounted file system may be of
/// different times.
pub(super) fn sweep(raw: &mut [Raw], mut each: impl FnMut(Piece)) {
    raw.sort_unstable_by_key(|raw| (raw.is_free(), raw.key, raw.number));
    let (used, free) = raw.split_at(raw.partition_point(|raw| !raw.is_free()));
    let mut free = Disjoint { raw: free.iter(), end: 0 };
    let mut low = free.next();
    for high in (Disjoint { raw: used.iter(), end: 0 }) {
        while let Some(piece) = low {
            if piece.first < high.first {
                each(Piece { end: piece.end.min(high.first), ..piece });
            }
            if piece.end > high.end {
                low = Some(Piece { first: piece.first.max(high.end), ..piece });
                break;
            }
            low = free.next();
        }
        each(high);
    }
    low.into_iter().chain(free).for_each(each);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn swept(raw: &mut [Raw]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        sweep(raw, |piece| pieces.push(piece));
        pieces
    }

    proptest! {
        #[test]
        fn each_sector_has_one_piece_and_files_win_over_free_space(
            found in prop::collection::vec((0u64..60, 1u32..20, 0u32..3), 0..30)
        ) {
            let raw = |&(first, sectors, number): &(u64, u32, u32)| match number {
                0 => Raw::new(first, sectors, Class::Free, Owner::None),
                _ => Raw::new(first, sectors, Class::Other, Owner::File(number)),
            };
            let mut list: Vec<Raw> = found.iter().map(raw).collect();
            let pieces = swept(&mut list);
            prop_assert!(pieces.iter().all(|piece| piece.first < piece.end));
            prop_assert!(pieces.windows(2).all(|two| two[0].end <= two[1].first));
            for sector in 0..100 {
                let covers = |&&(first, sectors, _): &&(u64, u32, u32)| {
                    (first..first + u64::from(sectors)).contains(&sector)
                };
                let numbers: Vec<u32> = found.iter().filter(covers).map(|it| it.2).collect();
                let piece = pieces.iter().find(|it| (it.first..it.end).contains(&sector));
                let is_free = piece.map(|piece| piece.class == Class::Free);
                let expected = match numbers.as_slice() {
                    [] => None,
                    all => Some(all.iter().all(|&number| number == 0)),
                };
                prop_assert_eq!(is_free, expected, "sector {}", sector);
                if let Some(Piece { owner: Owner::File(number), .. }) = piece {
                    prop_assert!(numbers.contains(number));
                }
            }
        }
    }
}
