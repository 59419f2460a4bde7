//! The runs of a suite: one, or one for each requested spare share.

use super::{Arguments, expected, incomplete, plan, tree};
use crate::progress::Stages;
use crate::watch::Watch;
use ::report::circumstances::utc;
use rustix::time::{ClockId, clock_gettime};
use stack::{Exit, Failure};
use std::io::IsTerminal;
use suites::Outcome;

/// Results of the runs.
pub(super) struct Runs {
    /// The outcomes, smallest spare share first.
    pub(super) outcomes: Vec<Outcome>,
    /// How the last run ended; after an incomplete run there is no other.
    pub(super) ended: Result<(), Failure>,
}

/// The outcome of one run, and how it ended.
type Run = (Outcome, Result<(), Failure>);

/// Runs the suite.
///
/// # Errors
/// The target cannot be tested so, and nothing was measured.
pub(super) fn run(arguments: &Arguments) -> Result<Runs, Failure> {
    if arguments.suite().is_of_files()
        && let Some(directory) = tree::directory(arguments)
    {
        let (outcome, ended) = tree::run(arguments, directory)?;
        return Ok(Runs { outcomes: vec![with_origin(outcome)], ended });
    }
    if arguments.tree.is_used() {
        return Err(tree::unused(arguments));
    }
    let mut outcomes = Vec::new();
    for spare_percent in spares(arguments)? {
        let (outcome, ended) = match run_one(arguments, spare_percent) {
            Ok(run) => run,
            Err(failure) if outcomes.is_empty() => return Err(failure),
            Err(failure) => return Ok(Runs { outcomes, ended: Err(failure) }),
        };
        outcomes.insert(0, with_origin(outcome));
        if ended.is_err() {
            return Ok(Runs { outcomes, ended });
        }
    }
    Ok(Runs { outcomes, ended: Ok(()) })
}

fn run_one(arguments: &Arguments, spare_percent: u32) -> Result<Run, Failure> {
    let watch = || Watch::new(Stages::with_time_left());
    // A file that is made must be removed if the program is interrupted while it allocates the
    // space. With other targets, opening may wait, and a signal then ends the program.
    let early = arguments.live.makes_file().then(watch).transpose()?;
    let (plan, rig) = plan::set_up(arguments, spare_percent)?;
    let mut watch = early.map_or_else(watch, Ok)?;
    // A simulated run ends soon, and a program that reads JSON waits for its end.
    let is_watched = std::io::stderr().is_terminal();
    let is_shown = is_watched || plan.target.model.is_none() && !arguments.json;
    if let Some(time) = is_shown.then(|| expected::time(&plan)).flatten() {
        daemon::tell!("overdrive: {time}");
    }
    let (mut outcome, ended) = suites::run_on(rig, &plan, &mut watch);
    watch.finish();
    if plan.target.model.is_some() {
        suites::published::mark_doubts(&mut outcome);
    }
    Ok((outcome, ended.map_err(|halt| incomplete::failure(&plan, &halt))))
}

/// Adds the command, and in real time the machine: in virtual time nothing depends on it.
fn with_origin(outcome: Outcome) -> Outcome {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let command = words.collect();
    if outcome.time != "real" {
        return Outcome { command, ..outcome };
    }
    Outcome { command, machine: rigs::machine(), at: Some(utc_now()), ..outcome }
}

/// Returns the present time: `2026-11-25T10:00:00Z`.
pub(super) fn utc_now() -> String {
    let time = clock_gettime(ClockId::Realtime);
    utc(time.tv_sec.max(0) as u64)
}

/// Returns the spare shares in the order of the runs. On a real drive each run must find its spare
/// part unwritten, so the largest comes first.
fn spares(arguments: &Arguments) -> Result<Vec<u32>, Failure> {
    let mut spares = arguments.spare.clone();
    spares.sort_unstable_by_key(|percent| std::cmp::Reverse(*percent));
    spares.dedup();
    let suite = arguments.suite().profile().name;
    if spares.len() > 1 && suite != "consistency" {
        let said: Vec<String> = arguments.spare.iter().map(u32::to_string).collect();
        let said = said.join(",");
        let message =
            format!("--spare {said}: {suite} accepts one value; only consistency accepts several");
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(spares)
}

/// Returns the only spare share.
///
/// # Errors
/// There are several.
pub(super) fn only_spare(arguments: &Arguments) -> Result<u32, Failure> {
    match spares(arguments)?.as_slice() {
        [one] => Ok(*one),
        _ => Err(Failure::new(
            Exit::Usage,
            "--spare: a job file has the loads of one value; give one value",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    #[test]
    fn the_largest_spare_part_comes_first_and_only_consistency_takes_several() {
        let spares = |words: &[&str]| {
            let command = Arguments::augment_args(clap::Command::new("bench").no_binary_name(true));
            let matches = command.get_matches_from(words);
            let arguments = Arguments::from_arg_matches(&matches).expect("they were just parsed");
            super::spares(&arguments).map_err(|failure| failure.to_string())
        };
        let model = "model:samsung-840-evo-250";
        assert_eq!(spares(&["qd1", model]), Ok(vec![0]));
        assert_eq!(spares(&["consistency", model, "--spare", "0,25,12,25"]), Ok(vec![25, 12, 0]));
        let refused =
            spares(&["qd1", model, "--spare", "0,12"]).expect_err("qd1 accepts one value");
        assert!(refused.starts_with("--spare 0,12: qd1 accepts one value"), "{refused}");
    }
}
