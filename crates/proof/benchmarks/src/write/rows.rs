//! The rows: each with a load, a cache, and their targets.

use super::device::Speed;
use super::ideal::Ideal;
use super::load::{Addresses, Flushes, Load, SECOND, Until};
use block::{CacheSpec, Durability, Size, WriteMode};

/// A target of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// At least this share of a computed ideal.
    OfIdeal(f64, Ideal),
    /// At least this multiple of the bare drive's rate, including final drains.
    Faster(f64),
    /// Everything is answered at least this many times sooner than by the bare drive.
    Sooner(f64),
    /// The worst write takes at most 1.1 times the bare drive's worst, and the same ratio holds for
    /// the 99.99th percentile.
    Calm,
    /// C13: writes plus the flush that ends them take at most 1.1 times the bare drive's time for
    /// the same number of writes and a flush from the same moment on.
    Debt,
    /// At least this share of the writes never reaches the drive.
    Saved(f64),
}

/// One comparison.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its name; patterns select by it.
    pub(crate) name: String,
    /// The cache.
    pub(crate) spec: CacheSpec,
    /// The load of both sides.
    pub(crate) load: Load,
    /// The drive's speed.
    pub(crate) speed: Speed,
    /// The targets.
    pub(crate) targets: Vec<Target>,
}

/// Longer than any run: disables a bound.
const OFF_MS: u64 = 365 * 24 * 3600 * 1000;
pub(super) const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// Single random writes, one at a time.
pub(crate) const SINGLE: Load = Load {
    depth: 1,
    reads: 0,
    blocks: 1,
    place: Addresses::Random,
    flushes: Flushes::Never,
    pauses: false,
    until: Until::Time(60 * SECOND),
};

/// The same for a second.
pub(crate) const SINGLE_SECOND: Load = Load { until: Until::Time(SECOND), ..SINGLE };

/// Returns the default settings for this much memory.
pub(super) fn spec(memory: u64) -> CacheSpec {
    CacheSpec { memory: Size(memory), write: WriteMode::BackNow, ..CacheSpec::default() }
}

/// Returns settings without bounds: all memory may be dirty (as far as the engine allows), for any
/// time.
fn unbounded(memory: u64) -> CacheSpec {
    let dirty_bytes = Some(Size(memory));
    CacheSpec { dirty_bytes, dirty_age_ms: OFF_MS, flush_target_ms: 0, ..spec(memory) }
}

/// Returns all rows. `quick`: shorter ones.
pub(crate) fn all(quick: bool) -> Vec<Row> {
    let mut rows = random(quick);
    rows.extend(flushing(quick));
    rows.extend(mixed(quick));
    rows.extend(changing());
    rows.extend(saturating(quick));
    rows.extend(hot());
    rows
}

fn row(name: String, spec: CacheSpec, load: Load, targets: Vec<Target>) -> Row {
    Row { name, spec, load, speed: Speed::Steady, targets }
}

/// Returns one minute of random writes, with all combinations of flushes and flush target.
fn random(quick: bool) -> Vec<Row> {
    let run_ns = if quick { 10 } else { 60 } * SECOND;
    let mut rows = Vec::new();
    for memory in [GIB, 4 * GIB] {
        for (bounds, period_ns, target_ms) in [
            ("", None, 0),
            ("-flush-5s", Some(5 * SECOND), 0),
            ("-target-500ms", None, 500),
            ("-flush-5s-target-500ms", Some(5 * SECOND), 500),
        ] {
            if memory > GIB && target_ms > 0 {
                // The dirty blocks that the target allows fit into the smaller memory, too.
                continue;
            }
            let ideal = Ideal {
                memory: memory / BLOCK,
                period_ns,
                target_ns: (target_ms > 0).then_some(target_ms * 1_000_000),
                run_ns: (!bounds.is_empty() || quick).then_some(run_ns),
            };
            let share = if bounds.is_empty() { 0.95 } else { 0.9 };
            let flushes = period_ns.map_or(Flushes::Never, Flushes::Every);
            rows.push(row(
                format!("random-{}G{bounds}", memory / GIB),
                CacheSpec { flush_target_ms: target_ms, ..unbounded(memory) },
                Load { flushes, until: Until::Time(run_ns), ..SINGLE },
                vec![Target::OfIdeal(share, ideal)],
            ));
        }
    }
    rows
}

/// Returns rows with a flush every 32 writes.
fn flushing(quick: bool) -> Vec<Row> {
    let until = Until::Time(if quick { 5 } else { 20 } * SECOND);
    let load = Load { flushes: Flushes::After(32), until, ..SINGLE };
    let ordered = CacheSpec { durability: Durability::Ordered, ..spec(GIB) };
    let mut rows = vec![
        row("flush-32-durable".into(), spec(GIB), load, vec![Target::Faster(1.0)]),
        row("flush-32-ordered".into(), ordered.clone(), load, vec![Target::Faster(1.1)]),
    ];
    // A quarter of the memory may be dirty; the second just fits.
    for mib in [16, 240] {
        rows.push(row(
            format!("flush-32-ordered-burst-{mib}M"),
            ordered.clone(),
            Load { until: Until::Writes(mib * MIB / BLOCK), ..load },
            vec![Target::Sooner(5.0)],
        ));
    }
    rows
}

/// Returns reads and writes together, with the default bounds.
fn mixed(quick: bool) -> Vec<Row> {
    let until = Until::Time(if quick { 6 } else { 12 } * SECOND);
    let mut rows = Vec::new();
    for reads in [70, 50] {
        for depth in [1, 4, 32] {
            for (often, flushes) in [
                ("5s", Flushes::Every(5 * SECOND)),
                ("256", Flushes::After(256)),
                ("never", Flushes::Never),
            ] {
                rows.push(row(
                    format!("mixed-{reads}-{}-q{depth}-flush-{often}", 100 - reads),
                    spec(GIB),
                    Load { depth, reads, flushes, until, ..SINGLE },
                    vec![Target::Calm],
                ));
            }
        }
    }
    rows
}

/// Returns rows in which the drive is four times slower for five seconds in the middle.
fn changing() -> Vec<Row> {
    let speed = Speed::Dips(7 * SECOND + SECOND / 2, 12 * SECOND + SECOND / 2);
    let until = Until::Time(20 * SECOND);
    let mut rows = Vec::new();
    for depth in [1, 32] {
        for (often, flushes) in [
            ("5s", Flushes::Every(5 * SECOND)),
            ("16384", Flushes::After(16384)),
            ("256", Flushes::After(256)),
        ] {
            rows.push(Row {
                speed,
                ..row(
                    format!("changing-writes-q{depth}-flush-{often}"),
                    spec(GIB),
                    Load { depth, flushes, pauses: true, until, ..SINGLE },
                    vec![Target::Calm, Target::Debt],
                )
            });
        }
        rows.push(Row {
            speed,
            ..row(
                format!("changing-70-30-q{depth}-flush-5s"),
                spec(GIB),
                Load { depth, reads: 70, flushes: Flushes::Every(5 * SECOND), until, ..SINGLE },
                vec![Target::Calm],
            )
        });
    }
    rows
}

/// Returns rows with the maximum load of the drive.
fn saturating(quick: bool) -> Vec<Row> {
    let until = Until::Time(if quick { 4 } else { 10 } * SECOND);
    let mut rows = Vec::new();
    for depth in [32, 128] {
        rows.push(row(
            format!("heavy-random-q{depth}"),
            spec(GIB),
            Load { depth, until, ..SINGLE },
            vec![Target::Faster(1.0)],
        ));
    }
    for kib in [64, 128, 1024] {
        for depth in [1, 8] {
            let blocks = kib / 4;
            rows.push(row(
                format!("heavy-sequential-{kib}K-q{depth}"),
                spec(GIB),
                Load { depth, blocks, place: Addresses::Sequential, until, ..SINGLE },
                vec![Target::Faster(1.0)],
            ));
        }
    }
    rows
}

/// Returns a hot set, each block written ten times, then a flush.
fn hot() -> Vec<Row> {
    let hot = |mib: u64| {
        let blocks = mib * MIB / BLOCK;
        row(
            format!("hot-{mib}M"),
            spec(GIB),
            Load { place: Addresses::Rounds(blocks), until: Until::Writes(10 * blocks), ..SINGLE },
            vec![Target::Saved(0.85)],
        )
    };
    vec![hot(4), hot(16), hot(64)]
}
