//! The state of samplers in the next process: it goes on as if there had been one process. Also
//! replays drawn inputs of the fuzz target `policy`.

mod parse;
mod sample;

use policy::saved::Saved;
use policy::{Access, Arbiter, Curve, Expectation, Hash, Kind};
use proptest::prelude::*;

/// Slots of the cache, of which one block in 64 is in the curve's sample.
const SLOTS: u32 = 1 << 12;

/// Reads in up to this number of phases: hot blocks, loops and scans.
fn phases(phases_max: usize) -> impl Strategy<Value = Vec<u64>> {
    let phase = prop_oneof![
        (1..20_000u64, 1..400u64).prop_map(|(from, length)| from..from + length),
        (0..64u64, 100..3000u64).prop_map(|(hot, length)| hot * 100..hot * 100 + length),
    ];
    proptest::collection::vec(phase, 1..phases_max)
        .prop_map(|phases| phases.into_iter().flatten().collect())
}

fn saved(parts: usize, mut save: impl FnMut(usize, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    (0..parts).for_each(|part| save(part, &mut bytes));
    bytes
}

/// Returns what is read from these bytes, if that is all of them.
fn restored<T>(bytes: &[u8], read: impl FnOnce(&mut Saved<'_>) -> Option<T>) -> T {
    let mut saved = Saved(bytes);
    let restored = read(&mut saved).expect("as it was saved");
    assert!(saved.0.is_empty());
    restored
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_curve_goes_on_as_if_it_had_not_ended(
        (before, after) in (phases(20), phases(20)),
        is_adaptive: bool,
        share in prop_oneof![Just(1024u32), Just(102), Just((1 << 16) | 32), Just((1 << 17) | 256)],
    ) {
        let kind = if is_adaptive { Kind::Adaptive } else { Kind::Lru };
        let mut curve = Curve::new(kind, SLOTS);
        curve.set_window_share(share);
        let access = |curve: &mut Curve, blocks: &[u64]| {
            let hashes = blocks.iter().map(|block| Hash::of(*block));
            let sampled = hashes.filter(|hash| curve.sampler().takes(*hash)).collect::<Vec<_>>();
            sampled.into_iter().for_each(|hash| _ = curve.access(hash, hash.bits() % 2 == 0));
        };
        access(&mut curve, &before);
        let bytes = saved(curve.parts(), |part, bytes| curve.save(part, bytes));
        let mut next = restored(&bytes, |saved| Curve::restored(kind, SLOTS, saved));
        next.set_window_share(share);
        prop_assert_eq!(curve.answer(1 << 20, 1 << 19), next.answer(1 << 20, 1 << 19));
        access(&mut curve, &after);
        access(&mut next, &after);
        prop_assert_eq!(curve.answer(1 << 20, 1 << 19), next.answer(1 << 20, 1 << 19));
        let again = saved(next.parts(), |part, bytes| next.save(part, bytes));
        prop_assert_eq!(saved(curve.parts(), |part, bytes| curve.save(part, bytes)), again);
    }

    #[test]
    fn an_arbiter_goes_on_as_if_it_had_not_ended((before, after) in (phases(6), phases(6))) {
        let slots = 300;
        let mut arbiter = Arbiter::new(slots);
        let access = |arbiter: &mut Arbiter, blocks: &[u64]| -> Vec<Option<u32>> {
            blocks.iter().map(|block| arbiter.access(Hash::of(*block))).collect()
        };
        access(&mut arbiter, &before);
        let bytes = saved(arbiter.parts(), |part, bytes| arbiter.save(part, bytes));
        let mut next = restored(&bytes, |saved| Arbiter::restored(slots, saved));
        prop_assert_eq!((arbiter.share(), arbiter.record()), (next.share(), next.record()));
        prop_assert_eq!(access(&mut arbiter, &after), access(&mut next, &after));
        prop_assert_eq!(arbiter.record(), next.record());
    }

    #[test]
    fn an_expectation_goes_on_as_if_it_had_not_ended(
        (before, after) in (phases(6), phases(6)),
        is_adaptive: bool,
    ) {
        let kind = if is_adaptive { Kind::Adaptive } else { Kind::Lru };
        let slots = 200;
        let access = |expectation: &mut Expectation, blocks: &[u64]| {
            for (number, hash) in blocks.iter().map(|block| Hash::of(*block)).enumerate() {
                if expectation.sampler().takes(hash) {
                    let all = [Access::Read, Access::Read, Access::Absorb, Access::WriteThrough];
                    expectation.access(hash, all[number % 4]);
                }
            }
        };
        let mut expectation = Expectation::new(kind, slots);
        access(&mut expectation, &before);
        let bytes = saved(1, |_, bytes| expectation.save(bytes));
        let mut next = restored(&bytes, |saved| Expectation::restored(kind, slots, saved));
        prop_assert_eq!(expectation.hits(), next.hits());
        access(&mut expectation, &after);
        access(&mut next, &after);
        prop_assert_eq!(expectation.hits(), next.hits());
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        parse::parse(&bytes);
    }

    #[test]
    fn a_state_with_changed_bytes(
        kind in 0..5u8,
        blocks in phases(6),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        length in any::<usize>(),
    ) {
        let mut bytes = sample::sample(kind, &blocks);
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if length % 4 == 0 {
            bytes.truncate(length / 4 % bytes.len());
        }
        parse::parse(&bytes);
    }
}

/// Policies of which the state is only approximated have the same blocks in the next process.
#[test]
fn the_state_of_each_served_policy_is_restored() {
    let blocks: Vec<u64> = (0..60_000).map(|read| read * read % 9001).collect();
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
        let mut curve = Curve::new(kind, SLOTS);
        for hash in blocks.iter().map(|block| Hash::of(*block)) {
            if curve.sampler().takes(hash) {
                curve.access(hash, true);
            }
        }
        let bytes = saved(curve.parts(), |part, bytes| curve.save(part, bytes));
        let next = restored(&bytes, |saved| Curve::restored(kind, SLOTS, saved));
        assert_eq!(curve.answer(60_000, 10_000), next.answer(60_000, 10_000), "{kind:?}");
        let length =
            |curve: &Curve| saved(curve.parts(), |part, bytes| curve.save(part, bytes)).len();
        assert_eq!(length(&curve), length(&next), "{kind:?}");
    }
}

#[test]
fn the_state_of_another_size_is_refused() {
    let mut arbiter = Arbiter::new(300);
    (0..2000u64).for_each(|read| _ = arbiter.access(Hash::of(read * read % 997)));
    let bytes = saved(arbiter.parts(), |part, bytes| arbiter.save(part, bytes));
    assert!(Arbiter::restored(200, &mut Saved(&bytes)).is_none());
    assert!(Arbiter::restored(300, &mut Saved(&bytes[..bytes.len() - 1])).is_none());
    assert!(Arbiter::restored(300, &mut Saved(&bytes)).is_some());
}
