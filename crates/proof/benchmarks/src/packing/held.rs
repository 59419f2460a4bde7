//! Blocks held in memory, packed where that saves memory.

use super::files::{Block, Set};
use crate::sides::cpu_ns;
use packing::{
    Area, BLOCK_BYTES, Compressor, Decoder, Incompressible, Outcome, Record, SEGMENT_BYTES,
};

/// Metadata of each block held, raw or packed: `bench metadata`.
pub(super) const HEADER_BYTES: f64 = 32.0;

/// The codec that is tried first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Lz4,
    Zstd,
}

impl Choice {
    pub(super) const ALL: [Choice; 2] = [Choice::Lz4, Choice::Zstd];

    pub(super) fn name(self) -> &'static str {
        match self {
            Choice::Lz4 => "lz4",
            Choice::Zstd => "zstd",
        }
    }

    pub(super) fn compress(self, compressor: &mut Compressor, at: u64, block: &Block) -> Outcome {
        match self {
            Choice::Lz4 => compressor.compress(at, block),
            Choice::Zstd => compressor.compress_densely(at, block),
        }
    }
}

/// Where a block of the set is.
enum Held {
    Raw,
    Packed(Record),
}

/// A set in memory.
pub(super) struct Store {
    area: Area,
    memory: Vec<u8>,
    held: Vec<Held>,
    incompressible: Incompressible,
}

/// Counts and times of a store.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) raw: usize,
    pub(super) patterns: usize,
    pub(super) packed: usize,
    /// Bytes of raw blocks and of objects.
    pub(super) content: f64,
    /// Bytes of raw blocks and of segments.
    pub(super) memory: f64,
    /// Bytes of all metadata.
    pub(super) metadata: f64,
}

impl Store {
    /// Packs all blocks of a set, with the table of incompressible regions.
    pub(super) fn of(set: &Set, choice: Choice) -> Store {
        let slots = set.blocks.len().next_multiple_of(16) as u32 * 2;
        let mut store = Store {
            area: Area::new(slots),
            memory: vec![0; slots as usize * BLOCK_BYTES],
            held: Vec::new(),
            incompressible: Incompressible::new(slots),
        };
        let mut compressor = Compressor::new();
        let mut segment = 0;
        for (at, block) in (0..).zip(&set.blocks) {
            let is_to_try = store.incompressible.is_to_try(at);
            let outcome = match is_to_try {
                true => choice.compress(&mut compressor, at, block),
                false => Outcome::Incompressible,
            };
            if is_to_try {
                store.incompressible.record(at, outcome != Outcome::Incompressible);
            }
            store.held.push(match outcome {
                Outcome::Pattern(word) => Held::Packed(Record::Pattern(word)),
                Outcome::Incompressible => Held::Raw,
                Outcome::Packed(object) => {
                    let bytes = compressor.bytes();
                    let location = store.area.store(object.length).or_else(|| {
                        segment += 1;
                        store.area.store_in(segment - 1, object.length)
                    });
                    let location = location.expect("there are more segments than blocks need");
                    let offset = location.offset() as usize;
                    store.memory[offset..offset + bytes.len()].copy_from_slice(bytes);
                    Held::Packed(Record::Object(object, location))
                }
            });
        }
        store
    }

    pub(super) fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for held in &self.held {
            match held {
                Held::Raw => figures.raw += 1,
                Held::Packed(Record::Pattern(_)) => figures.patterns += 1,
                Held::Packed(Record::Object(object, _)) => {
                    figures.packed += 1;
                    figures.content += f64::from(object.length);
                }
            }
        }
        let raw = (figures.raw * BLOCK_BYTES) as f64;
        figures.content += raw;
        figures.memory = raw + f64::from(self.area.segments()) * f64::from(SEGMENT_BYTES);
        figures.metadata = self.held.len() as f64 * HEADER_BYTES
            + (self.area.metadata_bytes() + self.incompressible.bytes()) as f64;
        figures
    }

    /// Decodes all packed blocks and compares them. Returns nanoseconds for each object.
    pub(super) fn decode(&self, set: &Set) -> f64 {
        let mut decoder = Decoder::new();
        let mut block = [0; BLOCK_BYTES];
        let (mut ns, mut count) = (0, 0);
        for ((at, held), expected) in (0..).zip(&self.held).zip(&set.blocks) {
            match held {
                Held::Packed(Record::Object(object, location)) => {
                    let offset = location.offset() as usize;
                    let bytes = &self.memory[offset..offset + usize::from(object.length)];
                    let begin = cpu_ns();
                    let result =
                        decoder.decode(at, object, |into| into.copy_from_slice(bytes), &mut block);
                    ns += cpu_ns() - begin;
                    count += 1;
                    assert_eq!(result, Ok(()));
                    assert!(block == *expected, "a block came back changed");
                }
                Held::Packed(Record::Pattern(word)) => {
                    block.as_chunks_mut().0.fill(word.to_le_bytes());
                    assert!(block == *expected, "a pattern came back changed");
                }
                Held::Raw => {}
            }
        }
        ns as f64 / f64::from(count)
    }
}
