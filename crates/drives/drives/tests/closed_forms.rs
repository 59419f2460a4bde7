//! Write amplification compared with theory, on drives small enough for every test run.

use drives::{Fast, Ftl, Pacing, Random, Settings, Shape, SlcFull, SlcSettings, Victims, theory};

const BLOCK: u32 = 64;

/// Returns a drive of 64-slot superblocks on one die, cleaned only when necessary.
fn drive(superblocks: u32, spare: f64, victims: Victims) -> Fast {
    let physical = f64::from(superblocks * BLOCK);
    let shape = Shape {
        logical_slots: (physical / (1.0 + spare)) as u32,
        superblocks,
        dies: 1,
        unit_slots: 1,
        pages: BLOCK,
        slc_pages: 0,
    };
    let pacing = Pacing::Burst { low: 1, high: 2, gain: 0 };
    // Theory has one log for all.
    let one_frontier = true;
    let settings = Settings { victims, pacing, one_frontier, ..Settings::default() };
    Fast::new(Ftl::new(shape, settings).expect("a sound drive"))
}

/// Returns the amplification of `rounds` overwrites after `warm` overwrites.
fn measured(fast: &mut Fast, warm: u64, rounds: u64, next: &mut dyn FnMut(&mut Fast)) -> f64 {
    let slots = u64::from(fast.ftl().shape().logical_slots);
    (0..slots as u32).for_each(|slot| fast.write(slot));
    (0..warm * slots).for_each(|_| next(fast));
    let before = *fast.ftl().counters();
    (0..rounds * slots).for_each(|_| next(fast));
    fast.ftl().counters().amplification_since(&before)
}

fn uniform(victims: Victims, spare: f64) -> (f64, f64) {
    let mut fast = drive(1000, spare, victims);
    let mut random = Random::new(11);
    let slots = fast.ftl().shape().logical_slots;
    let found = measured(&mut fast, 3, 3, &mut |fast| fast.write(random.below(slots)));
    fast.ftl().audit();
    (found, fast.ftl().alpha())
}

fn assert_near(found: f64, expected: f64, tolerance: f64) {
    let error = found / expected - 1.0;
    assert!(error.abs() < tolerance, "{found} instead of {expected}: {error:+.4}");
}

#[test]
fn fifo_amplifies_as_theory_says() {
    for spare in [0.12, 0.30] {
        let (found, alpha) = uniform(Victims::Fifo, spare);
        assert_near(found, theory::fifo(alpha), 0.01);
    }
}

#[test]
fn greedy_amplifies_as_theory_says() {
    for spare in [0.12, 0.30] {
        let (found, alpha) = uniform(Victims::Greedy, spare);
        assert_near(found, theory::greedy(alpha, BLOCK), 0.01);
    }
}

#[test]
fn random_choices_amplify_as_theory_says() {
    for count in [1, 2, 5] {
        let (found, alpha) = uniform(Victims::Choices(count), 0.30);
        assert_near(found, theory::choices(alpha, BLOCK, count), 0.01);
    }
}

#[test]
fn hot_and_cold_data_in_one_log_amplify_as_theory_says() {
    let mut fast = drive(1000, 0.25, Victims::Fifo);
    let slots = fast.ftl().shape().logical_slots;
    let mut random = Random::new(5);
    let hot = slots / 5;
    let found = measured(&mut fast, 4, 4, &mut |fast| {
        let slot = match random.below(5) {
            4 => hot + random.below(slots - hot),
            _ => random.below(hot),
        };
        fast.write(slot);
    });
    assert_near(found, theory::fifo_hot_cold(fast.ftl().alpha(), 0.8, 0.2), 0.01);
}

#[test]
fn trims_lower_the_amplification_as_theory_says() {
    for trims in [0.1, 0.2] {
        let mut fast = drive(1000, 0.12, Victims::Fifo);
        let slots = fast.ftl().shape().logical_slots;
        let mut random = Random::new(5);
        // The mapped share settles slowly.
        let found = measured(&mut fast, 10, 4, &mut |fast| {
            if random.share() < trims {
                // A random mapped slot.
                while !fast.trim(random.below(slots)) {}
            } else {
                fast.write(random.below(slots));
            }
        });
        let mapped = theory::mapped_under_trim(trims);
        assert_near(found, theory::fifo(fast.ftl().alpha() / mapped), 0.01);
    }
}

#[test]
fn pacing_does_not_change_the_amplification() {
    let run = |pacing| {
        let shape = Shape {
            logical_slots: 300_000,
            superblocks: 700,
            dies: 4,
            unit_slots: 4,
            pages: 32,
            slc_pages: 10,
        };
        let settings = Settings { pacing, ..Settings::default() };
        let mut fast = Fast::new(Ftl::new(shape, settings).expect("a sound drive"));
        let mut random = Random::new(3);
        let found = measured(&mut fast, 3, 2, &mut |fast| fast.write(random.below(300_000)));
        fast.ftl().audit();
        (found, theory::greedy(fast.ftl().alpha(), 512))
    };
    for pacing in [
        Pacing::Paced { free_superblocks: 4 },
        Pacing::Burst { low: 2, high: 6, gain: 0 },
        Pacing::Burst { low: 3, high: 6, gain: 3 },
    ] {
        let (found, expected) = run(pacing);
        assert_near(found, expected, 0.015);
    }
}

#[test]
fn the_same_seed_gives_the_same_drive_and_another_one_another() {
    let run = |seed| {
        let mut fast = drive(200, 0.2, Victims::Choices(3));
        fast.write_sequential(0, 20_000);
        fast.write_random(10_000, 50_000, &mut Random::new(seed));
        (*fast.ftl().counters(), fast.ftl().erases().to_vec())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Returns a drive with an area of 20 SLC superblocks.
fn with_slc(slc: SlcSettings) -> Fast {
    let shape = Shape {
        logical_slots: 50_000,
        superblocks: 160,
        dies: 4,
        unit_slots: 4,
        pages: 24,
        slc_pages: 8,
    };
    let settings = Settings { slc, ..Settings::default() };
    Fast::new(Ftl::new(shape, settings).expect("a sound drive"))
}

const STATIC: SlcSettings = SlcSettings {
    static_superblocks: 10,
    dynamic_superblocks: 0,
    full: SlcFull::Direct,
    fold_when_idle: true,
    trimmed_when_idle: false,
};

#[test]
fn a_full_slc_area_is_passed_and_idle_time_empties_it() {
    let mut fast = with_slc(STATIC);
    let area = 10 * 4 * 4 * 8;
    fast.write_sequential(0, 5_000);
    assert_eq!(fast.ftl().counters().slc_programs, area);
    assert_eq!(fast.ftl().slc_valid_slots(), area);
    fast.idle();
    fast.ftl().audit();
    assert_eq!((fast.ftl().slc_valid_slots(), fast.ftl().counters().folds), (0, area));
    fast.write_sequential(5_000, 100);
    assert_eq!(fast.ftl().counters().slc_programs, area + 100);
}

#[test]
fn a_trimmed_slc_area_is_used_again_at_once_or_after_idle_time() {
    let area = 10 * 4 * 4 * 8;
    for (trimmed_when_idle, at_once) in [(false, area), (true, 0)] {
        let mut fast = with_slc(SlcSettings { trimmed_when_idle, ..STATIC });
        fast.write_sequential(0, 5_000);
        (0..5_000).for_each(|slot| _ = fast.trim(slot));
        fast.write_sequential(0, 5_000);
        assert_eq!(fast.ftl().counters().slc_programs, area + at_once);
        fast.ftl().audit();
        fast.idle();
        fast.write_sequential(0, 5_000);
        assert_eq!(fast.ftl().counters().slc_programs, 2 * area + at_once);
        // Overwritten slots that were not trimmed are reused without idle time.
        fast.write_sequential(0, 5_000);
        assert!(fast.ftl().counters().slc_programs > 2 * area + at_once);
        fast.ftl().audit();
    }
}

#[test]
fn where_writes_must_fold_first_all_of_them_go_through_the_area() {
    let mut fast = with_slc(SlcSettings { full: SlcFull::FoldFirst, ..STATIC });
    fast.write_sequential(0, 40_000);
    fast.ftl().audit();
    let counters = fast.ftl().counters();
    assert_eq!(counters.slc_programs, 40_000);
    assert!(counters.folds > 38_000, "{}", counters.folds);
}

#[test]
fn a_dynamic_area_shrinks_as_the_drive_fills_and_random_writes_survive_it() {
    let settings = SlcSettings { static_superblocks: 0, dynamic_superblocks: 60, ..STATIC };
    let mut fast = with_slc(settings);
    fast.write_sequential(0, 50_000);
    let first = fast.ftl().counters().slc_programs;
    assert!((5_000..8_000).contains(&first), "{first}");
    fast.idle();
    fast.ftl().audit();
    assert_eq!(fast.ftl().slc_valid_slots(), 0);
    fast.write_random(50_000, 400_000, &mut Random::new(9));
    fast.idle();
    fast.ftl().audit();
    // The drive is full of data, so little can be borrowed again.
    let second = fast.ftl().counters().slc_programs - first;
    assert!(second < 200_000, "{second}");
}

#[test]
fn every_mixture_of_operations_keeps_the_books() {
    for (seed, victims) in
        [Victims::Greedy, Victims::Fifo, Victims::Choices(4), Victims::CostBenefit]
            .into_iter()
            .enumerate()
    {
        let mut random = Random::new(seed as u64);
        let shape = *with_slc(STATIC).ftl().shape();
        let trimmed_when_idle = seed % 2 == 1;
        let slc = SlcSettings { dynamic_superblocks: 20, trimmed_when_idle, ..STATIC };
        let settings = Settings {
            victims,
            slc,
            trim_256: 200,
            idle_free_superblocks: 30,
            ..Settings::default()
        };
        let mut fast = Fast::new(Ftl::new(shape, settings).expect("a sound drive"));
        for _ in 0..300_000 {
            match random.below(1000) {
                0 => fast.flush(),
                1 => fast.idle(),
                2..100 => _ = fast.trim(random.below(50_000)),
                100..110 => fast.write_sequential(random.below(50_000), 200),
                _ => fast.write(random.below(50_000)),
            }
        }
        fast.ftl().audit();
    }
}

#[test]
fn a_hybrid_mapping_merges_what_lies_in_its_log() {
    let shape = Shape {
        logical_slots: 20_000,
        superblocks: 100,
        dies: 4,
        unit_slots: 2,
        pages: 32,
        slc_pages: 0,
    };
    let settings = Settings { log_blocks: 4, ..Settings::default() };
    let new = || Fast::new(Ftl::new(shape, settings).expect("a sound drive"));
    // Sequential writes copy nothing: full log blocks become data blocks.
    let mut fast = new();
    for _ in 0..3 {
        fast.write_sequential(0, 20_000);
    }
    fast.ftl().audit();
    let moved = fast.ftl().counters().relocations;
    assert!(moved < 600, "{moved} slots were merged under sequential writes");
    // With random writes every log block of 256 slots is merged with all of the 79 logical blocks
    // again.
    let before = *fast.ftl().counters();
    fast.write_random(20_000, 40_000, &mut Random::new(4));
    fast.ftl().audit();
    let found = fast.ftl().counters().amplification_since(&before);
    // Four log blocks hold 13 slots of each logical block when it is merged.
    assert!((10.0..40.0).contains(&found), "{found}");
    // A page map does the same at a fraction of the cost.
    let mut pages = Fast::new(Ftl::new(shape, Settings::default()).expect("a sound drive"));
    pages.write_sequential(0, 20_000);
    let before = *pages.ftl().counters();
    pages.write_random(20_000, 40_000, &mut Random::new(4));
    let page_map = pages.ftl().counters().amplification_since(&before);
    assert!(page_map < found / 4.0, "{page_map} against {found}");
    // While there are blocks that were never used, nothing is merged.
    let mut fresh = new();
    fresh.write_random(20_000, 2_000, &mut Random::new(4));
    assert_eq!(fresh.ftl().counters().relocations, 0);
    fresh.ftl().audit();
}

#[test]
fn every_mixture_of_operations_keeps_the_books_of_a_hybrid_mapping() {
    let shape = Shape {
        logical_slots: 5_000,
        superblocks: 60,
        dies: 4,
        unit_slots: 2,
        pages: 16,
        slc_pages: 0,
    };
    for (seed, log_blocks) in [(1, 1), (2, 3), (3, 8)] {
        let settings = Settings { log_blocks, idle_free_superblocks: 12, ..Settings::default() };
        let mut fast = Fast::new(Ftl::new(shape, settings).expect("a sound drive"));
        let mut random = Random::new(seed);
        for step in 0..60_000 {
            match random.below(1000) {
                0 => fast.flush(),
                1 => fast.idle(),
                2..4 => fast.write_sequential(random.below(5_000) / 128 * 128, 300),
                4..100 => _ = fast.trim(random.below(5_000)),
                _ => fast.write(random.below(5_000)),
            }
            if step % 5_000 == 0 {
                fast.ftl().audit();
            }
        }
        fast.ftl().audit();
    }
}
