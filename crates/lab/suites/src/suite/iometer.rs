//! Iometer: the access patterns of web server, file server, workstation and database, with 1 to 32
//! under way.
//!
//! | pattern | reads | random | sizes |
//! |---|---|---|---|
//! | database | 67 % | all | 8 KB |
//! | file server | 80 % | all | 512 B 10 %, 1 K 5, 2 K 5, 4 K 60, 8 K 2, 16 K 4, 32 K 4, 64 K 10 |
//! | web server | all | all | as below |
//! | workstation | 80 % | 80 % | 8 KB |
//!
//! Sizes of the web server: 512 B 22 %, 1 K 15, 2 K 8, 4 K 23, 8 K 15, 16 K 2, 32 K 6, 64 K 7,
//! 128 K 1, 512 K 1.
//!
//! A request is aligned to its own size. On a target with blocks larger than 512 bytes, sizes are
//! rounded up. The minute of each run is assumed.
//!
//! The queue depths were the reviewer's choice: 1 to 32 at The Tech Report, 1 to 256 in steps of a
//! factor of four at StorageReview in 2001.
//!
//! Source: the access specifications that Tom's Hardware and others print; fio's
//! iometer-file-access-server.fio; StorageReview, articles/200110.

use super::era::{self, Era};
use super::parts::{SECOND, lay_out, with_ceiling, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::test_rig::TestRig;
use load::{Load, Mix, Order};

const K: u32 = 1024;
static EIGHT: [(u32, u32); 1] = [(8 * K, 100)];
static DATABASE: Mix = Mix { random_percent: 100, sizes: &EIGHT };
static FILE: Mix = Mix {
    random_percent: 100,
    sizes: &[
        (512, 10),
        (K, 5),
        (2 * K, 5),
        (4 * K, 60),
        (8 * K, 2),
        (16 * K, 4),
        (32 * K, 4),
        (64 * K, 10),
    ],
};
static WEB: Mix = Mix {
    random_percent: 100,
    sizes: &[
        (512, 22),
        (K, 15),
        (2 * K, 8),
        (4 * K, 23),
        (8 * K, 15),
        (16 * K, 2),
        (32 * K, 6),
        (64 * K, 7),
        (128 * K, 1),
        (512 * K, 1),
    ],
};
static WORKSTATION: Mix = Mix { random_percent: 80, sizes: &EIGHT };

/// Name, mix, percentage of reads.
static PATTERNS: [(&str, &Mix, u32); 4] = [
    ("web server", &WEB, 100),
    ("file server", &FILE, 80),
    ("workstation", &WORKSTATION, 80),
    ("database", &DATABASE, 67),
];
const DEPTHS: &[u32] = &[1, 2, 4, 8, 16, 32];

/// See the module documentation.
pub(super) struct Iometer;

static PROFILE: Profile = Profile {
    name: "iometer",
    about: "Iometer's web server, file server, workstation and database, with 1 to 32 requests in \
            flight",
    takes_state: true,
    preparation: "laid-out",
    time_ns: 60 * SECOND,
    span_bytes: Some(8 << 30),
};

static ERAS: [(Era, &[u32]); 2] = [
    (
        Era {
            first: 2001,
            last: 2001,
            about: "StorageReview's depths: 1, 4, 16, 64 and 256",
            profile: &PROFILE,
        },
        &[1, 4, 16, 64, 256],
    ),
    (
        Era {
            first: 2009,
            last: 2014,
            about: "The Tech Report's depths: 1 to 32",
            profile: &PROFILE,
        },
        DEPTHS,
    ),
];

impl Suite for Iometer {
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
        lay_out(rig, plan, outcome)?;
        let unit = rig.top().limits().block_logical_bytes;
        let rounded = match unit {
            512 => String::new(),
            _ => format!(" Sizes were rounded up to multiples of {unit} bytes."),
        };
        let seconds = plan.time_ns as f64 / 1e9;
        outcome.say(format!("Each run took {seconds} s.{rounded}"));
        for (part, (name, mix, reads_percent)) in PATTERNS.iter().enumerate() {
            for depth in era::of(plan, &ERAS).copied().unwrap_or(DEPTHS).iter().copied() {
                let test = format!("{name}, QD{depth}");
                if plan.selects(&test) {
                    let number = part as u64 * 100 + u64::from(depth);
                    let load = writes(plan, Order::Mixed(mix), unit, depth, number);
                    let load = Load { reads_percent: *reads_percent, ..load };
                    let record = rig.load(&test, load)?;
                    outcome.add(rig, with_ceiling(rig, Row::rate(test, &record)));
                }
            }
            rig.empty_cache()?;
        }
        Ok(())
    }

    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        plots::curves(outcome)
    }
}
