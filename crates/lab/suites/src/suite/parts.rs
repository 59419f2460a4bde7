//! Parts that several suites share: preparations, loads, and tests.

use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::Plan;
use crate::preparation::Preparation;
use crate::test_rig::TestRig;
use load::{Limit, Load, Order};

pub(super) const SECOND: u64 = 1_000_000_000;
/// Idle time between a suite's parts, in which drives fold their SLC areas: 15 to 30 s for the
/// drives whose reviews give it.
pub(super) const REST_NS: u64 = 60 * SECOND;

/// Brings the whole drive into the plan's state, and then the span into the suite's.
pub(super) fn lay_out(rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
    before(rig, plan)?;
    prepare(rig, plan, outcome, &plan.preparation)
}

/// Brings the whole drive into the plan's state.
pub(super) fn before(rig: &mut TestRig, plan: &Plan) -> Result<(), Halt> {
    let all = plan.target.bytes() / 4096 * 4096;
    rig.prepare(&plan.state, all, plan.target.options.seed).map(drop)
}

/// Prepares the plan's span; a torture has its own row.
pub(super) fn prepare(
    rig: &mut TestRig,
    plan: &Plan,
    outcome: &mut Outcome,
    preparation: &Preparation,
) -> Result<(), Halt> {
    let tortures = rig.prepare(preparation, plan.span(), seed(plan, 1000))?;
    for record in tortures {
        outcome.add(rig, Row::rate("torture: random writes", &record));
    }
    Ok(())
}

/// Returns a load of writes with a final flush.
pub(super) fn writes(plan: &Plan, order: Order, block_bytes: u32, depth: u32, part: u64) -> Load {
    Load {
        limit: Limit::time(plan.time_ns),
        flush: true,
        seed: seed(plan, part),
        ..Load::new(order, block_bytes, plan.span()).depth(depth)
    }
}

/// Returns a load of reads.
pub(super) fn reads(plan: &Plan, order: Order, block_bytes: u32, depth: u32, part: u64) -> Load {
    Load { reads_percent: 100, flush: false, ..writes(plan, order, block_bytes, depth, part) }
}

/// Returns the seed of a part of a suite; it follows from the target's seed.
pub(super) fn seed(plan: &Plan, part: u64) -> u64 {
    plan.target.options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part)
}

/// Runs a test whose figure is MB per second, if it is selected.
pub(super) fn throughput(
    rig: &mut TestRig,
    plan: &Plan,
    outcome: &mut Outcome,
    test: String,
    load: Load,
) -> Result<(), Halt> {
    if !plan.selects(&test) {
        return Ok(());
    }
    let record = rig.load(&test, load)?;
    outcome.add(rig, with_ceiling(rig, Row::throughput(test, &record)));
    Ok(())
}

/// Sets the ceiling of the last load's row, and the share of time in which the machine kept that
/// load waiting.
pub(super) fn with_ceiling(rig: &TestRig, row: Row) -> Row {
    Row { ceiling: rig.ceiling(row.value), kept_waiting: rig.kept_waiting(), ..row }
}
