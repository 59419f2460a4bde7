//! The map of a pool, from the metadata of its members.

use crate::bits::Bits;
use crate::decide::blank_map;
use crate::format::{ABSENT, Head, LOST, Record, WEAR, page_sequence, places};
use crate::layout::{Layout, MEMBERS_MAX};
use crate::slots::Slots;
use alloc::vec;
use alloc::vec::Vec;
use block::{Result, Stack};

/// The map as of the last commit.
pub(crate) struct RecoveredMap {
    pub(crate) map: Vec<u32>,
    /// The home of each page's newest copy.
    pub(crate) home: Vec<bool>,
    /// The highest sequence of all pages.
    pub(crate) sequence: u64,
    /// Pages of which no good copy was found yet.
    pub(crate) missing: Bits,
    /// Pages that the journal has changed.
    pub(crate) touched: Bits,
    /// Slots written to each member.
    pub(crate) written: [u64; MEMBERS_MAX],
}

impl RecoveredMap {
    pub(crate) fn new(layout: &Layout) -> RecoveredMap {
        let mut missing = Bits::new(layout.pages);
        (0..layout.pages).for_each(|page| _ = missing.set(page));
        RecoveredMap {
            map: blank_map(layout),
            home: vec![false; layout.pages as usize],
            sequence: 0,
            missing,
            touched: Bits::new(layout.pages),
            written: [0; MEMBERS_MAX],
        }
    }

    /// Reads the missing pages from a member. Pages of a later life than `life` were written by an
    /// interrupted opening, and possibly not to all members.
    pub(crate) async fn read_pages(
        &mut self,
        member: &Stack,
        pool: u128,
        layout: &Layout,
        life: u32,
    ) -> Result {
        if self.missing.count() == 0 {
            return Ok(());
        }
        let mut sequences = vec![None; layout.pages as usize];
        let mut slots = Slots::of(member);
        for home in [0, 1] {
            let first = layout.page_slot(0, home);
            let take = |slot: u32, bytes: &[u8]| {
                let page = slot - first;
                let known: &mut Option<u64> = &mut sequences[page as usize];
                let Some(sequence) = page_sequence(bytes, pool, page) else { return true };
                if self.missing.has(page) && known.is_none_or(|known| known < sequence) {
                    *known = Some(sequence);
                    self.sequence = self.sequence.max(sequence);
                    self.home[page as usize] = home == 1;
                    self.take_page(page, bytes, layout);
                }
                true
            };
            slots.read(first, layout.pages, take).await?;
        }
        for (page, sequence) in sequences.iter().enumerate() {
            let Some(sequence) = sequence else { continue };
            if self.missing.clear(page as u32) && sequence >> 32 > u64::from(life) {
                self.touched.set(page as u32);
            }
        }
        Ok(())
    }

    fn take_page(&mut self, page: u32, bytes: &[u8], layout: &Layout) {
        let entries = layout.entries_a_page() as usize;
        let first = self.map.len().min(page as usize * entries);
        let end = self.map.len().min(first + entries);
        self.map[first..end]
            .iter_mut()
            .zip(places(bytes))
            .for_each(|(entry, place)| *entry = place);
    }

    /// Applies the journal blocks `first` to `last` of a member. Returns false if they are invalid.
    pub(crate) async fn replay(
        &mut self,
        member: &Stack,
        layout: &Layout,
        first: u64,
        last: u64,
    ) -> Result<bool> {
        let journal = u64::from(layout.journal);
        let mut slots = Slots::of(member);
        let mut sound = true;
        let mut next = first;
        while next <= last && sound {
            let position = next % journal;
            let count = (last + 1 - next).min(journal - position);
            let apply = |_, bytes: &[u8]| {
                sound = Head::records(bytes).all(|record| self.apply(record, layout));
                sound
            };
            slots.read(1 + position as u32, count as u32, apply).await?;
            next += count;
        }
        let places = layout.places();
        Ok(sound && self.map.iter().all(|place| *place >= LOST || *place < places))
    }

    fn apply(&mut self, record: Record, layout: &Layout) -> bool {
        let Record { slot, place, count } = record;
        if slot >= WEAR {
            let Some(written) = self.written.get_mut((slot - WEAR) as usize) else { return false };
            *written = (*written).max(u64::from(count) << 32 | u64::from(place));
            return true;
        }
        let inside = |first: u32, size: u32| count <= size && first <= size - count;
        if count == 0 || !inside(slot, layout.logical) {
            return false;
        }
        let fixed = matches!(place, ABSENT | LOST);
        if !fixed && !inside(place, layout.places()) {
            return false;
        }
        for ahead in 0..count {
            self.map[(slot + ahead) as usize] = if fixed { place } else { place + ahead };
        }
        let entries = layout.entries_a_page();
        let pages = slot / entries..=(slot + count - 1) / entries;
        pages.for_each(|page| _ = self.touched.set(page));
        true
    }
}
