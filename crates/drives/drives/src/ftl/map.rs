//! The location of each logical slot.

use crate::shape::NOWHERE;
use alloc::vec;
use alloc::vec::Vec;

/// The location of each logical slot. Values are stored inverted, so that `NOWHERE` is 0: zeros use
/// no memory until they are written, and the memory of a drive grows as it is written.
pub(super) struct Map(Vec<u32>);

impl Map {
    pub(super) fn new(slots: u32) -> Map {
        Map(vec![!NOWHERE; slots as usize])
    }

    /// Returns the location of a slot of the drive.
    #[inline]
    pub(super) fn at(&self, logical: u32) -> u32 {
        !self.0[logical as usize]
    }

    /// Returns the location of an owner, which may be none.
    #[inline]
    pub(super) fn of_owner(&self, owner: u32) -> u32 {
        self.0.get(owner as usize).map_or(NOWHERE, |place| !place)
    }

    #[inline]
    pub(super) fn set(&mut self, logical: u32, place: u32) {
        self.0[logical as usize] = !place;
    }

    /// Returns every location, in the order of the slots.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|place| !place)
    }

    /// Returns the memory of a slot's entry, for prefetching.
    #[inline]
    pub(super) fn entry(&self, logical: u32) -> Option<&u32> {
        self.0.get(logical as usize)
    }
}
