//! Where a block's slot is found. (Which lists a slot is in: `policy::Links`.)

pub(crate) mod bits;
pub(crate) mod index;
