//! The geometry of a flash drive: its slots and their positions.

/// Bytes of a slot: the unit of the map, and of every address in this crate.
pub const SLOT_BYTES: u64 = 4096;

/// A flash drive's geometry as used by its FTL.
///
/// A *slot* is 4 KiB. A *unit* is programmed by one die in one operation: a page in each of its
/// planes. A *superblock* is erased in one operation: one block of every plane of every die. Its
/// units are numbered across the dies first, so that neighbours are on different dies: unit `u` is
/// page `u / dies` of die `u % dies`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Number of visible slots.
    pub logical_slots: u32,
    /// Superblocks of the FTL, after all losses.
    pub superblocks: u32,
    /// Dies, all of which take part in each superblock.
    pub dies: u32,
    /// Slots of a unit. With compression, the slots whose data fit.
    pub unit_slots: u32,
    /// Pages of a block when all bits of a cell are used.
    pub pages: u32,
    /// Pages of a block with one bit a cell.
    pub slc_pages: u32,
}

/// Physical addresses are below this; higher values are "buffered" or "nowhere".
pub(crate) const ADDRESSES: u32 = 0xf000_0000;

/// As a location: not mapped. As an owner: a slot that was programmed empty.
pub(crate) const NOWHERE: u32 = u32::MAX;

impl Shape {
    /// Returns the slots of a superblock that is used with all its bits.
    pub fn superblock_slots(&self) -> u32 {
        self.dies * self.unit_slots * self.pages
    }

    /// Returns the slots of a superblock that is used with one bit a cell.
    pub fn slc_superblock_slots(&self) -> u32 {
        self.dies * self.unit_slots * self.slc_pages
    }

    /// Returns all physical slots, with all bits used.
    pub fn physical_slots(&self) -> u64 {
        u64::from(self.superblock_slots()) * u64::from(self.superblocks)
    }

    /// Returns the problem with the numbers, if there is one, in one sentence.
    pub fn fault(&self) -> Option<&'static str> {
        let zero = [self.logical_slots, self.superblocks, self.dies, self.unit_slots, self.pages];
        let slots = [self.dies, self.unit_slots, self.pages].map(u64::from);
        let slots = slots.into_iter().try_fold(1u64, u64::checked_mul);
        match slots.and_then(|slots| slots.checked_mul(u64::from(self.superblocks))) {
            _ if zero.contains(&0) => Some("every count of the geometry must be at least 1"),
            _ if self.slc_pages > self.pages => Some("a block has fewer pages with fewer bits"),
            None => Some("the geometry overflows; give smaller counts"),
            Some(all) if all >= u64::from(ADDRESSES) => {
                Some("the drive has more than 16 TB of flash; give fewer blocks or dies")
            }
            Some(_) if slots.is_none_or(|slots| slots > 1 << 28) => {
                Some("a superblock has more than 2^28 slots; give fewer pages or dies")
            }
            Some(_) => None,
        }
    }
}

/// Divides addresses by a constant with a multiplication, because a division would cost several
/// times as much on the hottest path. Exact for all 32-bit numbers (Granlund and Montgomery, 1994).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divider {
    factor: u64,
    divisor: u32,
}

impl Divider {
    pub(crate) fn new(divisor: u32) -> Divider {
        Divider { factor: (u64::MAX / u64::from(divisor)).wrapping_add(1), divisor }
    }

    #[inline]
    pub(crate) fn divide(self, number: u32) -> u32 {
        // The factor of 1 is 2^64, which does not fit.
        if self.divisor == 1 {
            return number;
        }
        ((u128::from(self.factor) * u128::from(number)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_divider_divides() {
        for divisor in [1, 2, 3, 7, 64, 1536, 5440, 16384, 65535, 1 << 28] {
            let divider = Divider::new(divisor);
            for number in [0, 1, divisor - 1, divisor, divisor + 1, 1 << 31, u32::MAX - 1, u32::MAX]
            {
                assert_eq!(divider.divide(number), number / divisor, "{number} / {divisor}");
            }
        }
    }

    #[test]
    fn slots_are_counted_and_absurd_shapes_are_refused() {
        let shape = Shape {
            logical_slots: 100,
            superblocks: 4096,
            dies: 16,
            unit_slots: 4,
            pages: 256,
            slc_pages: 85,
        };
        assert_eq!(shape.superblock_slots(), 16_384);
        assert_eq!(shape.slc_superblock_slots(), 5_440);
        assert_eq!(shape.physical_slots() * SLOT_BYTES, 256 << 30);
        assert_eq!(shape.fault(), None);
        assert!(Shape { dies: 0, ..shape }.fault().is_some());
        assert!(Shape { superblocks: u32::MAX, ..shape }.fault().is_some());
        assert!(Shape { pages: u32::MAX, dies: u32::MAX, ..shape }.fault().is_some());
    }
}
