//! `overdrive volume show`: a volume's stack, limits and settings, as a table.

use super::list::look_of;
use super::{Name, find};
use crate::terminal;
use block::{Size, printable};
use daemon::control::words::Ask;
use daemon::settings::SETTINGS;
use report::terminal::{Line, Look, Span};
use serde_json::Value;
use stack::Failure;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) fn run(control: Option<&PathBuf>, name: &Name) -> Result<ExitCode, Failure> {
    let mut target = find(control, name.name.as_deref())?;
    let shown = target.daemon.ask(&Ask::Show { volume: target.row.name.clone() })?;
    if name.json {
        daemon::say!("{shown}");
        return Ok(ExitCode::SUCCESS);
    }
    for (key, value) in volume_lines(&shown).into_iter().chain(cache_lines(&shown)) {
        let state = target.row.state;
        let look = if key == "state" { look_of(state) } else { Look::Plain };
        print_line(key, Span::new(look, &*printable(&value)));
    }
    for note in shown["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        print_line("note", printable(note).into());
    }
    Ok(ExitCode::SUCCESS)
}

fn print_line(key: &str, value: Span) {
    terminal::print_wrapped(&Line::from(format!("{key:<16} ")).with(value), 17);
}

type Lines = Vec<(&'static str, String)>;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn size(value: &Value) -> String {
    Size(value.as_u64().unwrap_or(0)).to_string()
}

/// Returns the lines about the volume and the stack below its cache.
fn volume_lines(shown: &Value) -> Lines {
    let (row, limits) = (&shown["volume"], &shown["limits"]);
    let kept = match shown["kept"].as_bool() {
        Some(true) => "yes: a killed daemon loses no data",
        _ => "no: unflushed writes are lost with the daemon",
    };
    let mut layers = Vec::new();
    let mut layer = &shown["stack"];
    while let Some(kind) = layer["type"].as_str() {
        layers.push(kind);
        layer = &layer["below"];
    }
    let access = match limits["read_only"].as_bool() {
        Some(true) => ", read only",
        _ => "",
    };
    vec![
        ("name", text(&row["name"])),
        ("backing", text(&row["backing"])),
        ("state", text(&row["state"])),
        ("size", format!("{}{access}", size(&row["size_bytes"]))),
        (
            "requests",
            format!(
                "of at least {}, {} preferred",
                size(&limits["block_logical_bytes"]),
                size(&limits["block_physical_bytes"])
            ),
        ),
        ("layers", layers.join(" over ")),
        ("uri", text(&row["uri"])),
        ("clients", row["clients"].to_string()),
        ("process", format!("{}, threads {}", row["pid"], shown["threads"].as_u64().unwrap_or(1))),
        ("retained", kept.to_owned()),
    ]
}

/// Returns the settings in force, by their names in `volume set`.
fn cache_lines(shown: &Value) -> Lines {
    let cache = &shown["cache"];
    if !cache.is_object() {
        return vec![("memory", "0: no cache".to_owned())];
    }
    let huge = match cache["huge_pages"].as_bool() {
        Some(true) => "huge pages",
        _ => "ordinary pages",
    };
    let mut lines = vec![("memory", format!("{}, {huge}", size(&cache["memory_bytes"])))];
    for setting in SETTINGS.iter().filter(|setting| setting.is_live()) {
        // If no limit is set, the one that follows from the memory is in force.
        let shown = match setting.key {
            "dirty_bytes" => Some(size(&cache["dirty_bytes_max"])),
            _ => setting.show(&shown["stack"]["cache"]),
        };
        lines.extend(shown.map(|text| (setting.key, text)));
    }
    lines
}
