//! `overdrive volume`: an operator's view of served volumes, and actions on them.

mod absent;
mod clear;
mod clear_target;
mod flush;
mod forget;
#[cfg(feature = "history")]
mod history;
mod list;
mod map;
mod power;
mod save;
mod set;
mod show;
mod stats;
mod waiting;

pub(crate) use absent::{
    all as waiting_volumes, failure as waiting_failure, find as find_waiting, mounted as mounted_at,
};
use clap::Subcommand;
use daemon::control::losses::Losses;
use daemon::control::words::{Ask, Row};
use daemon::control::{Daemon, Roll, call_roll};
pub(crate) use list::unserved_with_reasons;
pub(crate) use map::MapDuring;
use stack::{Exit, Failure};
pub(crate) use stats::seconds as interval;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
pub(crate) use waiting::ask;

/// List, show and control the volumes that are served.
///
/// NAME may be omitted if only one volume is served. Examples:
///   overdrive volume list
///   overdrive volume stats db
///   overdrive volume freeze db && cp --reflink /srv/db.img copy.img; overdrive volume resume db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Use only the daemon at this control socket.
    #[arg(long, global = true, value_name = "PATH")]
    control: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// List all volumes: served ones, those that wait for a daemon, and unwritten data left by
    /// daemons that died.
    List(list::Options),
    /// Show a volume's stack, limits and settings.
    Show(Name),
    Stats(stats::Options),
    #[cfg(feature = "history")]
    History(history::Options),
    Map(map::Options),
    /// Make all answered writes durable.
    Flush(flush::Options),
    /// Write all dirty data back, then bypass the cache until 'resume'.
    Pause(Name),
    /// Hold writes back and make all answered ones durable, so that the backing can be copied,
    /// until 'resume'.
    Freeze(Name),
    /// End 'pause' and 'freeze'.
    Resume(Name),
    /// Remove the saved lists of a volume's hot and start-up blocks. While the volume is served,
    /// new ones are saved later; 'set warm=off' prevents that.
    Forget(Name),
    Set(set::Options),
    /// End the failed state of a volume, after writing dirty data to its backing has failed.
    ClearError(clear::Options),
    /// Cut the power of a volume's modelled drive: data that had not reached its flash is lost.
    PowerCut(power::Options),
    /// Disconnect a volume's clients, write its data back, and release its backing.
    Detach(Name),
}

#[derive(clap::Args)]
pub(crate) struct Name {
    /// The volume.
    name: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Replace a running daemon by the program as it is installed now.
///
/// The daemon's process stays, and dirty data stays in memory; clients reconnect and continue.
#[derive(clap::Args)]
pub(crate) struct UpgradeArguments {
    /// A volume of the daemon; may be omitted if only one daemon runs.
    name: Option<String>,

    /// Use only the daemon at this control socket.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Queries all daemons of this user, or the one at a control socket, which must answer.
fn roll(control: Option<&PathBuf>) -> Result<Roll, Failure> {
    let Some(path) = control else { return Ok(call_roll(&daemon::runtime_directory())) };
    let mut daemon = Daemon::connect(path)?;
    let rows = daemon.rows()?;
    Ok(Roll { answered: vec![(daemon, rows)], silent: Vec::new() })
}

/// The directory of root's daemons.
const ROOT_RUNTIME: &str = "/run/overdrive";

fn no_daemon() -> Failure {
    let runtime = daemon::runtime_directory();
    // The directory of root's daemons, which other users cannot list.
    let is_of_root = runtime != Path::new(ROOT_RUNTIME) && Path::new(ROOT_RUNTIME).exists();
    let user = if is_of_root { "its user: for a daemon of root, with sudo" } else { "its user" };
    let message = format!(
        "no daemon of this user runs ({}); start one with 'overdrive serve', or run this as {user}",
        runtime.join("daemons").display()
    );
    Failure::new(Exit::NoDaemon, message)
}

/// A volume and the daemon that serves it.
pub(crate) struct Target {
    pub(crate) daemon: Daemon,
    pub(crate) row: Row,
}

/// Returns the NBD address of the volume of this name, if a daemon of this user serves it over NBD,
/// for a command that overwrites it, so that it must have no other user.
///
/// # Errors
/// A daemon does not answer; several daemons serve a volume of that name; it is not served
/// over NBD; it has clients, or a device, which may be mounted.
pub(crate) fn uri(name: &str) -> Result<Option<String>, Failure> {
    match find_device(name)? {
        Named::NotServed => Ok(None),
        Named::Served(target) if target.row.uri.is_empty() => {
            let message =
                format!("{name}: is served, but not over NBD; name its device or its file instead");
            Err(Failure::new(Exit::Usage, message))
        }
        Named::Served(target) if !target.row.device.is_empty() => {
            let message = format!(
                "{name}: is also a block device, which may be in use; name the device, {}/{}",
                daemon::DEVICES,
                target.row.name
            );
            Err(Failure::new(Exit::Busy, message))
        }
        Named::Served(target) if target.row.clients > 0 => {
            let message = format!(
                "{name}: has clients that may use it ({}); disconnect them first",
                target.row.clients
            );
            Err(Failure::new(Exit::Busy, message))
        }
        Named::Served(target) => Ok(Some(target.row.uri)),
    }
}

/// The state of a volume's name.
pub(crate) enum Named {
    /// A daemon serves it.
    Served(Box<Target>),
    NotServed,
}

/// Returns the volume with this name, or whose device has this node.
///
/// # Errors
/// A daemon does not answer; several daemons serve a volume of that name.
pub(crate) fn find_device(name: &str) -> Result<Named, Failure> {
    let rows = rows();
    let named = rows.iter().find(|row| row.name == name || row.device == name);
    let name = named.map_or(name, |row| &row.name);
    match find(None, Some(name)) {
        Ok(target) => Ok(Named::Served(Box::new(target))),
        Err(failure) if matches!(failure.exit, Exit::NoDaemon | Exit::Negative) => {
            Ok(Named::NotServed)
        }
        Err(failure) => Err(failure),
    }
}

/// Returns all volumes whose daemons answer.
pub(crate) fn rows() -> Vec<Row> {
    let roll = call_roll(&daemon::runtime_directory());
    roll.answered.into_iter().flat_map(|(_, rows)| rows).collect()
}

/// Returns where the device of a volume, or a partition of it, is mounted.
pub(crate) fn mount_points(row: &Row) -> Vec<String> {
    mount_points_at(Path::new(&row.device))
}

/// Returns where a device, or a partition of it, is mounted.
pub(crate) fn mount_points_at(node: &Path) -> Vec<String> {
    match host::device_number(node) {
        Some(device) => host::mount_points(device, node),
        None => Vec::new(),
    }
}

/// Returns the volume of this name, and the daemon that serves it.
///
/// # Errors
/// No daemon serves it, or several; a daemon does not answer.
pub(crate) fn find_served(name: &str) -> Result<Target, Failure> {
    find(None, Some(name))
}

/// Finds the volume of this name among all daemons. Without a name it must be the only one, which
/// is unknown while a daemon does not answer.
fn find(control: Option<&PathBuf>, name: Option<&str>) -> Result<Target, Failure> {
    let Roll { answered, silent } = roll(control)?;
    if answered.is_empty() && silent.is_empty() {
        return Err(no_daemon());
    }
    let mut daemons = Vec::new();
    let mut found = Vec::new();
    for (index, (daemon, rows)) in answered.into_iter().enumerate() {
        daemons.push(daemon);
        let wanted = rows.into_iter().filter(|row| name.is_none_or(|name| row.name == name));
        found.extend(wanted.map(|row| (index, row)));
    }
    if let Some(silent) = silent.first()
        && (name.is_none() || found.is_empty())
    {
        return Err(silent.failure());
    }
    if found.len() > 1 {
        let names: Vec<_> =
            found.iter().map(|(_, row)| format!("{} (process {})", row.name, row.pid)).collect();
        let message = format!(
            "several volumes match: {}; name one, or its daemon with --control \
             {}/daemons/PID.sock",
            names.join(", "),
            daemon::runtime_directory().display()
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let Some((index, row)) = found.pop() else {
        let name = name.unwrap_or("volume");
        let message = format!("{name}: no daemon serves it; see 'overdrive volume list'");
        return Err(Failure::new(Exit::Negative, message));
    };
    Ok(Target { daemon: daemons.swap_remove(index), row })
}

/// Sends one request about one volume, and prints that it was carried out.
fn simple(
    control: Option<&PathBuf>,
    name: &Name,
    done: &str,
    ask: impl Fn(String) -> Ask,
) -> Result<ExitCode, Failure> {
    let mut target = find(control, name.name.as_deref())?;
    let ask = ask(target.row.name.clone());
    let answer = waiting::ask(&mut target, &ask)?;
    let losses = match ask {
        Ask::Detach { .. } | Ask::Flush { .. } | Ask::Freeze { .. } => losses_in(answer),
        _ => None,
    };
    if name.json {
        let mut said = serde_json::json!({
            "schema": "overdrive.volume-done/1", "volume": target.row.name, "done": done,
        });
        if let Some(losses) = &losses {
            said["losses"] = serde_json::json!(losses);
        }
        daemon::say!("{said}");
    } else {
        let missing = losses.and_then(|losses| losses.sentence());
        let missing = missing.map(|missing| format!("; {missing}")).unwrap_or_default();
        daemon::say!("{} {done}{missing}", target.row.name);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the losses in a daemon's answer. None: the daemon is older, and does not report them.
pub(crate) fn losses_in(answer: serde_json::Value) -> Option<Losses> {
    if answer.is_null() { None } else { serde_json::from_value(answer).ok() }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let control = arguments.control.as_ref();
    match &arguments.command {
        Command::List(options) => list::run(control, options),
        Command::Show(name) => show::run(control, name),
        Command::Stats(options) => stats::run(control, options),
        #[cfg(feature = "history")]
        Command::History(options) => history::run(options),
        Command::Map(options) => map::run(control, options),
        Command::Flush(options) => flush::run(control, options),
        Command::Pause(name) => simple(control, name, "paused", |volume| Ask::Pause { volume }),
        Command::Freeze(name) => simple(control, name, "frozen", |volume| Ask::Freeze { volume }),
        Command::Resume(name) => simple(control, name, "resumed", |volume| Ask::Resume { volume }),
        Command::Forget(name) => forget::run(control, name),
        Command::Set(options) => set::run(control, options),
        Command::ClearError(options) => clear::run(control, options),
        Command::PowerCut(options) => power::run(control, options),
        Command::Detach(name) => {
            simple(control, name, "detached", |volume| Ask::Detach { volume, force: false })
        }
    }
}

pub(crate) fn upgrade(arguments: &UpgradeArguments) -> Result<ExitCode, Failure> {
    let mut daemon = match &arguments.name {
        Some(name) => find(arguments.control.as_ref(), Some(name))?.daemon,
        None => only_daemon(roll(arguments.control.as_ref())?)?,
    };
    // Over separate connections: a program of an earlier version may close one after an unknown
    // request.
    let before = daemon.open_another()?.version()?;
    daemon.ask(&Ask::Upgrade)?;
    let mut next = daemon.wait_for_the_next()?;
    let rows = next.rows()?;
    let after = next.open_another()?.version()?;
    daemon::say!("{}", upgraded(before.as_deref(), after.as_deref(), &rows));
    Ok(ExitCode::SUCCESS)
}

/// Returns the line about an upgrade, with the former and the new version.
fn upgraded(before: Option<&str>, after: Option<&str>, rows: &[Row]) -> String {
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    let of = |version: Option<&str>| version.unwrap_or("an earlier version").to_owned();
    let pid = rows.first().map_or(0, |row| row.pid);
    let versions = match before == after {
        true => format!("from {} to the same version", of(before)),
        false => format!("from {} to {}", of(before), of(after)),
    };
    format!("{} upgraded {versions} (process {pid}); clients continue", names.join(", "))
}

/// Returns the only daemon, if none is named.
fn only_daemon(roll: Roll) -> Result<Daemon, Failure> {
    let Roll { mut answered, silent } = roll;
    if let Some(silent) = silent.first() {
        return Err(silent.failure());
    }
    match answered.pop() {
        None => Err(no_daemon()),
        Some((daemon, _)) if answered.is_empty() => Ok(daemon),
        Some(_) => {
            let message = "several daemons run; name a volume of the daemon to upgrade";
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_says_from_which_version_to_which() {
        let message = upgraded(Some("0.1.0"), Some("0.2.0"), &[]);
        assert!(message.contains("upgraded from 0.1.0 to 0.2.0 "), "{message}");
        let message = upgraded(None, Some("0.2.0"), &[]);
        assert!(message.contains("from an earlier version to 0.2.0"), "{message}");
        let message = upgraded(Some("0.2.0"), Some("0.2.0"), &[]);
        assert!(message.contains("from 0.2.0 to the same version"), "{message}");
    }
}
