//! Inodes of XFS.

use super::superblock::Superblock;
use crate::bytes::{be16, be32, be64, byte, part as bytes_at};
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::tree::Attributes;
use alloc::vec::Vec;

const MARK: &[u8] = b"IN";
/// Bytes of the fields before the data fork, in versions 1 and 2, and in version 3.
const CORE: usize = 100;
const CORE_3: usize = 176;
const REALTIME: u16 = 1;
/// Flag of an inode whose counters of extents have more bits.
const LARGE_COUNTERS: u64 = 0x10;

/// Form of the contents of a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Local,
    Extents,
    Tree,
    /// A device, or nothing.
    None,
}

/// One of the two forks of an inode: data, or attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fork<'a> {
    pub(super) form: Form,
    pub(super) extents: u64,
    pub(super) bytes: &'a [u8],
}

/// An inode, with all its bytes.
pub(super) struct Inode {
    raw: Vec<u8>,
}

fn form(number: u8) -> Form {
    match number {
        1 => Form::Local,
        2 => Form::Extents,
        3 => Form::Tree,
        _ => Form::None,
    }
}

impl Inode {
    pub(super) fn read(
        part: &mut Part<'_, '_>,
        superblock: &Superblock,
        number: u64,
    ) -> Step<Inode> {
        let at = superblock.inode_position(number)?;
        let inode = Inode { raw: part.read_vec(at, superblock.inode_bytes as usize)? };
        // A name of an inode that is not in use any more has no mode.
        let is_used = inode.raw.starts_with(MARK) && be16(&inode.raw, 2) != 0;
        let is_sound = byte(&inode.raw, 4) < 3 || be64(&inode.raw, 152) == number;
        if is_used && is_sound { Ok(inode) } else { Err(Fault::Damaged) }
    }

    pub(super) fn attributes(&self) -> Attributes {
        let links = match byte(&self.raw, 4) {
            1 => u32::from(be16(&self.raw, 6)),
            _ => be32(&self.raw, 16),
        };
        Attributes { mode: be16(&self.raw, 2), bytes: be64(&self.raw, 56), links }
    }

    pub(super) fn is_realtime(&self) -> bool {
        be16(&self.raw, 90) & REALTIME != 0
    }

    fn core(&self) -> usize {
        if byte(&self.raw, 4) >= 3 { CORE_3 } else { CORE }
    }

    fn has_large_counters(&self) -> bool {
        self.core() == CORE_3 && be64(&self.raw, 120) & LARGE_COUNTERS != 0
    }

    /// Returns the number of bytes before the attribute fork. None: there is no such fork.
    fn data_bytes(&self) -> Option<usize> {
        Some(usize::from(byte(&self.raw, 82)) * 8).filter(|bytes| *bytes > 0)
    }

    pub(super) fn data_fork(&self) -> Fork<'_> {
        let large = self.has_large_counters();
        let extents = if large { be64(&self.raw, 24) } else { u64::from(be32(&self.raw, 76)) };
        let length = self.data_bytes().unwrap_or(usize::MAX);
        let bytes = bytes_at(&self.raw, self.core(), length);
        Fork { form: form(byte(&self.raw, 5)), extents, bytes }
    }

    pub(super) fn attribute_fork(&self) -> Option<Fork<'_>> {
        let start = self.core() + self.data_bytes()?;
        let large = self.has_large_counters();
        let few = u64::from(be16(&self.raw, 80));
        let extents = if large { u64::from(be32(&self.raw, 76)) } else { few };
        let bytes = self.raw.get(start..).unwrap_or_default();
        Some(Fork { form: form(byte(&self.raw, 83)), extents, bytes })
    }
}
