//! The longest wait of a request: never longer than the drive's work for it explains.

use drives::{Drive, Kind, Model, Op, Options, Random, Timed};

const SECOND: u64 = 1_000_000_000;

fn flash(name: &str) -> Option<(Timed, u64)> {
    let model = Model::preset(name).expect("a preset");
    let Kind::Flash(kind) = &model.kind else { return None };
    let Drive::Flash(drive) = model.drive(&Options::default()).expect("a sound drive") else {
        return None;
    };
    // Larger than any static SLC area.
    Some((*drive, kind.slc_static_bytes + 2_000_000_000))
}

/// Returns the maximum time for a request: the step of background work under way, the buffer before
/// it, and the slots relocated during it.
fn explained_ns(drive: &Timed, relocated: u64, pages: u64) -> u64 {
    let (shape, timing) = (drive.ftl().shape(), drive.timing());
    let slots = u64::from(shape.dies * shape.unit_slots);
    let unit = timing.program_ns + u64::from(shape.unit_slots) * timing.channel_slot_ns;
    let step = slots * timing.firmware_relocate_ns
        + 4 * (unit + timing.erase_ns + timing.read_ns * u64::from(shape.unit_slots));
    let moved = relocated * (timing.firmware_relocate_ns + timing.read_ns + unit);
    let map = pages * (timing.read_ns + unit);
    2 * step + moved + map + 10_000_000
}

#[test]
fn no_drive_answers_later_than_its_cleaning_explains() {
    for name in Model::names() {
        let Some((mut drive, burst)) = flash(name) else { continue };
        let sectors = u64::from(drive.ftl().shape().logical_slots) * 8;
        let mut random = Random::new(3);
        let (mut now, mut at) = (0, 0);
        for seconds in [1, 20, 60, 3600] {
            for _ in 0..burst / 131_072 {
                at = if at + 256 > sectors { 0 } else { at };
                now = drive.submit(now, Op::Write { first: at, count: 256 });
                at += 256;
            }
            now += seconds * SECOND;
            for number in 0..8 {
                let first = u64::from(random.below((sectors / 8) as u32)) * 8;
                let op = match number % 2 {
                    0 => Op::Write { first, count: 8 },
                    _ => Op::Read { first, count: 8 },
                };
                // Idle work before the request is not done for it.
                drive.idle(now);
                let before = *drive.ftl().counters();
                let end = drive.submit(now, op);
                let after = drive.ftl().counters();
                let relocated = after.relocations + after.folds - before.relocations - before.folds;
                let pages =
                    after.map_reads + after.map_programs - before.map_reads - before.map_programs;
                let most = explained_ns(&drive, relocated, pages);
                assert!(
                    end - now <= most,
                    "{name}: after {seconds} s, {op:?} took {} us; {} explain themselves",
                    (end - now) / 1000,
                    most / 1000
                );
                now = end;
            }
        }
        drive.ftl().audit();
    }
}

#[test]
fn a_drive_of_more_dies_is_no_slower_after_idle_time() {
    let rate = |size: u32| {
        let (mut drive, burst) = flash(&format!("samsung-840-evo-{size}")).expect("a flash drive");
        let mut now = 0;
        for request in 0..burst / 131_072 {
            now = drive.submit(now, Op::Write { first: request * 256, count: 256 });
        }
        now += 20 * SECOND;
        let (start, count) = (now, 8000);
        for request in 0..count {
            now = drive.submit(now, Op::Write { first: request * 256, count: 256 });
        }
        count as f64 * 131_072.0 * 1e3 / (now - start) as f64
    };
    let (small, large) = (rate(250), rate(1000));
    assert!(large > 0.95 * small, "250 GB {small} MB/s, 1 TB {large} MB/s");
}

#[test]
fn large_writes_one_at_a_time_are_as_fast_as_smaller_ones() {
    let rate = |mib: u64| {
        let (mut drive, _) = flash("samsung-840-evo-250").expect("a flash drive");
        let (mut now, sectors) = (0, mib * 2048);
        let count = 1024 / mib;
        for request in 0..count {
            let first = request * sectors;
            now = drive.submit(now, Op::Write { first, count: sectors as u32 });
        }
        ((count * mib) << 20) as f64 * 1e3 / now as f64
    };
    let best = rate(1);
    for mib in [2, 4, 8, 16, 64] {
        let found = rate(mib);
        assert!(found > 0.97 * best, "{mib} MiB: {found} MB/s, 1 MiB: {best} MB/s");
    }
}

#[test]
fn a_hard_disk_reads_before_it_empties_its_cache() {
    let model = Model::preset("wd-velociraptor-1000").expect("a preset");
    let Drive::Disk(mut disk) = model.drive(&Options::default()).expect("a sound disk") else {
        panic!("a disk");
    };
    let slots = (model.user_bytes() / 4096) as u32;
    let (mut random, mut now) = (Random::new(5), 0);
    for _ in 0..3000 {
        let first = u64::from(random.below(slots)) * 8;
        now = disk.submit(now, Op::Write { first, count: 8 });
    }
    assert!(disk.at_risk_bytes(now) > 8 << 20, "most of it waits in the cache");
    let mut most = 0;
    for _ in 0..100 {
        let first = u64::from(random.below(slots)) * 8;
        let end = disk.submit(now, Op::Read { first, count: 8 });
        most = most.max(end - now);
        now = end;
    }
    // One write under way, a seek over the whole surface, a revolution: each of the three at most
    // twice.
    assert!(most < 50_000_000, "{} ms", most / 1_000_000);
    assert!(disk.at_risk_bytes(now) > 8 << 20, "reads came first");
    // Time without reads empties it, and a flush waits for it.
    disk.idle(now + 60 * SECOND);
    assert_eq!(disk.at_risk_bytes(now + 60 * SECOND), 0);
}

#[test]
fn after_a_trim_and_idle_time_a_dynamic_area_is_whole_again() {
    let (drive, _) = flash("intel-660p-1000").expect("a flash drive");
    let slots = drive.ftl().shape().logical_slots;
    let mut drive = drive.fast_forward(|fast| {
        fast.write_sequential(0, u64::from(slots));
        fast.write_random(slots, u64::from(slots / 8), &mut Random::new(2));
    });
    let now = drive.submit(0, Op::Trim { first: 0, count: u64::from(slots) * 8 });
    drive.idle(now + 60 * SECOND);
    let before = drive.ftl().counters().slc_programs;
    let drive = drive.fast_forward(|fast| fast.write_sequential(0, 50_000_000));
    let area = (drive.ftl().counters().slc_programs - before) * 4096;
    assert!((130_000_000_000..150_000_000_000).contains(&area), "{area} bytes");
}

#[test]
fn a_burst_of_cleaning_lets_writes_through() {
    let text = "like = \"ocz-revodrive-350-480\"\ntitle = \"An eighth of it\"\n\
        [capacity]\nuser_bytes = [60012997632, \"test\"]\n[nand]\nblocks = [256, \"test\"]\n";
    let longest = |gain: u32| {
        let text = format!("{text}[ftl]\nburst_gain = [{gain}, \"test\"]\n");
        let model = Model::parse("an eighth", &text).expect("a sound file");
        let Drive::Flash(drive) = model.drive(&Options::default()).expect("a sound drive") else {
            panic!("a flash drive");
        };
        let slots = drive.ftl().shape().logical_slots;
        let mut random = Random::new(7);
        let mut drive = drive.fast_forward(|fast| {
            fast.write_sequential(0, u64::from(slots));
            fast.write_random(slots, u64::from(slots), &mut random);
        });
        let mut waiting = std::collections::VecDeque::from([0; 32]);
        let (mut now, mut longest) = (0, 0);
        for _ in 0..600_000 {
            let next = waiting.pop_front().expect("32 under way").max(now);
            longest = longest.max(next - now);
            now = next;
            let first = u64::from(random.below(slots)) * 8;
            waiting.push_back(drive.submit(now, Op::Write { first, count: 8 }));
        }
        drive.ftl().audit();
        longest
    };
    let (at_once, beside) = (longest(0), longest(3));
    assert!(at_once > 2 * SECOND, "all at once: {} ms", at_once / 1_000_000);
    assert!(beside < SECOND / 4, "beside writes: {} ms", beside / 1_000_000);
}
