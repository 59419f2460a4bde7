//! Bytes of a file as blocks of its volume.

use block::{Extent, SECTOR};

/// The bytes of an extent.
pub(crate) fn bytes_of(at: Extent) -> usize {
    at.count as usize * SECTOR as usize
}

/// As much of a request as lies in a file of so many bytes.
pub(crate) fn inside(file_bytes: u64, offset: u64, length: u64) -> u64 {
    length.min(file_bytes.saturating_sub(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_where_the_file_does() {
        assert_eq!(inside(100, 0, 100), 100);
        assert_eq!(inside(100, 99, 2), 1);
        assert_eq!(inside(100, 100, 1), 0);
        assert_eq!(inside(100, u64::MAX, u64::MAX), 0);
    }
}
