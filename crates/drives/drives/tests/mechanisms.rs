//! Mechanisms of worn drives, each on a small drive with it and without it.

use drives::{
    Drive, Fast, Ftl, MapKind, Model, Op, Options, Pacing, Random, Settings, Shape, SlcFull,
    SlcSettings, Spread, Timed, Timing,
};

const SLOTS: u32 = 120_000;
const SECOND: u64 = 1_000_000_000;

fn preset(name: &str) -> Timed {
    let model = Model::preset(name).expect("a preset");
    match model.drive(&Options::default()).expect("a sound drive") {
        Drive::Flash(flash) => *flash,
        Drive::Disk(_) => panic!("{name} is a flash drive"),
    }
}

/// Returns a drive of half a gigabyte of two bits a cell.
fn small(settings: Settings, change: impl Fn(Timing) -> Timing) -> Timed {
    let shape = Shape {
        logical_slots: SLOTS,
        superblocks: 280,
        dies: 4,
        unit_slots: 4,
        pages: 32,
        slc_pages: 16,
    };
    let timing = Timing { spread: Spread::NONE, ..*preset("samsung-840-pro-128").timing() };
    Timed::new(Ftl::new(shape, settings).expect("a sound drive"), change(timing))
}

fn paced() -> Settings {
    Settings { pacing: Pacing::Paced { free_superblocks: 4 }, ..Settings::default() }
}

/// Writes these slots one at a time; returns the mean time of a write in nanoseconds.
fn write(drive: &mut Timed, start: u64, slots: impl Iterator<Item = u32>) -> u64 {
    let (mut now, mut count) = (start, 0);
    for slot in slots {
        now = drive.submit(now, Op::Write { first: u64::from(slot) * 8, count: 8 });
        count += 1;
    }
    (now - start) / count
}

#[test]
fn drives_that_never_had_trim_ignore_it_and_their_successors_do_not() {
    for (name, has) in [
        ("intel-x25-m-g1-80", false),
        ("intel-x25-e-32", false),
        ("ocz-vertex-120-early", false),
        ("intel-x25-m-g2-160", true),
        ("intel-x25-m-g2-80", true),
        ("ocz-vertex-120", true),
        ("ocz-summit-120", true),
    ] {
        let mut drive = preset(name);
        let now = drive.submit(0, Op::Write { first: 0, count: 2048 });
        drive.submit(now, Op::Trim { first: 0, count: 2048 });
        let trimmed = drive.ftl().counters().trimmed;
        assert_eq!(trimmed, if has { 256 } else { 0 }, "{name}");
        drive.ftl().audit();
    }
}

#[test]
fn after_a_trim_a_tree_of_extents_is_as_fast_as_a_new_one() {
    let map = MapKind::Extents { bytes: 64 << 10, node_bytes: 16 };
    let mut drive = small(Settings { map, ..paced() }, |timing| timing);
    let random = |seed| {
        let mut random = Random::new(seed);
        (0..3000).map(move |_| random.below(SLOTS))
    };
    let new = write(&mut drive, 0, random(1));
    let mut drive = drive.fast_forward(|fast| {
        fast.write_random(SLOTS, u64::from(SLOTS), &mut Random::new(2));
    });
    let worn = write(&mut drive, 0, random(3));
    let now = drive.submit(60 * SECOND, Op::Trim { first: 0, count: u64::from(SLOTS) * 8 });
    let trimmed = write(&mut drive, now + 60 * SECOND, random(1));
    assert!(worn > 2 * new, "worn {worn} ns, new {new} ns");
    assert!(trimmed < new + new / 10, "trimmed {trimmed} ns, new {new} ns");
    drive.ftl().audit();
}

#[test]
fn gathered_changes_share_the_pages_of_a_map() {
    let count = |gathered| {
        let map = MapKind::Cached { bytes: 10 * 4096, gathered };
        let mut fast = Fast::new(small(Settings { map, ..paced() }, |timing| timing).into_ftl());
        fast.write_sequential(0, u64::from(SLOTS));
        let mut random = Random::new(4);
        fast.write_random(SLOTS, 200_000, &mut random);
        let before = *fast.ftl().counters();
        fast.write_random(SLOTS, 200_000, &mut random);
        fast.ftl().audit();
        let after = fast.ftl().counters();
        let changes = 200_000 + after.relocations - before.relocations;
        let programs = after.map_programs - before.map_programs;
        let reads = after.map_reads - before.map_reads;
        (reads as f64 / changes as f64, programs as f64 / changes as f64)
    };
    let (alone, gathered) = (count(0), count(117 * 20));
    assert!(alone.0 > 0.8 && alone.1 > 0.8, "{alone:?}");
    assert!(gathered.0 < 0.06 && gathered.1 < 0.06, "{gathered:?}");
    assert!(gathered.1 > 0.04, "all changes are merged: {gathered:?}");
}

#[test]
fn a_trim_is_gathered_as_one_change_for_each_page_of_the_map() {
    let map = |gathered| MapKind::Cached { bytes: 10 * 4096, gathered };
    let trimmed = |gathered, requests: u64| {
        let drive = small(Settings { map: map(gathered), ..paced() }, |timing| Timing {
            trim_slot_ns: 1_000_000,
            trim_slots_at_once: 1,
            ..timing
        });
        let mut drive = drive.fast_forward(|fast| fast.write_sequential(0, u64::from(SLOTS)));
        let before = drive.ftl().counters().map_merges;
        let mut now = 0;
        for request in 0..requests {
            let count = u64::from(SLOTS) * 8 / requests;
            now = drive.submit(now, Op::Trim { first: request * count, count });
        }
        drive.ftl().audit();
        assert_eq!(drive.ftl().counters().trimmed, u64::from(SLOTS));
        let mut random = Random::new(5);
        let merges = drive.ftl().counters().map_merges - before;
        (merges, write(&mut drive, now, (0..1000).map(|_| random.below(SLOTS))))
    };
    // 118 pages, some of which two requests share: fewer changes than a set has.
    for requests in [1, 75] {
        let (merges, gathered) = trimmed(117 * 20, requests);
        let (none, alone) = trimmed(0, requests);
        assert!(merges < 118 && none == 0, "{merges} and {none} merges");
        // Without gathering, each write frees a trimmed slot, which takes a millisecond here.
        assert!(gathered < 500_000 && alone > 1_000_000, "{gathered} and {alone} ns");
    }
}

#[test]
fn a_new_drive_merges_its_map_without_reads() {
    let map = MapKind::Cached { bytes: 10 * 4096, gathered: 117 * 20 };
    let settings = Settings { map, ..paced() };
    let time = |timing: fn(Timing) -> Timing| {
        let mut drive = small(settings, timing);
        let mut random = Random::new(5);
        // The first set is gathered, and the second merges it.
        let new = write(&mut drive, 0, (0..4000).map(|_| random.below(SLOTS)));
        (new, drive.ftl().counters().map_reads)
    };
    let (free, reads) = time(|timing| Timing { map_merge_ns: 0, ..timing });
    let (paid, _) = time(|timing| Timing { map_merge_ns: 400_000, ..timing });
    assert_eq!(reads, 0);
    assert!(paid > free, "a merge takes the firmware's time: {paid} and {free} ns");
}

#[test]
fn a_buffer_of_sectors_answers_before_the_rest_of_a_slot_is_read() {
    let time = |sectors_buffered| {
        let mut drive = small(paced(), |timing| Timing { sectors_buffered, ..timing });
        let mut now = 0;
        for slot in 0..u64::from(SLOTS) / 8 {
            now = drive.submit(now, Op::Write { first: slot * 64, count: 64 });
        }
        let mut random = Random::new(6);
        let start = now + SECOND;
        now = start;
        for _ in 0..500 {
            let first = u64::from(random.below(SLOTS)) * 8 + 3;
            now = drive.submit(now, Op::Write { first, count: 1 });
        }
        drive.ftl().audit();
        (now - start) / 500
    };
    let (sectors, slots) = (time(true), time(false));
    let read = preset("samsung-840-pro-128").timing().read_ns;
    assert!(sectors < read, "{sectors} ns");
    assert!(slots > sectors + read / 2, "{slots} and {sectors} ns");
}

#[test]
fn half_of_a_new_drive_is_written_with_one_bit_a_cell() {
    let pass = |dynamic_superblocks| {
        let slc = SlcSettings { dynamic_superblocks, full: SlcFull::Direct, ..SlcSettings::NONE };
        let mut drive = small(Settings { slc, ..paced() }, |timing| Timing {
            program_ns: 2_000_000,
            slc_program_ns: 250_000,
            ..timing
        });
        let first = write(&mut drive, 0, 0..SLOTS / 2);
        let half = drive.ftl().counters().slc_programs;
        let start = drive.programmed_ns();
        let second = write(&mut drive, start, SLOTS / 2..SLOTS);
        drive.ftl().audit();
        (first, second, half)
    };
    // Of 512 slots, of which a half is used.
    let (first, second, half) = pass(SLOTS / 2 / 256);
    assert!(half > u64::from(SLOTS / 2 * 9 / 10), "{half} slots");
    assert!(second > 2 * first, "{first} and {second} ns");
    let (without, _, none) = pass(0);
    assert_eq!(none, 0);
    assert!(without > first && without < second, "{without} ns, then {first} and {second}");
    for name in ["ocz-vector-256", "ocz-vertex-450-256"] {
        let drive = preset(name);
        let area = u64::from(drive.ftl().settings().slc.dynamic_superblocks)
            * u64::from(drive.ftl().shape().slc_superblock_slots());
        let share = area as f64 / f64::from(drive.ftl().shape().logical_slots);
        assert!((0.45..0.55).contains(&share), "{name}: {share}");
    }
}

#[test]
fn idle_time_brings_back_the_rate_of_a_worn_drive() {
    let rate = |idle_free_superblocks| {
        let drive = small(Settings { idle_free_superblocks, ..paced() }, |timing| timing);
        let mut drive = drive.fast_forward(|fast| {
            fast.write_sequential(0, u64::from(SLOTS));
            fast.write_random(SLOTS, 2 * u64::from(SLOTS), &mut Random::new(7));
        });
        let span = 8 * drive.ftl().shape().superblock_slots();
        let time = write(&mut drive, 600 * SECOND, 0..span);
        drive.ftl().audit();
        time
    };
    let (with, without) = (rate(16), rate(0));
    assert!(2 * with < without, "{with} and {without} ns");
}

#[test]
fn no_second_of_the_vertex_passes_without_an_answer() {
    let mut drive = preset("ocz-vertex-120").fast_forward(|fast| {
        let slots = u64::from(fast.ftl().shape().logical_slots);
        fast.write_sequential(0, slots);
        fast.write_random(u32::MAX, slots / 4, &mut Random::new(8));
    });
    let (mut now, mut longest) = (0, 0);
    let mut random = Random::new(9);
    for _ in 0..60_000 {
        let first = u64::from(random.below(2_000_000)) * 8;
        let end = drive.submit(now, Op::Write { first, count: 8 });
        longest = longest.max(end - now);
        now = end;
    }
    assert!(now > 15 * SECOND, "a few bursts: {} s", now / SECOND);
    assert!(longest < SECOND / 20, "{} ms", longest / 1_000_000);
}

#[test]
fn the_first_request_after_idle_time_waits_for_a_step_of_cleaning_only() {
    let slc = SlcSettings { static_superblocks: 4, fold_when_idle: true, ..SlcSettings::NONE };
    let pacing = Pacing::Paced { free_superblocks: 2 };
    let drive = small(Settings { slc, pacing, ..Settings::default() }, |timing| Timing {
        firmware_relocate_ns: 500_000,
        ..timing
    });
    let mut drive = drive.fast_forward(|fast| {
        fast.write_sequential(0, u64::from(SLOTS));
        fast.write_random(SLOTS, u64::from(SLOTS), &mut Random::new(7));
    });
    let (mut now, mut most) = (0, 0);
    let mut random = Random::new(10);
    for _ in 0..400 {
        for _ in 0..40 {
            let first = u64::from(random.below(SLOTS)) * 8;
            now = drive.submit(now, Op::Write { first, count: 8 });
        }
        now += SECOND + u64::from(random.below(1000)) * 1_000_000;
        let end = drive.submit(now, Op::Read { first: 0, count: 8 });
        most = most.max(end - now);
        now = end;
    }
    drive.ftl().audit();
    // A step is one unit for each die: 16 slots.
    assert!(most < 16 * 500_000 + 20_000_000, "{} ms", most / 1_000_000);
}
