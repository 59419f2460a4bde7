//! Where a block's slot is found, and the lists that every slot is in.

pub(crate) mod index;
pub(crate) mod lists;
