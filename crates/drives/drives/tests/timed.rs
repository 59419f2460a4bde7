//! The timed driver: statements of theory and of reviewers that a small run can check, and its own
//! guarantees.

use drives::{
    Drive, Ftl, Model, Op, Options, Pacing, Random, Settings, Shape, Spread, Timed, Timing, theory,
};

fn preset(name: &str) -> Timed {
    let model = Model::preset(name).expect("a preset");
    match model.drive(&Options::default()).expect("a sound drive") {
        Drive::Flash(flash) => *flash,
        Drive::Disk(_) => panic!("{name} is a flash drive"),
    }
}

/// Returns a drive of half a gigabyte with the times of an 840 EVO, without any spread.
fn small() -> Timed {
    let timing = Timing { spread: Spread::NONE, ..*preset("samsung-840-evo-250").timing() };
    let shape = Shape {
        logical_slots: 120_000,
        superblocks: 280,
        dies: 4,
        unit_slots: 4,
        pages: 32,
        slc_pages: 10,
    };
    let settings =
        Settings { pacing: Pacing::Paced { free_superblocks: 4 }, ..Settings::default() };
    Timed::new(Ftl::new(shape, settings).expect("a sound drive"), timing)
}

/// Writes random 4 KiB one after another with `depth` waiting; returns when the last one completes.
fn write(timed: &mut Timed, start: u64, depth: u64, count: u64, random: &mut Random) -> u64 {
    let slots = timed.ftl().shape().logical_slots;
    let mut waiting: std::collections::VecDeque<u64> = (0..depth).map(|_| start).collect();
    let mut last = start;
    for _ in 0..count {
        last = waiting.pop_front().expect("a request").max(last);
        let first = u64::from(random.below(slots)) * 8;
        waiting.push_back(timed.submit(last, Op::Write { first, count: 8 }));
    }
    last
}

#[test]
fn steady_random_writes_are_as_fast_as_the_dies_allow() {
    let timing = Timing { firmware_relocate_ns: 0, read_slots: 1, ..*small().timing() };
    let ftl = small().fast_forward(|fast| {
        fast.write_sequential(0, 120_000);
        fast.write_random(120_000, 400_000, &mut Random::new(1));
    });
    let ftl = ftl.into_ftl();
    let mut timed = Timed::new(ftl, timing);
    let mut random = Random::new(2);
    let start = write(&mut timed, 0, 32, 20_000, &mut random);
    let before = *timed.ftl().counters();
    let end = write(&mut timed, start, 32, 100_000, &mut random);
    let shape = *timed.ftl().shape();
    let times = theory::DieTimes {
        dies: f64::from(shape.dies),
        unit_slots: f64::from(shape.unit_slots),
        superblock_slots: f64::from(shape.superblock_slots()),
        program_ns: timing.program_ns as f64,
        read_ns: timing.read_ns as f64,
        erase_ns: timing.erase_ns as f64,
        transfer_ns: timing.channel_slot_ns as f64,
    };
    let amplification = timed.ftl().counters().amplification_since(&before);
    let expected = theory::die_bound_iops(&times, amplification);
    let found = 100_000.0 * 1e9 / (end - start) as f64;
    assert!((found / expected - 1.0).abs() < 0.03, "{found} instead of {expected}");
}

#[test]
fn a_single_write_of_an_840_evo_takes_43_us() {
    let mut timed = preset("samsung-840-evo-120");
    let mut now = 0;
    for slot in 0..1000 {
        now = timed.submit(now, Op::Write { first: slot * 8, count: 8 });
    }
    let us = now as f64 / 1e6;
    assert!((us / 43.5 - 1.0).abs() < 0.1, "{us} us");
}

#[test]
fn latencies_spread_and_follow_from_the_seed() {
    let run = |seed: u64| {
        let model = Model::preset("samsung-840-evo-250").expect("a preset");
        let options = Options { seed, ..Options::default() };
        let Drive::Flash(mut drive) = model.drive(&options).expect("a sound drive") else {
            panic!("a flash drive");
        };
        let mut now = 0;
        let mut one = |op: Op| {
            let end = drive.submit(now, op);
            let took = end - now;
            now = end;
            took
        };
        // More than the SLC area, so that reads meet all kinds of pages.
        (0..40_000).for_each(|number| _ = one(Op::Write { first: number * 256, count: 256 }));
        let mut random = Random::new(9);
        let reads: Vec<u64> = (0..20_000)
            .map(|_| one(Op::Read { first: u64::from(random.below(1_200_000)) * 8, count: 8 }))
            .collect();
        let writes: Vec<u64> = (0..100_000)
            .map(|_| one(Op::Write { first: u64::from(random.below(1_200_000)) * 8, count: 8 }))
            .collect();
        (reads, writes)
    };
    let (mut reads, mut writes) = run(1);
    assert_eq!(run(1), (reads.clone(), writes.clone()), "the same seed");
    assert_ne!(run(2).1, writes, "another one");
    reads.sort_unstable();
    writes.sort_unstable();
    let at = |sorted: &[u64], percent: usize| sorted[(sorted.len() - 1) * percent / 100];
    // From an SLC page over the three pages of a cell: about 35, 53, 73 and 99 us of reading.
    assert!(at(&reads, 95) > at(&reads, 5) * 7 / 5, "{} {}", at(&reads, 5), at(&reads, 95));
    assert!(at(&writes, 50) < at(&writes, 99) && at(&writes, 99) < at(&writes, 100) / 2);
}

#[test]
fn turbowrite_ends_where_it_should_and_idle_time_empties_it() {
    let mut timed = preset("samsung-840-evo-120");
    let mut now = 0;
    let mut rates = Vec::new();
    // 3 GB at over 400 MB/s, then the rate of the flash behind it.
    for step in 0..90u64 {
        let start = now;
        for request in 0..400 {
            let first = (step * 400 + request) * 256;
            now = timed.submit(now, Op::Write { first, count: 256 });
        }
        rates.push(400.0 * 131_072.0 * 1e3 / (now - start) as f64);
    }
    let knee = rates.iter().position(|rate| *rate < 250.0).expect("a knee") as f64;
    let gigabytes = knee * 400.0 * 131_072.0 / 1e9;
    assert!((gigabytes / 3.0 - 1.0).abs() < 0.05, "{gigabytes} GB");
    assert!((rates[89] / 143.0 - 1.0).abs() < 0.1, "{} MB/s", rates[89]);
    timed.idle(now + 14_000_000_000);
    assert!(timed.ftl().slc_valid_slots() > 0);
    timed.idle(now + 31_000_000_000);
    assert_eq!(timed.ftl().slc_valid_slots(), 0);
    timed.ftl().audit();
}

#[test]
fn a_flush_waits_for_the_flash_unless_the_buffer_is_protected() {
    let mut timed = small();
    let written = timed.submit(0, Op::Write { first: 0, count: 8 });
    let flushed = timed.submit(written, Op::Flush);
    let program = timed.timing().program_ns;
    assert!(flushed - written > program, "{} ns", flushed - written);
    assert!((written..=flushed).contains(&timed.programmed_ns()));
    assert_eq!(timed.ftl().counters().padding, 3);
    let timing = Timing { protected: true, flush_ns: 10_000, ..*timed.timing() };
    let mut timed = Timed::new(timed.into_ftl(), timing);
    timed.submit(0, Op::Write { first: 0, count: 8 });
    assert!(timed.submit(1_000_000, Op::Flush) < 1_100_000);
}

#[test]
fn a_power_cut_loses_what_was_not_flushed_and_nothing_else() {
    for seed in 0..20 {
        let mut timed = small();
        let mut now = 0;
        for slot in 0..100 {
            now = timed.submit(now, Op::Write { first: slot * 8, count: 8 });
        }
        now = timed.submit(now, Op::Flush);
        for slot in 50..63 {
            now = timed.submit(now, Op::Write { first: slot * 8, count: 8 });
        }
        let lost = timed.power_cut(now, seed);
        assert!(lost.iter().all(|slot| (50..63).contains(slot)), "{lost:?}");
        // The last slot's unit was never begun; units are lost as a whole.
        assert!(lost.contains(&62), "{lost:?}");
        let units = lost.iter().filter(|slot| **slot < 62).map(|slot| (slot - 50) / 4);
        let mut sizes = [0; 3];
        units.for_each(|unit| sizes[unit as usize] += 1);
        assert!(sizes.iter().all(|size| [0, 4].contains(size)), "{lost:?}");
        timed.ftl().audit();
        assert!(timed.power_cut(now, seed).is_empty(), "what is gone is not lost twice");
        now = timed.submit(now, Op::Write { first: 0, count: 8 });
        timed.submit(now, Op::Flush);
        timed.ftl().audit();
    }
}

#[test]
fn a_power_cut_loses_nothing_that_was_flushed_where_a_unit_under_way_was_merged() {
    let shape = Shape {
        logical_slots: 1_000,
        superblocks: 18,
        dies: 4,
        unit_slots: 2,
        pages: 16,
        slc_pages: 0,
    };
    let settings = Settings { log_blocks: 2, buffer_slots: 1024, ..Settings::default() };
    for seed in 0..40 {
        let ftl = Ftl::new(shape, settings).expect("a sound drive");
        let mut timed = Timed::new(ftl, *small().timing());
        let mut now = timed.submit(0, Op::Write { first: 0, count: 8_000 });
        let mut random = Random::new(seed);
        for _ in 0..4_000 {
            now = timed
                .submit(now, Op::Write { first: u64::from(random.below(1_000)) * 8, count: 8 });
        }
        let now = timed.submit(now, Op::Flush);
        // Log blocks are merged and reused while their data is still under way. Odd slots are only
        // moved.
        let mut written = std::collections::BTreeSet::new();
        for _ in 0..900 {
            let slot = u64::from(random.below(500)) * 2;
            timed.submit(now, Op::Write { first: slot * 8, count: 8 });
            written.insert(slot);
        }
        timed.ftl().audit();
        let lost = timed.power_cut(now + 1_000_000, seed);
        assert!(lost.iter().all(|slot| written.contains(slot)), "flushed and lost: {lost:?}");
        timed.ftl().audit();
    }
}

#[test]
fn a_protected_buffer_loses_nothing() {
    let timing = Timing { protected: true, ..*small().timing() };
    let mut timed = Timed::new(small().into_ftl(), timing);
    let now = timed.submit(0, Op::Write { first: 0, count: 8 });
    assert!(timed.power_cut(now, 1).is_empty());
}

#[test]
fn old_data_are_read_slowly_and_rewriting_mends_that() {
    let mut timed = small();
    let mut now = 0;
    for slot in 0..1000 {
        now = timed.submit(now, Op::Write { first: slot * 8, count: 8 });
    }
    now = timed.submit(now, Op::Flush);
    let read =
        |timed: &mut Timed, now: u64| timed.submit(now, Op::Read { first: 4000, count: 8 }) - now;
    let fresh = read(&mut timed, now);
    now += 60 * 86_400_000_000_000;
    let old = read(&mut timed, now);
    assert!(old > 10 * fresh, "{fresh} ns, then {old} ns");
    // Enough to open another superblock.
    for slot in 0..1000 {
        now = timed.submit(now + 1_000_000, Op::Write { first: slot * 8, count: 8 });
    }
    now = timed.submit(now, Op::Flush) + 1_000_000_000;
    assert!(read(&mut timed, now) < 2 * fresh);
}

#[test]
fn a_write_of_half_a_slot_waits_for_the_rest_in_a_buffer_of_slots() {
    let timing = Timing { sectors_buffered: false, ..*small().timing() };
    let mut timed = Timed::new(small().into_ftl(), timing);
    let now = timed.submit(0, Op::Write { first: 0, count: 8 });
    let now = timed.submit(now, Op::Flush);
    let whole = timed.submit(now, Op::Write { first: 8, count: 8 }) - now;
    let now = now + 1_000_000;
    let half = timed.submit(now, Op::Write { first: 0, count: 4 }) - now;
    assert!(half >= whole + timed.timing().read_ns, "{whole} ns, then {half} ns");
}

#[test]
fn reads_go_before_waiting_programs() {
    let mut timed = small();
    let mut now = 0;
    for slot in 0..256 {
        now = timed.submit(now, Op::Write { first: slot * 8, count: 8 });
    }
    now = timed.submit(now, Op::Flush);
    // Sixteen units per die wait: over 15 ms.
    for slot in 256..500 {
        timed.submit(now, Op::Write { first: slot * 8, count: 8 });
    }
    let took = timed.submit(now, Op::Read { first: 0, count: 8 }) - now;
    assert!(took < 5_000_000, "{took} ns");
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let run = |seed| {
        let mut timed = small();
        let mut random = Random::new(seed);
        let mut now = 0;
        let mut ends = Vec::new();
        for _ in 0..200_000 {
            let first = u64::from(random.below(119_000)) * 8;
            let count = 8 * (1 + random.below(4));
            let op = match random.below(100) {
                0 => Op::Flush,
                1 => Op::Trim { first, count: u64::from(count) },
                2..40 => Op::Read { first, count },
                _ => Op::Write { first, count },
            };
            let end = timed.submit(now, op);
            assert!(end >= now);
            now += u64::from(random.below(300_000));
            ends.push(end);
        }
        timed.ftl().audit();
        ends
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

#[test]
fn compressible_data_make_more_room_and_fewer_programs() {
    let model = Model::preset("sandforce-sf-2281-240").expect("a preset");
    let programs = |data_share| {
        let options = Options { data_share, ..Options::default() };
        let Drive::Flash(mut drive) = model.drive(&options).expect("a sound drive") else {
            panic!("a flash drive");
        };
        let mut now = 0;
        for request in 0..4000 {
            now = drive.submit(now, Op::Write { first: request * 256, count: 256 });
        }
        (drive.ftl().shape().unit_slots, now)
    };
    let ((slots, slow), (more, fast)) = (programs(1.0), programs(0.3));
    assert!(more > 3 * slots && slow > fast * 3 / 2, "{slots} {more} {slow} {fast}");
}

#[test]
fn a_hard_disk_seeks_turns_and_streams() {
    let model = Model::preset("wd-velociraptor-1000").expect("a preset");
    let Drive::Disk(mut disk) = model.drive(&Options::default()).expect("a sound disk") else {
        panic!("a disk");
    };
    let mut now = 0;
    for request in 0..4000 {
        now = disk.submit(now, Op::Read { first: request * 256, count: 256 });
    }
    let rate = 4000.0 * 131_072.0 * 1e3 / now as f64;
    assert!((rate / 200.0 - 1.0).abs() < 0.1, "{rate} MB/s");
    let sectors = model.user_bytes() / 512;
    let mut random = Random::new(1);
    let start = now;
    for _ in 0..1000 {
        let first = (random.bits() % (sectors - 8)) / 8 * 8;
        now = disk.submit(now, Op::Read { first, count: 8 });
    }
    let ms = (now - start) as f64 / 1e9;
    // 3.6 ms of seek and half a turn of 6 ms.
    assert!((ms / 6.7 - 1.0).abs() < 0.1, "{ms} ms");
    let written = disk.submit(now, Op::Write { first: 0, count: 8 });
    assert!(written - now < 1_000_000 && disk.at_risk_bytes(written) == 4096);
    let flushed = disk.submit(written, Op::Flush);
    assert_eq!((disk.at_risk_bytes(flushed), disk.settled_ns()), (0, flushed));
    let written = disk.submit(flushed, Op::Write { first: 8, count: 8 });
    assert!(disk.is_waiting(15, 1) && !disk.is_waiting(16, 8) && !disk.is_waiting(0, 8));
    disk.power_cut(written);
    assert_eq!((disk.at_risk_bytes(written), disk.settled_ns()), (0, written));
}

#[test]
fn what_was_trimmed_is_worked_off_behind_the_hosts_commands_and_in_idle_time() {
    let new = || {
        let timing = Timing { trim_slot_ns: 10_000, trim_slots_at_once: 8, ..*small().timing() };
        let mut timed = Timed::new(small().into_ftl(), timing);
        let mut now = 0;
        for slot in 0..10_000 {
            now = timed.submit(now, Op::Write { first: slot * 8, count: 8 });
        }
        let now = timed.submit(now, Op::Flush);
        (timed, now)
    };
    // 0.1 s of work in slices of 80 us, one after each write.
    let rate = |timed: &mut Timed, start: u64| {
        let mut now = start;
        for slot in 0..1000 {
            now = timed.submit(now, Op::Write { first: slot * 8, count: 8 });
        }
        (now - start) / 1000
    };
    let (mut timed, now) = new();
    let usual = rate(&mut timed, now);
    let (mut timed, now) = new();
    let trimmed = timed.submit(now, Op::Trim { first: 0, count: 80_000 });
    assert!(trimmed - now < 1_000_000, "the command itself is quick");
    let at_once = rate(&mut timed, trimmed);
    assert!(at_once > usual + 30_000, "{usual} ns, {at_once} ns after a TRIM");
    // Trimmed slots are free in any case, and idle time alone is enough.
    let (mut timed, now) = new();
    let trimmed = timed.submit(now, Op::Trim { first: 0, count: 80_000 });
    assert_eq!(timed.ftl().find(5), drives::Found::Nowhere);
    let later = rate(&mut timed, trimmed + 10_000_000_000);
    assert!(later < usual + 5_000, "{usual} ns, {later} ns after a TRIM and idle time");
}

#[test]
fn a_drive_without_work_is_not_active() {
    let mut drive = preset("samsung-840-evo-250");
    let mut now = 0;
    for request in 0..8_000 {
        now = drive.submit(now, Op::Write { first: request * 256, count: 256 });
    }
    drive.idle(now + 3_600_000_000_000);
    // A gigabyte is written in two seconds, and folded in some more.
    let seconds = drive.active_ns() / 1_000_000_000;
    assert!((4..30).contains(&seconds), "{seconds} s");
}
