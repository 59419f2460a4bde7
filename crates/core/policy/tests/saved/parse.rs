//! Any bytes as the state of a sampler: they are refused, or the sampler goes on from them without
//! a panic, within its size.

use policy::saved::Saved;
use policy::{Access, Arbiter, Curve, Expectation, Hash, Kind};

const SLOTS: u32 = 1 << 12;
const KINDS: [Kind; 5] = [Kind::Adaptive, Kind::Lru, Kind::WTinyLfu, Kind::Sieve, Kind::Clock];

/// Reads these bytes as the state of each sampler, and uses the sampler. The first byte chooses the
/// policy.
pub(crate) fn parse(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let hashes = || (0..1000u64).map(|read| Hash::of(read * read % 499));
    if let Some(mut curve) = Curve::restored(kind, SLOTS, &mut Saved(bytes)) {
        let sampler = curve.sampler();
        hashes().filter(|hash| sampler.takes(*hash)).for_each(|hash| _ = curve.access(hash, true));
        let answer = curve.answer(4000, 1000).expect("there were accesses");
        assert!(answer.miss_ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)));
    }
    if let Some(mut arbiter) = Arbiter::restored(64, &mut Saved(bytes)) {
        hashes().for_each(|hash| _ = arbiter.access(hash));
        assert!(Arbiter::shares().contains(&arbiter.share()));
    }
    if let Some(mut expectation) = Expectation::restored(kind, 64, &mut Saved(bytes)) {
        hashes().for_each(|hash| expectation.access(hash, Access::Read));
        assert!(expectation.hits().is_none_or(f64::is_finite));
    }
}

/// Returns a state that is accepted, after these reads.
#[allow(dead_code, reason = "the fuzz target has its own samples")]
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
