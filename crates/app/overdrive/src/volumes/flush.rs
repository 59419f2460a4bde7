//! `overdrive volume flush`: one volume, or all volumes before the machine sleeps.

use super::clear_target::silent_holder;
use super::waiting::ask_all;
use super::{Name, Target, losses_in, roll, simple};
use block::Size;
use daemon::control::words::Ask;
use daemon::control::{Daemon, Silent};
use holder::{Keeper, Status};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    volume: Name,

    /// Flush all volumes of this user, in parallel. Succeeds if there are none; fails if any data
    /// stays dirty.
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    let question = |volume: &str| Ask::Flush { volume: volume.to_owned() };
    if !options.all {
        return simple(control, &options.volume, "flushed", |volume| question(&volume));
    }
    let (mut targets, mut failures) = gather(control)?;
    let answers = ask_all(&mut targets, question);
    let (mut flushed, mut missing) = (Vec::new(), serde_json::Map::new());
    for (target, answer) in targets.into_iter().zip(answers) {
        match answer {
            Ok(answer) => {
                let losses = losses_in(answer).and_then(|losses| losses.sentence());
                let name = target.row.name;
                losses.map(|sentence| missing.insert(name.clone(), sentence.into()));
                flushed.push(name);
            }
            Err(failure) => failures.push(failure),
        }
    }
    if options.volume.json {
        let said = serde_json::json!({
            "schema": "overdrive.volumes-done/1", "volumes": flushed, "done": "flushed", "missing": missing,
        });
        daemon::say!("{said}");
    } else {
        for name in &flushed {
            let sentence = missing.get(name).and_then(serde_json::Value::as_str);
            let sentence = sentence.map(|sentence| format!("; {sentence}")).unwrap_or_default();
            daemon::say!("{name} flushed{sentence}");
        }
    }
    failures.iter().for_each(|failure| daemon::tell!("overdrive: {failure}"));
    Ok(failures.first().map_or(ExitCode::SUCCESS, |failure| ExitCode::from(failure.exit as u8)))
}

/// Returns all served volumes, each with its own connection, and a failure for each volume that may
/// be dirty and cannot be flushed.
fn gather(control: Option<&PathBuf>) -> Result<(Vec<Target>, Vec<Failure>), Failure> {
    let daemons = roll(control)?;
    let mut targets = Vec::new();
    for (daemon, rows) in daemons.answered {
        for row in rows {
            targets.push(Target { daemon: Daemon::open_another(&daemon)?, row });
        }
    }
    let mut failures: Vec<Failure> = daemons.silent.iter().map(Silent::failure).collect();
    if control.is_none() {
        let holders = Keeper::roll(&daemon::runtime_directory()).unwrap_or_default();
        let orphans = holders.answered.iter().filter(|held| held.is_orphaned());
        failures.extend(orphans.filter(|held| held.dirty_blocks > 0).map(orphaned));
        let is_known = |key: &String| targets.iter().any(|target| target.row.keys.contains(key));
        failures.extend(
            holders.silent.iter().filter(|silent| !is_known(&silent.key)).map(silent_holder),
        );
    }
    Ok((targets, failures))
}

fn orphaned(held: &Status) -> Failure {
    let backing = held.path.as_ref().unwrap_or(&held.backing);
    let message = format!(
        "{}: {} of dirty data are in memory, and no daemon serves it; serve {backing} again",
        held.volume,
        Size(held.dirty_blocks * 4096),
    );
    Failure::new(Exit::NoDaemon, message)
}
