//! The plan of a run: the arguments and their target as plain data, and the rig to run it on.

use super::{Arguments, live, prices};
use crate::settings::Said;
use block::CacheSpec;
use stack::{Exit, Failure};
use suites::{Job, Modelled, Plan, PlanOptions, Preparation, Rig, Step, Target};

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

/// Returns the plan of a run with this spare share, and the rig to run it on.
///
/// # Errors
/// The arguments do not fit together, or not to the target; a target in real time cannot be opened.
pub(super) fn set_up(
    arguments: &Arguments,
    spare_percent: u32,
) -> Result<(Plan, Box<dyn Rig>), Failure> {
    match stack::below_limits(arguments.target()).starts_with("model:") {
        true => in_virtual_time(arguments, spare_percent),
        false => in_real_time(arguments, spare_percent),
    }
}

fn in_virtual_time(
    arguments: &Arguments,
    spare_percent: u32,
) -> Result<(Plan, Box<dyn Rig>), Failure> {
    arguments.live.check_unused()?;
    let target = Target::parse(arguments.target()).map_err(|error| usage(error.to_string()))?;
    let mut plan = of_target(arguments, target, jobs(arguments)?, spare_percent, false)?;
    if let Some(job) = plan.jobs.iter().find(|job| job.has_own_data()) {
        let what = "data and dedupe are for targets in real time; write model:NAME?data=PERCENT";
        return Err(usage(format!("load '{}': {what}", job.name())));
    }
    if plan.cache.is_some() {
        plan.prices = prices::find(arguments.prices.as_deref())?;
    }
    let rig = Modelled::new(&plan.target, plan.prices).map_err(usage)?;
    Ok((plan, Box::new(rig)))
}

fn in_real_time(
    arguments: &Arguments,
    spare_percent: u32,
) -> Result<(Plan, Box<dyn Rig>), Failure> {
    if arguments.prices.is_some() {
        return Err(usage(
            "--prices: they are only used in virtual time; omit them for a real target".to_owned(),
        ));
    }
    let jobs = jobs(arguments)?;
    let opened = arguments.live.open(arguments.target(), arguments.suite(), &jobs)?;
    let plan = of_target(arguments, opened.target, jobs, spare_percent, opened.reads_only)?;
    Ok((plan, Box::new(opened.rig)))
}

/// Returns the loads of the suite `custom`; its options are refused with another suite.
pub(super) fn jobs(arguments: &Arguments) -> Result<Vec<Job>, Failure> {
    let suite = arguments.suite().profile().name;
    match arguments.job.given() {
        _ if suite == "custom" => arguments.job.jobs(),
        None => Ok(vec![Job::default()]),
        Some(option) => {
            let what = format!("{suite} has its own loads; give it to the suite custom");
            Err(usage(format!("{option}: {what}")))
        }
    }
}

/// Returns the plan for a target; `reads_only`: the target must keep its data.
///
/// # Errors
/// The arguments do not fit together, or not to the target.
pub(super) fn of_target(
    arguments: &Arguments,
    target: Target,
    jobs: Vec<Job>,
    spare_percent: u32,
    reads_only: bool,
) -> Result<Plan, Failure> {
    let options = options(arguments, spare_percent);
    let plan = options.plan(arguments.suite(), target, jobs).map_err(usage)?;
    let plan = if reads_only { reading(arguments, plan)? } else { plan };
    let plan = if plan.target.model.is_none() { shortened(arguments, plan) } else { plan };
    options.check(&plan).map_err(usage)?;
    Ok(plan)
}

/// Returns the options of a run with this spare share.
pub(super) fn options(arguments: &Arguments, spare_percent: u32) -> PlanOptions {
    let cache = arguments.cache.map(|memory| arguments.suite().cache(memory));
    PlanOptions {
        era: arguments.era,
        cache: cache.map(|usual| with_settings(&arguments.settings, usual)),
        state: arguments.state.clone(),
        preparation: arguments.prepare.clone(),
        trace_scale: arguments.scale,
        only: arguments.only.clone(),
        spare_percent,
        span: arguments.span,
        time_us: arguments.time,
    }
}

/// Returns a suite's cache, with the requested settings instead of the defaults.
pub(crate) fn with_settings(settings: &Said<true>, mut spec: CacheSpec) -> CacheSpec {
    settings.apply(&mut spec);
    if spec.dirty_age_ms == 0 {
        spec.dirty_age_ms = suites::AGE_OFF_MS;
    }
    spec
}

/// Returns the same plan with reads only. A requested preparation that writes is refused.
fn reading(arguments: &Arguments, plan: Plan) -> Result<Plan, Failure> {
    let asked = [("--state", Some(&arguments.state)), ("--prepare", arguments.prepare.as_ref())];
    let is_idle =
        |steps: &Preparation| steps.0.iter().all(|step| matches!(step, Step::Idle { .. }));
    let wrong = asked.into_iter().find(|(_, steps)| steps.is_some_and(|it| !is_idle(it)));
    match wrong {
        Some((option, _)) => {
            let what = "writes to the target, which is only read; omit it, or add --destroy";
            Err(usage(format!("{option}: {what}")))
        }
        None => Ok(plan.reading()),
    }
}

/// Returns the same plan for real time, in which pauses take time. A requested preparation is left
/// unchanged.
fn shortened(arguments: &Arguments, plan: Plan) -> Plan {
    let asked = arguments.prepare.is_some().then(|| plan.preparation.clone());
    let plan = plan.in_real_time(!live::is_memory(arguments.target()));
    let preparation = asked.unwrap_or_else(|| plan.preparation.clone());
    Plan { preparation, ..plan }
}
