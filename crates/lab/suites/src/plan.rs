//! The plan of a suite, as plain data.

use crate::driver::DriverCost;
use crate::job::Job;
use crate::preparation::{Preparation, SECONDS_MAX, Step};
use crate::target::Target;
use block::{CacheSpec, Size};
use lane::Prices;

/// The name of a suite, and its defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description, in one line without a full stop.
    pub about: &'static str,
    /// Whether the user may choose the state of the drive; other suites create it themselves.
    pub takes_state: bool,
    /// Its preparation of the span before it measures, in the syntax of [`Preparation`].
    pub preparation: &'static str,
    /// Duration of its timed parts, in nanoseconds of its clock; 0: it ends by itself.
    pub time_ns: u64,
    /// The part of the drive that it uses. None: all of it.
    pub span_bytes: Option<u64>,
}

/// A `dirty_age` that no run reaches: a year.
pub const AGE_OFF_MS: u64 = 365 * 86_400_000;

/// The plan of a suite.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The suite.
    pub suite: &'static Profile,
    /// The year of the test, for suites that reviewers changed. None: the usual one.
    pub era: Option<u16>,
    /// The target.
    pub target: Target,
    /// The cache in front. None: bare.
    pub cache: Option<CacheSpec>,
    /// The prices of the cache's work. Without a cache nothing is charged.
    pub prices: Prices,
    /// The driver of a cache of another vendor, in front of the cache. None: none.
    pub driver: Option<DriverCost>,
    /// The preparation of the whole drive.
    pub state: Preparation,
    /// The suite's preparation of its span, after that.
    pub preparation: Preparation,
    /// The loads of the suite `custom`, one after the other; the other suites define their own.
    pub jobs: Vec<Job>,
    /// The scale of a generated trace: 1 for the whole one.
    pub trace_scale: f64,
    /// Only the test of this name, for suites with separate tests. None: all.
    pub only: Option<String>,
    /// The part of the drive that is left unused, in percent of the visible size.
    pub spare_percent: u32,
    /// The number of bytes at the start of the drive that the suite uses. None: all.
    pub span_bytes: Option<u64>,
    /// Duration of the timed parts, in nanoseconds of virtual time.
    pub time_ns: u64,
    /// Tests that write are left out, and the contents of the target do not change.
    pub reads_only: bool,
    /// The share of the suite's own pauses that is kept: 1 for all, 0 for none.
    pub rest_share: f64,
}

impl Plan {
    /// Returns the suite with its defaults.
    pub fn new(suite: &'static Profile, target: Target) -> Plan {
        Plan {
            suite,
            era: None,
            target,
            cache: None,
            prices: Prices::default(),
            driver: None,
            state: Preparation::default(),
            preparation: Preparation::parse(suite.preparation)
                .expect("a suite's own steps are sound"),
            jobs: vec![Job::default()],
            trace_scale: 1.0,
            only: None,
            spare_percent: 0,
            span_bytes: suite.span_bytes,
            time_ns: suite.time_ns,
            reads_only: false,
            rest_share: 1.0,
        }
    }

    /// Returns the same plan for a target whose contents must not change: writes are left out.
    pub fn reading(self) -> Plan {
        let idle = |steps: Preparation| {
            let idle = steps.0.into_iter().filter(|step| matches!(step, Step::Idle { .. }));
            Preparation(idle.collect())
        };
        let (state, preparation) = (idle(self.state), idle(self.preparation));
        Plan { reads_only: true, state, preparation, ..self }
    }

    /// Returns the same plan for a target in real time: pauses are shortened in proportion to the
    /// timed parts, and left out for a target that does nothing in them.
    ///
    /// A pause of a modelled drive takes no time, and its effect on the drive is measured.
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

    /// Checks that the parts fit together.
    ///
    /// # Errors
    /// The parts that do not, and the input to use instead.
    pub fn check(&self) -> Result<(), String> {
        let name = self.suite.name;
        if !self.state.0.is_empty() && !self.suite.takes_state {
            let state = self.state.name().map_or_else(|| self.state.to_string(), str::to_owned);
            return Err(format!(
                "--state {state}: {name} sets the state of the drive itself; omit --state"
            ));
        }
        if self.spare_percent > 90 {
            return Err(format!("--spare {}: write 0 to 90 percent", self.spare_percent));
        }
        let span = self.span();
        if span < SPAN_MIN {
            return Err(self.too_small());
        }
        if let Some(job) = self.jobs.iter().find(|job| job.span_bytes > Some(span)) {
            let (name, own) = (job.name(), Size(job.span_bytes.unwrap_or_default()));
            return Err(format!(
                "load '{name}': span {own}: only {} can be used; write a smaller span",
                Size(span)
            ));
        }
        if self.suite.time_ns > 0 && self.time_ns == 0 {
            return Err("--time 0: nothing would be measured; write at least 1s".to_owned());
        }
        let most_ns = u64::from(SECONDS_MAX) * 1_000_000_000;
        if self.time_ns > most_ns {
            let seconds = self.time_ns / 1_000_000_000;
            return Err(format!("--time {seconds}s: write at most {SECONDS_MAX}s"));
        }
        if let Some(cache) = &self.cache
            && cache.memory.0 < 1 << 20
        {
            return Err(format!("--cache {}: a cache needs at least 1 MiB", cache.memory));
        }
        Ok(())
    }

    /// Names the one of target, span and spare part that leaves the suite too little.
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

    /// Returns the bytes that the suite uses: the planned span, limited by the drive without its
    /// spare part, in whole MiB.
    pub fn span(&self) -> u64 {
        let all = self.target.bytes();
        let usable = (u128::from(all) * u128::from(100 - self.spare_percent.min(100)) / 100) as u64;
        self.span_bytes.unwrap_or(all).min(usable) >> 20 << 20
    }

    /// Returns the ratio of its timed parts to the suite's usual time, at most 1.
    fn time_share(&self) -> f64 {
        (self.time_ns as f64 / self.suite.time_ns.max(1) as f64).min(1.0)
    }

    /// Shortens a time of the suite in proportion to its timed parts.
    pub(crate) fn shortened_ns(&self, usual_ns: u64) -> u64 {
        ((usual_ns as f64 * self.time_share()) as u64).max(1)
    }

    /// Describes how it is shorter than the suite's defaults. None: it is not.
    pub fn shortened(&self) -> Option<String> {
        let seconds = |ns: u64| format!("{} s", ns as f64 / 1e9);
        let mut how = Vec::new();
        // A job with its own duration is not a shortened one.
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

    /// Returns the same plan with these jobs, with the span that the largest of them needs.
    pub fn with_jobs(self, jobs: Vec<Job>) -> Plan {
        let span = |job: &Job| job.span_bytes.or(self.span_bytes);
        // None means the whole drive, which is more than any number.
        let spans: Option<Vec<u64>> = jobs.iter().map(span).collect();
        let span_bytes = spans.and_then(|spans| spans.into_iter().max());
        let span_bytes = span_bytes.map(|bytes| bytes.max(SPAN_MIN));
        Plan { span_bytes, jobs, ..self }
    }

    /// Whether a test of this name is selected, ignoring case.
    pub fn selects(&self, test: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.eq_ignore_ascii_case(test))
    }

    /// Returns the same plan for the bare drive.
    pub fn bare(&self) -> Plan {
        Plan { cache: None, ..self.clone() }
    }
}

/// Minimum span: a smaller one does not fill a superblock of most drives.
pub const SPAN_MIN: u64 = 64 << 20;
