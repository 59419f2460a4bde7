//! QD1: 4 KiB random requests over a span, one at a time: the latency that a single program sees. With
//! it the same writes 32 at a time, as many as a SATA drive takes: what the drive gives at most, and
//! what a cache in front of it must not take away.

use super::{REST_NS, lay_out, reads, with_ceiling, writes};
use crate::bed::{Bed, Halt};
use crate::outcome::{Outcome, Row};
use crate::plan::Plan;
use load::Order;

/// The row of writes one at a time.
pub const QD1_WRITE: &str = "random 4 KiB write, QD1";
/// The row of writes 32 at a time.
pub const QD1_SATURATING: &str = "random 4 KiB write, QD32";
/// The row of reads one at a time.
pub const QD1_READ: &str = "random 4 KiB read, QD1";

pub(super) fn run(bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
    lay_out(bed, plan, outcome)?;
    outcome.say(format!(
        "Each test took {} s, and its final flush; the drive was left alone for 60 s between two.",
        plan.time_ns as f64 / 1e9
    ));
    for (part, (test, depth)) in [(QD1_WRITE, 1), (QD1_SATURATING, 32)].into_iter().enumerate() {
        let load = writes(plan, Order::Random, 4096, depth, part as u64);
        let record = bed.load(test, load)?;
        outcome.rows.push(with_ceiling(bed, Row::rate(test, &record)));
        bed.idle(REST_NS)?;
        bed.empty_cache()?;
    }
    let load = reads(plan, Order::Random, 4096, 1, 2);
    let record = bed.load(QD1_READ, load)?;
    let cold = bed.is_cached().then_some(true);
    let row = with_ceiling(bed, Row::rate(QD1_READ, &record));
    outcome.rows.push(Row { cold, ..row });
    Ok(())
}
