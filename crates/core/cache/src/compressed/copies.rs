//! Compressed blocks outside of the tier: on their way into it, and copied out of it.

use super::BYTES_MIN;
use crate::arena::pages::{check_of, digest_of};
use alloc::vec::Vec;
use packing::Encoding;

/// A block that was compressed, and is to be stored.
#[derive(Clone, Copy)]
pub(crate) struct Encoded<'a> {
    pub(crate) encoding: Encoding,
    pub(crate) data: &'a [u8],
    digest: u32,
}

impl<'a> Encoded<'a> {
    /// Computes the digest of its bytes, which takes some time.
    pub(crate) fn new(encoding: Encoding, data: &'a [u8]) -> Encoded<'a> {
        Encoded { encoding, data, digest: digest_of(data) }
    }

    /// Returns its description as an object of this block.
    pub(crate) fn of_block(&self, block: u64) -> Copied {
        let Encoded { encoding, data, digest } = *self;
        let check = check_of(block, encoding, digest);
        Copied { block, encoding, bytes: data.len(), check, is_verified: true }
    }
}

/// An object that is copied out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copied {
    pub(crate) block: u64,
    pub(crate) encoding: Encoding,
    pub(crate) bytes: usize,
    /// The check of its bytes.
    pub(crate) check: u32,
    /// False if it was taken over: its bytes must be compared with the check.
    pub(crate) is_verified: bool,
}

impl Copied {
    /// Whether these are its bytes. True for objects that this process has stored.
    pub(crate) fn is_sound(&self, data: &[u8]) -> bool {
        self.is_verified || check_of(self.block, self.encoding, digest_of(data)) == self.check
    }
}

/// Objects that are copied out, one behind the other.
#[derive(Default)]
pub(crate) struct Copies {
    pub(crate) objects: Vec<Copied>,
    pub(crate) data: Vec<u8>,
}

impl Copies {
    /// Makes an empty one with room for this many objects and bytes.
    pub(crate) fn with_capacity(objects: usize, bytes: usize) -> Copies {
        Copies { objects: Vec::with_capacity(objects), data: Vec::with_capacity(bytes) }
    }

    /// Makes an empty one with room for all objects of a page, of which the last may go on in the
    /// next one.
    pub(crate) fn for_page(page_bytes: usize) -> Copies {
        Copies::with_capacity(page_bytes / BYTES_MIN, 2 * page_bytes)
    }

    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.data.clear();
    }

    /// Returns each object with its bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Copied, &[u8])> {
        let mut rest = &self.data[..];
        self.objects.iter().map(move |object| {
            let (bytes, behind) = rest.split_at(object.bytes);
            rest = behind;
            (*object, bytes)
        })
    }
}
