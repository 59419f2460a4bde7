//! The loads of a suite without a target: which tests it has, how much work they are, and a job
//! file of them.

use crate::halt::Halt;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::rig::Listed;
use crate::suite::run_on;
use block::{CacheSpec, Size};
use load::Load;

/// A suite that was run on a device that does nothing.
pub struct Listing {
    /// The loads, each with its name, in their order.
    pub loads: Vec<(String, Load)>,
    /// Bytes of generated traces.
    pub trace_bytes: u64,
    /// The outcome, with the rows of the suite and the time of its pauses.
    pub outcome: Outcome,
    /// Why the suite is not complete.
    pub ended: Result<(), Halt>,
}

/// Lists the loads of a plan.
pub fn list(plan: &Plan) -> Listing {
    // The size of the cache makes no difference to the loads.
    let small =
        |cache: &CacheSpec| CacheSpec { memory: Size(1 << 20), dirty_bytes: None, ..cache.clone() };
    let plan = Plan { cache: plan.cache.as_ref().map(small), ..plan.clone() };
    let (rig, loads, trace_bytes) = Listed::new(plan.target.bytes());
    let (outcome, ended) = run_on(Box::new(rig), &plan, &mut ());
    Listing { loads: loads.take(), trace_bytes: trace_bytes.get(), outcome, ended }
}

/// The work of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Duration of tests with a time limit, in nanoseconds.
    pub timed_ns: u64,
    /// Time in which the target idles, in nanoseconds.
    pub idle_ns: u64,
    /// Bytes of tests with a fixed amount: their duration depends on the target.
    pub sized_bytes: u64,
}

impl Listing {
    /// Adds up the loads and pauses.
    pub fn work(&self) -> Work {
        let plan = &self.outcome.plan;
        let mut work = Work {
            idle_ns: self.outcome.elapsed_ns,
            sized_bytes: self.trace_bytes,
            ..Work::default()
        };
        let mut is_read = self.trace_bytes > 0;
        for (_, load) in &self.loads {
            is_read |= load.reads_percent > 0;
            match (load.limit.time_ns, load.limit.requests) {
                (u64::MAX, u64::MAX) => {}
                (u64::MAX, requests) => {
                    let bytes = requests.saturating_mul(load.block_bytes());
                    work.sized_bytes = work.sized_bytes.saturating_add(bytes);
                }
                (time_ns, _) => work.timed_ns = work.timed_ns.saturating_add(time_ns),
            }
        }
        // Reads require written data.
        if is_read && !plan.reads_only && !plan.preparation.leaves_all_written() {
            work.sized_bytes = work.sized_bytes.saturating_add(plan.span());
        }
        work
    }
}
