//! Load times: files are read as an application, a game's level or a starting system reads them.
//!
//! Reviewers took the time with a stop watch. The drive's part of it are reads that wait for one
//! another: the head of a file, then the rest, then the next file. The first load finds no file in
//! memory, the second one finds those that the first has left there.
//!
//! On a mounted file system its files are really read (crate `rigs`). On a drive without one, the
//! recorded requests of such a load are replayed.

use super::parts::{before, seed};
use super::{Suite, WithoutWrites, replayed};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::test_rig::TestRig;

/// See the module documentation.
pub(super) struct LoadTime;

static PROFILE: Profile = Profile {
    name: "loadtime",
    about: "Load times: the files of a directory read as an application reads them, and again",
    takes_state: true,
    preparation: "laid-out",
    time_ns: 0,
    span_bytes: Some(replayed::DEVICE_BYTES),
};

impl Suite for LoadTime {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn is_of_files(&self) -> bool {
        true
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::IfAsked
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let recording = replayed::recording("loadtime", plan)?;
        let about = &recording.about;
        before(rig, plan)?;
        rig.prepare(&plan.preparation, plan.span(), seed(plan, 1000))?;
        replayed::say(outcome, about);
        outcome.say(
            "When the load was recorded, no file was in the host's page cache. The replay reads \
             everything in both loads, so the second load is faster only by the blocks that a \
             cache here holds.",
        );
        rig.empty_cache()?;
        for (pass, is_cold) in [("first load", true), ("second load", false)] {
            let record = rig.replay(pass, &recording.trace)?;
            let seconds = record.elapsed_ns().max(1) as f64 / 1e9;
            let cold = rig.is_cached().then_some(is_cold);
            let rows = [
                (String::new(), "s", seconds),
                (", data".to_owned(), "MB/s", record.bytes as f64 / 1e6 / seconds),
                (", files".to_owned(), "files/s", about.files as f64 / seconds),
            ];
            for (what, unit, value) in rows {
                let row = replayed::row(&format!("{pass}{what}"), unit, value, about, &record);
                replayed::add(outcome, rig, Row { cold, ..row });
            }
        }
        Ok(())
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let seconds = |test: &str| outcome.row(test).map(|row| row.value);
        let (first, second) = (seconds("first load")?, seconds("second load")?);
        Some(format!("The first load takes {first:.2} s, the second one {second:.2} s."))
    }
}
