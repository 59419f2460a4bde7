//! QD1: 4 KiB random requests over a span, one at a time: the latency that a single program sees.
//! Also the same writes 32 at a time, the maximum of a SATA drive: the highest rate of the drive,
//! which a cache in front of it must not reduce.

use super::parts::{REST_NS, SECOND, lay_out, reads, with_ceiling, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{AGE_OFF_MS, Plan, Profile};
use crate::test_rig::TestRig;
use block::{CacheSpec, Size, WriteMode};
use load::Order;
use report::words::{figure, time};

/// The name of the row of writes one at a time.
pub const QD1_WRITE: &str = "random 4 KiB write, QD1";
/// The name of the row of writes 32 at a time.
pub const QD1_SATURATING: &str = "random 4 KiB write, QD32";
/// The name of the row of reads one at a time.
pub const QD1_READ: &str = "random 4 KiB read, QD1";

/// See the module documentation.
pub(super) struct Qd1;

static PROFILE: Profile = Profile {
    name: "qd1",
    about: "Random requests of 4 KiB one at a time",
    takes_state: true,
    preparation: "laid-out",
    time_ns: 60 * SECOND,
    span_bytes: Some(8 << 30),
};

impl Suite for Qd1 {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::IfAsked
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(rig, plan, outcome)?;
        outcome.say(format!(
            "Each test took {} s and a final flush; the drive was idle for 60 s between tests.",
            plan.time_ns as f64 / 1e9
        ));
        for (part, (test, depth)) in [(QD1_WRITE, 1), (QD1_SATURATING, 32)].into_iter().enumerate()
        {
            if !plan.selects(test) {
                continue;
            }
            let load = writes(plan, Order::Random, 4096, depth, part as u64);
            let record = rig.load(test, load)?;
            outcome.add(rig, with_ceiling(rig, Row::rate(test, &record)));
            rig.rest(REST_NS)?;
            rig.empty_cache()?;
        }
        if !plan.selects(QD1_READ) {
            return Ok(());
        }
        let load = reads(plan, Order::Random, 4096, 1, 2);
        let record = rig.load(QD1_READ, load)?;
        let cold = rig.is_cached().then_some(true);
        let row = with_ceiling(rig, Row::rate(QD1_READ, &record));
        outcome.add(rig, Row { cold, ..row });
        Ok(())
    }

    /// Returns a cache that shows the maximum gain of buffering: there is no writeback because of
    /// age or in advance of a flush that is never sent, and the dirty limit is the maximum of the
    /// engine.
    fn cache(&self, memory: Size) -> CacheSpec {
        CacheSpec {
            memory,
            write: WriteMode::BackNow,
            dirty_bytes: Some(Size(memory.0 / 16 * 15)),
            dirty_age_ms: AGE_OFF_MS,
            flush_target_ms: 0,
            guard: false,
            ..CacheSpec::default()
        }
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let row = outcome.rows.first()?;
        let latency = row.latency.as_ref()?;
        Some(format!(
            "One at a time: {} writes of 4 KiB per second, with a latency of {} on average, {} at \
             most.",
            figure(row.value),
            time(latency.mean_ns()),
            time(latency.max_ns() as f64)
        ))
    }
}
