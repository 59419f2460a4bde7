//! Four corners: AnandTech's test of 2009 to 2015.
//!
//! | years | random 4 KiB, three minutes | sequential |
//! |---|---|---|
//! | 2009 | three under way; writes over 8 GB, reads over the drive | 2 MB, QD1, three minutes |
//! | 2010 to 2014 | three under way, over 8 GB | 128 KiB, QD1, one minute |
//! | 2015 | 1 to 32 under way, over 16 GB; then six mixes, three under way | as before |
//!
//! Sequential transfers cover the whole drive. Writes come first, so that there is data to read. If
//! reads cover the whole drive, all of it is written before. A gigabyte is 2^30 bytes here.
//!
//! Source: AnandTech 2738, 8747 page 8, 9023 page 7. The depths of 2015 and the shares of its mixes
//! are recalled from memory. Its sequential test is not known: that of 2014 is used.

use super::era::{self, Era};
use super::parts::{SECOND, lay_out, reads, seed, throughput, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::outcome::Outcome;
use crate::plan::{Plan, Profile};
use crate::preparation::Preparation;
use crate::test_rig::TestRig;
use block::Size;
use load::{Limit, Load, Order};

/// The parameters of an era.
struct Corners {
    /// Queue depths of random requests.
    depths: &'static [u32],
    /// Random reads cover the whole drive.
    reads_all: bool,
    /// Percentages of reads in the mixes, with three under way.
    mixes: &'static [u32],
    sequential_bytes: u32,
    sequential_ns: u64,
}

const MINUTE_NS: u64 = 60 * SECOND;
/// Queue depth in the mixes.
const MIX_DEPTH: u32 = 3;

const USUAL: Corners = Corners {
    depths: &[3],
    reads_all: false,
    mixes: &[],
    sequential_bytes: 128 << 10,
    sequential_ns: MINUTE_NS,
};

static PROFILE: Profile = Profile {
    name: "fourcorners",
    about: "AnandTech's: random 4 KiB over 8 GB, three at a time, and sequential 128 KiB, one at a time",
    takes_state: true,
    preparation: "fresh",
    time_ns: 3 * MINUTE_NS,
    span_bytes: Some(8 << 30),
};
static OF_2015: Profile = Profile { span_bytes: Some(16 << 30), ..PROFILE };

static ERAS: [(Era, Corners); 3] = [
    (
        Era {
            first: 2009,
            last: 2009,
            about: "random 4 KiB at depth 3, writes over 8 GB and reads over all of the drive, and sequential 2 MB, \
                    three minutes each",
            profile: &PROFILE,
        },
        Corners {
            reads_all: true,
            sequential_bytes: 2 << 20,
            sequential_ns: 3 * MINUTE_NS,
            ..USUAL
        },
    ),
    (
        Era {
            first: 2010,
            last: 2014,
            about: "random 4 KiB over 8 GB at depth 3 for three minutes, sequential 128 KiB for one",
            profile: &PROFILE,
        },
        USUAL,
    ),
    (
        Era {
            first: 2015,
            last: 2015,
            about: "random 4 KiB over 16 GB at depth 1 to 32 and in mixes at depth 3, three minutes each",
            profile: &OF_2015,
        },
        Corners { depths: &[1, 2, 4, 8, 16, 32], mixes: &[100, 80, 60, 40, 20, 0], ..USUAL },
    ),
];

/// See the module documentation.
pub(super) struct FourCorners;

impl Suite for FourCorners {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn eras(&self) -> Vec<Era> {
        era::all(&ERAS)
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::IfAsked
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let corners = era::of(plan, &ERAS).unwrap_or(&USUAL);
        lay_out(rig, plan, outcome)?;
        let all = Plan { span_bytes: None, ..plan.clone() };
        let sequential = |load: Load| Load {
            limit: Limit::time(plan.shortened_ns(corners.sequential_ns)),
            ..load
        };
        for depth in corners.depths {
            let load = writes(plan, Order::Random, 4096, *depth, part(*depth, 1));
            throughput(rig, plan, outcome, format!("random 4 KiB write, QD{depth}"), load)?;
        }
        if corners.reads_all {
            write_all(rig, &all, outcome)?;
        }
        let read_plan = if corners.reads_all { &all } else { plan };
        for depth in corners.depths {
            let load = reads(read_plan, Order::Random, 4096, *depth, part(*depth, 2));
            throughput(rig, plan, outcome, format!("random 4 KiB read, QD{depth}"), load)?;
        }
        for percent in corners.mixes {
            let load = writes(plan, Order::Random, 4096, MIX_DEPTH, 3000 + u64::from(*percent));
            let load = Load { reads_percent: *percent, ..load };
            let test = format!("{percent} % reads, random 4 KiB, QD{MIX_DEPTH}");
            throughput(rig, plan, outcome, test, load)?;
        }
        let (bytes, order) = (corners.sequential_bytes, Order::Sequential);
        let size = Size(bytes.into());
        let write = sequential(writes(&all, order, bytes, 1, 3));
        throughput(rig, plan, outcome, format!("sequential {size} write, QD1"), write)?;
        let read = sequential(reads(&all, order, bytes, 1, 4));
        throughput(rig, plan, outcome, format!("sequential {size} read, QD1"), read)
    }
}

/// Returns the part that selects the random choices: at a depth of 3 the random choices are those
/// of the tests without an era.
fn part(depth: u32, direction: u64) -> u64 {
    if depth == 3 { direction } else { u64::from(depth) * 10 + direction }
}

/// Writes the whole drive in order, unless its state implies that it is already written.
fn write_all(rig: &mut TestRig, all: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
    if all.reads_only || all.state.leaves_all_written() {
        return Ok(());
    }
    outcome.say("Before the reads the whole drive was written in order.");
    rig.prepare(&Preparation::preset("filled"), all.span(), seed(all, 2000)).map(drop)
}
