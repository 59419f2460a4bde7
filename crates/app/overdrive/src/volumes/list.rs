//! `overdrive volume list`, after lsblk.

use super::clear_target::silent_holder;
use super::{absent, mount_points, roll};
use crate::columns::{self, Cell, Selected, Style};
use clap::ValueEnum;
use daemon::WaitingVolume;
use daemon::control::Silent;
use daemon::control::words::{Row, State};
use report::terminal::Look;
use stack::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    style: Style,
    #[command(flatten)]
    output: Selected<Row, Column>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Column {
    Name,
    State,
    Size,
    Memory,
    /// Share of the reads that were answered from memory, in percent.
    Hit,
    Dirty,
    /// Requests that the backing has answered with an error.
    Errors,
    Write,
    Clients,
    Pid,
    Uri,
    /// The node of its block device.
    Device,
    /// How the kernel reaches it for that.
    Route,
    /// Where that device, or a partition of it, is mounted.
    Mounted,
    Backing,
}

/// Returns a cell that is not empty, so that columns can be separated by blanks.
fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

impl columns::Column<Row> for Column {
    const DEFAULT: &str = "name,state,size,memory,hit,dirty,errors,pid,device,mounted,backing";
    const LEFT_OUT: &[Column] = &[
        Column::Pid,
        Column::Mounted,
        Column::Backing,
        Column::Memory,
        Column::Size,
        Column::Device,
        Column::Hit,
        Column::Dirty,
        Column::Errors,
    ];

    fn cell(self, row: &Row) -> Cell {
        match self {
            Column::Name => Cell::Text(row.name.clone()),
            Column::State => Cell::Text(row.state.word().to_owned()),
            Column::Size => Cell::Size(row.size_bytes),
            Column::Memory => Cell::Size(row.memory_bytes),
            Column::Hit => Cell::Figure(match row.reads {
                0 => "-".to_owned(),
                reads => format!("{:.1}%", 100.0 * row.read_hits as f64 / reads as f64),
            }),
            Column::Dirty => Cell::Size(row.dirty_bytes),
            Column::Errors => Cell::Figure(row.errors.to_string()),
            Column::Write => Cell::Text(row.write.clone()),
            Column::Clients => Cell::Figure(row.clients.to_string()),
            Column::Pid => Cell::Figure(row.pid.to_string()),
            Column::Uri => Cell::Text(row.uri.clone()),
            Column::Device => Cell::Text(or_dash(&row.device)),
            Column::Route => Cell::Text(or_dash(&row.route)),
            Column::Mounted => Cell::Text(or_dash(&mount_points(row).join(","))),
            Column::Backing => Cell::Text(row.backing.clone()),
        }
    }

    fn look(self, row: &Row) -> Look {
        match self {
            Column::State => look_of(row.state),
            Column::Errors if row.errors > 0 => Look::Bad,
            _ => Look::Plain,
        }
    }

    fn width_min(self) -> Option<usize> {
        (self == Column::Backing).then_some(16)
    }
}

/// Returns the look of a state.
pub(super) fn look_of(state: State) -> Look {
    match state {
        State::Serving => Look::Good,
        State::Paused | State::Frozen | State::Ending => Look::Doubtful,
        State::Failed | State::Lost | State::Stalled | State::LinkDown => Look::Bad,
        State::Orphaned | State::Waiting | State::NoAnswer => Look::Bad,
    }
}

/// Returns the row of a volume, from its holder's status.
fn row_of(held: &holder::Status, state: State, pid: i32) -> Row {
    Row {
        name: held.volume.clone(),
        size_bytes: held.size_bytes,
        backing: held.path.clone().unwrap_or_else(|| held.backing.clone()),
        state,
        memory_bytes: held.held_bytes,
        dirty_bytes: held.dirty_blocks * 4096,
        keys: vec![held.key.clone()],
        ..nothing(pid.unsigned_abs())
    }
}

/// Returns the row of a process that does not answer.
fn nothing(pid: u32) -> Row {
    Row {
        name: "-".to_owned(),
        backing: "-".to_owned(),
        state: State::NoAnswer,
        size_bytes: 0,
        memory_bytes: 0,
        write: String::new(),
        dirty_bytes: 0,
        errors: 0,
        reads: 0,
        read_hits: 0,
        clients: 0,
        uri: String::new(),
        pid,
        keys: Vec::new(),
        device: String::new(),
        route: String::new(),
    }
}

/// Returns the rows of a daemon that does not answer, from the statuses of holders.
fn rows_of_silent(silent: &Silent, holders: &holder::Roll) -> Vec<Row> {
    let pid = silent.pid.unwrap_or(0);
    let owner = i32::try_from(pid).ok();
    let held =
        holders.answered.iter().filter(|held| held.owner_pid.is_some() && held.owner_pid == owner);
    let rows: Vec<Row> =
        held.map(|held| row_of(held, State::NoAnswer, pid.cast_signed())).collect();
    if rows.is_empty() { vec![nothing(pid)] } else { rows }
}

/// Returns the row of a volume that waits for a daemon, with the memory that a holder retains for
/// it.
fn row_of_waiting(waiting: &WaitingVolume, held: Option<Row>) -> Row {
    let mount = waiting.mount.as_ref();
    let pid = mount.map_or(0, |mount| mount.holder_pid.unsigned_abs());
    let node = waiting.node.as_deref();
    let row = held.unwrap_or_else(|| nothing(pid));
    let backing = mount.map(|mount| mount.description.backing.clone()).filter(|it| !it.is_empty());
    Row {
        name: waiting.volume.clone(),
        state: State::Waiting,
        pid,
        backing: backing.unwrap_or(row.backing),
        size_bytes: node.and_then(size_of).unwrap_or(row.size_bytes),
        device: node.map_or(String::new(), |node| node.display().to_string()),
        route: waiting.route.map_or(String::new(), |route| route.word().to_owned()),
        ..row
    }
}

/// Returns the size of a device, in bytes, without opening it.
fn size_of(node: &Path) -> Option<u64> {
    let name = node.file_name()?.to_str()?;
    let sectors = fs::read_to_string(format!("/sys/block/{name}/size")).ok()?;
    sectors.trim().parse::<u64>().ok().map(|sectors| sectors * 512)
}

/// Adds the volumes that wait for a daemon to the rows, in place of those of their holders.
fn add_waiting(rows: &mut Vec<Row>, waiting: &[WaitingVolume]) {
    for one in waiting {
        let is_orphan = |row: &mut Row| row.name == one.volume && row.state == State::Orphaned;
        let held = rows.extract_if(.., is_orphan).next();
        rows.push(row_of_waiting(one, held));
    }
}

/// All volumes.
#[derive(Default)]
struct Gathered {
    rows: Vec<Row>,
    /// The volumes among them that wait for a daemon.
    waiting: Vec<WaitingVolume>,
    /// A failure for each process that does not answer.
    failures: Vec<Failure>,
}

/// Returns the volumes that no daemon serves, and the processes that do not answer, each with a
/// sentence about the reason and the way out.
pub(crate) fn unserved_with_reasons() -> Vec<(Row, String)> {
    let Ok(Gathered { rows, waiting, .. }) = gather(None) else { return Vec::new() };
    let unserved = rows.into_iter().filter_map(|row| {
        let reason = match row.state {
            State::Waiting => {
                waiting.iter().find(|one| one.volume == row.name).map(absent::explain)
            }
            State::Orphaned => Some(format!(
                "No daemon serves it, and unwritten data is retained in memory; 'overdrive serve \
                 {}' writes it back.",
                row.backing
            )),
            State::NoAnswer => Some(format!(
                "Process {} does not answer: it is stopped ('kill -CONT {}' continues it), or \
                 waits for its backing.",
                row.pid, row.pid
            )),
            _ => None,
        };
        reason.map(|reason| (row, reason))
    });
    unserved.collect()
}

fn gather(control: Option<&PathBuf>) -> Result<Gathered, Failure> {
    let daemons = roll(control)?;
    let answered = daemons.answered.into_iter().flat_map(|(_, rows)| rows);
    let mut rows: Vec<Row> = answered.collect();
    if control.is_some() {
        return Ok(Gathered { rows, ..Gathered::default() });
    }
    let holders = holder::Keeper::roll(&daemon::runtime_directory()).unwrap_or_default();
    let mut failures: Vec<Failure> = daemons.silent.iter().map(Silent::failure).collect();
    rows.extend(daemons.silent.iter().flat_map(|silent| rows_of_silent(silent, &holders)));
    let has_data = |held: &&holder::Status| held.is_orphaned() && !held.has_only_clean;
    let orphans = holders.answered.iter().filter(has_data);
    rows.extend(orphans.map(|held| row_of(held, State::Orphaned, held.holder_pid)));
    for silent in &holders.silent {
        failures.push(silent_holder(silent));
        // A daemon that answers has reported all about its volume.
        if !rows.iter().any(|row| row.keys.contains(&silent.key)) {
            let pid = silent.pid.unwrap_or(0).unsigned_abs();
            rows.push(Row { backing: silent.key.clone(), ..nothing(pid) });
        }
    }
    let mut waiting = absent::all();
    // A volume whose daemon was started again in between is served.
    waiting.retain(|one| !rows.iter().any(|row| row.name == one.volume && !row.device.is_empty()));
    add_waiting(&mut rows, &waiting);
    Ok(Gathered { rows, waiting, failures })
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    if !options.style.json {
        columns::check_selected(&options.output.columns)?;
    }
    if control.is_none() {
        daemon::sweep(&daemon::runtime_directory());
    }
    let Gathered { mut rows, waiting, failures } = gather(control)?;
    rows.sort_by(|one, two| one.name.cmp(&two.name));
    if options.style.json {
        let volumes: Vec<_> = rows.iter().map(|row| as_json(row, &waiting)).collect();
        let all = serde_json::json!({ "schema": "overdrive.volumes/1", "volumes": volumes });
        daemon::say!("{all}");
    } else {
        columns::print(&rows, &options.output.columns, &options.style)?;
        waiting.iter().for_each(|one| daemon::tell!("overdrive: {}", absent::explain(one)));
    }
    failures.iter().for_each(|failure| daemon::tell!("overdrive: {failure}"));
    Ok(failures.first().map_or(ExitCode::SUCCESS, |failure| ExitCode::from(failure.exit as u8)))
}

/// Returns a row with the mount points of its device; for a volume that waits for a daemon, also
/// since when, and what the user can do.
fn as_json(row: &Row, waiting: &[WaitingVolume]) -> serde_json::Value {
    let mut value = serde_json::to_value(row).expect("plain data");
    value["mounted"] = mount_points(row).into();
    let found = waiting.iter().filter(|_| row.state == State::Waiting);
    if let Some(one) = found.into_iter().find(|one| one.volume == row.name) {
        value["advice"] = absent::explain(one).into();
        if let Some(mount) = &one.mount {
            value["since_unix_s"] = mount.since_unix_s.into();
            value["fails_unix_s"] = mount.fails_unix_s.into();
            value["again"] = mount.description.again.as_str().into();
        }
    }
    value
}
