//! Closed forms.

use crate::table::Table;
use drives::{
    Fast, Ftl, Op, Pacing, Random, Settings, Shape, Spread, Timed, Timing, Victims, theory,
};

fn fast(block: u32, spare: f64, victims: Victims) -> Fast {
    let superblocks = 5_000;
    let physical = f64::from(superblocks * block);
    let logical_slots = (physical / (1.0 + spare)) as u32;
    let (dies, unit_slots, slc_pages) = (1, 1, 0);
    let shape = Shape { logical_slots, superblocks, dies, unit_slots, pages: block, slc_pages };
    let pacing = Pacing::Burst { low: 1, high: 2, gain: 0 };
    let settings = Settings { victims, pacing, one_frontier: true, ..Settings::default() };
    let mut fast = Fast::new(Ftl::new(shape, settings).expect("a sound drive"));
    fast.write_sequential(0, u64::from(logical_slots));
    fast
}

fn found(fast: &mut Fast, warm: u64, rounds: u64, mut next: impl FnMut(&mut Fast)) -> f64 {
    let slots = u64::from(fast.ftl().shape().logical_slots);
    (0..warm * slots).for_each(|_| next(fast));
    let before = *fast.ftl().counters();
    (0..rounds * slots).for_each(|_| next(fast));
    fast.ftl().counters().amplification_since(&before)
}

fn uniform(fast: &mut Fast) -> f64 {
    let mut random = Random::new(7);
    let slots = fast.ftl().shape().logical_slots;
    found(fast, 3, 2, |fast| fast.write(random.below(slots)))
}

/// Checks the write amplification of every closed form.
pub(crate) fn amplification(table: &mut Table) {
    for spare in [0.07, 0.12, 0.28] {
        let mut drive = fast(64, spare, Victims::Fifo);
        let found = uniform(&mut drive);
        let what = format!("WA, uniform, FIFO, spare {:.0} %", spare * 100.0);
        table.near(&what, theory::fifo(drive.ftl().alpha()), 0.5, found);
    }
    for (block, spare) in [(64, 0.07), (64, 0.28), (256, 0.12)] {
        let mut drive = fast(block, spare, Victims::Greedy);
        let found = uniform(&mut drive);
        let what = format!("WA, uniform, greedy, {block} slots, spare {:.0} %", spare * 100.0);
        table.near(&what, theory::greedy(drive.ftl().alpha(), block), 0.5, found);
    }
    for count in [1, 2, 10] {
        let mut drive = fast(64, 0.28, Victims::Choices(count));
        let found = uniform(&mut drive);
        let what = format!("WA, uniform, best of {count} random, 64 slots, spare 28 %");
        table.near(&what, theory::choices(drive.ftl().alpha(), 64, count), 1.0, found);
    }
    for (spare, writes) in [(0.07, 0.8), (0.25, 0.8), (0.25, 0.9)] {
        let mut drive = fast(64, spare, Victims::Fifo);
        let slots = drive.ftl().shape().logical_slots;
        let hot = (f64::from(slots) * (1.0 - writes)) as u32;
        let mut random = Random::new(5);
        let found = found(&mut drive, 6, 4, |fast| {
            let is_hot = random.share() < writes;
            let cold = hot + random.below(slots - hot);
            fast.write(if is_hot { random.below(hot) } else { cold });
        });
        let what = format!("WA, hot/cold {:.0} %, one FIFO log, spare {spare}", writes * 100.0);
        let target = theory::fifo_hot_cold(drive.ftl().alpha(), writes, 1.0 - writes);
        table.near(&what, target, 1.0, found);
    }
    for trims in [0.1, 0.2, 0.3] {
        let mut drive = fast(64, 0.12, Victims::Fifo);
        let slots = drive.ftl().shape().logical_slots;
        let mut random = Random::new(5);
        let found = found(&mut drive, 10, 3, |fast| {
            if random.share() < trims {
                while !fast.trim(random.below(slots)) {}
            } else {
                fast.write(random.below(slots));
            }
        });
        let mapped = theory::mapped_under_trim(trims);
        let what = format!("WA, {:.0} % trims, FIFO, spare 12 %", trims * 100.0);
        table.near(&what, theory::fifo(drive.ftl().alpha() / mapped), 0.5, found);
    }
}

/// Checks random writes limited by dies only.
pub(crate) fn die_bound(table: &mut Table) {
    for (dies, spare) in [(8, 0.07), (32, 0.12)] {
        let superblocks = 1024;
        let (pages, unit_slots) = (64, 4);
        let physical = f64::from(superblocks * dies * pages * unit_slots);
        let logical_slots = (physical / (1.0 + spare)) as u32;
        let shape = Shape { logical_slots, superblocks, dies, unit_slots, pages, slc_pages: 0 };
        let settings = Settings { buffer_slots: 8192, ..Settings::default() };
        let mut fast = Fast::new(Ftl::new(shape, settings).expect("a sound drive"));
        fast.write_sequential(0, u64::from(logical_slots));
        fast.write_random(u32::MAX, 3 * u64::from(logical_slots), &mut Random::new(1));
        let timing = bare(dies);
        let mut timed = Timed::new(fast.into_ftl(), timing);
        let mut random = Random::new(2);
        let mut waiting = std::collections::VecDeque::from(vec![0u64; 32]);
        let mut write = |timed: &mut Timed, count: u64| {
            let mut last = 0;
            for _ in 0..count {
                let now = waiting.pop_front().unwrap_or_default().max(last);
                let first = u64::from(random.below(logical_slots)) * 8;
                last = now;
                waiting.push_back(timed.submit(now, Op::Write { first, count: 8 }));
            }
            last
        };
        let start = write(&mut timed, 200_000);
        let before = *timed.ftl().counters();
        let count = 1_000_000;
        let end = write(&mut timed, count);
        let found = count as f64 * 1e9 / (end - start) as f64;
        let times = theory::DieTimes {
            dies: f64::from(dies),
            unit_slots: f64::from(unit_slots),
            superblock_slots: f64::from(shape.superblock_slots()),
            program_ns: timing.program_ns as f64,
            read_ns: timing.read_ns as f64,
            erase_ns: timing.erase_ns as f64,
            transfer_ns: timing.channel_slot_ns as f64,
        };
        let seen = timed.ftl().counters().amplification_since(&before);
        let what = format!("die-bound random write IOPS, {dies} dies, WA {seen:.2} as measured");
        table.near(&what, theory::die_bound_iops(&times, seen), 3.0, found);
        let predicted = theory::greedy(timed.ftl().alpha(), shape.superblock_slots());
        let what = format!("die-bound random write IOPS, {dies} dies, WA {predicted:.2} by theory");
        table.near(&what, theory::die_bound_iops(&times, predicted), 3.0, found);
    }
}

/// Dies only.
fn bare(channels: u32) -> Timing {
    Timing {
        channels,
        read_ns: 60_000,
        program_ns: 1_000_000,
        erase_ns: 4_000_000,
        slc_read_ns: 0,
        slc_program_ns: 0,
        slc_erase_ns: 0,
        channel_slot_ns: 10_000,
        read_slots: 1,
        suspend_ns: u64::MAX,
        link_slot_ns: 1_000,
        half_duplex: true,
        command_ns: 100,
        firmware_read_ns: 100,
        firmware_write_ns: 100,
        firmware_slot_ns: 0,
        firmware_relocate_ns: 0,
        firmware_trim_ns: 0,
        trim_slot_ns: 0,
        trim_slots_at_once: 0,
        flush_ns: 0,
        read_latency_ns: 0,
        write_latency_ns: 0,
        read_slot_ns: 0,
        write_slot_ns: 0,
        native_slot_ns: 0,
        map_hit_ns: 0,
        map_merge_ns: 0,
        map_blocks: false,
        sectors_buffered: false,
        read_ahead: false,
        idle_ns: u64::MAX,
        idle_share_256: 256,
        protected: false,
        spread: Spread::NONE,
        wear_256: 0,
        endurance: 0,
        retry_age_ns: 0,
        retries: 0,
    }
}
