//! The first page: all volumes.

use crate::access::sessions::Session;
use crate::app::App;
use crate::frame::{Frame, html, part};
use crate::words::{NONE, path_segment, percent, rate, size, span, time_or_none};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use daemon::control::words::State as VolumeState;
use live::{Presence, Snapshot, Volume};
use std::sync::Arc;
use std::time::Duration;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    live: String,
}

#[derive(Template)]
#[template(path = "overview_live.html")]
struct Live {
    summary: String,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    path: String,
    state: &'static str,
    class: &'static str,
    hit: String,
    reads: String,
    changes: String,
    latency: String,
    backing: String,
    dirty: String,
    saved: String,
    time_saved: String,
    memory: String,
    errors: u64,
    trouble: String,
}

/// Returns the class of a state's colour.
pub(crate) fn class_of(volume: &Volume) -> &'static str {
    match volume.row.state {
        VolumeState::Serving => "good",
        VolumeState::Paused | VolumeState::Frozen | VolumeState::Ending => "doubtful",
        _ => "bad",
    }
}

impl Row {
    fn of(volume: &Volume, now: Duration) -> Row {
        let rates = volume.rates();
        let stats = volume.stats.as_deref();
        let counters = stats.map(|stats| stats.counters).unwrap_or_default();
        let has_cache = volume.row.memory_bytes > 0;
        let of_cache = |text: String| if has_cache { text } else { NONE.to_owned() };
        let number = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
        let age = match counters.dirty_age_ns {
            0 => String::new(),
            ns => format!(", {}", span(ns)),
        };
        Row {
            name: volume.row.name.clone(),
            path: path_segment(&volume.row.name),
            state: volume.state_word(),
            class: class_of(volume),
            hit: of_cache(percent(rates.and_then(|rates| rates.hit_ratio))),
            reads: number(rates.map(|rates| rate(rates.reads_per_s))),
            changes: number(rates.map(|rates| rate(rates.changes_per_s))),
            latency: of_cache(time_or_none(Some(counters.hit_ns).filter(|ns| *ns > 0))),
            backing: time_or_none(stats.map(|it| it.backing.read_mean_ns).filter(|ns| *ns > 0)),
            dirty: of_cache(format!("{}{age}", size(volume.row.dirty_bytes))),
            saved: of_cache(size(counters.blocks_saved * 4096)),
            time_saved: of_cache(span(counters.time_saved_ns)),
            memory: match has_cache {
                true => size(volume.row.memory_bytes),
                false => "no cache".to_owned(),
            },
            errors: volume.row.errors,
            trouble: volume.trouble(now).unwrap_or_default(),
        }
    }
}

/// Returns the sentence about all volumes.
fn summary(snapshot: &Snapshot) -> String {
    let volumes = &snapshot.volumes;
    if volumes.is_empty() {
        return "No daemon of this user serves a volume. Start one with 'overdrive serve' or \
                'overdrive attach'; it appears here by itself."
            .to_owned();
    }
    let answering = volumes.iter().filter(|it| it.presence == Presence::Answering).count();
    let others = volumes.len() - answering;
    let troubled = match others {
        0 => String::new(),
        _ => format!(", {others} without a daemon that answers"),
    };
    let memory: u64 = volumes.iter().map(|volume| volume.row.memory_bytes).sum();
    let dirty: u64 = volumes.iter().map(|volume| volume.row.dirty_bytes).sum();
    let saved = volumes.iter().filter_map(|volume| volume.stats.as_deref());
    let (saved, time_saved) = saved.fold((0, 0_u64), |(bytes, ns), stats| {
        let counters = &stats.counters;
        (bytes + counters.blocks_saved * 4096, ns.saturating_add(counters.time_saved_ns))
    });
    let noun = if volumes.len() == 1 { "volume" } else { "volumes" };
    format!(
        "{} {noun}{troubled}. {} of memory, {} dirty. Since their daemons began: {} of writes \
         saved, and {} of waiting for reads (estimated, summed over reads).",
        volumes.len(),
        size(memory),
        size(dirty),
        size(saved),
        span(time_saved),
    )
}

/// Returns the part of the page that changes.
pub(crate) fn live(app: &App) -> String {
    let snapshot = app.fleet.snapshot();
    let rows = snapshot.volumes.iter().map(|volume| Row::of(volume, snapshot.now)).collect();
    part(&Live { summary: summary(&snapshot), rows })
}

pub(crate) async fn page(State(app): State<Arc<App>>, session: Session) -> Response {
    let frame = Frame::new("Volumes", "overview", &session).with_events("/events/overview".into());
    html(StatusCode::OK, &Overview { frame, live: live(&app) })
}
