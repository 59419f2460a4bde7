//! Custom: user-defined loads, one after the other.
//!
//! With a rate, requests start at times of an absolute clock, and their latency counts from there.
//! A named load comes from a job file, and has one row: MB/s if it is sequential, requests per
//! second otherwise.

use super::parts::{SECOND, lay_out, with_ceiling, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::job::Job;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::test_rig::TestRig;
use load::{Load, Order, Record};

/// See the module documentation.
pub(super) struct Custom;

static PROFILE: Profile = Profile {
    name: "custom",
    about: "Loads of your own: --job FILE.toml, or --order, --block, --depth, --reads, --rate",
    takes_state: true,
    preparation: "filled",
    time_ns: 30 * SECOND,
    span_bytes: Some(8 << 30),
};

impl Suite for Custom {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::Usually
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let wanted = (1..).zip(&plan.jobs).filter(|(_, job)| plan.selects(&job.name()));
        let loads: Vec<(&Job, Load)> =
            wanted.map(|(part, job)| (job, load(plan, job, part))).collect();
        // Loads that the target does not support are reported before anything is written.
        for (job, load) in &loads {
            let checked = load.check(rig.top().limits());
            checked.map_err(|error| Halt::Plan(format!("load '{}': {error}", job.name())))?;
        }
        lay_out(rig, plan, outcome)?;
        let usual = rig.content();
        for (job, load) in loads {
            match job.name {
                Some(_) => outcome.say(job.text(&load)),
                None => outcome.say(format!("The load ran for {} s.", plan.time_ns as f64 / 1e9)),
            }
            if job.idle_before_ns > 0 {
                rig.idle(job.idle_before_ns)?;
            }
            if let Some(content) = usual.map(|usual| job.content(usual))
                && rig.content() != Some(content)
            {
                rig.set_content(content);
            }
            let record = rig.load(&job.name(), load)?;
            add_rows(rig, outcome, job, &record);
        }
        Ok(())
    }
}

fn load(plan: &Plan, job: &Job, part: u64) -> Load {
    job.load(writes(plan, job.pattern.0, job.block_bytes, job.depth, part))
}

fn add_rows(rig: &TestRig, outcome: &mut Outcome, job: &Job, record: &Record) {
    let in_order = job.pattern.0 == Order::Sequential;
    let row = match job.name.is_some() && in_order {
        true => Row::throughput(job.name(), record),
        false => Row::rate(job.name(), record),
    };
    outcome.add(rig, with_ceiling(rig, row));
    if job.name.is_none() {
        let throughput = Row::throughput("the same in MB/s", record);
        outcome.add(rig, Row { latency: None, punctual: None, flush_ns: None, ..throughput });
    }
}
