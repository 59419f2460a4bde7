//! The volumes as text or as JSON, at each interval.

use super::columns::all;
use crate::terminal;
use live::{Fleet, Presence, Snapshot, Volume};
use report::terminal::{Column, Fit, Span, Table};
use serde_json::{Value, json};
use std::time::Duration;

/// Message if there is nothing to show.
pub(super) const NO_VOLUMES: &str = "no daemon of this user serves a volume; start one with \
                                     'overdrive serve' or 'overdrive attach', and it appears here";

/// Prints the volumes at each interval, until the output is closed or a signal ends it.
pub(super) fn run(fleet: &Fleet, signals: &host::File, interval: Duration, as_json: bool) {
    // The first figures are those of an interval.
    let mut pause = interval;
    let mut has_volumes = true;
    while !host::is_stopped_within(signals, pause) && !daemon::console::has_ended() {
        pause = interval;
        let snapshot = fleet.snapshot();
        print(&snapshot, as_json);
        if has_volumes && snapshot.volumes.is_empty() {
            daemon::tell!("overdrive: {NO_VOLUMES}");
        }
        has_volumes = !snapshot.volumes.is_empty();
    }
}

fn print(snapshot: &Snapshot, as_json: bool) {
    if as_json {
        return daemon::say!("{}", object(snapshot));
    }
    let columns = all();
    let heads = columns.iter().map(|column| {
        let head = match column.is_text {
            true => Column::text(column.head, Fit::Whole),
            false => Column::number(column.head),
        };
        head.at_least(column.width.into())
    });
    let mut table = Table::new(1, heads.collect());
    for volume in &snapshot.volumes {
        table.push(columns.iter().map(|column| Span::from(column.cell(volume))).collect());
    }
    terminal::print(table.lines(terminal::width()));
    for volume in &snapshot.volumes {
        if let Some(why) = volume.trouble(snapshot.now) {
            daemon::say!("{}: {why}", volume.row.name);
        }
    }
    daemon::say!("");
}

fn object(snapshot: &Snapshot) -> Value {
    let volume = |volume: &Volume| {
        json!({
            "volume": volume.row.name,
            "state": volume.state_word(),
            "answers": volume.presence == Presence::Answering,
            "trouble": volume.trouble(snapshot.now),
            "pid": volume.row.pid,
            "memory_bytes": volume.row.memory_bytes,
            "dirty_bytes": volume.row.dirty_bytes,
            "rates": volume.rates(),
        })
    };
    let volumes: Vec<Value> = snapshot.volumes.iter().map(volume).collect();
    json!({ "schema": "overdrive.top/1", "volumes": volumes })
}
