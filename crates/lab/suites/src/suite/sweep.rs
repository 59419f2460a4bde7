//! Sweep: random transfers of every size with every depth, and mixes of reads and writes.
//!
//! Sizes of 512 bytes to 64 MiB, each twice the one before, with 1 to 256 under way, as reads and
//! as writes; then 4 KiB with 32 under way, from all writes to all reads in steps of 10 %. Sizes
//! above the target's maximum request are left out, and so are combinations that need more than 512
//! MiB of memory.

use super::parts::{SECOND, lay_out, reads, throughput, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::outcome::Outcome;
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::test_rig::TestRig;
use block::Size;
use load::{Load, Order};

const LEAST: u64 = 512;
const MOST: u64 = 64 << 20;
const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Limit of the bytes of requests under way.
const MEMORY: u64 = 512 << 20;

/// See the module documentation.
pub(super) struct Sweep;

static PROFILE: Profile = Profile {
    name: "sweep",
    about: "Random transfers of 512 bytes to 64 MiB with 1 to 256 in flight, and mixes",
    takes_state: true,
    preparation: "laid-out",
    time_ns: 2 * SECOND,
    span_bytes: Some(8 << 30),
};

impl Suite for Sweep {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::IfAsked
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(rig, plan, outcome)?;
        let limits = rig.top().limits().clone();
        let least = LEAST.max(limits.block_logical_bytes.into());
        let most = MOST.min(limits.io_max_bytes.into());
        outcome.say(format!(
            "Each cell took {} s. Sizes were {} to {}, the limits of the target; cells with more \
             than {} in flight were omitted.",
            plan.time_ns as f64 / 1e9,
            Size(least),
            Size(most),
            Size(MEMORY)
        ));
        let sizes = std::iter::successors(Some(least), |bytes| Some(bytes * 2));
        let sizes: Vec<u64> = sizes.take_while(|bytes| *bytes <= most).collect();
        for (direction, load) in [("read", reads as fn(&_, _, _, _, _) -> Load), ("write", writes)]
        {
            for bytes in &sizes {
                for depth in DEPTHS.into_iter().filter(|depth| bytes * u64::from(*depth) <= MEMORY)
                {
                    let test = format!("random {direction}, {}, QD{depth}", Size(*bytes));
                    let load = load(
                        plan,
                        Order::Random,
                        *bytes as u32,
                        depth,
                        bytes * 1000 + u64::from(depth),
                    );
                    throughput(rig, plan, outcome, test, load)?;
                }
            }
            rig.empty_cache()?;
        }
        for reads_percent in (0..=100).step_by(10) {
            let test = format!("{reads_percent} % reads, random 4 KiB, QD32");
            let load = writes(plan, Order::Random, 4096, 32, 7 + u64::from(reads_percent));
            throughput(rig, plan, outcome, test, Load { reads_percent, ..load })?;
        }
        Ok(())
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        plots::curves(outcome)
    }
}
