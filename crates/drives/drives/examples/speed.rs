//! Speed of the two drivers: page programs per second, I/O per second, memory.
//! `speed [fast|timed|like]`; `like` is the work that MQSim was measured with: 32 GiB of flash, 8
//! KiB requests, 32 at a time. Seconds are processor time, so that other work on the machine does
//! not count.

use drives::{Drive, Fast, Kind, Model, Op, Options, Random, Timed};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the seconds for which this thread has run.
fn now() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = schedstat.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
    ns.expect("Linux with schedstat") as f64 / 1e9
}

fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let field = line.and_then(|line| line.split_whitespace().nth(1));
    field.and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() * 1024 / 1_000_000
}

/// Measures random writes to a full 1 TB drive, without times.
fn fast_forward() {
    let model = Model::preset("samsung-840-evo-1000").expect("a preset");
    let ftl = model.ftl(&Options::default()).expect("a sound drive").expect("a flash drive");
    let slots = u64::from(ftl.shape().logical_slots);
    let mut fast = Fast::new(ftl);
    let start = now();
    fast.write_sequential(0, slots);
    println!("1 TB filled sequentially in {:.1} s", now() - start);
    let mut random = Random::new(1);
    fast.write_random(u32::MAX, 60_000_000, &mut random);
    for _ in 0..5 {
        let before = *fast.ftl().counters();
        let start = now();
        fast.write_random(u32::MAX, 10_000_000, &mut random);
        let seconds = now() - start;
        let after = fast.ftl().counters();
        let programs = (after.programs() - before.programs()) as f64;
        println!(
            "fast-forward, WA {:.2}: {:.1} M slot programs/s, {:.2} M page (8 KiB) programs/s, \
             {:.2} M host writes/s, {} MB",
            after.amplification_since(&before),
            programs / seconds / 1e6,
            programs / 2.0 / seconds / 1e6,
            10.0 / seconds,
            memory_mb(),
        );
    }
}

/// Measures random writes at QD32 to a drive that cleans all the time, in virtual time.
fn timed() {
    let model = Model::preset("samsung-840-evo-250").expect("a preset");
    let Kind::Flash(flash) = &model.kind else {
        panic!("a flash drive");
    };
    let slots = flash.shape(&Options::default()).logical_slots;
    let Drive::Flash(drive) = model.drive(&Options::default()).expect("a sound drive") else {
        panic!("a flash drive");
    };
    let mut random = Random::new(1);
    let mut drive = drive.fast_forward(|fast| {
        fast.write_sequential(0, u64::from(slots));
        fast.write_random(u32::MAX, 2 * u64::from(slots), &mut random);
    });
    let mut waiting: BinaryHeap<Reverse<u64>> = (0..32).map(Reverse).collect();
    let mut last = 0;
    for _ in 0..5 {
        let before = *drive.ftl().counters();
        let (count, start, began) = (4_000_000u64, now(), last);
        for _ in 0..count {
            let Reverse(at) = waiting.pop().unwrap_or_default();
            last = at.max(last);
            let first = u64::from(random.below(slots)) * 8;
            waiting.push(Reverse(drive.submit(last, Op::Write { first, count: 8 })));
        }
        let seconds = now() - start;
        println!(
            "timed, WA {:.2}: {:.2} M I/O/s; {:.0} simulated seconds in {:.1}",
            drive.ftl().counters().amplification_since(&before),
            count as f64 / seconds / 1e6,
            (last - began) as f64 / 1e9,
            seconds,
        );
    }
}

/// MQSim's default flash: its times, pages and channels.
const LIKE_MQSIM: &str = r#"
like = "samsung-840-pro-256"
title = "What MQSim models by default"
[capacity]
user_bytes = [30_000_000_000, "MQSim's ssdconfig: 12.7 % of over-provisioning"]
[nand]
channels = [8, "MQSim's ssdconfig"]
dies = [32, "MQSim's default"]
blocks = [256, "32 GiB in all"]
read_us = [75, "MQSim's ssdconfig"]
program_us = [750, "MQSim's ssdconfig"]
erase_us = [3800, "MQSim's ssdconfig"]
channel_mb_s = [300, "MQSim's ssdconfig"]
"#;

/// Runs random requests of 8 KiB over the first slots, 32 at a time.
fn requests(drive: &mut Drive, write: bool, slots: u32, count: u64, random: &mut Random) -> f64 {
    let mut waiting: BinaryHeap<Reverse<u64>> = (0..32).map(Reverse).collect();
    let (mut last, start) = (0, now());
    for _ in 0..count {
        let Reverse(at) = waiting.pop().unwrap_or_default();
        last = at.max(last);
        let first = u64::from(random.below(slots / 2)) * 16;
        let op = match write {
            true => Op::Write { first, count: 16 },
            false => Op::Read { first, count: 16 },
        };
        waiting.push(Reverse(drive.submit(last, op)));
    }
    count as f64 / (now() - start) / 1e6
}

/// Runs the work that MQSim does 0.33, 0.22 and 0.07 million times per second, measured on another
/// machine.
fn like() {
    let model = Model::parse("like-mqsim", LIKE_MQSIM).expect("a sound file");
    let new = |used: u32| {
        let ftl = model.ftl(&Options::default()).expect("a sound drive").expect("a flash drive");
        let slots = ftl.shape().logical_slots;
        let span = slots / 100 * used;
        let mut random = Random::new(1);
        let start = now();
        let mut fast = Fast::new(ftl);
        fast.write_sequential(0, u64::from(span));
        fast.write_random(span, if used > 0 { 2 * u64::from(span) } else { 0 }, &mut random);
        let rate = f64::from(span) * 3.0 / 2.0 / (now() - start) / 1e6;
        let Kind::Flash(flash) = &model.kind else {
            panic!("a flash drive");
        };
        let timing = flash.timing(fast.ftl().shape());
        (Drive::Flash(Box::new(Timed::new(fast.into_ftl(), timing))), slots, span, rate, random)
    };
    let (mut drive, slots, _, _, mut random) = new(0);
    let rate = requests(&mut drive, true, slots, 1_000_000, &mut random);
    println!("like MQSim: random writes, new drive: {rate:.2} M I/O/s (MQSim 0.22)");
    let (mut drive, _, span, filled, mut random) = new(80);
    println!("like MQSim: preconditioning: {filled:.2} M pages of 8 KiB/s (MQSim 0.1)");
    let rate = requests(&mut drive, true, span, 1_000_000, &mut random);
    println!("like MQSim: random writes, 80 % full, cleaning: {rate:.2} M I/O/s (MQSim 0.07)");
    let rate = requests(&mut drive, false, span, 1_000_000, &mut random);
    println!("like MQSim: random reads: {rate:.2} M I/O/s (MQSim 0.33)");
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let wanted = |section: &str| word.is_empty() || word == section;
    if wanted("like") {
        like();
    }
    if wanted("fast") {
        fast_forward();
    }
    if wanted("timed") {
        timed();
    }
}
