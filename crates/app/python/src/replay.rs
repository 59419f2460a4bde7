//! `overdrive.replay`: the requests of a trace on a modelled drive, in virtual time.

use crate::bench::{failure, preparation, target};
use crate::errors::{of_trace, usage};
use crate::{call, names};
use block::{Policy, Size};
use lane::Prices;
use pyo3::prelude::*;
use replay::{Error, Options, PROFILE};
use std::path::PathBuf;
use suites::{Modelled, Plan, prices};
use traces::replay::Map;

/// The price list of the reviews in the manual: results with it are the same on all machines.
const PRICES: &str = include_str!("../../../../docs/reviews/prices.json");

/// Returns the costs of a cache's work: those of the manual's reviews, those of this machine
/// (`machine`, or `measure` to measure them again), or those in a file.
pub(crate) fn prices_of(asked: Option<&str>) -> Result<Prices, String> {
    let found = match asked {
        Some("machine") => rigs::prices::find(None),
        Some(_) => rigs::prices::find(asked),
        None => {
            let list = serde_json::from_str(PRICES).map_err(|error| error.to_string())?;
            return prices::from_json(&list);
        }
    };
    found.map(|found| found.prices)
}

/// Returns the policies that can be served, by the names of simulations.
#[pyfunction]
pub(crate) fn served_policies() -> Vec<&'static str> {
    let names = names::policies().into_iter();
    names.filter(|name| served(name).is_some()).collect()
}

/// Returns the policy of a served cache. None: it is only simulated.
fn served(name: &str) -> Option<Policy> {
    match name.eq_ignore_ascii_case("default") {
        true => Some(Policy::default()),
        false => name.parse().ok(),
    }
}

/// Checks that traces can be replayed on this drive in this state.
#[pyfunction]
pub(crate) fn check_replay(drive: &str, state: &str) -> PyResult<()> {
    let state = preparation("state", state)?;
    let plan = Plan { state, ..Plan::new(&PROFILE, target(drive, None)?) };
    plan.check().map_err(|what| usage(&what))
}

/// Replays a trace. Returns the object `overdrive.trace-replay/1` as text.
#[pyfunction]
#[pyo3(name = "replay",
       signature = (trace, drive, *, format, devices, cache, policy, seed, state, depth, dependent,
                    speed, idle_us_max, map, prices))]
#[allow(clippy::too_many_arguments, reason = "a function of Python; its parameters have names")]
pub(crate) fn replay_trace(
    py: Python<'_>,
    trace: PathBuf,
    drive: &str,
    format: Option<&str>,
    devices: Vec<String>,
    cache: Option<u64>,
    policy: &str,
    seed: Option<u64>,
    state: &str,
    depth: Option<u32>,
    dependent: bool,
    speed: Option<f64>,
    idle_us_max: Option<u64>,
    map: Option<&str>,
    prices: Option<&str>,
) -> PyResult<String> {
    let mapping = |name: &str| {
        let names = Map::ALL.into_iter().map(Map::name);
        let unknown = || usage(&format!("map {name}: {}", stack::unknown("mapping", name, names)));
        Map::by_name(name).ok_or_else(unknown)
    };
    let unserved = || {
        let names = served_policies().join(", ");
        usage(&format!("policy {policy}: a cache cannot be served with it; choose one of {names}"))
    };
    let (names, policy) = (names::format(format)?, served(policy).ok_or_else(unserved)?);
    let options = Options {
        trace,
        format: names,
        devices,
        speed,
        idle_us_max,
        depth,
        dependent,
        map: map.map(mapping).transpose()?,
    };
    let cache = cache.map(|bytes| block::CacheSpec { policy, ..suites::usual_cache(Size(bytes)) });
    let state = preparation("state", state)?;
    let plan = Plan { cache, state, ..Plan::new(&PROFILE, target(drive, seed)?) };
    plan.check().map_err(|what| usage(&what))?;
    host::want_huge_allocations();
    call::run(py, |signals| {
        let prices = match plan.cache.is_some() {
            true => prices_of(prices).map_err(|what| usage(&what))?,
            false => plan.prices,
        };
        let plan = Plan { prices, ..plan };
        let rig = Modelled::new(&plan.target, plan.prices).map_err(|what| usage(&what))?;
        let replayed = replay::run(&options, &plan, Box::new(rig), signals);
        let (replayed, halt) = replayed.map_err(|error| match error {
            Error::Trace(error) => of_trace(error),
            Error::Usage(message) => usage(&message),
            Error::Halt(halt) => failure(&plan, &halt),
        })?;
        if let Some(halt) = halt {
            return Err(failure(&plan, &halt));
        }
        Ok(replay::json::object(&options, &plan, &replayed, None).to_string())
    })?
}
