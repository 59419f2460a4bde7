//! A file's bytes as blocks of its volume.

use block::{Extent, SECTOR};

/// Length of an extent in bytes.
pub(crate) fn bytes_of(at: Extent) -> usize {
    at.count as usize * SECTOR as usize
}

/// Returns the length of the part of a request that lies inside a file of `file_bytes` bytes.
pub(crate) fn length_inside(file_bytes: u64, offset: u64, length: u64) -> u64 {
    length.min(file_bytes.saturating_sub(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_where_the_file_does() {
        assert_eq!(length_inside(100, 0, 100), 100);
        assert_eq!(length_inside(100, 99, 2), 1);
        assert_eq!(length_inside(100, 100, 1), 0);
        assert_eq!(length_inside(100, u64::MAX, u64::MAX), 0);
    }
}
