//! The lookup of a block's slot. (The lists of a slot: `policy::Links`.)

pub(crate) mod bits;
pub(crate) mod index;
pub(crate) mod regions;
