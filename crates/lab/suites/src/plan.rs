//! What is to be done, as plain data.

use crate::job::Job;
use crate::preparation::{Preparation, SECONDS_MAX, Step};
use crate::target::Target;
use block::{CacheSpec, Size};
use lane::Prices;

/// What a suite is called, and what it does if nothing else is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its word on the command line.
    pub name: &'static str,
    /// What it does, in one line without a full stop.
    pub about: &'static str,
    /// Whether the state of the drive before it may be chosen: the others bring it about themselves.
    pub takes_state: bool,
    /// What it does to the part that it works on before it measures, as a [`Preparation`] is read.
    pub preparation: &'static str,
    /// How long its timed parts take, in nanoseconds of its time; 0: it ends by itself.
    pub time_ns: u64,
    /// The part of the drive that it works on; None: all of it.
    pub span_bytes: Option<u64>,
}

/// A `dirty_age` that no run reaches: a year.
pub const AGE_OFF_MS: u64 = 365 * 86_400_000;

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Which suite.
    pub suite: &'static Profile,
    /// The year whose test it is, of the suites that reviewers changed; None: as it is usually run.
    pub era: Option<u16>,
    /// On what.
    pub target: Target,
    /// With which cache in front; None: bare.
    pub cache: Option<CacheSpec>,
    /// What the cache's work costs. Without a cache nothing is charged.
    pub prices: Prices,
    /// What was done to all of the drive before.
    pub state: Preparation,
    /// What the suite then does to the part that it works on.
    pub preparation: Preparation,
    /// The loads of the suite `custom`, one after the other; the others have their own.
    pub jobs: Vec<Job>,
    /// Only the test of this name, of the suites that have tests apart from one another; None: all.
    pub only: Option<String>,
    /// The part of the drive that is left unused, in percent of what the host sees.
    pub spare_percent: u32,
    /// The first bytes of the drive, which the suite works on; None: all.
    pub span_bytes: Option<u64>,
    /// How long the timed parts take, in nanoseconds of virtual time.
    pub time_ns: u64,
    /// Tests that write are left out, and the target keeps its contents.
    pub reads_only: bool,
    /// Share of the suite's own pauses that is kept: 1 for all, 0 for none.
    pub rest_share: f64,
}

impl Plan {
    /// The suite as it is usually run.
    pub fn new(suite: &'static Profile, target: Target) -> Plan {
        Plan {
            suite,
            era: None,
            target,
            cache: None,
            prices: Prices::default(),
            state: Preparation::default(),
            preparation: Preparation::parse(suite.preparation)
                .expect("a suite's own steps are sound"),
            jobs: vec![Job::default()],
            only: None,
            spare_percent: 0,
            span_bytes: suite.span_bytes,
            time_ns: suite.time_ns,
            reads_only: false,
            rest_share: 1.0,
        }
    }

    /// Returns the same plan for a target that must keep what it holds: what writes is left out.
    pub fn reading(self) -> Plan {
        let idle = |steps: Preparation| {
            let idle = steps.0.into_iter().filter(|step| matches!(step, Step::Idle { .. }));
            Preparation(idle.collect())
        };
        let (state, preparation) = (idle(self.state), idle(self.preparation));
        Plan { reads_only: true, state, preparation, ..self }
    }

    /// Returns the same plan for a target in real time: pauses are as much shorter as the timed
    /// parts are, and there are none for a target that has nothing to do in them.
    ///
    /// A pause of a modelled drive takes no time, and its behaviour after it is measured.
    pub fn in_real_time(self, needs_rest: bool) -> Plan {
        let rest_share = if needs_rest { self.time_share() } else { 0.0 };
        let shorter = |step: &Step| match *step {
            Step::Idle { seconds } => {
                let seconds = (f64::from(seconds) * rest_share).ceil() as u32;
                (seconds > 0).then_some(Step::Idle { seconds })
            }
            other => Some(other),
        };
        let preparation = Preparation(self.preparation.0.iter().filter_map(shorter).collect());
        Plan { rest_share, preparation, ..self }
    }

    /// Whether the parts go together.
    ///
    /// # Errors
    /// What does not, and what to write instead.
    pub fn check(&self) -> Result<(), String> {
        let name = self.suite.name;
        if !self.state.0.is_empty() && !self.suite.takes_state {
            let state = self.state.name().map_or_else(|| self.state.to_string(), str::to_owned);
            return Err(format!("--state {state}: {name} brings its states about itself"));
        }
        if self.spare_percent > 90 {
            return Err(format!("--spare {}: 0 to 90 percent", self.spare_percent));
        }
        let span = self.span();
        if span < SPAN_MIN {
            return Err(self.too_small());
        }
        if let Some(job) = self.jobs.iter().find(|job| job.span_bytes > Some(span)) {
            let (name, own) = (job.name(), Size(job.span_bytes.unwrap_or_default()));
            return Err(format!("load '{name}': span {own}: only {} to work on", Size(span)));
        }
        if self.suite.time_ns > 0 && self.time_ns == 0 {
            return Err("--time 0: nothing would be measured".to_owned());
        }
        let most_ns = u64::from(SECONDS_MAX) * 1_000_000_000;
        if self.time_ns > most_ns {
            let seconds = self.time_ns / 1_000_000_000;
            return Err(format!("--time {seconds}s: at most {SECONDS_MAX}s"));
        }
        if let Some(cache) = &self.cache
            && cache.memory.0 < 1 << 20
        {
            return Err(format!("--cache {}: a cache needs at least 1 MiB", cache.memory));
        }
        Ok(())
    }

    /// Says which of the target, the span and the spare part leaves the suite too little.
    fn too_small(&self) -> String {
        let (text, name, holds) = (&self.target.text, self.suite.name, self.target.exact_bytes());
        let needed = format!("{name} needs at least {}", Size(SPAN_MIN));
        match self.span_bytes {
            _ if holds < SPAN_MIN => format!("{text}: has only {}; {needed}", Size(holds)),
            Some(span) if span < SPAN_MIN => format!("--span {}: {needed}", Size(span)),
            _ => format!(
                "{text}: has {}, of which --spare {} leaves {}; {needed}",
                Size(holds),
                self.spare_percent,
                Size(self.span())
            ),
        }
    }

    /// Bytes that the suite works on: what was asked for, as far as the drive and the spare part that
    /// is left unused go, in whole MiB.
    pub fn span(&self) -> u64 {
        let all = self.target.bytes();
        let usable = (u128::from(all) * u128::from(100 - self.spare_percent.min(100)) / 100) as u64;
        self.span_bytes.unwrap_or(all).min(usable) >> 20 << 20
    }

    /// Returns the share of the suite's usual time that its timed parts take, 1 at most.
    fn time_share(&self) -> f64 {
        (self.time_ns as f64 / self.suite.time_ns.max(1) as f64).min(1.0)
    }

    /// Returns a time of the suite's own, as much shorter as its timed parts are.
    pub(crate) fn shortened_ns(&self, usual_ns: u64) -> u64 {
        ((usual_ns as f64 * self.time_share()) as u64).max(1)
    }

    /// How it is shorter than the suite as it is usually run; None: it is not.
    pub fn shortened(&self) -> Option<String> {
        let seconds = |ns: u64| format!("{} s", ns as f64 / 1e9);
        let mut how = Vec::new();
        // A job that says how long it runs is not the shorter for that.
        let is_usual = |own: fn(&Job) -> bool| !self.jobs.iter().all(own);
        if self.time_ns < self.suite.time_ns && is_usual(|job| job.time_ns.is_some()) {
            how.push(format!("{} of {}", seconds(self.time_ns), seconds(self.suite.time_ns)));
        }
        if let Some(usual) = self.suite.span_bytes
            && self.span() < usual
            && is_usual(|job| job.span_bytes.is_some())
        {
            how.push(format!("{} of {}", Size(self.span()), Size(usual)));
        }
        (!how.is_empty()).then(|| how.join(", "))
    }

    /// The same with these jobs, over as much as the largest of them needs.
    pub fn with_jobs(self, jobs: Vec<Job>) -> Plan {
        let span = |job: &Job| job.span_bytes.or(self.span_bytes);
        // None is all of the drive, which is more than any number.
        let spans: Option<Vec<u64>> = jobs.iter().map(span).collect();
        let span_bytes = spans.and_then(|spans| spans.into_iter().max());
        let span_bytes = span_bytes.map(|bytes| bytes.max(SPAN_MIN));
        Plan { span_bytes, jobs, ..self }
    }

    /// Whether a test of this name is asked for, whatever the case of its letters.
    pub fn wants(&self, test: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.eq_ignore_ascii_case(test))
    }

    /// The same plan for the bare drive.
    pub fn bare(&self) -> Plan {
        Plan { cache: None, ..self.clone() }
    }
}

/// The least span: below that, a superblock of most drives is not full.
pub const SPAN_MIN: u64 = 64 << 20;
