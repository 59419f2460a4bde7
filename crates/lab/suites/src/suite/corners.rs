//! Corners: sequential and random, reads and writes, shallow and deep.
//!
//! The tests are those of CrystalDiskMark 8 and AS SSD with a queue depth of 4 between theirs;
//! unlike there, no run is discarded or selected as the best. All reads come first, then all
//! writes, so that no write changes the drive before a read.

use super::parts::{SECOND, lay_out, reads, with_ceiling, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::test_rig::TestRig;
use load::{Load, Order};

/// A corner: its name, the order, bytes of a request, requests under way.
type Corner = (&'static str, Order, u32, u32);

const CORNERS: [Corner; 7] = [
    ("sequential 1 MiB, QD1", Order::Sequential, 1 << 20, 1),
    ("sequential 1 MiB, QD32", Order::Sequential, 1 << 20, 32),
    ("sequential 128 KiB, QD1", Order::Sequential, 128 << 10, 1),
    ("sequential 128 KiB, QD32", Order::Sequential, 128 << 10, 32),
    ("random 4 KiB, QD1", Order::Random, 4096, 1),
    ("random 4 KiB, QD4", Order::Random, 4096, 4),
    ("random 4 KiB, QD32", Order::Random, 4096, 32),
];

/// Nanoseconds between two tests.
const PAUSE_NS: u64 = 5 * SECOND;

/// See the module documentation.
pub(super) struct Corners;

static PROFILE: Profile = Profile {
    name: "corners",
    about: "Sequential and random, reads and writes, one at a time and many",
    takes_state: true,
    preparation: "laid-out",
    time_ns: 5 * SECOND,
    span_bytes: Some(8 << 30),
};

impl Suite for Corners {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::IfAsked
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(rig, plan, outcome)?;
        outcome.say(format!(
            "Each test took {} s; the drive was idle for 5 s between tests.",
            plan.time_ns as f64 / 1e9
        ));
        if rig.is_cached() {
            outcome.say(
                "Each read was made twice: cold, with an empty cache, and warm, with other addresses \
                 after the whole span had been read once in order.",
            );
        }
        for (part, corner) in CORNERS.iter().enumerate() {
            read(rig, plan, outcome, corner, part as u64)?;
        }
        rig.empty_cache()?;
        for (part, (name, order, bytes, depth)) in CORNERS.iter().enumerate() {
            let test = format!("write, {name}");
            if plan.selects(&test) {
                let load = writes(plan, *order, *bytes, *depth, 100 + part as u64);
                measure(rig, outcome, test, load, None)?;
                rig.rest(PAUSE_NS)?;
            }
        }
        let test = "70 % read, random 4 KiB, QD32";
        if !plan.selects(test) {
            return Ok(());
        }
        let mixed = writes(plan, Order::Random, 4096, 32, 200);
        let mixed = Load { reads_percent: 70, ..mixed };
        measure(rig, outcome, test.to_owned(), mixed, None)
    }
}

fn read(
    rig: &mut TestRig,
    plan: &Plan,
    outcome: &mut Outcome,
    (name, order, bytes, depth): &Corner,
    part: u64,
) -> Result<(), Halt> {
    let test = format!("read, {name}");
    if !plan.selects(&test) {
        return Ok(());
    }
    let load = reads(plan, *order, *bytes, *depth, part);
    if !rig.is_cached() {
        measure(rig, outcome, test, load, None)?;
        return rig.rest(PAUSE_NS);
    }
    rig.empty_cache()?;
    measure(rig, outcome, test.clone(), load, Some(true))?;
    rig.rest(PAUSE_NS)?;
    let whole = reads(plan, Order::Sequential, 128 << 10, 4, 0);
    let limit = load::Limit::requests(whole.blocks());
    rig.load("warming", Load { limit, ..whole })?;
    let other = reads(plan, *order, *bytes, *depth, 50 + part);
    measure(rig, outcome, test, other, Some(false))?;
    rig.rest(PAUSE_NS)
}

fn measure(
    rig: &mut TestRig,
    outcome: &mut Outcome,
    test: String,
    load: Load,
    cold: Option<bool>,
) -> Result<(), Halt> {
    let order = load.order;
    let record = rig.load(&test, load)?;
    let row = match order {
        Order::Sequential => Row::throughput(test, &record),
        _ => Row::rate(test, &record),
    };
    outcome.add(rig, Row { cold, ..with_ceiling(rig, row) });
    Ok(())
}
