//! The plan of a run: the arguments and their target as plain data, and the rig to run it on.

use super::{Arguments, live, only, prices};
use crate::settings::Said;
use block::{CacheSpec, Size};
use stack::{Exit, Failure};
use suites::{Job, Modelled, Plan, Preparation, Rig, Step, Target};

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
    let usual = usual(arguments, target)?;
    let trace_scale = trace_scale(arguments)?;
    let cache = arguments.cache.map(|memory| arguments.suite().cache(memory));
    let plan = Plan {
        cache: cache.map(|usual| with_settings(&arguments.settings, usual)),
        state: arguments.state.clone(),
        preparation: arguments.prepare.clone().unwrap_or_else(|| usual.preparation.clone()),
        trace_scale,
        only: arguments.only.clone(),
        spare_percent,
        time_ns: time_ns(arguments, usual.time_ns),
        ..usual
    };
    let plan = plan.with_jobs(jobs);
    let plan = match arguments.span {
        Some(span) => Plan { span_bytes: Some(span.0), ..plan },
        None => plan,
    };
    let plan = if reads_only { reading(arguments, plan)? } else { plan };
    let plan = if plan.target.model.is_none() { shortened(arguments, plan) } else { plan };
    plan.check().map_err(usage)?;
    if let Some(span) = arguments.span.filter(|span| span.0 > plan.target.bytes()) {
        let holds = Size(plan.target.bytes());
        let text = &plan.target.text;
        return Err(usage(format!("--span {span}: {text} has only {holds}")));
    }
    if let Some(test) = &plan.only {
        only::check(&plan, test)?;
    }
    Ok(plan)
}

/// Returns the suite with its defaults, or as it was in the requested year.
///
/// # Errors
/// The suite has no era with this year.
pub(super) fn usual(arguments: &Arguments, target: Target) -> Result<Plan, Failure> {
    match arguments.era {
        None => Ok(Plan::new(arguments.suite().profile(), target)),
        Some(year) => suites::plan_in(arguments.suite(), year, target).map_err(usage),
    }
}

/// Returns the scale of a generated trace.
///
/// # Errors
/// The suite has none, or it is absurd.
fn trace_scale(arguments: &Arguments) -> Result<f64, Failure> {
    let (least, most) = suites::generated::SCALES;
    match arguments.scale {
        None => Ok(1.0),
        Some(scale) if !arguments.suite().is_generated() => {
            let generated = suites::ALL.iter().filter(|suite| suite.is_generated());
            let names: Vec<&str> = generated.map(|suite| suite.profile().name).collect();
            let names = names.join(", ");
            Err(usage(format!("--scale {scale}: is for generated traces ({names}); omit it")))
        }
        Some(scale) if !(least..=most).contains(&scale) => {
            Err(usage(format!("--scale {scale}: write {least} to {most}")))
        }
        Some(scale) => Ok(scale),
    }
}

/// Returns the duration of the timed parts. Those of filebench are steps of a preparation, which
/// take whole seconds.
pub(super) fn time_ns(arguments: &Arguments, usual_ns: u64) -> u64 {
    let asked_ns = arguments.time.map_or(usual_ns, |us| us.saturating_mul(1000));
    match arguments.suite().is_of_files() {
        true => asked_ns.div_ceil(1_000_000_000).saturating_mul(1_000_000_000),
        false => asked_ns,
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
