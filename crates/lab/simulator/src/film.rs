//! A generated load with a map: a film that is larger than the cache, beside a hot set and a mail
//! store.
//!
//! ```text
//!   blocks:  metadata | hot set, documents | mail store | film: four times the memory | free
//! ```
//!
//! The hot set is skewed, the mail store less so, and users scroll through the film in order and
//! then jump to random pieces of it.

use lane::Random;
use policy::{ClassExtent, ClassMap, class_by_name};

/// Blocks of a read of the film.
const PIECE_BLOCKS: u64 = 16;

/// Origin of an access of the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The file system's metadata.
    Metadata,
    /// The hot set.
    Hot,
    /// The mail store.
    Mail,
    /// The film.
    Film,
}

impl Part {
    /// All parts, in the order of their blocks.
    pub const ALL: [Part; 4] = [Part::Metadata, Part::Hot, Part::Mail, Part::Film];

    fn class(self) -> &'static str {
        match self {
            Part::Metadata => "metadata",
            Part::Hot => "documents",
            Part::Mail => "databases",
            Part::Film => "big-media",
        }
    }
}

/// The load, for a cache of this many slots.
#[derive(Clone, Copy, Debug)]
pub struct FilmLoad {
    slots: u64,
    seed: u64,
}

impl FilmLoad {
    /// A load for a cache of `slots` slots, at least 1,000.
    pub fn new(slots: u32, seed: u64) -> FilmLoad {
        assert!(slots >= 1000, "{slots} slots");
        FilmLoad { slots: slots.into(), seed }
    }

    /// Returns the number of blocks of a part.
    pub fn blocks(&self, part: Part) -> u64 {
        match part {
            Part::Metadata => self.slots / 20,
            Part::Hot => self.slots / 2,
            Part::Mail => self.slots / 4,
            Part::Film => self.slots * 4,
        }
    }

    fn first(&self, part: Part) -> u64 {
        Part::ALL.iter().take_while(|one| **one != part).map(|one| self.blocks(*one)).sum()
    }

    /// The number of blocks of the volume.
    pub fn volume_blocks(&self) -> u64 {
        self.first(Part::Film) + self.blocks(Part::Film) + self.slots
    }

    /// Returns the extents of a map of the volume.
    pub fn extents(&self) -> Vec<ClassExtent> {
        let extent = |first: u64, blocks: u64, class: &str| ClassExtent {
            first,
            blocks: blocks as u32,
            class: class_by_name(class).expect("it is in the table"),
        };
        let of = |part: Part| extent(self.first(part), self.blocks(part), part.class());
        let free = self.first(Part::Film) + self.blocks(Part::Film);
        let all = Part::ALL.map(of).into_iter();
        all.chain([extent(free, self.volume_blocks() - free, "free-space")]).collect()
    }

    /// Returns the map of the volume.
    pub fn map(&self) -> ClassMap {
        ClassMap::new(self.extents(), self.volume_blocks()).expect("it is sorted")
    }

    /// Returns the map whose classes are permuted by this seed, so that most are wrong.
    pub fn shuffled_map(&self, seed: u64) -> ClassMap {
        let mut extents = self.extents();
        let mut classes: Vec<u8> = extents.iter().map(|extent| extent.class).collect();
        let mut random = Random::new(seed);
        for last in (1..classes.len()).rev() {
            classes.swap(last, random.below(last as u64 + 1) as usize);
        }
        extents.iter_mut().zip(classes).for_each(|(extent, class)| extent.class = class);
        ClassMap::new(extents, self.volume_blocks()).expect("it is sorted")
    }

    /// Generates the accesses: without the film, with the film in order, and in random pieces, each
    /// for as long as it takes to read the film once or three times. Half of the accesses are the
    /// film's.
    pub fn generate(&self) -> Vec<(Part, u64)> {
        let film = self.blocks(Part::Film);
        let mut random = Random::new(self.seed);
        let mut accesses = Vec::new();
        self.add_others(&mut random, film, &mut accesses);
        for start in (0..film).step_by(PIECE_BLOCKS as usize) {
            self.add_piece(start, &mut accesses);
            self.add_others(&mut random, PIECE_BLOCKS, &mut accesses);
        }
        for _ in 0..3 * film / PIECE_BLOCKS {
            let start = random.below(film / PIECE_BLOCKS) * PIECE_BLOCKS;
            self.add_piece(start, &mut accesses);
            self.add_others(&mut random, PIECE_BLOCKS, &mut accesses);
        }
        accesses
    }

    fn add_piece(&self, start: u64, accesses: &mut Vec<(Part, u64)>) {
        let first = self.first(Part::Film) + start;
        let end = self.first(Part::Film) + self.blocks(Part::Film);
        accesses.extend((first..end.min(first + PIECE_BLOCKS)).map(|block| (Part::Film, block)));
    }

    /// Adds accesses to the parts beside the film. Ranks are scattered over a part by a stride that
    /// has no common divisor with its size.
    fn add_others(&self, random: &mut Random, count: u64, accesses: &mut Vec<(Part, u64)>) {
        for _ in 0..count {
            let (part, power) = match random.below(20) {
                0 => (Part::Metadata, 2),
                1..=4 => (Part::Mail, 1),
                _ => (Part::Hot, 3),
            };
            let blocks = self.blocks(part);
            let uniform = random.below(1 << 30) as f64 / f64::from(1 << 30);
            let rank = (uniform.powi(power) * blocks as f64) as u64;
            let block = (rank * 48_271) % blocks;
            accesses.push((part, self.first(part) + block));
        }
    }
}
