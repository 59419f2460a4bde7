//! The suites of a review, and how they are shortened.

use super::usage;
use stack::Failure;
use suites::{Plan, Suite, Target, find};

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;
const GIB: u64 = 1 << 30;

/// The extent of a review.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Extent {
    /// Shortened tests of the suites that take minutes.
    Quick,
    /// The suites of the reviews with their own times.
    Usual,
    /// All suites.
    Full,
}

impl Extent {
    pub(super) fn word(self) -> &'static str {
        match self {
            Extent::Quick => "quick",
            Extent::Usual => "usual",
            Extent::Full => "full",
        }
    }
}

/// A suite of a review.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Its name.
    pub(super) suite: &'static str,
    /// The least extent in which it runs.
    from: Extent,
    /// The time of its tests in a quick review, in nanoseconds.
    quick_ns: u64,
    /// The part of the drive in a quick review. None: the suite's own.
    quick_span: Option<u64>,
    /// The part of the drive in all others. None: the suite's own.
    span: Option<u64>,
    /// The scale of a generated trace in a quick review: one part in this number.
    quick_scale: u32,
    /// The machine's time for a quick pass over a modelled drive.
    costs: Costs,
}

/// Milliseconds of a processor for a quick pass over a modelled drive: measured with `overdrive
/// review model:samsung-840-evo-250 --with rapid --quick --json`, whose `runs` have the times of
/// this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Costs {
    pub(super) bare_ms: u64,
    pub(super) cached_ms: u64,
    pub(super) rapid_ms: u64,
}

/// The part of a generated trace that a quick review replays: one fiftieth.
const TRACE_PARTS: u32 = 50;

/// Costs of suites that no quick review has, per test time of a second: as those of the others.
const UNMEASURED: Costs = costs(40, 500, 400);

const fn costs(bare_ms: u64, cached_ms: u64, rapid_ms: u64) -> Costs {
    Costs { bare_ms, cached_ms, rapid_ms }
}

const fn part(suite: &'static str, from: Extent, quick_ms: u64, costs: Costs) -> Part {
    let quick_ns = quick_ms * MS;
    Part { suite, from, quick_ns, quick_span: None, span: None, quick_scale: 1, costs }
}

/// The suites in the order of a review.
const PARTS: [Part; 20] = [
    part("qd1", Extent::Quick, 1_000, costs(170, 2400, 1000)),
    part("fourcorners", Extent::Quick, 500, costs(130, 800, 500)),
    part("corners", Extent::Quick, 200, costs(370, 9100, 5800)),
    // Twice the suite's file: the reviews of 2013 used 512 MB and 2 GB.
    Part {
        quick_span: Some(512 << 20),
        span: Some(512 << 20),
        ..part("atto", Extent::Quick, 100, costs(580, 2600, 1400))
    },
    part("sizes", Extent::Quick, 100, costs(580, 2650, 1400)),
    part("cdm", Extent::Quick, 50, costs(350, 2700, 950)),
    part("as-ssd", Extent::Quick, 200, costs(250, 1200, 500)),
    Part {
        quick_span: Some(4 * GIB),
        ..part("hdtune", Extent::Quick, 200, costs(400, 2700, 2050))
    },
    part("iometer", Extent::Quick, 300, costs(650, 2350, 2550)),
    part("loadtime", Extent::Quick, 0, costs(1700, 480, 950)),
    part("filebench", Extent::Quick, 1_000, costs(6700, 5900, 5200)),
    Part { quick_scale: TRACE_PARTS, ..part("heavy", Extent::Quick, 0, costs(900, 2000, 1600)) },
    Part { quick_scale: TRACE_PARTS, ..part("light", Extent::Quick, 0, costs(600, 900, 800)) },
    Part {
        quick_scale: TRACE_PARTS,
        ..part("drivebench2", Extent::Usual, 0, costs(3000, 8500, 7000))
    },
    part("trim", Extent::Usual, 1_000, UNMEASURED),
    part("consistency", Extent::Usual, 1_000, UNMEASURED),
    part("seqfill", Extent::Full, 0, UNMEASURED),
    part("sweep", Extent::Full, 100, UNMEASURED),
    part("pts", Extent::Full, 1_000, UNMEASURED),
    part("pts-latency", Extent::Full, 1_000, UNMEASURED),
];

impl Part {
    pub(super) fn suite(&self) -> &'static dyn Suite {
        find(self.suite).expect("a suite of ours")
    }

    /// Returns the costs of a pass with this plan in milliseconds: those of a quick one, as many
    /// times as its tests are longer or larger.
    pub(super) fn costs(&self, plan: &Plan) -> Costs {
        // With the same cache: some suites run other tests with one.
        let quick = self.plan(Extent::Quick, plan.target.clone());
        let extent = |plan: &Plan| (plan.time_ns, plan.span_bytes, plan.trace_scale);
        if extent(plan) == extent(&quick) {
            return self.costs;
        }
        let quick = Plan { cache: plan.cache.clone(), driver: plan.driver, ..quick };
        let quick = suites::list(&quick).work();
        let all = suites::list(plan).work();
        let ratio = |all: u64, quick: u64| if quick > 0 { all as f64 / quick as f64 } else { 1.0 };
        let times = ratio(all.timed_ns, quick.timed_ns);
        let times = times.max(ratio(all.sized_bytes, quick.sized_bytes));
        let longer = |ms: u64| (ms as f64 * times) as u64;
        let Costs { bare_ms, cached_ms, rapid_ms } = self.costs;
        costs(longer(bare_ms), longer(cached_ms), longer(rapid_ms))
    }

    /// Returns its plan for a target, without a cache.
    pub(super) fn plan(&self, extent: Extent, target: Target) -> Plan {
        let usual = Plan::new(self.suite().profile(), target);
        match extent {
            Extent::Quick => Plan {
                time_ns: self.quick_ns.min(usual.time_ns),
                trace_scale: 1.0 / f64::from(self.quick_scale),
                span_bytes: self.quick_span.or(usual.span_bytes),
                ..usual
            },
            Extent::Usual | Extent::Full => {
                Plan { span_bytes: self.span.or(usual.span_bytes), ..usual }
            }
        }
    }
}

/// Returns the suites of a review; `only` limits them.
///
/// # Errors
/// A name is not that of a suite of a review.
pub(super) fn chosen(extent: Extent, only: &[String]) -> Result<Vec<Part>, Failure> {
    for name in only {
        if !PARTS.iter().any(|part| part.suite.eq_ignore_ascii_case(name)) {
            let names: Vec<&str> = PARTS.iter().map(|part| part.suite).collect();
            let names = names.join(", ");
            return Err(usage(format!("--only {name}: is no suite of a review; write {names}")));
        }
    }
    let is_chosen = |part: &&Part| match only.is_empty() {
        true => part.from <= extent,
        false => only.iter().any(|name| part.suite.eq_ignore_ascii_case(name)),
    };
    Ok(PARTS.iter().filter(is_chosen).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_costs_as_much_more_as_its_tests_are_longer_with_a_cache_as_without() {
        let target = Target::parse("model:samsung-840-evo-250").expect("a model");
        for part in PARTS.iter().filter(|part| ["corners", "cdm"].contains(&part.suite)) {
            let bare = part.plan(Extent::Quick, target.clone());
            let cache = Some(part.suite().cache(block::Size(1 << 30)));
            let cached = Plan { cache, ..bare.clone() };
            assert_eq!([&bare, &cached].map(|plan| part.costs(plan)), [part.costs; 2], "{part:?}");
            let Costs { bare_ms, cached_ms, rapid_ms } = part.costs;
            let twice = costs(2 * bare_ms, 2 * cached_ms, 2 * rapid_ms);
            let longer = [bare, cached].map(|plan| Plan { time_ns: 2 * plan.time_ns, ..plan });
            assert_eq!(longer.map(|plan| part.costs(&plan)), [twice; 2], "{part:?}");
        }
    }

    #[test]
    fn a_part_is_a_suite_and_a_quick_one_is_shorter() {
        let target = Target::parse("model:samsung-840-evo-250").expect("a model");
        for part in PARTS {
            let quick = part.plan(Extent::Quick, target.clone());
            let usual = part.plan(Extent::Usual, target.clone());
            assert!(quick.time_ns <= usual.time_ns, "{part:?}");
            assert_eq!(quick.check(), Ok(()), "{part:?}");
            assert_eq!(
                quick.shortened().is_some(),
                quick.time_ns < part.suite().profile().time_ns
                    || part.quick_span.is_some_and(|it| part
                        .suite()
                        .profile()
                        .span_bytes
                        .is_some_and(|own| it < own)),
                "{part:?}"
            );
        }
        let names = |extent, only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            chosen(extent, &only).map(|parts| parts.len())
        };
        assert_eq!(names(Extent::Quick, &[]).ok(), Some(13));
        assert_eq!(names(Extent::Full, &[]).ok(), Some(PARTS.len()));
        assert_eq!(names(Extent::Quick, &["QD1", "pts"]).ok(), Some(2));
        let refused = names(Extent::Quick, &["qd2"]).expect_err("no suite").to_string();
        assert!(
            refused.starts_with("--only qd2: is no suite of a review; write qd1,"),
            "{refused}"
        );
    }
}
