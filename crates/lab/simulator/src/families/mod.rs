//! Generated families of loads, each with phases as real disks have them: the working set changes,
//! returns, moves or is interrupted. A policy that adapts must do so in time, and must not lose
//! more than it gains. Recorded traces of a few hours contain few such changes.
//!
//! A seed chooses the sizes and lengths of all phases, so that one family is many traces.

mod draws;
mod files;
mod phases;
mod recency;
mod tenants;

use lane::Random;

/// A family of loads.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name: one word.
    pub name: &'static str,
    /// The disk that has such a load, and the property of a policy that it tests.
    pub reason: &'static str,
    generate: fn(&mut Random, usize) -> Vec<u64>,
}

/// All families.
pub const FAMILIES: [Family; 8] = [
    Family {
        name: "scans",
        reason: "a server whose nightly backup reads much of the disk, often the same part as the \
                 night before: a scan must not evict the working set",
        generate: phases::scans,
    },
    Family {
        name: "shifts",
        reason: "a disk whose working set is replaced when another program starts, and sometimes \
                 returns: old frequent blocks must leave soon",
        generate: phases::shifts,
    },
    Family {
        name: "drift",
        reason: "a log or a table that grows, of which the newest part is read most: no block \
                 stays hot",
        generate: recency::drift,
    },
    Family {
        name: "stack",
        reason: "reads that depend on the time since the last read of a block alone, beside blocks \
                 read once: LRU is right for the first, and wrong for the second",
        generate: recency::stack,
    },
    Family {
        name: "daynight",
        reason: "users by day, and by night a job that reads its tables round after round: one \
                 working set returns each morning, the other each evening",
        generate: phases::daynight,
    },
    Family {
        name: "tenants",
        reason: "virtual machines of one host whose busy times alternate, each with another kind \
                 of load",
        generate: tenants::tenants,
    },
    Family {
        name: "files",
        reason: "builds and media: whole files read in order, some a second time soon after, \
                 popular ones again and again",
        generate: files::files,
    },
    Family {
        name: "turns",
        reason: "one disk for different jobs in turn: a skewed working set, a loop longer than the \
                 cache, and blocks that are read once",
        generate: tenants::turns,
    },
];

impl Family {
    /// Generates a load: the blocks of `reads` reads in order.
    pub fn generate(&self, seed: u64, reads: usize) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut blocks = (self.generate)(&mut random, reads);
        blocks.truncate(reads);
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_seed_gives_one_load_and_another_seed_another() {
        for family in FAMILIES {
            let load = family.generate(1, 50_000);
            assert_eq!(load.len(), 50_000, "{}", family.name);
            assert_eq!(load, family.generate(1, 50_000), "{}", family.name);
            assert_ne!(load, family.generate(2, 50_000), "{}", family.name);
        }
    }

    /// Of 17,100 blocks, a cache of 3 % has 512 slots: enough for a policy to learn in.
    #[test]
    fn a_load_reads_many_blocks_and_reads_them_again() {
        for family in FAMILIES {
            let load = family.generate(3, 200_000);
            let blocks = load.iter().collect::<HashSet<_>>().len();
            assert!((17_100..80_000).contains(&blocks), "{}: {blocks}", family.name);
        }
    }
}
