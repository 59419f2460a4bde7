//! How fast the two drivers are: page programs a second, I/O a second, memory. `speed [fast|timed]`.

use drives::{Drive, Fast, Kind, Model, Op, Options, Random};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[allow(clippy::disallowed_methods, reason = "it measures this machine")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let field = line.and_then(|line| line.split_whitespace().nth(1));
    field.and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() * 1024 / 1_000_000
}

/// Random writes to a full 1 TB drive, without times.
fn fast_forward() {
    let model = Model::preset("samsung-840-evo-1000").expect("a preset");
    let ftl = model.ftl(&Options::default()).expect("a sound drive").expect("a flash drive");
    let slots = u64::from(ftl.shape().logical_slots);
    let mut fast = Fast::new(ftl);
    let start = now();
    fast.write_sequential(0, slots);
    println!("1 TB filled sequentially in {:.1} s", start.elapsed().as_secs_f64());
    let mut random = Random::new(1);
    fast.write_random(u32::MAX, 60_000_000, &mut random);
    for _ in 0..5 {
        let before = *fast.ftl().counters();
        let start = now();
        fast.write_random(u32::MAX, 10_000_000, &mut random);
        let seconds = start.elapsed().as_secs_f64();
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

/// Random writes at QD32 to a drive that cleans all the time, in virtual time.
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
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "timed, WA {:.2}: {:.2} M I/O/s; {:.0} simulated seconds in {:.1}",
            drive.ftl().counters().amplification_since(&before),
            count as f64 / seconds / 1e6,
            (last - began) as f64 / 1e9,
            seconds,
        );
    }
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    if word != "timed" {
        fast_forward();
    }
    if word != "fast" {
        timed();
    }
}
