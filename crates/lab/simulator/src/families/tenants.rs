//! Loads of different kinds in turn.

use super::draws::{magnitude, skewed};
use lane::Random;

/// The first block of loops, and of blocks that are read once.
const LOOPS: u64 = 1 << 32;
const ONCE: u64 = 1 << 40;

/// A load of one kind.
#[derive(Clone, Copy)]
enum Kind {
    /// Low numbers are more frequent.
    Skewed(u32),
    /// One block after the other, and again.
    Loop,
    /// A loop of which every block is read two times within a short time.
    Twice,
}

/// A virtual machine with an area of its own.
struct Tenant {
    kind: Kind,
    from: u64,
    size: u64,
    /// Number of its reads.
    done: u64,
}

impl Tenant {
    fn read(&mut self, random: &mut Random) -> u64 {
        let at = match self.kind {
            Kind::Skewed(power) => skewed(random, self.size, power),
            Kind::Loop => self.done % self.size,
            Kind::Twice => (self.done / 2 + 40 * (self.done % 2)) % self.size,
        };
        self.done += 1;
        self.from + at
    }
}

/// Four to eight tenants. One at a time makes nearly all reads.
pub(super) fn tenants(random: &mut Random, reads: usize) -> Vec<u64> {
    let all = 4 + random.below(5);
    let tenant = |number: u64, random: &mut Random| Tenant {
        kind: match random.below(4) {
            0 => Kind::Loop,
            1 => Kind::Twice,
            power => Kind::Skewed(power as u32),
        },
        from: number << 24,
        size: magnitude(random, 2_000, 16_000),
        done: 0,
    };
    let mut tenants: Vec<Tenant> = (0..all).map(|number| tenant(number, random)).collect();
    let turn_max = magnitude(random, 4_000, 64_000);
    let mut blocks = Vec::new();
    while blocks.len() < reads {
        let busy = random.below(all);
        for _ in 0..magnitude(random, turn_max / 4, turn_max) {
            let reader = if random.one_in(20) { random.below(all) } else { busy };
            blocks.push(tenants[reader as usize].read(random));
        }
    }
    blocks
}

/// A skewed working set, a loop and a scan beside a working set, in random order.
pub(super) fn turns(random: &mut Random, reads: usize) -> Vec<u64> {
    let mut blocks = Vec::new();
    let mut phases = 0;
    while blocks.len() < reads {
        phases += 1;
        let (size, kind) = (magnitude(random, 500, 8_000), random.below(3));
        let from = phases * 2_000;
        for read in 0..magnitude(random, 4_000, 32_000) {
            blocks.push(match kind {
                0 => from + skewed(random, size, 2),
                1 => LOOPS + read % (2 * size),
                _ if read % 4 == 0 => ONCE + blocks.len() as u64,
                _ => skewed(random, size, 2),
            });
        }
    }
    blocks
}
