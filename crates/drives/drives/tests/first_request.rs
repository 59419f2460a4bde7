//! Waits that no review shows: of the first request after idle time, and of a second of random
//! writes, also in the moment in which the last unused flash has been written.

use drives::{Drive, FlashModel, Kind, Model, Op, Options, Random, Timed};
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// Superblocks of a part: few, so that they are soon used.
const SUPERBLOCKS: u64 = 32;

/// The factor by which the blocks of another part are shorter.
const SHORTER: u64 = 32;

/// Free superblocks at which all drives are about to clean or merge.
const FEW: u32 = 6;

/// Returns a preset with these further keys and a part of its bytes. None: they do not fit.
fn part(name: &str, flash: &FlashModel, share: u64, nand: &str) -> Option<Timed> {
    let text = format!(
        "like = \"{name}\"\ntitle = \"a part\"\n[capacity]\nuser_bytes = [{}, \"test\"]\n\
         [slc]\nstatic_bytes = [{}, \"test\"]\ndynamic_bytes = [{}, \"test\"]\n[nand]\n{nand}",
        flash.user_bytes / share,
        flash.slc_static_bytes / share,
        flash.slc_dynamic_bytes / share,
    );
    match Model::parse(name, &text).ok()?.drive(&Options::default()).ok()? {
        Drive::Flash(drive) => Some(*drive),
        Drive::Disk(_) => None,
    }
}

/// Returns a drive with all its dies and a part of their blocks, which are whole: the steps of its
/// idle work are those of the whole drive.
fn of_few_blocks(name: &str, flash: &FlashModel) -> Timed {
    let share = (u64::from(flash.blocks) / SUPERBLOCKS).max(1);
    // Drives keep some superblocks free whatever their size, and more for a map on the flash.
    let with = |kept: u64| {
        let blocks = u64::from(flash.blocks) / share + kept;
        part(name, flash, share, &format!("blocks = [{blocks}, \"test\"]\n"))
    };
    (4..64).find_map(with).expect("a sound drive")
}

/// Returns a drive with all its blocks, which are shorter: a log block has slots of a part of the
/// logical blocks only, as in the whole drive. Work for a block takes a share of the time.
fn of_short_blocks(name: &str, flash: &FlashModel) -> Timed {
    let erase_us = flash.timing(&flash.shape(&Options::default())).erase_ns / 1000;
    let nand = format!(
        "pages = [{}, \"test\"]\nerase_us = [{}, \"test\"]\n",
        u64::from(flash.pages) / SHORTER,
        erase_us / SHORTER,
    );
    part(name, flash, SHORTER, &nand).expect("a sound drive")
}

/// Writes these requests of `count` sectors at random addresses, 32 at a time, from `now`. Returns
/// the time when all are answered, and the longest time without an answer.
fn write(drive: &mut Timed, now: u64, requests: u32, count: u32, random: &mut Random) -> [u64; 2] {
    let slots = drive.ftl().shape().logical_slots;
    let mut waiting = VecDeque::from([now; 32]);
    let (mut last, mut longest) = (now, 0);
    for _ in 0..requests {
        let next = waiting.pop_front().expect("32 are under way").max(last);
        longest = longest.max(next - last);
        last = next;
        let first = u64::from(random.below(slots - count / 8)) * 8;
        waiting.push_back(drive.submit(last, Op::Write { first, count }));
    }
    [waiting.into_iter().fold(last, u64::max), longest]
}

/// Asserts that a full drive, written at random, is never silent for longer than this, from before
/// its last unused superblock is taken until long after it.
fn assert_no_long_wait(name: &str, drive: Timed, most: u64) -> Timed {
    let slots = drive.ftl().shape().logical_slots;
    let mut random = Random::new(3);
    let mut drive = drive.fast_forward(|fast| {
        fast.write_sequential(0, u64::from(slots));
        let mut written = 0;
        while fast.ftl().free_superblocks() > FEW && written < slots {
            fast.write_random(slots, 500, &mut random);
            written += 500;
        }
    });
    let many = 30_000 + 3 * drive.ftl().shape().superblock_slots();
    let [_, longest] = write(&mut drive, 0, many, 8, &mut random);
    assert!(longest < most, "{name}: {} ms without an answer", longest / MS);
    drive
}

/// Asserts that the first requests after idle time of any length wait for a step of idle work only.
fn assert_idle_work_lets_requests_through(name: &str, drive: &mut Timed, random: &mut Random) {
    let slots = drive.ftl().shape().logical_slots;
    // Later than all requests before.
    let mut now = 1_000_000 * SECOND;
    for round in 0..12 {
        let (requests, count) = if round % 2 == 0 { (1_000, 8) } else { (64, 2048) };
        [now, _] = write(drive, now, requests, count, random);
        // Idle work begins after one second or five. Some requests come before it, most during it.
        for idle in [900, 2_000, 6_000, 30_000] {
            for is_write in [false, true] {
                now += (idle + u64::from(random.below(500))) * MS;
                let first = u64::from(random.below(slots)) * 8;
                let op = match is_write {
                    true => Op::Write { first, count: 8 },
                    false => Op::Read { first, count: 8 },
                };
                let end = drive.submit(now, op);
                let wait_us = (end - now) / 1000;
                assert!(wait_us <= 50_000, "{name}: {op:?} after {idle} ms: {wait_us} us");
                now = end;
            }
        }
    }
    drive.ftl().audit();
}

#[test]
fn no_preset_waits_longer_than_reviews_show() {
    let mut seen: Vec<Kind> = Vec::new();
    for name in Model::names() {
        let kind = Model::preset(name).expect("a preset").kind;
        // Drives in other cases are the same drives.
        if seen.contains(&kind) {
            continue;
        }
        if let Kind::Flash(flash) = &kind {
            let mut random = Random::new(3);
            // A merge of all log blocks but two at once takes 17 s here, 98 s on the whole Summit.
            assert_no_long_wait(name, of_short_blocks(name, flash), SECOND / 8);
            let drive = assert_no_long_wait(name, of_few_blocks(name, flash), SECOND);
            let slots = drive.ftl().shape().logical_slots;
            let mut drive =
                drive.fast_forward(|fast| fast.write_random(slots, u64::from(slots), &mut random));
            let [_, longest] = write(&mut drive, 0, 10_000, 8, &mut random);
            assert!(longest < SECOND, "{name}: {} ms without an answer when used", longest / MS);
            assert_idle_work_lets_requests_through(name, &mut drive, &mut random);
        }
        seen.push(kind);
    }
}
