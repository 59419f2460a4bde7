//! The sizes of requests, in the classes of the reviews' tables.

use trace::Direction;

/// The classes: the name, and the size in bytes. 0: all below 4 KiB, or all other sizes.
pub const SIZES: [(&str, u64); 9] = [
    ("< 4 KiB", 0),
    ("4 KiB", 4 << 10),
    ("8 KiB", 8 << 10),
    ("16 KiB", 16 << 10),
    ("32 KiB", 32 << 10),
    ("64 KiB", 64 << 10),
    ("128 KiB", 128 << 10),
    ("> 128 KiB", 0),
    ("other", 0),
];

/// Numbers of reads and writes by size.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sizes {
    /// Reads in each class of [`SIZES`].
    pub reads: [u64; SIZES.len()],
    /// Writes in each class.
    pub writes: [u64; SIZES.len()],
}

impl Sizes {
    /// Counts a request.
    pub fn add(&mut self, direction: Direction, bytes: u64) {
        let class = match bytes {
            0..4096 => 0,
            bytes if bytes > 128 << 10 => SIZES.len() - 2,
            bytes => {
                let same = SIZES.iter().position(|(_, size)| *size == bytes);
                same.unwrap_or(SIZES.len() - 1)
            }
        };
        match direction {
            Direction::Read => self.reads[class] += 1,
            Direction::Write => self.writes[class] += 1,
            Direction::Other => {}
        }
    }
}
