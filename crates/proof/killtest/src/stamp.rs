//! The contents of every written sector: 512 bytes that name their write.
//!
//! ```text
//! | magic | volume | sector | number | first | count u32, writer u32 | checksum | filler ...
//!   8       8        8        8        8       8                       8          456 bytes
//! ```
//! Little endian. The filler follows from the checksum, so that a sector torn anywhere is detected:
//! in one write of four it is random, in the others it repeats the checksum, so that blocks can be
//! compressed.

use lane::Random;

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = block::SECTOR as usize;

/// `ODKILLS1`.
const MAGIC: u64 = 0x3153_4c4c_494b_444f;
/// Words before the checksum.
const NAMED: usize = 6;
const WORDS: usize = SECTOR_BYTES / 8;
/// One write in this number has a random filler.
const RANDOM_ONE_IN: u64 = 4;

/// A write, as each of its sectors names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The volume's number, which distinguishes runs.
    pub volume: u64,
    /// The sector for which it was written.
    pub sector: u64,
    /// The write's number; later writes have larger numbers.
    pub number: u64,
    /// The write's first sector.
    pub first: u64,
    /// Number of the write's sectors.
    pub count: u32,
    /// The client that wrote it.
    pub writer: u32,
}

/// Contents found in a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Zeros.
    Zeros,
    /// A whole stamp, of any sector.
    Stamp(Stamp),
    /// The beginning of this stamp, followed by other data.
    Torn(Stamp),
    /// Data that no client has written.
    Garbage,
}

fn checksum(words: &[u64]) -> u64 {
    let mix = |sum: u64, word: &u64| Random::new(sum ^ word).next_u64();
    words.iter().fold(0x0dd5, mix)
}

/// Returns the words behind the checksum of a write with this number.
fn filler(sum: u64, number: u64) -> impl Iterator<Item = u64> {
    let mut random = number.is_multiple_of(RANDOM_ONE_IN).then(|| Random::new(sum));
    std::iter::repeat_with(move || random.as_mut().map_or(sum, Random::next_u64))
}

impl Stamp {
    fn words(&self) -> [u64; NAMED] {
        let last = u64::from(self.count) | u64::from(self.writer) << 32;
        [MAGIC, self.volume, self.sector, self.number, self.first, last]
    }

    /// Fills a sector.
    ///
    /// # Panics
    /// If its length is not [`SECTOR_BYTES`].
    pub fn fill(&self, sector: &mut [u8]) {
        assert_eq!(sector.len(), SECTOR_BYTES);
        let words = self.words();
        let sum = checksum(&words);
        let all = words.into_iter().chain([sum]).chain(filler(sum, self.number));
        for (bytes, word) in sector.chunks_exact_mut(8).zip(all) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Reads the contents of a sector.
pub fn read(sector: &[u8]) -> Found {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(sector.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    if words.iter().all(|&word| word == 0) {
        return Found::Zeros;
    }
    let sum = words[NAMED];
    if words[0] != MAGIC || sum != checksum(&words[..NAMED]) {
        return Found::Garbage;
    }
    let stamp = Stamp {
        volume: words[1],
        sector: words[2],
        number: words[3],
        first: words[4],
        count: words[5] as u32,
        writer: (words[5] >> 32) as u32,
    };
    match words[NAMED + 1..].iter().copied().eq(filler(sum, stamp.number).take(WORDS - NAMED - 1)) {
        true => Found::Stamp(stamp),
        false => Found::Torn(stamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp =
        Stamp { volume: 1, sector: 70_000, number: 9, first: 69_999, count: 3, writer: 2 };

    /// A stamp with a random filler, and one whose filler repeats.
    const STAMPS: [Stamp; 2] = [Stamp { number: 8, ..STAMP }, STAMP];

    #[test]
    fn a_stamp_is_read_again() {
        let mut sector = [0; SECTOR_BYTES];
        assert_eq!(read(&sector), Found::Zeros);
        for stamp in STAMPS {
            stamp.fill(&mut sector);
            assert_eq!(read(&sector), Found::Stamp(stamp));
        }
    }

    #[test]
    fn every_tear_and_every_flipped_byte_is_noticed() {
        for stamp in STAMPS {
            let (mut one, mut two) = ([0; SECTOR_BYTES], [0; SECTOR_BYTES]);
            stamp.fill(&mut one);
            Stamp { number: 10, ..STAMP }.fill(&mut two);
            for cut in (8..SECTOR_BYTES).step_by(8) {
                let torn = [&one[..cut], &two[cut..]].concat();
                // The first words of both are the same.
                if torn != one && torn != two {
                    assert!(!matches!(read(&torn), Found::Stamp(_)), "cut at {cut}");
                }
            }
            for place in 0..SECTOR_BYTES {
                let mut flipped = one;
                flipped[place] ^= 1;
                assert!(!matches!(read(&flipped), Found::Stamp(_)), "byte {place}");
            }
        }
    }
}
