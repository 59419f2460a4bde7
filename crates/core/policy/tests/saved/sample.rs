//! States of samplers, as a saving daemon writes them.

use crate::parse::{KINDS, SLOTS};
use policy::{Access, Arbiter, Curve, Expectation, Hash};

/// Returns a state that is accepted, after these reads.
pub(crate) fn sample(kind: u8, blocks: &[u64]) -> Vec<u8> {
    let (of, mut bytes) = (KINDS[usize::from(kind) % KINDS.len()], vec![kind]);
    let hashes = || blocks.iter().map(|block| Hash::of(*block));
    match blocks.len() % 3 {
        0 => {
            let mut curve = Curve::new(of, SLOTS);
            let sampler = curve.sampler();
            hashes()
                .filter(|hash| sampler.takes(*hash))
                .for_each(|hash| _ = curve.access(hash, false));
            (0..curve.parts()).for_each(|part| curve.save(part, &mut bytes));
        }
        1 => {
            let mut arbiter = Arbiter::new(64);
            hashes().for_each(|hash| _ = arbiter.access(hash));
            (0..arbiter.parts()).for_each(|part| arbiter.save(part, &mut bytes));
        }
        _ => {
            let mut expectation = Expectation::new(of, 64);
            hashes().for_each(|hash| expectation.access(hash, Access::Read));
            expectation.save(&mut bytes);
        }
    }
    bytes
}
