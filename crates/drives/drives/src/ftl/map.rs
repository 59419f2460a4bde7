//! Where each logical slot is.

use crate::shape::NOWHERE;
use alloc::vec;
use alloc::vec::Vec;

/// A place for each logical slot. Places are kept inverted, so that `NOWHERE` is 0: zeroes cost no memory until
/// they are written, and a drive takes memory as it is written to.
pub(super) struct Map(Vec<u32>);

impl Map {
    pub(super) fn new(slots: u32) -> Map {
        Map(vec![!NOWHERE; slots as usize])
    }

    /// The place of a slot that the drive has.
    #[inline]
    pub(super) fn at(&self, logical: u32) -> u32 {
        !self.0[logical as usize]
    }

    /// The place of an owner, which may be none.
    #[inline]
    pub(super) fn of_owner(&self, owner: u32) -> u32 {
        self.0.get(owner as usize).map_or(NOWHERE, |place| !place)
    }

    #[inline]
    pub(super) fn set(&mut self, logical: u32, place: u32) {
        self.0[logical as usize] = !place;
    }

    /// Every place, in the order of the slots.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|place| !place)
    }

    /// The memory behind a slot's place, to be fetched before it is needed.
    #[inline]
    pub(super) fn entry(&self, logical: u32) -> Option<&u32> {
        self.0.get(logical as usize)
    }
}
