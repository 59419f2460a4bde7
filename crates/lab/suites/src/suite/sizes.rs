//! Sizes: sequential transfers of 512 bytes to 8 MiB, four in flight; and the same with ATTO's
//! parameters.
//!
//! ATTO's test writes and reads a file of 512 MB or 2 GB in order, with transfer sizes that double
//! from step to step, at a queue depth of 4. Here the span replaces the file, each size is written
//! and then read, and rates include the final flush, so that a cache that holds the whole span does
//! not look like a drive with the speed of memory.
//!
//! ATTO's version 2 ends at 8 MiB, its version 4 at 64 MiB. The defaults of 256 MB and a depth of
//! 4, and the years of the versions, are recalled from memory for version 4.

use super::era::{self, Era};
use super::parts::{SECOND, lay_out, reads, with_ceiling, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::test_rig::TestRig;
use block::Size;
use load::{Load, Order};
use report::words::figure;

/// See the module documentation.
pub(super) struct Sizes {
    profile: &'static Profile,
    /// The percentage of the data that cannot be compressed.
    data_percent: u32,
    /// Its versions, and the maximum transfer size of each.
    eras: &'static [(Era, u64)],
}

/// With the file size of the reviews of the 840 EVO.
pub(super) static SIZES: Sizes = Sizes { profile: &PROFILE, data_percent: 100, eras: &[] };

/// With the defaults of version 2 of the program: 256 MB, and compressible data.
pub(super) static ATTO: Sizes = Sizes { profile: &ATTO_PROFILE, data_percent: 0, eras: &ATTO_ERAS };

static ATTO_PROFILE: Profile = Profile {
    name: "atto",
    about: "ATTO: 256 MB of compressible data, transfers of 512 bytes to 8 MiB, four in flight",
    preparation: "filled",
    span_bytes: Some(256 << 20),
    ..PROFILE
};

static ATTO_OF_2018: Profile = Profile {
    about: "ATTO: 256 MB of compressible data, transfers of 512 bytes to 64 MiB, four in flight",
    ..ATTO_PROFILE
};

static ATTO_ERAS: [(Era, u64); 2] = [
    (
        Era {
            first: 2008,
            last: 2017,
            about: "version 2, with transfers of 512 bytes to 8 MiB",
            profile: &ATTO_PROFILE,
        },
        MOST,
    ),
    (
        Era {
            first: 2018,
            last: Era::OPEN,
            about: "version 4, with transfers of 512 bytes to 64 MiB",
            profile: &ATTO_OF_2018,
        },
        64 << 20,
    ),
];

const PROFILE: Profile = Profile {
    name: "sizes",
    about: "Sequential transfers of 512 bytes to 8 MiB, written and read, four in flight",
    takes_state: true,
    preparation: "laid-out",
    time_ns: 2 * SECOND,
    span_bytes: Some(2 << 30),
};

const DEPTH: u32 = 4;
const LEAST: u64 = 512;
const MOST: u64 = 8 << 20;

/// Returns transfer sizes that the device supports, up to `most`: each twice the one before.
fn sizes(rig: &TestRig, most: u64) -> impl Iterator<Item = u64> + use<> {
    let limits = rig.top().limits();
    let least = LEAST.max(limits.block_logical_bytes.into());
    let most = most.min(limits.io_max_bytes.into());
    std::iter::successors(Some(least), |bytes| Some(bytes * 2))
        .take_while(move |bytes| *bytes <= most)
}

impl Suite for Sizes {
    fn profile(&self) -> &'static Profile {
        self.profile
    }

    fn eras(&self) -> Vec<Era> {
        era::all(self.eras)
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::IfAsked
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        if self.data_percent < 100 {
            rig.set_data_percent(self.data_percent);
            outcome.say(
                "The written data is compressible to nearly nothing; ?data=PERCENT sets how far a \
                 modelled drive compresses it.",
            );
        }
        lay_out(rig, plan, outcome)?;
        outcome.say(format!(
            "With each size the span was written in order for {} s, {DEPTH} transfers in flight, \
             and then read.",
            plan.time_ns as f64 / 1e9
        ));
        if rig.is_cached() {
            outcome.say("The cache was emptied between a size's writes and its reads, and before the next size.");
        }
        let most = *era::of(plan, self.eras).unwrap_or(&MOST);
        let taken = u64::from(rig.top().limits().io_max_bytes);
        if taken < most {
            outcome.say(format!("The target supports no transfers above {}.", Size(taken)));
        }
        for (part, bytes) in sizes(rig, most).enumerate() {
            let order = Order::Sequential;
            let write = writes(plan, order, bytes as u32, DEPTH, part as u64);
            measure(rig, outcome, format!("write, {}", Size(bytes)), write, None)?;
            rig.empty_cache()?;
            let read = reads(plan, order, bytes as u32, DEPTH, 100 + part as u64);
            let cold = rig.is_cached().then_some(true);
            measure(rig, outcome, format!("read, {}", Size(bytes)), read, cold)?;
            rig.empty_cache()?;
        }
        Ok(())
    }

    /// Returns the smallest size at which each direction reaches nine tenths of its best.
    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let best_of = |direction: &str| {
            let rows = || outcome.rows.iter().filter(|row| row.test.starts_with(direction));
            let best = rows().map(|row| row.value).reduce(f64::max)?;
            let first = rows().find(|row| row.value >= 0.9 * best)?;
            let (_, size) = first.test.split_once(", ")?;
            Some(format!("{} MB/s (nine tenths of that at {size})", figure(best)))
        };
        Some(format!(
            "At best it writes {}, and reads {}.",
            best_of("write, ")?,
            best_of("read, ")?
        ))
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        plots::curves(outcome)
    }
}

fn measure(
    rig: &mut TestRig,
    outcome: &mut Outcome,
    test: String,
    load: Load,
    cold: Option<bool>,
) -> Result<(), Halt> {
    let record = rig.load(&test, load)?;
    let row = with_ceiling(rig, Row::throughput(test, &record));
    outcome.add(rig, Row { cold, ..row });
    Ok(())
}
