//! `overdrive volume clear-error`: the ways out of the failed state (C8).

use super::Target;
use super::clear_target::{ClearTarget, find_target};
use block::Size;
use daemon::control::words::{Ask, State};
use daemon::{MemoryUser, Rescued, check_rescue_place, rescue, runtime_directory};
use holder::{Busy, Keeper, Status};
use stack::{Exit, Failure};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The volume; one that no daemon serves is found by its holder.
    name: Option<String>,

    #[command(flatten)]
    way: Way,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Way {
    /// Write dirty data back once more, because the backing works again.
    #[arg(long, conflicts_with_all = ["discard_dirty", "rescue"])]
    retry: bool,
    /// Discard all data that is not on the backing. This loses acknowledged writes; with --rescue
    /// they are saved first, and discarded once they are on FILE's disk.
    #[arg(long)]
    discard_dirty: bool,
    /// Save all data that is not on the backing to this new file (a sparse image, with a ddrescue
    /// map next to it), on another disk. The data stays retained, and the volume failed, unless
    /// --discard-dirty is given, too.
    #[arg(long, value_name = "FILE")]
    rescue: Option<PathBuf>,
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    match find_target(control, options.name.as_deref())? {
        ClearTarget::Served(target) => of_served(*target, options),
        ClearTarget::Orphan(status) => of_orphan(&status, options),
    }
}

fn of_served(mut target: Target, options: &Options) -> Result<ExitCode, Failure> {
    let name = target.row.name.clone();
    if !matches!(target.row.state, State::Failed | State::Stalled) {
        let state = target.row.state.word();
        let message = format!("{name}: is {state}, not failed, so there is no error to clear");
        return Err(Failure::new(Exit::Negative, message));
    }
    let (mut rescued, mut failure) = (None, None);
    if let Some(path) = &options.way.rescue {
        let (memory, number) = target.daemon.memory(&name)?;
        let unchanged = || match target.daemon.memory(&name)?.1 == number {
            true => Ok(()),
            false => Err(changed(&name)),
        };
        let row = &target.row;
        // The backing as it was written, resolved in the daemon's working directory.
        let directory = std::fs::read_link(format!("/proc/{}/cwd", row.pid)).unwrap_or_default();
        let backing = Backing { keys: &row.keys, names: vec![directory.join(&row.backing)] };
        rescued = Some(save(memory, MemoryUser::Daemon, path, &backing, unchanged)?);
        failure = Some(number);
    }
    let discard_dirty = options.way.discard_dirty;
    if !options.way.retry && !discard_dirty {
        return Ok(print_result(&name, options, rescued.as_ref(), None));
    }
    let saved_to = options.way.rescue.as_deref().map(absolute);
    let ask = Ask::ClearError { volume: name.clone(), discard_dirty, failure, saved_to };
    let done = target.daemon.ask(&ask).map_err(|failure| after_saving(options, failure))?;
    Ok(print_result(&name, options, rescued.as_ref(), Some(&done)))
}

fn of_orphan(status: &Status, options: &Options) -> Result<ExitCode, Failure> {
    let (name, key, runtime) = (&status.volume, &status.key, runtime_directory());
    if options.way.retry {
        let message = format!(
            "{name}: no daemon serves it; 'overdrive serve {}' writes the retained data back",
            status.backing
        );
        return Err(Failure::new(Exit::NoDaemon, message));
    }
    let trouble = |error: std::io::Error| {
        let exit = match (Busy::of(&error), error.kind()) {
            (Some(_), _) => Exit::Busy,
            (None, std::io::ErrorKind::TimedOut) => Exit::NoDaemon,
            _ => Exit::Io,
        };
        Failure::new(exit, format!("{name}: its holder: {error}"))
    };
    let gone = || Failure::new(Exit::Negative, format!("{name}: its holder has ended"));
    let mut rescued = None;
    if let Some(path) = &options.way.rescue {
        let looked = Keeper::look(&runtime, key).map_err(trouble)?.ok_or_else(gone)?;
        let unchanged = || {
            let now = Keeper::status(&runtime, key).map_err(trouble)?.ok_or_else(gone)?;
            let same = now.is_orphaned() && now.takes == status.takes;
            if same { Ok(()) } else { Err(changed(name)) }
        };
        let names = status.path.iter().chain([&status.backing]).map(PathBuf::from).collect();
        let backing = Backing { keys: std::slice::from_ref(key), names };
        rescued = Some(save(looked.arena, MemoryUser::Nobody, path, &backing, unchanged)?);
    }
    if !options.way.discard_dirty {
        return Ok(print_result(name, options, rescued.as_ref(), None));
    }
    let takes = rescued.is_some().then_some(status.takes);
    Keeper::discard(&runtime, key, takes).map_err(|error| after_saving(options, trouble(error)))?;
    let done = serde_json::json!({ "discarded_bytes": status.dirty_blocks * 4096 });
    Ok(print_result(name, options, rescued.as_ref(), Some(&done)))
}

/// Returns an absolute path, because the daemon has another working directory.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Returns the failure if the memory was changed during the rescue.
fn changed(name: &str) -> Failure {
    let message = format!("{name}: was served or cleared during the rescue; try again");
    Failure::new(Exit::Busy, message)
}

/// Returns the reason why saved data is not discarded.
fn after_saving(options: &Options, failure: Failure) -> Failure {
    match &options.way.rescue {
        Some(path) => {
            let message = format!("saved to {}, and still retained: {failure}", path.display());
            Failure::new(failure.exit, message)
        }
        None => failure,
    }
}

/// The failed backing: its keys, and paths that it may have.
struct Backing<'a> {
    keys: &'a [String],
    names: Vec<PathBuf>,
}

fn save(
    memory: OwnedFd,
    user: MemoryUser,
    path: &Path,
    backing: &Backing<'_>,
    unchanged: impl FnOnce() -> Result<(), Failure>,
) -> Result<Rescued, Failure> {
    check_rescue_place(path, backing.keys, &backing.names)?;
    let rescued = rescue(memory, user, path, unchanged)?;
    if rescued.rejected > 0 {
        daemon::tell!(
            "overdrive: {} damaged headers: their blocks could not be saved",
            rescued.rejected
        );
    }
    Ok(rescued)
}

/// Prints the result. If `done` is None, data was only saved.
fn print_result(
    name: &str,
    options: &Options,
    rescued: Option<&Rescued>,
    done: Option<&serde_json::Value>,
) -> ExitCode {
    let bytes = |key: &str| Size(done.and_then(|done| done[key].as_u64()).unwrap_or(0));
    let unflushed = done.is_some_and(|done| done["may_miss_unflushed"] == true);
    let unflushed = match unflushed {
        true => {
            "; writes made directly to the backing since its last successful flush may be \
             missing: check its contents"
        }
        false => "",
    };
    if options.json {
        let rescued = rescued
            .map(|rescued| serde_json::json!({ "bytes": rescued.bytes, "map": rescued.map }));
        let said = serde_json::json!({
            "schema": "overdrive.volume-cleared/1",
            "volume": name, "rescued": rescued, "done": done, "kept": done.is_none(),
        });
        daemon::say!("{said}");
        return ExitCode::SUCCESS;
    }
    if let (Some(rescued), Some(path)) = (rescued, &options.way.rescue) {
        let fate = match done {
            Some(_) => format!("and discarded here{unflushed}"),
            None => "and still retained here, until --retry writes it back or --discard-dirty \
                     discards it"
                .to_owned(),
        };
        daemon::say!(
            "{name}: {} saved to {}, {fate}; apply it to a repaired copy with: ddrescue --force \
             --domain-mapfile={} {} COPY new.map",
            Size(rescued.bytes),
            path.display(),
            rescued.map.display(),
            path.display(),
        );
    } else if options.way.retry {
        let written = bytes("written_bytes");
        daemon::say!("{name}: {written} written and flushed; the volume serves again{unflushed}");
    } else {
        daemon::say!("{name}: {} discarded{unflushed}", bytes("discarded_bytes"));
    }
    ExitCode::SUCCESS
}
