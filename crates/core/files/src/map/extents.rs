//! Reads the section of extents.

use super::numbers::Rest;
use super::sweep::join;
use super::types::{Extent, Owner};
use super::{GROUP, Unusable};
use crate::class::Class;

/// The extents of a map from one group on, in ascending order.
#[derive(Clone)]
pub struct Extents<'a> {
    rest: Rest<'a>,
    /// Number of extents that were read in this group.
    in_group: u32,
    end: u64,
    numbers: [u32; 3],
}

impl<'a> Extents<'a> {
    /// Reads bytes that begin with a group.
    pub(super) fn new(bytes: &'a [u8]) -> Extents<'a> {
        Extents { rest: Rest(bytes), in_group: 0, end: 0, numbers: [0; 3] }
    }

    /// Returns the number of bytes that were not read yet.
    pub(super) fn left(&self) -> usize {
        self.rest.0.len()
    }

    pub(super) fn read(&mut self) -> Result<Extent, Unusable> {
        if self.in_group == GROUP {
            *self = Extents::new(self.rest.0);
        }
        let tag = self.rest.byte()?;
        let class = Class::from_number(tag & 0xf).ok_or(Unusable::Damaged)?;
        let first = self.end.checked_add(self.rest.number()?).ok_or(Unusable::Damaged)?;
        let sectors = self.rest.number()?;
        let end = first.checked_add(sectors).ok_or(Unusable::Damaged)?;
        let kind = tag >> 4;
        let mut number = 0;
        if kind > 0 {
            let last = self.numbers.get_mut(usize::from(kind)).ok_or(Unusable::Damaged)?;
            number = self.rest.after(*last)?;
            *last = number;
        }
        let owner: Owner = join(kind, number).ok_or(Unusable::Damaged)?;
        self.end = end;
        self.in_group += 1;
        Ok(Extent { first, sectors, class, owner })
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        self.read().ok()
    }
}
