//! Zipf with occasional scans of twice the cache: the increase of misses among zipf's own accesses.

use crate::sides::verdict;
use crate::zipf::Zipf;
use ::policy::{Kind, Simulation};
use lane::Random;

const SLOTS: u32 = 65_536;
/// Zipf's accesses between the starts of two scans, and the number of scans.
const PERIOD: usize = 6 * SLOTS as usize;
const SCANS: usize = 12;
/// The first block of the scans.
const SCAN: u64 = 1 << 32;

/// Returns the share of zipf's accesses that miss, in the second half of the time. `scan` gives the
/// block of a scan's access.
fn missed(kind: Kind, zipf: &[u32], scan: Option<&dyn Fn(u64) -> u64>) -> f64 {
    let mut cache = Simulation::new(kind, SLOTS);
    let (mut misses, mut accesses) = (0u64, 0u64);
    for (number, block) in zipf.iter().enumerate() {
        let since = (number % PERIOD) as u64;
        if let Some(scan) = scan
            && since < u64::from(SLOTS)
        {
            // Two for each of zipf's.
            cache.read(SCAN + scan(2 * since));
            cache.read(SCAN + scan(2 * since + 1));
        }
        let is_missed = !cache.read(u64::from(*block));
        if number >= zipf.len() / 2 {
            accesses += 1;
            misses += u64::from(is_missed);
        }
    }
    misses as f64 / accesses as f64
}

pub(crate) fn run() {
    let mut random = Random::new(9);
    let zipf = Zipf::new(u64::from(SLOTS) * 4, 0.9, &mut random);
    let accesses = zipf.draw(PERIOD * SCANS, &mut random);
    let scanned = u64::from(SLOTS) * 2;
    // A stride that is coprime to the number of blocks visits each once, and no access follows its
    // neighbour.
    let shuffled = move |number: u64| number * 48_271 % scanned;
    println!("zipf's misses because of scans of twice the cache, in points of its miss ratio");
    for kind in [Kind::Lru, simulator::DEFAULT] {
        let alone = missed(kind, &accesses, None);
        let more =
            |scan: &dyn Fn(u64) -> u64| (missed(kind, &accesses, Some(scan)) - alone) * 100.0;
        let (ascending, shuffled) = (more(&|number| number), more(&shuffled));
        let target = match kind {
            Kind::Lru => String::new(),
            _ => format!("  target at most 1.2: {}", verdict(ascending.max(shuffled) <= 1.2)),
        };
        println!(
            "  {:<9} {alone:.4} alone, {ascending:+.2} with ascending scans, {shuffled:+.2} with shuffled ones{target}",
            kind.name(),
        );
    }
}
