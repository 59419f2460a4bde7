//! The codec without the engine, over the blocks of a set.

use super::files::Set;
use crate::cached_pool::BLOCK;
use crate::sides::{cpu_ns, median};
use packing::{Codec, Decoder, Encoder, Encoding, Incompressible};

/// Metadata of a compressed block in the tier, in bytes (docs/design/compression.md): its place in
/// the table and the index, its head and check, and the mean padding to a multiple of 4 bytes.
const METADATA_BYTES: f64 = 12.0 + 5.3 + 12.0 + 1.5;
/// The same of a block of zeros or of another word, which are not padded.
const METADATA_OF_WORD_BYTES: f64 = METADATA_BYTES - 1.5;

/// Blocks of a region of the engine: those of a region with compressed blocks are always tried.
const REGION_BLOCKS: usize = 1024;

/// Counts and times of the codec.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) words: u32,
    pub(super) compressed: u32,
    /// Blocks that did not become small enough, and those that were not tried.
    pub(super) refused: u32,
    pub(super) untried: u32,
    /// Bytes of all blocks divided by those that are left.
    pub(super) ratio: f64,
    /// The same with the metadata of compressed blocks in the tier.
    pub(super) packed_ratio: f64,
    /// Nanoseconds for each block of a kind.
    pub(super) compress_ns: f64,
    pub(super) give_up_ns: f64,
    pub(super) decode_ns: f64,
}

impl Figures {
    /// Compresses and decodes all blocks several times. `bytes_max`: maximum of a stored block.
    pub(super) fn of(set: &Set, codec: Codec, bytes_max: usize, rounds: usize) -> Figures {
        let runs: Vec<Figures> =
            (0..rounds).map(|_| Figures::of_one_run(set, codec, bytes_max)).collect();
        let time = |of: fn(&Figures) -> f64| median(runs.iter().map(of).collect()) - clock_ns();
        let (compress_ns, give_up_ns) = (time(|run| run.compress_ns), time(|run| run.give_up_ns));
        let decode_ns = time(|run| run.decode_ns);
        let first = runs.into_iter().next().unwrap_or_default();
        Figures { compress_ns, give_up_ns, decode_ns, ..first }
    }

    fn of_one_run(set: &Set, codec: Codec, bytes_max: usize) -> Figures {
        let (mut encoder, mut decoder) = (Encoder::new(BLOCK, bytes_max), Decoder::new());
        let mut has_compressed = vec![false; set.blocks.len().div_ceil(REGION_BLOCKS)];
        let mut incompressible = Incompressible::new(set.blocks.len() as u32);
        let (mut figures, mut bytes, mut back) = (Figures::default(), 0, [0; BLOCK]);
        for (number, block) in (0..).zip(&set.blocks) {
            let region = number as usize / REGION_BLOCKS;
            if !has_compressed[region] && !incompressible.is_to_try(number) {
                figures.untried += 1;
                bytes += BLOCK;
                continue;
            }
            let begin = cpu_ns();
            let encoded = encoder.encode(codec, block);
            let took_ns = (cpu_ns() - begin) as f64;
            incompressible.record(number, encoded.is_some());
            let Some((encoding, data)) = encoded else {
                figures.refused += 1;
                figures.give_up_ns += took_ns;
                bytes += BLOCK;
                continue;
            };
            bytes += data.len();
            has_compressed[region] = true;
            let begin = cpu_ns();
            let decoded = decoder.decode(encoding, data, &mut back);
            let decode_ns = (cpu_ns() - begin) as f64;
            assert!(decoded.is_ok() && back == *block, "a block came back changed");
            if encoding == Encoding::Word {
                figures.words += 1;
            } else {
                figures.compressed += 1;
                figures.compress_ns += took_ns;
                figures.decode_ns += decode_ns;
            }
        }
        let all = set.blocks.len() * BLOCK;
        let metadata = f64::from(figures.compressed) * METADATA_BYTES
            + f64::from(figures.words) * METADATA_OF_WORD_BYTES;
        figures.ratio = all as f64 / bytes as f64;
        figures.packed_ratio = all as f64 / (bytes as f64 + metadata);
        figures.compress_ns /= f64::from(figures.compressed);
        figures.decode_ns /= f64::from(figures.compressed);
        figures.give_up_ns /= f64::from(figures.refused);
        figures
    }
}

/// Returns nanoseconds of the clock's own reading.
fn clock_ns() -> f64 {
    let begin = cpu_ns();
    (0..1000).for_each(|_| {
        std::hint::black_box(cpu_ns());
    });
    (cpu_ns() - begin) as f64 / 1000.0
}
