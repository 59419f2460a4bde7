//! What reviewers measured of the real drives.

use crate::validate::load::{Bench, SECOND, Until};
use crate::validate::table::{Origin, Table};
use drives::{Model, Op, Options, Random};

const MIB: f64 = 1024.0 * 1024.0;

/// 840 EVO: the sequential write curve with its knee, and idle time that empties the area.
pub(crate) fn turbowrite(table: &mut Table) {
    let drives = [
        ("120", 3.0, 410.0, 143.0),
        ("250", 3.0, 520.0, 269.0),
        ("500", 6.0, 520.0, 413.0),
        ("750", 9.0, 520.0, 0.0),
        ("1000", 12.0, 520.0, 461.0),
    ];
    for (size, knee_gb, first, then) in drives {
        let name = format!("samsung-840-evo-{size}");
        let mut bench = Bench::new(&name);
        let bytes = knee_gb as u64 * 2_000_000_000;
        let knee = knee(&mut bench, bytes);
        let what = format!("{name} knee, GB");
        table.near(Origin::Circular, &what, knee_gb, 5.0, knee.gb);
        // The 120 GB model's rate is that of its dies, whose time comes from another measurement; the
        // others' is their controller's limit.
        let is_small = size == "120";
        let origin = if is_small { Origin::Predicted } else { Origin::Circular };
        let what = format!("{name} rate before the knee, MB/s");
        table.near(origin, &what, first, 10.0, knee.before);
        if then > 0.0 {
            // One program time for the two small ones; a limit of their own for the others.
            let origin = if then < 300.0 { Origin::Fitted } else { Origin::Circular };
            let what = format!("{name} rate after the knee, MB/s");
            table.near(origin, &what, then, 10.0, knee.after);
        }
        let full = bench.flash().ftl().slc_valid_slots();
        let mut seconds = 0;
        while bench.flash().ftl().slc_valid_slots() > full / 100 && seconds < 200 {
            bench.rest(1);
            seconds += 1;
        }
        let what = format!("{name} seconds to empty TurboWrite");
        table.between(Origin::Fitted, &what, 15.0, 30.0, f64::from(seconds));
    }
}

struct Knee {
    gb: f64,
    before: f64,
    after: f64,
}

/// Writes sequentially, and finds where the rate falls: by the rate in each 50 MB.
fn knee(bench: &mut Bench, bytes: u64) -> Knee {
    let step = 50_000_000;
    let mut rates = Vec::new();
    let mut at = 0;
    while at < bytes {
        let first = at / 512;
        let mut next = first;
        let run = bench.run(4, Until::Bytes(step), |_| {
            let first = next;
            next += 256;
            Op::Write { first, count: 256 }
        });
        rates.push(run.mb_s());
        at = next * 512;
    }
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let (before, after) = (mean(&rates[1..20]), mean(&rates[rates.len() * 3 / 4..]));
    let fell = rates.iter().position(|rate| *rate < (before + after) / 2.0);
    let gb = fell.unwrap_or(rates.len()) as f64 * step as f64 / 1e9;
    Knee { gb, before, after }
}

/// QD1 4 KiB writes of the 840 EVO.
pub(crate) fn latency(table: &mut Table) {
    let mut bench = Bench::new("samsung-840-evo-250");
    let run = bench.random(true, 1, 1_000_000_000, Until::Seconds(5));
    table.near(
        Origin::Circular,
        "samsung-840-evo-250 QD1 4 KiB write IOPS",
        22_769.0,
        10.0,
        run.iops(),
    );
    let us = run.ns as f64 / run.requests as f64 / 1e3;
    table.near(Origin::Circular, "samsung-840-evo-250 QD1 4 KiB write us", 43.5, 10.0, us);
}

/// The consistency test: sequential fill, then 4 KiB random writes at QD32 for 2,000 s.
fn consistency(mut bench: Bench) -> (f64, f64) {
    bench = bench.fast(|fast| {
        let slots = u64::from(fast.ftl().shape().logical_slots);
        fast.write_sequential(0, slots);
    });
    let run = bench.random(true, 32, u64::MAX, Until::Seconds(2000));
    let late = &run.each_second[1400..];
    let least = late.iter().min().copied().unwrap_or_default();
    (run.iops_from(1400), f64::from(least))
}

/// The consistency test's rate after 1,400 s, of each drive for which one is published.
pub(crate) fn steady(table: &mut Table) {
    for name in Model::names() {
        let model = Model::preset(name).expect("it is one of the names");
        let band =
            ["steady_write_low_iops", "steady_write_high_iops"].map(|key| model.published(key));
        let [Some(low), Some(high)] = band else {
            continue;
        };
        let (rate, least) = consistency(Bench::new(name));
        println!("  {name}: least second after 1,400 s: {least:.0} IOPS");
        let what = format!("{name} steady 4 KiB QD32, IOPS");
        // Two values of the XP941 were chosen within what drives.md gives, for its three rows.
        let is_fitted = name.starts_with("samsung-xp941");
        let origin = if is_fitted { Origin::Fitted } else { Origin::Predicted };
        table.between(origin, &what, low.value, high.value, rate);
    }
    let three_quarters = Options { user_bytes: Some(192_000_000_000), ..Options::default() };
    let (rate, _) = consistency(Bench::with("samsung-xp941-256", &three_quarters));
    table.least(
        Origin::Fitted,
        "samsung-xp941-256, 25 % more spare space, steady IOPS",
        20_000.0,
        rate,
    );
}

/// About 100,000 until about 1,200 s. 1,200 s at that rate fill the flash once: the sequential fill
/// before them must have been compressible. A fill that costs no flash is none.
pub(crate) fn revodrive(table: &mut Table) {
    let mut bench = Bench::new("ocz-revodrive-350-480");
    let run = bench.random(true, 32, u64::MAX, Until::Seconds(2000));
    let early =
        run.each_second[10..1000].iter().map(|count| f64::from(*count)).sum::<f64>() / 990.0;
    table.near(
        Origin::Predicted,
        "ocz-revodrive-350-480 random write IOPS before 1,000 s",
        100_000.0,
        15.0,
        early,
    );
    let fell = run.each_second.iter().position(|count| f64::from(*count) < early * 0.8);
    table.near(
        Origin::Predicted,
        "ocz-revodrive-350-480 seconds until it falls",
        1200.0,
        15.0,
        fell.unwrap_or(2000) as f64,
    );
    let late = &run.each_second[1400..];
    let mut sorted = late.to_vec();
    sorted.sort_unstable();
    let at = |share: usize| f64::from(sorted[sorted.len() * share / 100]);
    table.between(
        Origin::Fitted,
        "ocz-revodrive-350-480 5th percentile after 1,400 s",
        5_000.0,
        30_000.0,
        at(5),
    );
    table.between(
        Origin::Fitted,
        "ocz-revodrive-350-480 95th percentile after 1,400 s",
        50_000.0,
        115_000.0,
        at(95),
    );
}

/// Sequential writes clean, after random writes on a full drive, and after a TRIM of everything: a minute
/// of 128 KiB each, as AnandTech did from 2014 on, the last one right after the TRIM.
pub(crate) fn trim(table: &mut Table) {
    let cases = [
        // That the SLC area is used again in idle time only was chosen for the last one.
        (
            "samsung-840-evo-msata-120",
            [180.4, 69.3, 126.2],
            [Origin::Predicted, Origin::Predicted, Origin::Fitted],
        ),
        // The share of a TRIM that is heeded was chosen for the last one.
        (
            "ocz-revodrive-350-480",
            [447.1, 157.1, 306.4],
            [Origin::Circular, Origin::Predicted, Origin::Fitted],
        ),
    ];
    for (name, targets, origins) in cases {
        let minute = |bench: &mut Bench| bench.sequential(true, 1, 128, Until::Seconds(60)).mb_s();
        let clean = minute(&mut Bench::new(name));
        let mut bench = Bench::new(name).fast(|fast| {
            let slots = u64::from(fast.ftl().shape().logical_slots);
            fast.write_sequential(0, slots);
        });
        bench.random(true, 32, u64::MAX, Until::Seconds(40 * 60));
        let dirty = minute(&mut bench);
        bench.trim_all();
        let trimmed = minute(&mut bench);
        let found = [("clean", clean), ("dirty", dirty), ("after TRIM", trimmed)];
        for (((what, found), target), origin) in found.into_iter().zip(targets).zip(origins) {
            let what = format!("{name} sequential write {what}, MB/s");
            table.near(origin, &what, target, 20.0, found);
        }
    }
}

/// The whole of an 840 EVO in order, new, and right after random writes and a TRIM of everything. No
/// value was chosen for these two; the one before the TRIM (39.3 MB/s, after a "server load") is not here,
/// because it is not said how long that load was.
pub(crate) fn full_span(table: &mut Table) {
    let name = "samsung-840-evo-250";
    let whole = |bench: &mut Bench| {
        let bytes = bench.sectors * 512;
        bench.sequential(true, 1, 128, Until::Bytes(bytes)).mb_s()
    };
    let mut bench = Bench::new(name);
    let fresh = whole(&mut bench);
    let mut bench = bench.fast(|fast| {
        let slots = fast.ftl().shape().logical_slots;
        fast.write_random(slots, u64::from(slots) / 4, &mut Random::new(4));
    });
    bench.trim_all();
    let trimmed = whole(&mut bench);
    for (what, target, found) in [("new", 289.0, fresh), ("after TRIM", 290.3, trimmed)] {
        let what = format!("{name} all of it in order, {what}, MB/s");
        table.near(Origin::Predicted, &what, target, 10.0, found);
    }
}

/// 4 KiB random writes at QD3 over 8 GB for 3 minutes, new and used.
fn corner(bench: &mut Bench) -> f64 {
    let run = bench.random(true, 3, 8 << 30, Until::Seconds(180));
    run.iops() * 4096.0 / MIB
}

/// X25-M: what the map's memory does.
pub(crate) fn intel(table: &mut Table) {
    for (name, new, used) in [("intel-x25-m-g1-80", 40.8, 26.3), ("intel-x25-m-g2-160", 36.1, 35.8)]
    {
        let mut bench = Bench::new(name);
        let first = corner(&mut bench);
        let what = format!("{name} random write when new, MB/s");
        table.near(Origin::Circular, &what, new, 10.0, first);
        let mut bench = bench.fast(|fast| {
            let slots = fast.ftl().shape().logical_slots;
            let tested = ((8u64 << 30) / 4096) as u32;
            fast.write_sequential(tested, u64::from(slots - tested));
            // Used: no two neighbours of what is tested were written together.
            fast.write_random(tested, 10 * u64::from(tested), &mut Random::new(4));
        });
        let second = corner(&mut bench);
        // The bytes of a node were chosen for the first generation.
        let is_first = name.contains("g1");
        let origin = if is_first { Origin::Fitted } else { Origin::Predicted };
        table.near(origin, &format!("{name} used over new"), used / new, 10.0, second / first);
    }
}

/// Vertex: about half when used.
pub(crate) fn vertex(table: &mut Table) {
    let mut bench = Bench::new("ocz-vertex-120");
    let new = corner(&mut bench);
    table.near(Origin::Circular, "ocz-vertex-120 random write when new, MB/s", 13.0, 10.0, new);
    let mut bench = bench.fast(|fast| {
        let slots = fast.ftl().shape().logical_slots;
        fast.write_sequential(0, u64::from(slots));
        fast.write_random(slots, u64::from(slots), &mut Random::new(4));
    });
    bench.now += SECOND;
    let used = corner(&mut bench);
    table.near(Origin::Fitted, "ocz-vertex-120 used over new", 7.0 / 13.0, 20.0, used / new);
}
