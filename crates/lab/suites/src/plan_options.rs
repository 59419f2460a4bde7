//! Options of a run, as users give them.

use crate::job::Job;
use crate::plan::Plan;
use crate::preparation::Preparation;
use crate::suite::{ALL, Suite, plan_in};
use crate::target::Target;
use crate::{generated, only};
use block::{CacheSpec, Size};

/// Options of a run, as users give them. None: the suite's default.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// The year of the test, for suites that reviewers changed.
    pub era: Option<u16>,
    /// The cache in front. None: bare.
    pub cache: Option<CacheSpec>,
    /// The preparation of the whole drive.
    pub state: Preparation,
    /// The suite's preparation of its span.
    pub preparation: Option<Preparation>,
    /// The scale of a generated trace.
    pub trace_scale: Option<f64>,
    /// Only the test of this name.
    pub only: Option<String>,
    /// The part of the drive that is left unused, in percent of the visible size.
    pub spare_percent: u32,
    /// The number of bytes at the start of the drive that the suite uses.
    pub span: Option<Size>,
    /// Duration of the timed parts, in microseconds.
    pub time_us: Option<u64>,
}

impl PlanOptions {
    /// Returns the suite with its defaults, or as it was in the requested year.
    ///
    /// # Errors
    /// The suite has no era with this year.
    pub fn usual(&self, suite: &'static dyn Suite, target: Target) -> Result<Plan, String> {
        match self.era {
            None => Ok(Plan::new(suite.profile(), target)),
            Some(year) => plan_in(suite, year, target),
        }
    }

    /// Returns the duration of the timed parts, in nanoseconds. Those of filebench are steps of a
    /// preparation, which take whole seconds.
    pub fn time_ns(&self, suite: &dyn Suite, usual_ns: u64) -> u64 {
        let asked_ns = self.time_us.map_or(usual_ns, |us| us.saturating_mul(1000));
        match suite.is_of_files() {
            true => asked_ns.div_ceil(1_000_000_000).saturating_mul(1_000_000_000),
            false => asked_ns,
        }
    }

    /// Returns the plan for a target with these loads of the suite `custom`. It is to be checked
    /// by [`PlanOptions::check`].
    ///
    /// # Errors
    /// The suite has no such era, or no such scale.
    pub fn plan(
        &self,
        suite: &'static dyn Suite,
        target: Target,
        jobs: Vec<Job>,
    ) -> Result<Plan, String> {
        let usual = self.usual(suite, target)?;
        let plan = Plan {
            cache: self.cache.clone(),
            state: self.state.clone(),
            preparation: self.preparation.clone().unwrap_or_else(|| usual.preparation.clone()),
            trace_scale: self.trace_scale(suite)?,
            only: self.only.clone(),
            spare_percent: self.spare_percent,
            time_ns: self.time_ns(suite, usual.time_ns),
            ..usual
        };
        let plan = plan.with_jobs(jobs);
        let span_bytes = self.span.map(|span| span.0).or(plan.span_bytes);
        Ok(Plan { span_bytes, ..plan })
    }

    /// Checks that the parts of a plan fit together and to its target.
    ///
    /// # Errors
    /// The parts that do not, and the input to use instead.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        plan.check()?;
        if let Some(span) = self.span.filter(|span| span.0 > plan.target.bytes()) {
            let (text, holds) = (&plan.target.text, Size(plan.target.bytes()));
            return Err(format!("--span {span}: {text} has only {holds}"));
        }
        plan.only.as_ref().map_or(Ok(()), |test| only::check(plan, test))
    }

    /// Returns the scale of a generated trace.
    fn trace_scale(&self, suite: &dyn Suite) -> Result<f64, String> {
        let (least, most) = generated::SCALES;
        match self.trace_scale {
            None => Ok(1.0),
            Some(scale) if !suite.is_generated() => {
                let generated = ALL.iter().filter(|suite| suite.is_generated());
                let names: Vec<&str> = generated.map(|suite| suite.profile().name).collect();
                let names = names.join(", ");
                Err(format!("--scale {scale}: is for generated traces ({names}); omit it"))
            }
            Some(scale) if !(least..=most).contains(&scale) => {
                Err(format!("--scale {scale}: write {least} to {most}"))
            }
            Some(scale) => Ok(scale),
        }
    }
}
