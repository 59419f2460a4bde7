//! The jobs of a review: a suite on one drive, in one or several passes. Each pass is a column.

use super::parts::Part;
use super::targets::Place;
use super::{Arguments, With, name_of};
use crate::bench::live;
use block::CacheSpec;
use lane::Prices;
use serde_json::{Value, json};
use stack::Failure;
use suites::{Outcome, Pass, Plan, Preparation, Rapid, Step, Target, report};

/// The number of further drives of a model, each with another seed.
pub(super) const SPREAD: u64 = 2;
/// The name of the rows of the baseline drive.
pub(super) const BASELINE: &str = "baseline";

/// Returns the name of a column of a further drive.
pub(super) fn spread_name(column: &str, drive: u64) -> String {
    format!("{column} seed+{drive}")
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
    /// Its duration on the machine's clock, in nanoseconds.
    pub(super) elapsed_ns: u64,
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
        let method = method.filter(|_| is_first).collect();
        Found { job: job.name.clone(), columns, method, elapsed_ns: 0 }
    }

    /// Returns an empty result with the reason.
    pub(super) fn without(job: &Job, why: &str) -> Found {
        let method = vec![format!("{} was left out: {why}.", job.passes[0].plan.suite.name)];
        Found { job: job.name.clone(), columns: Vec::new(), method, elapsed_ns: 0 }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "job": self.job,
            "columns": self.columns,
            "method": self.method,
            "elapsed_ns": self.elapsed_ns,
        })
    }

    pub(super) fn read(value: &Value) -> Option<Found> {
        Some(Found {
            job: value.get("job")?.as_str()?.to_owned(),
            columns: serde_json::from_value(value.get("columns")?.clone()).ok()?,
            method: serde_json::from_value(value.get("method")?.clone()).ok()?,
            elapsed_ns: value.get("elapsed_ns").and_then(Value::as_u64).unwrap_or(0),
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

/// Returns a job, with the duration that is expected of it.
fn job(part: &Part, columns: &[&str], passes: Vec<Pass>) -> Job {
    let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let name = format!("{}: {}", name_of(part), columns.join(", "));
    let expected_ns = passes.iter().map(|pass| expected_ns(part, &pass.plan)).sum();
    Job { name, columns, passes, is_buffered: false, expected_ns }
}

/// A speed at which amounts are guessed on a real target.
const BYTES_PER_SECOND: u64 = 500_000_000;

fn expected_ns(part: &Part, plan: &Plan) -> u64 {
    if plan.target.model.is_some() {
        let costs = part.costs(plan);
        let ms = match (&plan.cache, &plan.driver) {
            (None, _) => costs.bare_ms,
            (Some(_), None) => costs.cached_ms,
            (Some(_), Some(_)) => costs.rapid_ms,
        };
        return ms.saturating_mul(1_000_000);
    }
    let work = suites::list(plan).work();
    let seconds = work.sized_bytes / BYTES_PER_SECOND;
    let timed_ns = work.timed_ns.saturating_add(seconds.saturating_mul(1_000_000_000));
    timed_ns.saturating_add(work.idle_ns)
}

/// Time of [`sample_ns`] on the machine on which the costs of suites were measured.
const SAMPLE_NS: u64 = 30_000_000;

/// Returns the speed of this machine at the moment, as a multiple of the time on the one on which
/// the costs of suites were measured.
pub(super) fn machine_factor() -> f64 {
    let sample = sample_ns();
    sample.map_or(1.0, |ns| (ns as f64 / SAMPLE_NS as f64).clamp(0.1, 20.0))
}

/// Measures the time of a short test with the cache. None: there is no such test.
fn sample_ns() -> Option<u64> {
    let target = Target::parse("model:samsung-840-evo-250?size=8GB").ok()?;
    let suite = suites::find("qd1")?;
    let plan = Plan {
        cache: Some(suite.cache(block::Size(64 << 20))),
        prices: Prices { ns: [500; lane::Cost::ALL.len()] },
        only: Some(suites::QD1_WRITE.to_owned()),
        time_ns: 20_000_000,
        span_bytes: Some(1 << 30),
        ..Plan::new(suite.profile(), target)
    };
    let begun_ns = host::now_ns();
    suites::run(&plan, &mut ()).1.ok()?;
    Some(host::now_ns().saturating_sub(begun_ns).max(1))
}

/// Returns the jobs of a suite on two modelled drives of one seed: with the cache and without it.
/// `name`: the name of a column of theirs.
fn both_ways(
    part: &Part,
    bare: &Plan,
    cache: &CacheSpec,
    name: impl Fn(&str) -> String,
) -> [Job; 2] {
    let cached = Plan { cache: Some(cache.clone()), ..bare.clone() };
    let of = |columns: [&str; 2], plan: &Plan, keeps_cache: bool| {
        let names = columns.map(&name);
        let passes = vec![pass(plan.clone(), false), pass(later(plan), keeps_cache)];
        job(part, &names.each_ref().map(String::as_str), passes)
    };
    [
        of([review::COLD, review::WARM], &cached, true),
        of([review::BARE, review::AGAIN], bare, false),
    ]
}

/// Returns the jobs of a suite on modelled drives: each on a new one.
fn in_virtual_time(arguments: &Arguments, place: &Place, part: &Part, bare: &Plan) -> Vec<Job> {
    let cache = part.suite().cache(arguments.cache);
    let mut jobs = both_ways(part, bare, &cache, str::to_owned).to_vec();
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
        jobs.extend(both_ways(part, &Plan { target, ..bare.clone() }, &cache, |column| {
            spread_name(column, drive)
        }));
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
