//! An image of which only the sectors that are not zero are stored. Also the input of the fuzzers:
//!
//! ```text
//!   4         sectors of the volume
//!   4 + 512   number and contents of a sector, and so on; the last one may be cut
//! ```

use files::{ReadAt, ReadFailed};
use std::collections::BTreeMap;

const SECTOR: usize = 512;

/// An image in memory.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sparse {
    pub(crate) sectors: u64,
    pub(crate) stored: BTreeMap<u64, [u8; SECTOR]>,
    /// Number of bytes that were read, and of calls.
    pub(crate) read_bytes: u64,
    pub(crate) reads: u64,
}

impl Sparse {
    /// Reads the input of a fuzzer: any bytes.
    pub(crate) fn decode(input: &[u8]) -> Sparse {
        let (sectors, rest) = input.split_at_checked(4).unwrap_or((&[0; 4], &[]));
        let number = |bytes: &[u8]| {
            let mut number = [0; 4];
            number[..bytes.len()].copy_from_slice(bytes);
            u64::from(u32::from_le_bytes(number))
        };
        let mut stored = BTreeMap::new();
        for record in rest.chunks(4 + SECTOR).filter(|record| record.len() > 4) {
            let mut sector = [0; SECTOR];
            sector[..record.len() - 4].copy_from_slice(&record[4..]);
            stored.insert(number(&record[..4]), sector);
        }
        Sparse { sectors: number(sectors), stored, ..Sparse::default() }
    }

    /// Returns the image as the input of a fuzzer.
    #[allow(dead_code, reason = "the fuzzers only decode")]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.sectors as u32).to_le_bytes().to_vec();
        for (number, sector) in &self.stored {
            bytes.extend_from_slice(&(*number as u32).to_le_bytes());
            bytes.extend_from_slice(sector);
        }
        bytes
    }

    /// Changes a byte.
    pub(crate) fn set(&mut self, at: u64, byte: u8) {
        let sector = self.stored.entry(at / SECTOR as u64).or_insert([0; SECTOR]);
        sector[at as usize % SECTOR] = byte;
    }
}

impl ReadAt for Sparse {
    fn bytes(&self) -> u64 {
        self.sectors * SECTOR as u64
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        assert!(offset + into.len() as u64 <= self.bytes(), "a read outside of the volume");
        self.reads += 1;
        self.read_bytes += into.len() as u64;
        into.fill(0);
        let (first, end) = (offset / SECTOR as u64, offset + into.len() as u64);
        for (number, sector) in self.stored.range(first..end.div_ceil(SECTOR as u64)) {
            let start = number * SECTOR as u64;
            let (from, to) = (start.max(offset), (start + SECTOR as u64).min(end));
            let part = &sector[(from - start) as usize..(to - start) as usize];
            into[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
        Ok(())
    }
}
