//! Custom: a load of one's own.
//!
//! With a rate requests start at times of an absolute clock, and their latency counts from there.

use super::{SECOND, Suite, lay_out, with_ceiling, writes};
use crate::bed::Bed;
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};

/// See the file's head.
pub(super) struct Custom;

static PROFILE: Profile = Profile {
    name: "custom",
    about: "A load of your own: --order, --block, --depth, --reads, --rate",
    takes_state: true,
    preparation: "filled",
    time_ns: 30 * SECOND,
    span_bytes: Some(8 << 30),
};

impl Suite for Custom {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(bed, plan, outcome)?;
        outcome.say(format!("The load ran for {} s.", plan.time_ns as f64 / 1e9));
        let job = &plan.job;
        let load = job.load(writes(plan, job.pattern.0, job.block_bytes, job.depth, 1));
        let test = job.name();
        let record = bed.load(&test, load)?;
        outcome.add(bed, with_ceiling(bed, Row::rate(&test, &record)));
        let throughput = Row::throughput("the same in MB/s", &record);
        outcome.add(bed, Row { latency: None, punctual: None, flush_ns: None, ..throughput });
        Ok(())
    }
}
