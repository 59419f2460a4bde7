//! The suites, one a file, and what they share.

mod consistency;
mod corners;
mod qd1;
mod seqfill;
mod trim;

pub use qd1::{QD1_READ, QD1_SATURATING, QD1_WRITE};

use crate::bed::{Bed, Halt, Watch};
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Suite};
use load::{Limit, Load, Order};
use modelled::State;

const SECOND: u64 = 1_000_000_000;
/// A drive is left alone so long after it was prepared and between a suite's parts, so that SLC areas
/// are folded: 15 to 30 s for the drives whose reviews tell.
const REST_NS: u64 = 60 * SECOND;

/// Runs a suite. Whatever happens, the outcome holds what was measured until then.
///
/// # Errors
/// Beside the outcome: why it is not complete.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> (Outcome, Result<(), Halt>) {
    let mut outcome = Outcome::new(plan);
    let result = run_into(plan, watch, &mut outcome);
    outcome.complete = result.is_ok();
    (outcome, result)
}

fn run_into(plan: &Plan, watch: &mut dyn Watch, outcome: &mut Outcome) -> Result<(), Halt> {
    plan.check().map_err(Halt::Plan)?;
    let mut bed = Bed::new(plan, watch)?;
    let suite = match plan.suite {
        Suite::Corners => corners::run,
        Suite::Consistency => consistency::run,
        Suite::Trim => trim::run,
        Suite::Seqfill => seqfill::run,
        Suite::Qd1 => qd1::run,
    };
    let result = suite(&mut bed, plan, outcome);
    outcome.virtual_ns = bed.now();
    outcome.counters = bed.cache_counters();
    if let Some(health) = bed.drive().health() {
        outcome.drive = vec![
            ("host_written_bytes", health.host_written_bytes as f64),
            ("nand_written_bytes", health.nand_written_bytes as f64),
            ("write_amplification", health.write_amplification),
            ("worn_percent", health.worn_percent),
        ];
    }
    // Stopped in its last part, it is no less interrupted.
    if bed.is_interrupted() { result.and(Err(Halt::Interrupted)) } else { result }
}

/// Brings the drive into the plan's state, writes the span once in order, and leaves the drive alone.
fn lay_out(bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
    let (all, seed) = (plan.target.bytes() / 4096 * 4096, plan.target.options.seed);
    let span = plan.span();
    bed.age(plan.state, all, seed)?;
    bed.drive().precondition(|fast| fast.write_sequential(0, span / drives::SLOT_BYTES));
    bed.idle(REST_NS)?;
    outcome.say(format!(
        "The drive was {}; then its first {} were written once in order, and it was left alone for 60 s.",
        told(plan.state),
        block::Size(span)
    ));
    Ok(())
}

/// What a state means.
fn told(state: State) -> &'static str {
    match state {
        State::Purged => "purged",
        State::Filled => "purged and written once in order",
        State::Used => "purged, written once in order, then as much again written in random 4 KiB",
        State::Steady => {
            "purged, written once in order, then four times as much written in random 4 KiB"
        }
        State::Trimmed => {
            "purged, written once in order, as much again written in random 4 KiB, then all of it trimmed"
        }
    }
}

/// A load of writes with a final flush.
fn writes(plan: &Plan, order: Order, block_bytes: u32, depth: u32, part: u64) -> Load {
    Load {
        limit: Limit::time(plan.time_ns),
        flush: true,
        seed: seed(plan, part),
        ..Load::new(order, block_bytes, plan.span()).depth(depth)
    }
}

/// A load of reads.
fn reads(plan: &Plan, order: Order, block_bytes: u32, depth: u32, part: u64) -> Load {
    Load { reads_percent: 100, flush: false, ..writes(plan, order, block_bytes, depth, part) }
}

/// Each part of a suite has choices of its own, which follow from the target's seed.
fn seed(plan: &Plan, part: u64) -> u64 {
    plan.target.options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part)
}

/// Sets the ceiling of the last load's row.
fn with_ceiling(bed: &Bed, row: Row) -> Row {
    Row { ceiling: bed.ceiling(row.value), ..row }
}
