//! `overdrive volume show`: what a volume is and how it is set, as a table.

use super::stats::time;
use super::{Name, find};
use block::Size;
use daemon::control::words::Ask;
use serde_json::Value;
use stack::Failure;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) fn run(control: Option<&PathBuf>, name: &Name) -> Result<ExitCode, Failure> {
    let mut target = find(control, name.name.as_deref())?;
    let shown = target.daemon.ask(&Ask::Show { volume: target.row.name })?;
    if name.json {
        daemon::say!("{shown}");
        return Ok(ExitCode::SUCCESS);
    }
    for (key, value) in volume_lines(&shown).into_iter().chain(cache_lines(&shown["cache"])) {
        daemon::say!("{key:<13} {value}");
    }
    for note in shown["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        daemon::say!("{:<13} {note}", "note");
    }
    Ok(ExitCode::SUCCESS)
}

type Lines = Vec<(&'static str, String)>;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn size(value: &Value) -> String {
    Size(value.as_u64().unwrap_or(0)).to_string()
}

/// The volume and what is below its cache.
fn volume_lines(shown: &Value) -> Lines {
    let (row, limits) = (&shown["volume"], &shown["limits"]);
    let kept = match shown["kept"].as_bool() {
        Some(true) => "yes: a killed daemon loses nothing",
        _ => "no: what is not flushed ends with the daemon",
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
        ("process", row["pid"].to_string()),
        ("kept", kept.to_owned()),
    ]
}

/// The settings in force, by the names that `volume set` takes.
fn cache_lines(cache: &Value) -> Lines {
    if !cache.is_object() {
        return vec![("memory", "0: no cache".to_owned())];
    }
    let span = |key: &str| time(cache[key].as_u64().unwrap_or(0));
    let huge = match cache["huge_pages"].as_bool() {
        Some(true) => "huge pages",
        _ => "ordinary pages",
    };
    let target = match cache["flush_target_ns"].as_u64() {
        Some(0) => "none".to_owned(),
        _ => span("flush_target_ns"),
    };
    let guard = if cache["guard"] == true { "on" } else { "off" };
    vec![
        ("memory", format!("{}, {huge}", size(&cache["memory_bytes"]))),
        ("write", text(&cache["write"])),
        ("durability", text(&cache["durability"])),
        ("dirty_bytes", size(&cache["dirty_bytes_max"])),
        ("dirty_age", span("dirty_age_ns")),
        ("flush_target", target),
        ("retry_time", span("retry_time_ns")),
        ("guard", guard.to_owned()),
    ]
}
