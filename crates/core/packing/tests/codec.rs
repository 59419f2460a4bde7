//! The codec: blocks come back as they were, and no bytes make it fail otherwise than by an error.

use packing::{Codec, Damaged, Decoder, Encoder, Encoding, HAS_ZSTD};
use proptest::prelude::*;

const BLOCK_BYTES: usize = 4096;
/// Maximum length of a result.
const BYTES_MAX: usize = 3072;
const CODECS: [Codec; 2] = [Codec::Lz4, Codec::Zstd];
const ENCODINGS: [Encoding; 4] = [Encoding::Word, Encoding::Lz4, Encoding::Zstd, Encoding::Plain];

/// The encoding that a codec uses in this build.
fn encoding_of(codec: Codec) -> Encoding {
    match codec {
        Codec::Zstd if HAS_ZSTD => Encoding::Zstd,
        _ => Encoding::Lz4,
    }
}

/// Blocks of many kinds: parts that repeat, parts of few values, and random parts.
fn blocks(block_bytes: impl Strategy<Value = usize>) -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        (any::<u8>(), 1..2000_usize).prop_map(|(byte, length)| vec![byte; length]),
        prop::collection::vec(any::<u8>(), 1..600),
        prop::collection::vec(0..8_u8, 1..600),
        (prop::collection::vec(any::<u8>(), 1..40), 1..60_usize)
            .prop_map(|(word, times)| word.repeat(times)),
    ];
    (prop::collection::vec(part, 1..20), block_bytes).prop_map(|(parts, block_bytes)| {
        let mut block = parts.concat();
        block.resize(block_bytes, 0);
        block
    })
}

proptest! {
    #[test]
    fn blocks_of_every_length_come_back(block in blocks((1..1024_usize).prop_map(|it| it * 8))) {
        let bytes_max = block.len() / 4 * 3;
        let (mut encoder, mut decoder) = (Encoder::new(block.len(), bytes_max), Decoder::new());
        for codec in CODECS {
            // Twice: the contexts are used again.
            for _ in 0..2 {
                let Some((_, bytes)) = encoder.encode(codec, &block) else { continue };
                prop_assert!(bytes.len() <= bytes_max.max(8));
                let (encoding, bytes) = encoder.encode(codec, &block).expect("as before");
                prop_assert!([Encoding::Word, encoding_of(codec)].contains(&encoding));
                let mut into = vec![1; block.len()];
                prop_assert_eq!(decoder.decode(encoding, bytes, &mut into), Ok(()));
                prop_assert!(into == block);
            }
        }
    }

    /// In the crash laboratory no result is too long.
    #[test]
    fn every_block_is_stored_where_all_may_be_as_long_as_they_are(block in blocks(Just(128))) {
        let (mut encoder, mut decoder) = (Encoder::new(128, 128), Decoder::new());
        for codec in CODECS {
            let (encoding, bytes) = encoder.encode(codec, &block).expect("plain at least");
            prop_assert!(bytes.len() <= 128);
            let mut into = [1; 128];
            prop_assert_eq!(decoder.decode(encoding, bytes, &mut into), Ok(()));
            prop_assert!(into[..] == block);
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        survive(&bytes);
    }

    /// Damaged blocks are nearer to sound ones than random bytes are.
    #[test]
    fn damaged_blocks_are_decoded_or_refused(
        block in blocks(Just(BLOCK_BYTES)),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..5),
        end: usize,
    ) {
        let mut encoder = Encoder::new(BLOCK_BYTES, BYTES_MAX);
        for codec in CODECS {
            let Some((_, bytes)) = encoder.encode(codec, &block) else { continue };
            let mut bytes = bytes.to_vec();
            if bytes.is_empty() {
                // Zeros have no bytes that could be damaged.
                continue;
            }
            for (at, byte) in &damage {
                let at = at % bytes.len();
                bytes[at] = *byte;
            }
            survive(&bytes);
            bytes.truncate(end % bytes.len());
            survive(&bytes);
        }
    }
}

/// Decodes bytes as each encoding.
fn survive(bytes: &[u8]) {
    let mut decoder = Decoder::new();
    let mut into = [0; BLOCK_BYTES];
    for encoding in ENCODINGS {
        let _ = decoder.decode(encoding, bytes, &mut into);
    }
}

#[test]
fn each_kind_of_block_has_its_encoding() {
    let mut random = lane::Random::new(1);
    let mut noise = vec![0; BLOCK_BYTES];
    noise.fill_with(|| random.below(256) as u8);
    let text: Vec<u8> = b"hot blocks stay raw, ".iter().copied().cycle().take(4096).collect();
    let half = [&noise[..2048], &[7; 2048]].concat();
    let mut all_but_one = [1, 2, 3, 4, 5, 6, 7, 8].repeat(512);
    let repeated = all_but_one.clone();
    let half_words = [1, 2, 3, 4].repeat(1024);
    all_but_one[BLOCK_BYTES - 1] ^= 1;
    // A tenth less is not enough.
    let tenth = [&noise[..3600], &[7; 496]].concat();
    let (mut encoder, mut decoder) = (Encoder::new(BLOCK_BYTES, BYTES_MAX), Decoder::new());
    for codec in CODECS {
        let compressed = Some(encoding_of(codec));
        for (block, expected) in [
            (&vec![0; BLOCK_BYTES], Some(Encoding::Word)),
            (&repeated, Some(Encoding::Word)),
            (&half_words, Some(Encoding::Word)),
            (&all_but_one, compressed),
            (&text, compressed),
            (&half, compressed),
            (&tenth, None),
            (&noise, None),
        ] {
            let encoded = encoder.encode(codec, block);
            assert_eq!(encoded.map(|(encoding, _)| encoding), expected);
            let Some((encoding, bytes)) = encoded else { continue };
            assert!(bytes.len() <= BYTES_MAX);
            let mut into = vec![1; BLOCK_BYTES];
            // Bytes that end too early are never a block, except half a word and no byte of it.
            let is_word = |end: &usize| encoding == Encoding::Word && [0, 4].contains(end);
            for end in (0..bytes.len()).filter(|end| !is_word(end)) {
                assert_eq!(decoder.decode(encoding, &bytes[..end], &mut into), Err(Damaged));
            }
            assert_eq!(decoder.decode(encoding, bytes, &mut into), Ok(()));
            assert_eq!(into, *block);
        }
    }
}

#[test]
fn neither_encoding_nor_decoding_allocates() {
    let (mut encoder, mut decoder) = (Encoder::new(BLOCK_BYTES, BYTES_MAX), Decoder::new());
    let (mut block, mut into) = ([0; BLOCK_BYTES], [0; BLOCK_BYTES]);
    let mut random = lane::Random::new(1);
    let mut decoded = 0;
    let before = allocations::of_this_thread();
    for round in 0..300_u64 {
        block.fill_with(|| random.below(1 + round) as u8 & 0x1f);
        for codec in CODECS {
            let Some((encoding, bytes)) = encoder.encode(codec, &block) else { continue };
            assert_eq!(decoder.decode(encoding, bytes, &mut into), Ok(()));
            assert!(into == block);
            decoded += 1;
        }
    }
    assert!(decoded > 5, "{decoded}");
    assert_eq!(allocations::of_this_thread() - before, 0);
}
