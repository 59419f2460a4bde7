//! `overdrive volume list`, after lsblk.

use super::meant::silent_holder;
use super::{mount_points, no_daemon, roll};
use block::{Size, printable};
use clap::ValueEnum;
use daemon::control::Silent;
use daemon::control::words::{Row, State};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object.
    #[arg(long, short = 'J')]
    json: bool,
    /// Print no headings.
    #[arg(long, short)]
    noheadings: bool,
    /// Print sizes in bytes.
    #[arg(long, short)]
    bytes: bool,
    /// Print these columns.
    #[arg(
        long,
        short,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "name,state,size,memory,dirty,errors,write,clients,pid,device,mounted,backing"
    )]
    output: Vec<Column>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Column {
    Name,
    State,
    Size,
    Memory,
    Dirty,
    /// Requests that the backing has answered with an error.
    Errors,
    Write,
    Clients,
    Pid,
    Uri,
    /// The node of its block device.
    Device,
    /// By what the kernel reaches it for that.
    Route,
    /// Where that device, or a partition of it, is mounted.
    Mounted,
    Backing,
}

/// A cell that is not empty, so that columns can be told apart by blanks.
fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

impl Column {
    fn heading(self) -> String {
        let name = self.to_possible_value().expect("no column is hidden");
        name.get_name().to_uppercase()
    }

    fn is_number(self) -> bool {
        use Column::*;
        matches!(self, Size | Memory | Dirty | Errors | Clients | Pid)
    }

    fn cell(self, row: &Row, bytes: bool) -> String {
        let size = |number: u64| match bytes {
            true => number.to_string(),
            false => Size(number).to_string(),
        };
        match self {
            Column::Name => row.name.clone(),
            Column::State => row.state.word().to_owned(),
            Column::Size => size(row.size_bytes),
            Column::Memory => size(row.memory_bytes),
            Column::Dirty => size(row.dirty_bytes),
            Column::Errors => row.errors.to_string(),
            Column::Write => row.write.clone(),
            Column::Clients => row.clients.to_string(),
            Column::Pid => row.pid.to_string(),
            Column::Uri => row.uri.clone(),
            Column::Device => or_dash(&row.device),
            Column::Route => or_dash(&row.route),
            Column::Mounted => or_dash(&mount_points(row).join(",")),
            Column::Backing => row.backing.clone(),
        }
    }
}

/// A volume as its holder knows it.
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

/// All that is known of what a process has that does not answer.
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
        clients: 0,
        uri: String::new(),
        pid,
        keys: Vec::new(),
        device: String::new(),
        route: String::new(),
    }
}

/// What a daemon serves that does not answer, as far as holders know.
fn rows_of_silent(silent: &Silent, holders: &holder::Roll) -> Vec<Row> {
    let pid = silent.pid.unwrap_or(0);
    let owner = i32::try_from(pid).ok();
    let held =
        holders.answered.iter().filter(|held| held.owner_pid.is_some() && held.owner_pid == owner);
    let rows: Vec<Row> =
        held.map(|held| row_of(held, State::NoAnswer, pid.cast_signed())).collect();
    if rows.is_empty() { vec![nothing(pid)] } else { rows }
}

/// All that is there, and what does not answer: a failure for each.
fn gather(control: Option<&PathBuf>) -> Result<(Vec<Row>, Vec<Failure>), Failure> {
    let daemons = roll(control)?;
    let is_any = !daemons.answered.is_empty();
    let answered = daemons.answered.into_iter().flat_map(|(_, rows)| rows);
    let mut rows: Vec<Row> = answered.collect();
    if control.is_some() {
        return Ok((rows, Vec::new()));
    }
    let holders = holder::Keeper::roll(&daemon::runtime_directory()).unwrap_or_default();
    let mut failures: Vec<Failure> = daemons.silent.iter().map(Silent::failure).collect();
    rows.extend(daemons.silent.iter().flat_map(|silent| rows_of_silent(silent, &holders)));
    let orphans = holders.answered.iter().filter(|held| held.is_orphaned());
    rows.extend(orphans.map(|held| row_of(held, State::Orphaned, held.holder_pid)));
    for silent in &holders.silent {
        failures.push(silent_holder(silent));
        // A daemon that answers tells all of its volume.
        if !rows.iter().any(|row| row.keys.contains(&silent.key)) {
            let pid = silent.pid.unwrap_or(0).unsigned_abs();
            rows.push(Row { backing: silent.key.clone(), ..nothing(pid) });
        }
    }
    if is_any || !rows.is_empty() { Ok((rows, failures)) } else { Err(no_daemon()) }
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    if options.output.is_empty() && !options.json {
        return Err(Failure::new(Exit::Usage, "--output: name at least one column"));
    }
    if control.is_none() {
        daemon::sweep(&daemon::runtime_directory());
    }
    let (mut rows, failures) = gather(control)?;
    rows.sort_by(|one, two| one.name.cmp(&two.name));
    if options.json {
        let volumes: Vec<_> = rows.iter().map(as_json).collect();
        let all = serde_json::json!({ "schema": "overdrive.volumes/1", "volumes": volumes });
        daemon::say!("{all}");
    } else {
        print(&rows, options);
    }
    failures.iter().for_each(|failure| daemon::tell!("overdrive: {failure}"));
    Ok(failures.first().map_or(ExitCode::SUCCESS, |failure| ExitCode::from(failure.exit as u8)))
}

/// A row, and where its device is mounted.
fn as_json(row: &Row) -> serde_json::Value {
    let mut value = serde_json::to_value(row).expect("plain data");
    value["mounted"] = mount_points(row).into();
    value
}

fn print(rows: &[Row], options: &Options) {
    let columns = &options.output;
    let mut lines: Vec<Vec<String>> = Vec::new();
    if !options.noheadings {
        lines.push(columns.iter().map(|column| column.heading()).collect());
    }
    let cell = |row, column: &Column| printable(&column.cell(row, options.bytes)).into_owned();
    let cells = |row| columns.iter().map(|column| cell(row, column)).collect();
    lines.extend(rows.iter().map(cells));
    let widths: Vec<usize> = (0..columns.len())
        .map(|index| lines.iter().map(|line| line[index].chars().count()).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let mut text = String::new();
        for ((cell, column), width) in line.iter().zip(columns).zip(&widths) {
            match column.is_number() {
                true => text.push_str(&format!("{cell:>width$} ")),
                false => text.push_str(&format!("{cell:<width$} ")),
            }
        }
        daemon::say!("{}", text.trim_end());
    }
}
