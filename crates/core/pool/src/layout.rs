//! The layout of a member, and the usable size of a pool.
//!
//! ```text
//!  slot  0            1 ..          1 + J ..       1 + J + P ..   data ..
//!        superblock   journal, J    map pages, P   map pages, P   data, up to the member's end
//!                     (a ring)      (home 0)       (home 1)
//! ```
//! A slot is 8 sectors (4 KiB live). Everything except the data is the same on all members: each
//! has the whole map, so that the loss of a member loses only the data on it.

use block::Limits;

/// Sectors in a slot.
pub const SLOT_SECTORS: u32 = 8;
/// Maximum number of members of a pool.
pub const MEMBERS_MAX: usize = 16;
/// Bytes of a superblock; the minimum size of a slot.
pub(crate) const SUPERBLOCK_BYTES: u32 = 120;
/// Bytes before the records of a journal block.
pub(crate) const JOURNAL_HEADER: u32 = 56;
/// Bytes of a journal record.
pub(crate) const RECORD_BYTES: u32 = 12;
/// Bytes before the entries of a map page.
pub(crate) const PAGE_HEADER: u32 = 32;
/// One slot in this number is hidden, so that there is always a free place.
const SPARE_ONE_OF: u32 = 32;
/// Minimum number of blocks of a journal.
const JOURNAL_MIN: u32 = 16;
/// Maximum number of records that wait for a commit: 13 blocks of 4 KiB.
const RECORDS_MAX: u32 = 4096;
/// Maximum number of slots that wait for a commit: 256 MiB.
const SLOTS_MAX: u32 = 65_536;

/// The sizes of a pool, in slots unless noted otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Number of bytes that represent a sector.
    pub(crate) grain: u32,
    /// Each member's size.
    pub(crate) sizes: [u32; MEMBERS_MAX],
    /// Number of members.
    pub(crate) members: usize,
    /// Blocks of the journal.
    pub(crate) journal: u32,
    /// Pages of the map.
    pub(crate) pages: u32,
    /// Visible size of the pool.
    pub(crate) logical: u32,
}

impl Layout {
    /// Returns the layout of a new pool with members of these sizes in slots.
    ///
    /// # Errors
    /// A sentence: there are too few or too many members, or their sizes are unsuitable.
    pub fn for_sizes(sizes: &[u32], grain: u32) -> Result<Layout, &'static str> {
        if sizes.len() < 2 || sizes.len() > MEMBERS_MAX {
            return Err("a pool has 2 to 16 members");
        }
        if grain * SLOT_SECTORS < SUPERBLOCK_BYTES {
            return Err("a pool needs members that store data");
        }
        let all: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
        if all > u64::from(u32::MAX - 16) {
            return Err("a pool's members have at most 16 TiB together");
        }
        let mut layout = Layout {
            grain,
            sizes: [0; MEMBERS_MAX],
            members: sizes.len(),
            journal: 0,
            pages: (all as u32).div_ceil(Layout::entries_of(grain)),
            logical: 0,
        };
        layout.sizes[..sizes.len()].copy_from_slice(sizes);
        layout.journal = (all as u32 / 4).div_ceil(layout.records_a_block()).max(JOURNAL_MIN);
        if sizes.iter().any(|size| *size < layout.data_first() + 32) {
            return Err("a member is too small: a pool of its size needs more room for its map");
        }
        layout.logical = layout.places() - layout.spare();
        Ok(layout)
    }

    fn entries_of(grain: u32) -> u32 {
        (grain * SLOT_SECTORS - PAGE_HEADER) / 4
    }

    /// Number of bytes that represent a slot.
    pub(crate) fn block_bytes(&self) -> usize {
        (self.grain * SLOT_SECTORS) as usize
    }

    /// Number of records in a journal block.
    pub(crate) fn records_a_block(&self) -> u32 {
        (self.grain * SLOT_SECTORS - JOURNAL_HEADER) / RECORD_BYTES
    }

    /// Number of entries in a map page.
    pub(crate) fn entries_a_page(&self) -> u32 {
        Layout::entries_of(self.grain)
    }

    /// Returns the slot of the page `page` in one of its two homes.
    pub(crate) fn page_slot(&self, page: u32, home: usize) -> u32 {
        1 + self.journal + home as u32 * self.pages + page
    }

    /// The first slot of data.
    pub(crate) fn data_first(&self) -> u32 {
        1 + self.journal + 2 * self.pages
    }

    /// Number of places for data on a member.
    pub(crate) fn data(&self, member: usize) -> u32 {
        self.sizes[member] - self.data_first()
    }

    /// Number of places for data on all members.
    pub(crate) fn places(&self) -> u32 {
        (0..self.members).map(|member| self.data(member)).sum()
    }

    /// Number of places beyond the visible size.
    pub(crate) fn spare(&self) -> u32 {
        (self.places() / SPARE_ONE_OF).max(8 * self.members as u32)
    }

    /// Returns the number of a member's first place, numbered across all members.
    pub(crate) fn base(&self, member: usize) -> u32 {
        (0..member).map(|before| self.data(before)).sum()
    }

    /// Returns the member of a place, and the place's number on it.
    pub(crate) fn owner(&self, place: u32) -> (usize, u32) {
        let mut rest = place;
        for member in 0..self.members {
            let data = self.data(member);
            if rest < data {
                return (member, rest);
            }
            rest -= data;
        }
        unreachable!("place {place} is on no member")
    }

    /// Maximum number of blocks that one commit writes.
    pub(crate) fn commit_blocks(&self) -> u32 {
        (self.journal / 8).min(RECORDS_MAX.div_ceil(self.records_a_block()))
    }

    /// Maximum number of records of one commit.
    pub(crate) fn records_max(&self) -> u32 {
        self.commit_blocks() * self.records_a_block()
    }

    /// Maximum number of slots whose older places wait for one commit.
    pub(crate) fn slots_max(&self) -> u32 {
        (self.spare() / 2).clamp(1, SLOTS_MAX)
    }

    /// Maximum number of map pages that one commit writes: enough that a pass over all pages ends
    /// within a quarter of the journal.
    pub(crate) fn slice_max(&self) -> u32 {
        let pages = u64::from(self.pages) * u64::from(self.commit_blocks());
        (pages.div_ceil(u64::from(self.journal / 4)) as u32 + 1).clamp(2, self.pages.max(2))
    }

    /// Visible size of the pool, in sectors.
    pub fn sectors(&self) -> u64 {
        u64::from(self.logical) * u64::from(SLOT_SECTORS)
    }
}

/// Number of whole slots of a device.
pub(crate) fn slots_of(limits: &Limits) -> u32 {
    u32::try_from(limits.sectors / u64::from(SLOT_SECTORS)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_four_shows_nearly_all_of_it() {
        let size = (250u64 << 30 >> 12) as u32;
        let layout = Layout::for_sizes(&[size; 4], 512).expect("an ordinary pool");
        let shown = f64::from(layout.logical) / (4.0 * f64::from(size));
        assert!((0.94..0.97).contains(&shown), "{shown}");
        assert!(layout.commit_blocks() <= 13 && layout.slice_max() <= 128, "{layout:?}");
    }

    #[test]
    fn owners_are_found_by_place_and_absurd_pools_refused() {
        let layout = Layout::for_sizes(&[300, 200, 400], 16).expect("a small pool");
        assert_eq!(layout.owner(layout.base(2) + 3), (2, 3));
        assert_eq!(layout.owner(layout.base(1) - 1), (0, layout.data(0) - 1));
        assert!(Layout::for_sizes(&[300], 16).is_err());
        assert!(Layout::for_sizes(&[300; 17], 16).is_err());
        assert!(Layout::for_sizes(&[300, 20], 16).is_err());
        assert!(Layout::for_sizes(&[u32::MAX, 300], 512).is_err());
        assert!(Layout::for_sizes(&[300, 300], 0).is_err());
    }
}
