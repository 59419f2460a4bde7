//! FileBench: file sets copied on the drive.
//!
//! The Tech Report copied five sets of files from the drive to itself with xcopy and showed MB/s:
//! large films, raw pictures, music, the pages of its site, and the sources of a browser. It did so
//! on the fresh drive, after a secure erase, and on the used one, after 30 minutes of random writes
//! by Iometer.
//!
//! On a mounted file system files are really copied (crate `rigs`). On a drive without one, the
//! recorded requests of such a copy are replayed.
//!
//! Source: The Tech Report's reviews of SSDs of 2011 to 2014.

use super::parts::{REST_NS, SECOND, seed};
use super::{Suite, replayed};
use crate::file_set::FILE_SETS;
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::preparation::{Preparation, Step};
use crate::test_rig::TestRig;

/// See the module documentation.
pub(super) struct FileBench;

static PROFILE: Profile = Profile {
    name: "filebench",
    about: "The Tech Report's FileBench: five sets of files copied on the drive, fresh and used",
    takes_state: false,
    preparation: "laid-out",
    time_ns: 1800 * SECOND,
    span_bytes: Some(replayed::DEVICE_BYTES),
};

impl Suite for FileBench {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn is_of_files(&self) -> bool {
        true
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let about = replayed::recording(FILE_SETS[0].name, plan)?.about;
        replayed::say(outcome, &about);
        outcome.say(
            "Fresh is the erased drive; the part that the recording uses was written in order. \
             Used is after random 4 KiB writes over all of it, 32 at a time, and that part written \
             again. The drive was idle for a minute before each copy. MB/s are the bytes of the \
             files over the time until the last flush. Only a part of each set was recorded, and \
             an SLC area may hold the part but not the whole.",
        );
        for (number, state) in ["fresh", "used"].into_iter().enumerate() {
            let test = |name: &str| format!("{name}, {state}");
            let sets = FILE_SETS.iter().filter(|set| plan.selects(&test(set.name)));
            let mut names = sets.map(|set| set.name).peekable();
            if names.peek().is_none() {
                continue;
            }
            if state == "used" {
                wear(rig, plan, outcome)?;
            }
            let seed = seed(plan, 2000 + number as u64);
            rig.prepare(&plan.preparation, plan.span(), seed)?;
            // Only the used state depends on the duration of its writes.
            let shortened = plan.shortened().filter(|_| state == "used");
            let mut one = |name| copy(rig, plan, outcome, name, &test(name), shortened.as_ref());
            names.try_for_each(&mut one)?;
        }
        Ok(())
    }
}

/// Writes at random over the whole drive, which brings it into the used state.
fn wear(rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
    let steps = Preparation(vec![Step::Fill { data_percent: 100 }, Step::torture(plan.time_ns)]);
    let bytes = plan.target.bytes() / 100 * u64::from(100 - plan.spare_percent) / 4096 * 4096;
    for record in rig.prepare(&steps, bytes, seed(plan, 1000))? {
        outcome.add(rig, Row::rate("random writes before the used state", &record));
    }
    Ok(())
}

fn copy(
    rig: &mut TestRig,
    plan: &Plan,
    outcome: &mut Outcome,
    name: &str,
    test: &str,
    shortened: Option<&String>,
) -> Result<(), Halt> {
    let recording = replayed::recording(name, plan)?;
    // SLC areas are folded after earlier copies, and the cache is empty at the start of each copy.
    rig.rest(REST_NS)?;
    rig.empty_cache()?;
    let record = rig.replay(test, &recording.trace)?;
    let value = replayed::mb_per_second(&recording, &record);
    let row = replayed::row(test, "MB/s", value, &recording.about, &record);
    let shortened = row.shortened.map(|own| match shortened {
        Some(time) => format!("{own}, random writes for {time}"),
        None => own,
    });
    replayed::add(outcome, rig, Row { cold: rig.is_cached().then_some(true), shortened, ..row });
    Ok(())
}
