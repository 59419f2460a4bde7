//! Any bytes as the state of a sampler: they are refused, or the sampler goes on from them without
//! a panic, within its size.

use policy::saved::Saved;
use policy::{Access, Arbiter, Curve, Expectation, Hash, Kind};

pub(crate) const SLOTS: u32 = 1 << 12;
pub(crate) const KINDS: [Kind; 5] =
    [Kind::Adaptive, Kind::Lru, Kind::WTinyLfu, Kind::Sieve, Kind::Clock];

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
