//! `overdrive volume list`, after lsblk.

use super::{connected, no_daemon};
use block::Size;
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;
use volume::control::words::{Row, State};
use volume::{Exit, Failure};

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
        default_value = "name,state,size,memory,dirty,write,clients,pid,backing"
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
    Write,
    Clients,
    Pid,
    Uri,
    Backing,
}

impl Column {
    fn heading(self) -> String {
        let name = self.to_possible_value().expect("no column is hidden");
        name.get_name().to_uppercase()
    }

    fn is_number(self) -> bool {
        use Column::*;
        matches!(self, Size | Memory | Dirty | Clients | Pid)
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
            Column::Write => row.write.clone(),
            Column::Clients => row.clients.to_string(),
            Column::Pid => row.pid.to_string(),
            Column::Uri => row.uri.clone(),
            Column::Backing => row.backing.clone(),
        }
    }
}

/// What holders keep of volumes that nobody serves.
pub(super) fn orphans() -> Vec<holder::Status> {
    let held = holder::Keeper::list(&volume::runtime_directory()).unwrap_or_default();
    held.into_iter().filter(|status| status.is_orphaned()).collect()
}

fn row_of(orphan: holder::Status) -> Row {
    Row {
        name: orphan.volume,
        size_bytes: std::fs::metadata(&orphan.backing).map_or(0, |found| found.len()),
        backing: orphan.backing,
        state: State::Orphaned,
        memory_bytes: orphan.held_bytes,
        write: String::new(),
        dirty_bytes: orphan.dirty_blocks * 4096,
        clients: 0,
        uri: String::new(),
        pid: orphan.holder_pid.unsigned_abs(),
    }
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    let mut daemons = connected(control)?;
    for daemon in &mut daemons {
        rows.extend(super::rows_of(daemon, control)?);
    }
    if control.is_none() {
        rows.extend(orphans().into_iter().map(row_of));
    }
    if daemons.is_empty() && rows.is_empty() {
        return Err(no_daemon());
    }
    rows.sort_by(|one, two| one.name.cmp(&two.name));
    if options.json {
        let all = serde_json::json!({ "schema": "overdrive.volumes/1", "volumes": rows });
        volume::say!("{all}");
        return Ok(ExitCode::SUCCESS);
    }
    if options.output.is_empty() {
        return Err(Failure::new(Exit::Usage, "--output: name at least one column"));
    }
    print(&rows, options);
    Ok(ExitCode::SUCCESS)
}

fn print(rows: &[Row], options: &Options) {
    let columns = &options.output;
    let mut lines: Vec<Vec<String>> = Vec::new();
    if !options.noheadings {
        lines.push(columns.iter().map(|column| column.heading()).collect());
    }
    let cells = |row| columns.iter().map(|column| column.cell(row, options.bytes)).collect();
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
        volume::say!("{}", text.trim_end());
    }
}
