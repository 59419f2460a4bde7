//! Four corners: AnandTech's test of 2009 to 2014.
//!
//! 4 KiB random requests over 8 GB, three under way, for three minutes, and 128 KiB sequential ones one at
//! a time over all of the drive for one minute; reads and writes. Writes come first, so that there is
//! something to read.

use super::{SECOND, Suite, lay_out, reads, with_ceiling, writes};
use crate::bed::Bed;
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use load::{Limit, Load, Order};

/// Nanoseconds of a sequential test.
const SEQUENTIAL_NS: u64 = 60 * SECOND;

/// See the file's head.
pub(super) struct FourCorners;

static PROFILE: Profile = Profile {
    name: "fourcorners",
    about: "AnandTech's: random 4 KiB over 8 GB, three at a time, and sequential 128 KiB, one at a time",
    takes_state: true,
    preparation: "fresh",
    time_ns: 180 * SECOND,
    span_bytes: Some(8 << 30),
};

impl Suite for FourCorners {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn run(&self, bed: &mut Bed, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(bed, plan, outcome)?;
        let all = Plan { span_bytes: None, ..plan.clone() };
        let sequential = |load: Load| Load { limit: Limit::time(SEQUENTIAL_NS), ..load };
        for (test, load) in [
            ("random 4 KiB write, QD3", writes(plan, Order::Random, 4096, 3, 1)),
            ("random 4 KiB read, QD3", reads(plan, Order::Random, 4096, 3, 2)),
            (
                "sequential 128 KiB write, QD1",
                sequential(writes(&all, Order::Sequential, 128 << 10, 1, 3)),
            ),
            (
                "sequential 128 KiB read, QD1",
                sequential(reads(&all, Order::Sequential, 128 << 10, 1, 4)),
            ),
        ] {
            if !plan.wants(test) {
                continue;
            }
            let record = bed.load(test, load)?;
            let row = Row::throughput(test, &record);
            outcome.add(bed, with_ceiling(bed, row));
        }
        Ok(())
    }
}
