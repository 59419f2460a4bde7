//! The live curve compared with full simulations of each size.

use super::traces::Trace;
use crate::sides::verdict;
use ::policy::{Arbiter, Curve, Hash, Kind, POINTS, PRESENT, Simulation};

const PERCENT: u32 = 10;

/// The error of the curve.
struct Off {
    most: f64,
    /// Its points, paired with those of the full simulations.
    points: Vec<(f64, f64)>,
    is_too_small: bool,
}

fn off(kind: Kind, slots: u32, blocks: impl Iterator<Item = u64>) -> Option<Off> {
    let (mut curve, mut arbiter) = (Curve::new(kind, slots), Arbiter::new(slots));
    let sizes = (0..POINTS).map(|point| (u64::from(slots) << point >> PRESENT).max(1) as u32);
    let mut caches: Vec<(Simulation, u64)> =
        sizes.map(|slots| (Simulation::new(kind, slots), 0)).collect();
    let (of_arbiter, of_curve) = (arbiter.sampler(), curve.sampler());
    let mut accesses = 0u64;
    for block in blocks {
        let hash = Hash::of(block);
        accesses += 1;
        for (cache, misses) in &mut caches {
            *misses += u64::from(!cache.read(block));
        }
        if of_arbiter.takes(hash)
            && let Some(share) = arbiter.access(hash)
        {
            curve.set_window_share(share);
        }
        if of_curve.takes(hash) && curve.access(hash, true) {
            accesses /= 2;
            caches.iter_mut().for_each(|(_, misses)| *misses /= 2);
        }
    }
    let answer = curve.answer(accesses, caches[PRESENT].1)?;
    let full = caches.iter().map(|(_, misses)| *misses as f64 / accesses as f64);
    let points: Vec<(f64, f64)> = answer.miss_ratios.into_iter().zip(full).collect();
    let most = points.iter().map(|(estimate, full)| (estimate - full).abs()).fold(0.0, f64::max);
    Some(Off { most, points, is_too_small: answer.is_too_small })
}

pub(crate) fn run(traces: &[Trace]) {
    println!(
        "the live curve against full simulations, of {PERCENT} % of the footprint; told (full)"
    );
    for trace in traces {
        let slots = trace.slots(PERCENT);
        for kind in [Kind::Lru, simulator::DEFAULT] {
            let Some(off) = off(kind, slots, trace.blocks()) else { continue };
            let points: Vec<String> = off
                .points
                .iter()
                .map(|(estimate, full)| format!("{estimate:.3} ({full:.3})"))
                .collect();
            let verdict = match off.is_too_small {
                true => "says itself that it is too small".to_owned(),
                false => format!("target 0.02: {}", verdict(off.most <= 0.02)),
            };
            println!(
                "  {:<9} {:<9} {slots:>7} slots: {}; at most {:.3} off  {verdict}",
                trace.name,
                kind.name(),
                points.join(" "),
                off.most,
            );
        }
    }
}
