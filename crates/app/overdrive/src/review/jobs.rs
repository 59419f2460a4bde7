//! The jobs of a review: a suite on one drive, in one or several passes. Each pass is a column.

use super::parts::Part;
use super::targets::Place;
use super::{Arguments, With, name_of};
use crate::bench::live;
use lane::Prices;
use serde_json::{Value, json};
use stack::Failure;
use suites::{Outcome, Pass, Plan, Preparation, Rapid, Step, Target, report};

/// The number of further drives of a model, each with another seed.
pub(super) const SPREAD: u64 = 2;
/// The name of the rows of the baseline drive.
pub(super) const BASELINE: &str = "baseline";

/// Returns the name of the rows of a further drive.
pub(super) fn spread_name(drive: u64) -> String {
    format!("seed+{drive}")
}

/// A suite on one drive.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Its name among the stored results.
    pub(super) name: String,
    /// The names of the columns, one for each pass.
    pub(super) columns: Vec<String>,
    /// The passes.
    pub(super) passes: Vec<Pass>,
    /// Through the host's page cache.
    pub(super) is_buffered: bool,
    /// Its expected duration, in nanoseconds.
    pub(super) expected_ns: u64,
}

/// The result of a job.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    /// The job.
    pub(super) job: String,
    /// Rows by the names of the columns.
    pub(super) columns: Vec<(String, Vec<Value>)>,
    /// How it was measured.
    pub(super) method: Vec<String>,
}

impl Found {
    /// Returns the result of the passes of a job.
    pub(super) fn of(job: &Job, outcomes: &[Outcome]) -> Found {
        let columns = job.columns.iter().zip(outcomes);
        let columns = columns.map(|(name, outcome)| (name.clone(), rows(outcome))).collect();
        let suite = job.passes[0].plan.suite.name;
        let method = outcomes.first().map(|outcome| outcome.method.iter());
        let method = method.into_iter().flatten().map(|it| format!("{suite}: {it}"));
        let is_first = job.columns.first().is_some_and(|name| name == review::BARE);
        Found { job: job.name.clone(), columns, method: method.filter(|_| is_first).collect() }
    }

    /// Returns an empty result with the reason.
    pub(super) fn without(job: &Job, why: &str) -> Found {
        let method = vec![format!("{} was left out: {why}.", job.passes[0].plan.suite.name)];
        Found { job: job.name.clone(), columns: Vec::new(), method }
    }

    pub(super) fn json(&self) -> Value {
        json!({ "job": self.job, "columns": self.columns, "method": self.method })
    }

    pub(super) fn read(value: &Value) -> Option<Found> {
        Some(Found {
            job: value.get("job")?.as_str()?.to_owned(),
            columns: serde_json::from_value(value.get("columns")?.clone()).ok()?,
            method: serde_json::from_value(value.get("method")?.clone()).ok()?,
        })
    }
}

/// Returns the rows of an outcome as in `overdrive.bench/1`, each with its suite and the processor
/// time of its load. Distributions and single seconds are left out where they are not needed.
fn rows(outcome: &Outcome) -> Vec<Value> {
    let mut object = report::json(outcome);
    let rows = object["rows"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let rows = rows.into_iter().zip(&outcome.rows).map(|(mut row, of)| {
        row["suite"] = outcome.plan.suite.name.into();
        if let Some(share) = of.processor {
            row["processor"] = json!((share * 10_000.0).round() / 10_000.0);
        }
        if let Some(row) = row.as_object_mut() {
            row.remove("buckets");
        }
        row
    });
    rows.collect()
}

/// Returns the same plan for a later pass: the drive keeps its data, and is idle as before the
/// first one.
fn later(plan: &Plan) -> Plan {
    let is_idle = |step: &&Step| matches!(step, Step::Idle { .. });
    let idle = plan.preparation.0.iter().filter(is_idle).copied().collect();
    Plan { preparation: Preparation(idle), state: Preparation::default(), ..plan.clone() }
}

fn pass(plan: Plan, keeps_cache: bool) -> Pass {
    Pass { plan, keeps_cache }
}

/// Returns the jobs of a review, suite by suite.
///
/// # Errors
/// No suite fits the target.
pub(super) fn all(
    arguments: &Arguments,
    place: &Place,
    parts: &[Part],
    prices: Prices,
) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for part in parts {
        let plan = part.plan(arguments.extent(), place.target().clone());
        let of_part = match place.is_virtual() {
            true => in_virtual_time(arguments, place, part, &Plan { prices, ..plan }),
            false => in_real_time(arguments, place, part, &plan),
        };
        jobs.extend(of_part);
    }
    if let Some(why) = jobs.iter().map(|job| job.passes[0].plan.check()).find_map(Result::err)
        && jobs.iter().all(|job| job.passes[0].plan.check().is_err())
    {
        return Err(super::usage(why));
    }
    Ok(jobs)
}

/// Returns a job; its duration is that of its timed tests in real time.
fn job(part: &Part, columns: &[&str], passes: Vec<Pass>) -> Job {
    let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let name = format!("{}: {}", name_of(part), columns.join(", "));
    let expected_ns = passes.iter().map(|pass| expected_ns(&pass.plan)).sum();
    Job { name, columns, passes, is_buffered: false, expected_ns }
}

/// Simulated requests of a pass, at 500 ns each: with the cache a second of simulated time takes
/// about 0.8 s on the machine, without it a twentieth. Both were measured with `overdrive bench
/// atto`, `cdm` and `qd1 --time 5s`, with and without `--cache 1G`.
const CACHED_SHARE: f64 = 0.8;
const BARE_SHARE: f64 = 0.05;
/// Preparation of a modelled drive.
const PREPARED_NS: u64 = 300_000_000;
/// A speed at which amounts are guessed on a real target.
const BYTES_PER_SECOND: u64 = 500_000_000;

fn expected_ns(plan: &Plan) -> u64 {
    let work = suites::list(plan).work();
    let seconds = work.sized_bytes / BYTES_PER_SECOND;
    let timed_ns = work.timed_ns.saturating_add(seconds.saturating_mul(1_000_000_000));
    if plan.target.model.is_none() {
        return timed_ns.saturating_add(work.idle_ns);
    }
    let share = if plan.cache.is_some() { CACHED_SHARE } else { BARE_SHARE };
    (timed_ns as f64 * share) as u64 + PREPARED_NS
}

/// Returns the jobs of a suite on modelled drives: each on a new one.
fn in_virtual_time(arguments: &Arguments, place: &Place, part: &Part, bare: &Plan) -> Vec<Job> {
    let cached = Plan { cache: Some(part.suite().cache(arguments.cache)), ..bare.clone() };
    let mut jobs = vec![
        job(
            part,
            &[review::COLD, review::WARM],
            vec![pass(cached.clone(), false), pass(later(&cached), true)],
        ),
        job(
            part,
            &[review::BARE, review::AGAIN],
            vec![pass(bare.clone(), false), pass(later(bare), false)],
        ),
    ];
    if arguments.with.contains(&With::Rapid) {
        let rapid = Rapid::new();
        let plan = Plan {
            cache: Some(rapid.cache),
            prices: rapid.prices,
            driver: Some(rapid.driver),
            ..bare.clone()
        };
        jobs.push(job(part, &[review::RAPID_COLUMN], vec![pass(plan, true)]));
    }
    for drive in 1..=SPREAD {
        let mut target = bare.target.clone();
        target.options.seed = target.options.seed.wrapping_add(drive);
        let plan = Plan { target, ..bare.clone() };
        jobs.push(job(part, &[&spread_name(drive)], vec![pass(plan, false)]));
    }
    if let Some(baseline) = place.baseline_target() {
        let plan = Plan { target: baseline.clone(), ..bare.clone() };
        jobs.push(job(part, &[BASELINE], vec![pass(plan, false)]));
    }
    jobs
}

/// Returns the jobs of a suite on a real target: all passes on the same data.
fn in_real_time(arguments: &Arguments, place: &Place, part: &Part, plan: &Plan) -> Vec<Job> {
    let bare = plan.clone().in_real_time(!live::is_memory(&arguments.target));
    let cached = Plan { cache: Some(part.suite().cache(arguments.cache)), ..bare.clone() };
    let passes = vec![
        pass(bare.clone(), false),
        pass(later(&cached), false),
        pass(later(&cached), true),
        pass(later(&bare), false),
    ];
    let names = [review::BARE, review::COLD, review::WARM, review::AGAIN];
    let mut jobs = vec![job(part, &names, passes)];
    if arguments.with.contains(&With::PageCache) {
        let passes = vec![pass(bare, false)];
        jobs.push(Job { is_buffered: true, ..job(part, &[review::PAGE_CACHE], passes) });
    }
    if let Some(baseline) = place.baseline_target() {
        let plan = Plan { target: baseline.clone(), ..plan.clone() };
        jobs.push(job(part, &[BASELINE], vec![pass(plan, false)]));
    }
    jobs
}

/// Returns everything on which stored results depend.
pub(super) fn key(arguments: &Arguments, prices: Prices) -> Value {
    json!({
        "target": arguments.target,
        "extent": arguments.extent().word(),
        "cache": arguments.cache.0,
        "baseline": arguments.baseline,
        "size": arguments.size.map(|size| size.0),
        "prices": suites::prices::to_json(&prices),
        "rapid": suites::rapid_numbers().iter().map(|it| it.value.clone()).collect::<Vec<_>>(),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// Returns the target of a job's first pass.
pub(super) fn target(job: &Job) -> &Target {
    &job.passes[0].plan.target
}
