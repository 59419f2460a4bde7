//! `overdrive volume clear-error`: the ways out of the failed state (C8).

use super::list::orphans;
use super::{Target, find};
use block::Size;
use holder::Keeper;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use volume::control::words::{Ask, State};
use volume::{Exit, Failure, Rescued, rescue, runtime_directory};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The volume; one that nobody serves is found at its holder.
    name: Option<String>,

    #[command(flatten)]
    way: Way,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Way {
    /// The backing is well again: write what is dirty once more.
    #[arg(long)]
    retry: bool,
    /// Give up everything that is not on the backing. This loses acknowledged writes.
    #[arg(long)]
    discard_dirty: bool,
    /// Save what is not on the backing to this new file (a sparse image, with a ddrescue map beside
    /// it), then give it up.
    #[arg(long, value_name = "FILE")]
    rescue: Option<PathBuf>,
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    match meant(control, options.name.as_deref())? {
        Meant::Served(target) => of_served(*target, options),
        Meant::Orphan(status) => of_orphan(&status, options),
    }
}

enum Meant {
    Served(Box<Target>),
    Orphan(holder::Status),
}

/// The volume that is meant, served or orphaned. What is given up cannot be had again: where more
/// than one could be meant, or somebody does not answer, none is.
fn meant(control: Option<&PathBuf>, name: Option<&str>) -> Result<Meant, Failure> {
    if control.is_some() {
        return find(control, name).map(|target| Meant::Served(Box::new(target)));
    }
    let mut served = Vec::new();
    for mut daemon in super::connected(None)? {
        served.extend(daemon.rows()?);
    }
    let is_named = |volume: &str| name.is_none_or(|name| name == volume);
    let known_as = |status: &holder::Status| {
        is_named(&status.volume)
            || name.is_some_and(|name| [&status.backing, &status.key].contains(&&name.to_owned()))
    };
    served.retain(|row| is_named(&row.name));
    let mut orphans: Vec<holder::Status> = orphans().into_iter().filter(known_as).collect();
    match (served.len(), orphans.len()) {
        (0, 1) => Ok(Meant::Orphan(orphans.remove(0))),
        (_, 0) => find(None, name).map(|target| Meant::Served(Box::new(target))),
        _ => {
            let served = served.iter().map(|row| format!("{} (served, {})", row.name, row.backing));
            let orphans =
                orphans.iter().map(|one| format!("{} (orphaned, {})", one.volume, one.backing));
            let all: Vec<String> = served.chain(orphans).collect();
            let message = format!(
                "which one? {}; name it, an orphan also by its backing as it is written here",
                all.join(", ")
            );
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

fn of_served(mut target: Target, options: &Options) -> Result<ExitCode, Failure> {
    let name = target.row.name.clone();
    if !matches!(target.row.state, State::Failed | State::Stalled) {
        let state = target.row.state.word();
        let message = format!("{name}: is {state}, not failed; there is no error to clear");
        return Err(Failure::new(Exit::Negative, message));
    }
    let (mut rescued, mut failure) = (None, None);
    if let Some(path) = &options.way.rescue {
        let (memory, number) = target.daemon.memory(&name)?;
        rescued = Some(save(memory, path)?);
        failure = Some(number);
    }
    let discard_dirty = !options.way.retry;
    let ask = Ask::ClearError { volume: name.clone(), discard_dirty, failure };
    let done = target.daemon.ask(&ask);
    if let (Err(failure), Some(_), Some(path)) = (&done, &rescued, &options.way.rescue) {
        let message = format!("saved to {}, but: {failure}", path.display());
        return Err(Failure::new(failure.exit, message));
    }
    tell(&name, options, rescued.as_ref(), &done?);
    Ok(ExitCode::SUCCESS)
}

fn of_orphan(status: &holder::Status, options: &Options) -> Result<ExitCode, Failure> {
    let (name, runtime) = (&status.volume, runtime_directory());
    let io = |error: std::io::Error| Failure::new(Exit::Io, format!("{name}: its holder: {error}"));
    if options.way.retry {
        let message = format!(
            "{name}: nobody serves it; 'overdrive serve {}' writes out what is kept",
            status.backing
        );
        return Err(Failure::new(Exit::NoDaemon, message));
    }
    let mut rescued = None;
    if let Some(path) = &options.way.rescue {
        let looked = Keeper::look(&runtime, &status.key).map_err(io)?;
        let gone = || Failure::new(Exit::Negative, format!("{name}: its holder has ended"));
        rescued = Some(save(looked.ok_or_else(gone)?.arena, path)?);
    }
    Keeper::discard(&runtime, &status.key).map_err(io)?;
    let done = serde_json::json!({ "discarded_bytes": status.dirty_blocks * 4096 });
    tell(name, options, rescued.as_ref(), &done);
    Ok(ExitCode::SUCCESS)
}

fn save(memory: std::os::fd::OwnedFd, path: &Path) -> Result<Rescued, Failure> {
    let rescued = rescue(memory, path)?;
    if rescued.rejected > 0 {
        volume::tell!(
            "overdrive: {} damaged headers: what they stood for could not be saved",
            rescued.rejected
        );
    }
    Ok(rescued)
}

fn tell(name: &str, options: &Options, rescued: Option<&Rescued>, done: &serde_json::Value) {
    let bytes = |key: &str| done[key].as_u64().unwrap_or(0);
    if options.json {
        let rescued = rescued
            .map(|rescued| serde_json::json!({ "bytes": rescued.bytes, "map": rescued.map }));
        let said = serde_json::json!({
            "schema": "overdrive.volume-cleared/1",
            "volume": name, "rescued": rescued, "done": done,
        });
        volume::say!("{said}");
        return;
    }
    match (rescued, &options.way.rescue) {
        (Some(rescued), Some(path)) => volume::say!(
            "{name}: {} saved to {}; put them onto a mended copy with: ddrescue --force \
             --domain-mapfile={} {} COPY new.map",
            Size(rescued.bytes),
            path.display(),
            rescued.map.display(),
            path.display(),
        ),
        _ if options.way.retry => {
            volume::say!(
                "{name}: {} written; the volume is well again",
                Size(bytes("written_bytes"))
            );
        }
        _ => volume::say!("{name}: {} given up", Size(bytes("discarded_bytes"))),
    }
}
