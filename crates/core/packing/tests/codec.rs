//! The codec: blocks come back as they were, and no bytes make it fail otherwise than by an error.

use packing::{
    BLOCK_BYTES, Codec, Compressor, Damaged, Decoder, LENGTH_MAX, Object, Outcome, Record,
};
use proptest::prelude::*;

type Block = [u8; BLOCK_BYTES];

/// Blocks of many kinds: parts that repeat, parts of few values, and random parts.
fn blocks() -> impl Strategy<Value = Block> {
    let part = prop_oneof![
        (any::<u8>(), 1..2000_usize).prop_map(|(byte, length)| vec![byte; length]),
        prop::collection::vec(any::<u8>(), 1..600),
        prop::collection::vec(0..8_u8, 1..600),
        (prop::collection::vec(any::<u8>(), 1..40), 1..60_usize)
            .prop_map(|(word, times)| word.repeat(times)),
    ];
    prop::collection::vec(part, 1..20).prop_map(|parts| {
        let mut block = [0; BLOCK_BYTES];
        let bytes = parts.concat();
        let length = bytes.len().min(BLOCK_BYTES);
        block[..length].copy_from_slice(&bytes[..length]);
        block
    })
}

fn compress(compressor: &mut Compressor, codec: Codec, number: u64, block: &Block) -> Outcome {
    match codec {
        Codec::Lz4 => compressor.compress(number, block),
        #[cfg(feature = "zstd")]
        Codec::Zstd => compressor.compress_densely(number, block),
        #[cfg(not(feature = "zstd"))]
        Codec::Zstd => compressor.compress(number, block),
    }
}

const CODECS: [Codec; 2] = [Codec::Lz4, Codec::Zstd];

proptest! {
    #[test]
    fn blocks_come_back(number: u64, block in blocks()) {
        let (mut compressor, mut decoder) = (Compressor::new(), Decoder::new());
        for codec in CODECS {
            // Twice: the contexts are used again.
            for _ in 0..2 {
                match compress(&mut compressor, codec, number, &block) {
                    Outcome::Pattern(word) => {
                        prop_assert!(block.as_chunks().0.iter().all(|it| *it == word.to_le_bytes()));
                    }
                    Outcome::Incompressible => {}
                    Outcome::Packed(object) => {
                        let bytes = compressor.bytes();
                        prop_assert!(bytes.len() <= LENGTH_MAX);
                        let mut into = [1; BLOCK_BYTES];
                        let fetch = |into: &mut [u8]| into.copy_from_slice(bytes);
                        prop_assert_eq!(decoder.decode(number, &object, fetch, &mut into), Ok(()));
                        prop_assert!(into == block);
                        // The same bytes are no object of another block.
                        let other = number.wrapping_add(1);
                        let result = decoder.decode(other, &object, fetch, &mut into);
                        prop_assert!(result == Err(Damaged) || object.check == 0);
                    }
                }
            }
        }
    }

    /// The bytes have a correct checksum, so the codec itself has to survive them.
    #[test]
    fn any_bytes_are_decoded_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 1..LENGTH_MAX), number: u64,
    ) {
        survive(number, &bytes)?;
    }

    /// Damaged objects are nearer to sound ones than random bytes are.
    #[test]
    fn damaged_objects_are_decoded_or_refused(
        block in blocks(),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..5),
        end: usize,
    ) {
        let mut compressor = Compressor::new();
        for codec in CODECS {
            if let Outcome::Packed(_) = compress(&mut compressor, codec, 1, &block) {
                let mut bytes = compressor.bytes().to_vec();
                for (at, byte) in &damage {
                    let at = at % bytes.len();
                    bytes[at] = *byte;
                }
                survive(1, &bytes)?;
                bytes.truncate(end % bytes.len() + 1);
                survive(1, &bytes)?;
            }
        }
    }

    #[test]
    fn records_come_back(first in 0..1u32 << 24, second in 0..1u64 << 44) {
        if let Some(record) = Record::from_bits(first, second) {
            prop_assert_eq!(record.to_bits(), (first, second));
        }
    }

    #[test]
    fn patterns_fit_into_a_record(word: u64) {
        let record = Record::Pattern(word);
        let (first, second) = record.to_bits();
        prop_assert!(first < 1 << 24 && second < 1 << 44);
        prop_assert_eq!(Record::from_bits(first, second), Some(record));
    }
}

/// Decodes bytes with their checksum, and with another one.
fn survive(number: u64, bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut decoder = Decoder::new();
    let mut into = [0; BLOCK_BYTES];
    let fetch = |into: &mut [u8]| into.copy_from_slice(bytes);
    for codec in CODECS {
        let sound = Object::of(number, codec, bytes);
        let _ = decoder.decode(number, &sound, fetch, &mut into);
        let other = Object { check: sound.check ^ 1, ..sound };
        prop_assert_eq!(decoder.decode(number, &other, fetch, &mut into), Err(Damaged));
    }
    Ok(())
}

#[test]
fn each_kind_of_block_has_its_outcome() {
    let mut compressor = Compressor::new();
    assert_eq!(compressor.compress(0, &[0; BLOCK_BYTES]), Outcome::Pattern(0));
    let mut block = [0; BLOCK_BYTES];
    block.as_chunks_mut().0.fill(0x1234_5678_9abc_def0_u64.to_le_bytes());
    assert_eq!(compressor.compress(0, &block), Outcome::Pattern(0x1234_5678_9abc_def0));
    block[BLOCK_BYTES - 1] ^= 1;
    assert!(matches!(
        compressor.compress(0, &block),
        Outcome::Packed(Object { codec: Codec::Lz4, .. })
    ));
    assert!(compressor.bytes().len() < 100);
    let mut random = lane::Random::new(1);
    block.fill_with(|| random.below(256) as u8);
    assert_eq!(compressor.compress(0, &block), Outcome::Incompressible);
    // A tenth less is not enough.
    block[BLOCK_BYTES / 10 * 9..].fill(0);
    assert_eq!(compressor.compress(0, &block), Outcome::Incompressible);
    block[BLOCK_BYTES / 3 * 2..].fill(0);
    assert!(matches!(compressor.compress(0, &block), Outcome::Packed(_)));
    assert!((2700..2800).contains(&compressor.bytes().len()));
}

#[test]
fn contexts_have_their_memory_from_the_start() {
    let (mut compressor, mut decoder) = (Compressor::new(), Decoder::new());
    let mut block = [0; BLOCK_BYTES];
    let mut random = lane::Random::new(1);
    let before = allocations::of_this_thread();
    for round in 0..300_u64 {
        block.fill_with(|| random.below(1 + round) as u8 & 0x1f);
        for codec in CODECS {
            if let Outcome::Packed(object) = compress(&mut compressor, codec, round, &block) {
                let bytes = compressor.bytes();
                let fetch = |into: &mut [u8]| into.copy_from_slice(bytes);
                let mut into = [0; BLOCK_BYTES];
                assert_eq!(decoder.decode(round, &object, fetch, &mut into), Ok(()));
                assert!(into == block);
            }
        }
    }
    assert_eq!(allocations::of_this_thread() - before, 0);
}

/// An object of which only the first lines have reached memory is not decoded.
#[test]
fn torn_objects_are_refused() {
    let (mut compressor, mut decoder) = (Compressor::new(), Decoder::new());
    let text = include_bytes!("codec.rs");
    let (blocks, _) = text.as_chunks::<BLOCK_BYTES>();
    let mut tried = 0;
    for codec in CODECS {
        for (number, block) in (0..).zip(blocks) {
            let outcome = compress(&mut compressor, codec, number, block);
            let Outcome::Packed(object) = outcome else {
                panic!("text is compressible");
            };
            let bytes = compressor.bytes();
            // Lines of the processor's caches reach memory one by one.
            for end in (0..bytes.len()).step_by(64) {
                let mut into = [0; BLOCK_BYTES];
                let fetch = |into: &mut [u8]| into[..end].copy_from_slice(&bytes[..end]);
                let mut fresh = Decoder::new();
                assert_eq!(fresh.decode(number, &object, fetch, &mut into), Err(Damaged));
                tried += 1;
            }
            let fetch = |into: &mut [u8]| into.copy_from_slice(bytes);
            let mut into = [0; BLOCK_BYTES];
            assert_eq!(decoder.decode(number, &object, fetch, &mut into), Ok(()));
        }
    }
    assert!(tried > 50, "{tried}");
}
