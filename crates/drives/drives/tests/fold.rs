//! A full area with one bit a cell: when it is folded, and which requests wait for that.

use drives::{
    Drive, Ftl, Model, Op, Options, Pacing, Settings, Shape, SlcFull, SlcSettings, Spread, Timed,
};

const SHAPE: Shape = Shape {
    logical_slots: 120_000,
    superblocks: 320,
    dies: 4,
    unit_slots: 4,
    pages: 32,
    slc_pages: 10,
};

/// An area of 40 superblocks.
const STATIC: SlcSettings = SlcSettings { static_superblocks: 40, ..SlcSettings::NONE };

/// Returns a drive with the times of an 840 EVO, without any spread.
fn drive(slc: SlcSettings) -> Timed {
    let model = Model::preset("samsung-840-evo-250").expect("a preset");
    let Drive::Flash(evo) = model.drive(&Options::default()).expect("a sound drive") else {
        panic!("a flash drive");
    };
    let timing = drives::Timing { spread: Spread::NONE, ..*evo.timing() };
    let settings =
        Settings { slc, pacing: Pacing::Paced { free_superblocks: 4 }, ..Settings::default() };
    Timed::new(Ftl::new(SHAPE, settings).expect("a sound drive"), timing)
}

/// Writes `count` requests of 128 KiB in order from a slot on; returns MB per second.
fn write(timed: &mut Timed, from: u64, count: u64) -> f64 {
    let start = timed.programmed_ns();
    let mut now = start;
    for request in 0..count {
        now = timed.submit(now, Op::Write { first: (from + request * 32) * 8, count: 256 });
    }
    count as f64 * 131_072.0 * 1e3 / (timed.programmed_ns().max(now) - start) as f64
}

/// Returns the rates into the area and after it, and the slots folded in that time.
fn rates(slc: SlcSettings) -> (f64, f64, u64) {
    let mut timed = drive(slc);
    let area = u64::from(slc.static_superblocks * SHAPE.slc_superblock_slots()) / 32;
    let first = write(&mut timed, 0, area);
    assert_eq!(timed.ftl().counters().folds, 0, "it is not full yet");
    let behind = write(&mut timed, area * 32, 4 * area);
    timed.ftl().audit();
    (first, behind, timed.ftl().counters().folds)
}

#[test]
fn a_long_write_pays_for_the_fold_where_the_area_has_to_be_emptied_first() {
    let (first, direct, folds) = rates(SlcSettings { full: SlcFull::Direct, ..STATIC });
    assert_eq!(folds, 0, "what does not fit goes behind the area");
    let (same, folded, folds) = rates(SlcSettings { full: SlcFull::FoldFirst, ..STATIC });
    assert!((same / first - 1.0).abs() < 0.01, "{first} and {same} MB/s while there is room");
    // Each written slot takes the space of one that was folded for it.
    let written = u64::from(STATIC.static_superblocks * SHAPE.slc_superblock_slots()) * 4;
    assert!((written * 9 / 10..=written).contains(&folds), "{folds} of {written}");
    // A unit costs its own program and erase, and the read, program and erase of another one. So
    // the rate of writes is close to the limit of the dies for all of that, but not above it.
    let timed = drive(STATIC);
    let (timing, unit) = (timed.timing(), f64::from(SHAPE.unit_slots));
    let transfer = unit * timing.channel_slot_ns as f64;
    let read = unit / f64::from(timing.read_slots) * timing.slc_read_ns as f64 + transfer;
    let programs = (timing.slc_program_ns + timing.program_ns) as f64 + 2.0 * transfer;
    let erases = timing.slc_erase_ns as f64 / f64::from(SHAPE.slc_pages)
        + timing.erase_ns as f64 / f64::from(SHAPE.pages);
    let ns = programs + read + erases;
    let bound = unit * 4096.0 * 1e3 * f64::from(SHAPE.dies) / ns;
    assert!(folded < bound && folded > 0.9 * bound, "{folded} MB/s, the dies allow {bound}");
    assert!(folded < 0.85 * direct, "{folded} MB/s, and {direct} without folding");
}

#[test]
fn a_dynamic_area_is_folded_for_the_writes_that_need_its_room() {
    let slc = SlcSettings { dynamic_superblocks: 200, ..SlcSettings::NONE };
    let mut timed = drive(slc);
    let requests = u64::from(SHAPE.logical_slots) / 32;
    let first = write(&mut timed, 0, requests / 5);
    let counters = *timed.ftl().counters();
    assert_eq!((counters.folds, counters.relocations), (0, 0), "there is room");
    let rest = write(&mut timed, requests / 5 * 32, requests * 4 / 5);
    timed.ftl().audit();
    let folds = timed.ftl().counters().folds;
    // Data in the area must leave it before the drive is full, once no superblock is free.
    assert!(folds > 10_000, "{folds}");
    assert!(rest < first / 2.0, "{first} MB/s with room, {rest} without");
    // No folding was left for idle time: that is more than the spare space holds.
    let left = timed.ftl().slc_valid_slots();
    assert!(left < u64::from(SHAPE.logical_slots) / 3, "{left} slots are still in the area");
}
