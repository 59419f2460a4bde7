//! Entries of directories. The interior nodes of hashed directories look like unused entries.
//!
//! Source: Documentation/filesystems/ext4 of the Linux kernel (`directory.rst`).

use crate::bytes::{byte, le16, le32, part};
use crate::fault::{Fault, Step};
use crate::tree::Entries;

/// Bytes of an entry before its name.
const FIXED: usize = 8;

/// Adds the entries in `block`.
pub(super) fn entries(block: &[u8], each: &mut Entries) -> Step {
    let mut at = 0;
    while at + FIXED <= block.len() {
        let length = match le16(block, at + 4) {
            // A block of 64 KiB.
            0 | u16::MAX if block.len() == 1 << 16 => block.len() - at,
            length => usize::from(length),
        };
        if length < FIXED || length % 4 != 0 || at + length > block.len() {
            return Err(Fault::Damaged);
        }
        let name = part(&block[..at + length], at + FIXED, usize::from(byte(block, at + 6)));
        each.add(name, u64::from(le32(block, at)));
        at += length;
    }
    Ok(())
}
