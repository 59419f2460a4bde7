//! A map on the flash: the cost of its pages, the time of it, and that no power cut loses an entry.

use drives::{
    Drive, Fast, Found, Ftl, MapKind, Model, Op, Options, Pacing, Random, Settings, Shape,
    SlcSettings, Spread, Timed, Timing,
};

/// Slots whose entries share a page of the map.
const ENTRIES: u64 = 1024;
const SLOTS: u32 = 100 * 1024;

fn cached(pages: u64) -> MapKind {
    MapKind::Cached { bytes: pages * 4096, gathered: 0 }
}

/// Returns a drive of 100 pages of map, with this number of pages in memory.
fn new(map: MapKind) -> Ftl {
    let shape = Shape {
        logical_slots: SLOTS,
        superblocks: 240,
        dies: 4,
        unit_slots: 4,
        pages: 32,
        slc_pages: 10,
    };
    let pacing = Pacing::Paced { free_superblocks: 4 };
    Ftl::new(shape, Settings { map, pacing, ..Settings::default() }).expect("a sound drive")
}

/// Returns the times of a preset, without any spread.
fn times(blocking: bool) -> Timing {
    let model = Model::preset("sandforce-sf-2281-240").expect("a preset");
    let Drive::Flash(drive) = model.drive(&Options::default()).expect("a sound drive") else {
        panic!("a flash drive");
    };
    Timing { spread: Spread::NONE, map_blocks: blocking, ..*drive.timing() }
}

#[test]
fn a_drive_that_is_written_in_order_reads_no_map_and_programs_it_once() {
    let mut fast = Fast::new(new(cached(10)));
    fast.write_sequential(0, u64::from(SLOTS));
    fast.ftl().audit();
    let counters = fast.ftl().counters();
    assert_eq!(counters.map_reads, 0, "no page was ever written");
    let pages = u64::from(SLOTS) / ENTRIES;
    assert!((pages - 20..=pages).contains(&counters.map_programs), "{}", counters.map_programs);
    // Once more in order: each page is read and programmed once.
    let before = *counters;
    fast.write_sequential(0, u64::from(SLOTS));
    let read = fast.ftl().counters().map_reads - before.map_reads;
    assert!((pages - 20..pages + 20).contains(&read), "{read}");
}

#[test]
fn each_change_at_random_misses_by_the_share_that_does_not_fit() {
    let mut fast = Fast::new(new(cached(25)));
    fast.write_sequential(0, u64::from(SLOTS));
    let mut random = Random::new(5);
    // So that hardly any neighbours on the flash are neighbours for the host.
    fast.write_random(SLOTS, 800_000, &mut random);
    let before = *fast.ftl().counters();
    fast.write_random(SLOTS, 200_000, &mut random);
    fast.ftl().audit();
    let after = fast.ftl().counters();
    // The host's writes and the slots that cleaning moves for them.
    let moved = after.relocations - before.relocations;
    assert!(moved > 400_000, "{moved}");
    let changes = (after.host_writes - before.host_writes) + moved;
    let share = (after.map_reads - before.map_reads) as f64 / changes as f64;
    // Of the evicted pages some wait for others, two on average.
    assert!((share - 0.73).abs() < 0.02, "{share}");
    // Pages that are read are changed, and evicted again. The area has room for twenty times a
    // hundred pages.
    let programs = (after.map_programs - before.map_programs) as f64 / changes as f64;
    assert!((share..1.02 * share).contains(&programs), "{programs} and {share}");
}

#[test]
fn a_look_finds_what_a_change_has_brought() {
    let mut ftl = new(cached(2));
    let cost = |ftl: &mut Ftl, slot: u32| ftl.look_up(slot).reads;
    for page in 0..8 {
        ftl.stage(page * 1024);
    }
    assert_eq!(cost(&mut ftl, 7 * 1024), 0, "it is in memory");
    let mut fast = Fast::new(ftl);
    fast.flush();
    let mut ftl = fast.into_ftl();
    assert_eq!(cost(&mut ftl, 0), 1, "it has been programmed");
    assert_eq!(cost(&mut ftl, 1), 0, "it is in memory again");
    assert_eq!(cost(&mut ftl, 50 * 1024), 0, "nothing was ever written there");
    ftl.audit();
}

/// Returns the mean time of a write in microseconds.
fn write(timed: &mut Timed, slots: impl Iterator<Item = u32>) -> u64 {
    let start = timed.programmed_ns() + 1_000_000;
    let (mut now, mut count) = (start, 0);
    for slot in slots {
        now = timed.submit(now, Op::Write { first: u64::from(slot) * 8, count: 8 });
        count += 1;
    }
    (now - start) / 1000 / count
}

#[test]
fn a_drive_pays_for_its_map_when_it_is_worn_and_not_when_it_is_new() {
    let rates = |map: MapKind| {
        let mut timed = Timed::new(new(map), times(true));
        let clean = write(&mut timed, 0..SLOTS);
        let mut timed = timed.fast_forward(|fast| {
            fast.write_random(SLOTS, 2 * u64::from(SLOTS), &mut Random::new(6));
        });
        let worn = write(&mut timed, 0..SLOTS / 4);
        timed.ftl().audit();
        (clean, worn)
    };
    let (flat, paged) = (rates(MapKind::Flat { journal_updates: 1024 }), rates(cached(5)));
    assert!(paged.0 <= flat.0 + 2, "new: {} and {} us", flat.0, paged.0);
    assert!(paged.1 > 2 * flat.1, "worn: {} and {} us", flat.1, paged.1);
}

#[test]
fn firmware_that_waits_for_its_map_is_slower_than_one_that_does_not() {
    let rate = |blocking: bool| {
        let mut timed = Timed::new(new(cached(5)), times(blocking)).fast_forward(|fast| {
            fast.write_sequential(0, u64::from(SLOTS));
            fast.write_random(SLOTS, 2 * u64::from(SLOTS), &mut Random::new(6));
        });
        write(&mut timed, 0..SLOTS / 8)
    };
    let (waits, goes_on) = (rate(true), rate(false));
    assert!(waits > goes_on * 5 / 4, "{waits} and {goes_on} us");
}

#[test]
fn every_mixture_of_operations_keeps_the_books_of_a_map_on_the_flash() {
    for (seed, pages) in [(1, 1), (2, 7), (3, 1000)] {
        let slc = SlcSettings {
            static_superblocks: 6,
            dynamic_superblocks: 10,
            fold_when_idle: seed % 2 == 1,
            ..SlcSettings::NONE
        };
        let ftl = new(cached(pages));
        let settings = Settings { slc, trim_256: 200, ..*ftl.settings() };
        let ftl = Ftl::new(*ftl.shape(), settings).expect("a sound drive");
        assert_eq!(settings.map_superblocks(ftl.shape()), 4);
        let mut timed = Timed::new(ftl, times(seed == 2));
        let mut random = Random::new(seed);
        let mut now = 0;
        for step in 0..150_000 {
            let first = u64::from(random.below(SLOTS - 200)) * 8;
            let (op, wait) = match random.below(2000) {
                0 => (Op::Flush, 2_000_000_000),
                1 => (Op::Trim { first, count: 1600 }, 0),
                2..20 => (Op::Write { first, count: 1600 }, 0),
                20..200 => (Op::Read { first, count: 8 }, 0),
                _ => (Op::Write { first, count: 8 }, 0),
            };
            now = timed.submit(now, op) + wait;
            if step % 30_000 == 29_999 {
                timed.power_cut(now, seed);
                timed.ftl().audit();
            }
        }
        timed.ftl().audit();
    }
}

#[test]
fn a_power_cut_loses_nothing_that_was_flushed_where_the_map_is_on_its_way() {
    for seed in 0..10 {
        let mut timed = Timed::new(new(cached(4)), times(true)).fast_forward(|fast| {
            fast.write_sequential(0, u64::from(SLOTS));
            fast.write_random(SLOTS, u64::from(SLOTS), &mut Random::new(seed));
        });
        let mut random = Random::new(seed);
        let now = timed.submit(0, Op::Flush);
        // Cleaning moves odd slots and their entries; only even ones are written.
        let mut written = std::collections::BTreeSet::new();
        for _ in 0..4000 {
            let slot = u64::from(random.below(SLOTS / 2)) * 2;
            timed.submit(now, Op::Write { first: slot * 8, count: 8 });
            written.insert(slot);
        }
        let programs = timed.ftl().counters().map_programs;
        let lost = timed.power_cut(now + 5_000_000, seed);
        timed.ftl().audit();
        assert!(!lost.is_empty(), "much was under way");
        assert!(lost.iter().all(|slot| written.contains(slot)), "flushed and lost: {lost:?}");
        for slot in (0..SLOTS).step_by(97).filter(|slot| !lost.contains(&u64::from(*slot))) {
            assert!(matches!(timed.ftl().find(slot), Found::Flash(_)), "slot {slot}");
        }
        // The pages that were only in memory are programmed when the drive continues, and read
        // again.
        let reads = timed.ftl().counters().map_reads;
        let end = timed.submit(now + 6_000_000, Op::Write { first: 8, count: 800 });
        timed.submit(end, Op::Flush);
        assert!(timed.ftl().counters().map_programs > programs);
        assert!(timed.ftl().counters().map_reads > reads);
        timed.ftl().audit();
    }
}
