//! Pages of a file or device, each read once.

use std::collections::BTreeMap;

const PAGE: u64 = 4096;

/// The pages that were read.
pub(super) struct Pages<R> {
    read: R,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl<E, R: FnMut(u64) -> Result<Vec<u8>, E>> Pages<R> {
    pub(super) fn new(read: R) -> Pages<R> {
        Pages { read, pages: BTreeMap::new() }
    }

    fn page(&mut self, first: u64) -> Result<&[u8], E> {
        if !self.pages.contains_key(&first) {
            let bytes = (self.read)(first)?;
            self.pages.insert(first, bytes);
        }
        Ok(&self.pages[&first])
    }

    /// Returns whether these bytes are at this offset.
    pub(super) fn has(&mut self, offset: u64, mut bytes: &[u8]) -> Result<bool, E> {
        let mut offset = offset;
        while !bytes.is_empty() {
            let skip = (offset % PAGE) as usize;
            let page = self.page(offset - skip as u64)?;
            let count = bytes.len().min(PAGE as usize - skip);
            if page.get(skip..skip + count) != Some(&bytes[..count]) {
                return Ok(false);
            }
            (offset, bytes) = (offset + count as u64, &bytes[count..]);
        }
        Ok(true)
    }
}
