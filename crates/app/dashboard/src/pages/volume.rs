//! A volume: its figures, its charts, its settings, and actions.

use super::overview::class_of;
use crate::access::sessions::Session;
use crate::actions::BEFORE;
use crate::app::App;
use crate::charts;
use crate::frame::{Frame, html, part};
use crate::past;
use crate::words::{
    NONE, bytes_rate, path_segment, percent, percent_of, rate, size, span, time, time_or_none,
};
use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use daemon::control::Daemon;
use daemon::control::statistics::{FileHints, Guard, Statistics};
use daemon::control::words::Ask;
use daemon::settings::{SETTINGS, Setting};
use live::{Presence, Rates, Volume};
use report::table::{Head, table};
use serde_json::Value;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "volume.html")]
struct Page {
    frame: Frame,
    name: String,
    path: String,
    backing: String,
    live: String,
    past: String,
    settings: Vec<Field>,
    /// Why there are no settings; empty: there are.
    no_settings: String,
    before: &'static str,
    has_map: bool,
}

/// A setting in the form.
struct Field {
    key: &'static str,
    meaning: String,
    value: String,
    /// Its words; empty: any text of the form `form`.
    words: Vec<&'static str>,
    form: String,
}

#[derive(Template)]
#[template(path = "volume_live.html")]
struct Live {
    state: &'static str,
    class: &'static str,
    trouble: String,
    notices: Vec<NoticeLine>,
    verdict: Vec<String>,
    facts: Vec<(&'static str, String)>,
    bypass: Vec<String>,
    over_time: String,
    misses: String,
    other_sizes: Vec<String>,
    classes: String,
}

struct NoticeLine {
    class: &'static str,
    text: String,
    age: String,
}

/// Returns the part of the page that changes.
pub(crate) fn live(app: &App, name: &str) -> String {
    let snapshot = app.fleet.snapshot();
    let now = app.now();
    let notices = app.notices();
    let notices = notices.iter().rev().filter(|notice| notice.volume == name).take(5);
    let notices = notices.map(|notice| NoticeLine {
        class: if notice.is_good { "good" } else { "bad" },
        text: notice.text.clone(),
        age: format!("{} s ago", now.saturating_sub(notice.at).as_secs()),
    });
    let notices = notices.collect();
    let Some(volume) = snapshot.find(name) else {
        return part(&Live {
            state: "gone",
            class: "bad",
            trouble: "No daemon of this user serves a volume of this name any more.".to_owned(),
            notices,
            verdict: Vec::new(),
            facts: Vec::new(),
            bypass: Vec::new(),
            over_time: String::new(),
            misses: String::new(),
            other_sizes: Vec::new(),
            classes: String::new(),
        });
    };
    let stats = volume.stats.as_deref();
    let curve = stats.and_then(|stats| stats.curve.as_ref());
    let mut other_sizes =
        curve.map(|curve| charts::other_sizes(curve, volume.row.memory_bytes)).unwrap_or_default();
    if let Some(curve) = curve.filter(|_| !other_sizes.is_empty()) {
        let guess = match curve.is_too_small {
            true => "; the cache is too small for a reliable estimate",
            false => "",
        };
        let window = span(curve.window_ns);
        other_sizes.push(format!(
            "Estimated from a simulated sample of the accesses of the last {window}{guess}."
        ));
    }
    part(&Live {
        state: volume.state_word(),
        class: class_of(volume),
        trouble: volume.trouble(snapshot.now).unwrap_or_default(),
        notices,
        verdict: stats.map(advice::of_volume).unwrap_or_default(),
        facts: facts(volume, stats),
        bypass: stats.and_then(|it| it.guard.as_ref()).map(bypass).unwrap_or_default(),
        over_time: charts::over_time(volume, snapshot.now),
        misses: curve.map(charts::misses).unwrap_or_default(),
        other_sizes,
        classes: stats.and_then(|stats| stats.files.as_ref()).map(classes).unwrap_or_default(),
    })
}

/// Returns the figures of now and since the daemon's start.
fn facts(volume: &Volume, stats: Option<&Statistics>) -> Vec<(&'static str, String)> {
    let Some(stats) = stats else { return Vec::new() };
    let counters = &stats.counters;
    let none = Rates::default();
    // Those of a daemon that does not answer are of its last interval, as the page says.
    let rates = volume.points.back().map_or(&none, |(_, rates)| rates);
    let latency = |p50: Option<u64>, p99: Option<u64>, none: &str| match p50 {
        None => none.to_owned(),
        Some(_) => format!("{}, 99 % within {}", time_or_none(p50), time_or_none(p99)),
    };
    let mut facts = vec![
        ("Reads", format!("{} per second", rate(rates.reads_per_s))),
        (
            "Changes",
            format!(
                "{} per second, {} written",
                rate(rates.changes_per_s),
                bytes_rate(rates.written_bytes_per_s)
            ),
        ),
    ];
    if !stats.has_cache() {
        facts.push(("Backing", format!("reads take {} (mean)", time(stats.backing.read_mean_ns))));
        return facts;
    }
    let all = counters.read_hits + counters.read_misses + counters.read_joins;
    let limit = counters.dirty_blocks_max.min(counters.allowance_blocks) * 4096;
    facts.extend([
        (
            "Hit ratio",
            format!(
                "{} now, {} since the start",
                percent(rates.hit_ratio),
                percent_of(counters.read_hits, all)
            ),
        ),
        // Few of the hits are timed.
        (
            "Latency of hits",
            latency(rates.hit_p50_ns, rates.hit_p99_ns, "none was sampled in the last interval"),
        ),
        (
            "Latency of the backing",
            latency(rates.miss_p50_ns, rates.miss_p99_ns, "no read in the last interval"),
        ),
        (
            "Writes saved",
            format!(
                "{} of {} by clients, {} now",
                size(counters.blocks_saved * 4096),
                size(counters.asked_write_bytes),
                bytes_rate(rates.saved_bytes_per_s)
            ),
        ),
        (
            "Time saved",
            format!(
                "{}, {} in each second now (estimated, summed over reads)",
                span(counters.time_saved_ns),
                time(rates.time_saved_ns_per_s.max(0.0) as u64)
            ),
        ),
        (
            "Dirty",
            format!(
                "{} of at most {}, the oldest for {}; a flush would take about {}",
                size(counters.blocks_dirty * 4096),
                size(limit),
                span(counters.dirty_age_ns),
                time(counters.flush_predicted_ns)
            ),
        ),
        (
            "Memory",
            format!("{} of {}", size(counters.blocks_held * 4096), size(stats.memory_bytes)),
        ),
        (
            "Backing",
            format!(
                "{} reads, {} changes, {} flushes per second; {} errors",
                rate(rates.backing_reads_per_s),
                rate(rates.backing_changes_per_s),
                rate(rates.backing_flushes_per_s),
                stats.backing.errors
            ),
        ),
    ]);
    facts
}

/// Returns sentences on the requests that bypass the cache, and why.
fn bypass(guard: &Guard) -> Vec<String> {
    if !guard.on {
        return vec!["The guard is off: no request bypasses the cache.".to_owned()];
    }
    let side = |why: &Option<String>, what: &str| Some(format!("{what}: {}.", why.as_ref()?));
    let mut sentences: Vec<String> = [
        side(&guard.reads_bypass, "Reads are not cached now"),
        side(&guard.writes_bypass, "Writes go to the backing now"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if sentences.is_empty() {
        sentences.push("No requests bypass the cache now.".to_owned());
    }
    let expected = match guard.expected_hits {
        Some(hits) => format!(" An admitted miss is expected to bring {hits:.2} hits."),
        None => String::new(),
    };
    let last = sentences.len() - 1;
    let times = match guard.times {
        0 => " The cache was not bypassed since the daemon's start.".to_owned(),
        1 => format!(" The cache was bypassed once, for {}.", span(guard.bypass_ns)),
        times => {
            format!(" The cache was bypassed {times} times, for {} in all.", span(guard.bypass_ns))
        }
    };
    sentences[last] += &(times + &expected);
    sentences
}

/// Returns the table of the classes of files.
fn classes(hints: &FileHints) -> String {
    let heads = [
        Head::text("class"),
        Head::number("hits"),
        Head::number("misses"),
        Head::number("hit ratio"),
        Head::number("time saved"),
    ];
    let mut used: Vec<_> = hints.classes.iter().collect();
    used.sort_by_key(|one| std::cmp::Reverse(one.time_saved_ns));
    let rows = used.iter().map(|one| {
        vec![
            one.class.clone().into(),
            one.hits.to_string().into(),
            one.misses.to_string().into(),
            percent_of(one.hits, one.hits + one.misses).into(),
            span(one.time_saved_ns).into(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() { String::new() } else { table("Accesses by class of files", &heads, &rows) }
}

/// Asks the volume's daemon for its present settings.
async fn show(volume: &Volume) -> Result<Value, String> {
    let (socket, name) = (volume.socket.clone(), volume.row.name.clone());
    let asked = tokio::task::spawn_blocking(move || {
        Daemon::connect(&socket)?.ask(&Ask::Show { volume: name })
    });
    match tokio::time::timeout(std::time::Duration::from_secs(3), asked).await {
        Ok(Ok(shown)) => shown.map_err(|failure| failure.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("its daemon does not answer".to_owned()),
    }
}

fn fields(shown: &Value) -> Vec<Field> {
    let field = |setting: &'static Setting| {
        let spec = &shown["stack"]["cache"];
        let value = setting.text(spec).unwrap_or_default();
        let words = setting.words().into_iter().map(|(word, _)| word).collect();
        let shown = setting.show(spec).unwrap_or_else(|| NONE.to_owned());
        Field {
            key: setting.key,
            meaning: setting.meaning(),
            form: match value.is_empty() {
                true => format!("{}; now {shown}", setting.values()),
                false => setting.values(),
            },
            value,
            words,
        }
    };
    SETTINGS.iter().filter(|setting| setting.is_live()).map(field).collect()
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    session: Session,
    Path(name): Path<String>,
) -> Response {
    let snapshot = app.fleet.snapshot();
    let path = path_segment(&name);
    let Some(volume) = snapshot.find(&name) else { return absent(&app, &session, name).await };
    let past = past::of_volume(&app, &name, &path);
    let (mut settings, mut no_settings) = (Vec::new(), String::new());
    match volume.presence {
        _ if volume.row.memory_bytes == 0 => {
            no_settings = "The volume has no cache, and no settings.".to_owned();
        }
        Presence::Answering => {}
        _ => no_settings = "The settings cannot be read: no daemon answers.".to_owned(),
    }
    let shown = async {
        match no_settings.is_empty() {
            true => Some(show(volume).await),
            false => None,
        }
    };
    let (past, shown) = tokio::join!(past, shown);
    match shown {
        Some(Ok(shown)) => settings = fields(&shown),
        Some(Err(why)) => no_settings = format!("The settings cannot be read: {why}."),
        None => {}
    }
    let frame = Frame::new(format!("Volume {name}"), "overview", &session)
        .with_events(format!("/events/volume/{path}"));
    let has_map = volume.presence == Presence::Answering;
    let (backing, live) = (volume.row.backing.clone(), live(&app, &name));
    let page = Page {
        frame,
        name,
        path,
        backing,
        live,
        past,
        settings,
        no_settings,
        before: BEFORE,
        has_map,
    };
    html(StatusCode::OK, &page)
}

#[derive(Template)]
#[template(path = "absent.html")]
struct Absent {
    frame: Frame,
    past: String,
}

/// Returns the page of a volume that no daemon has served since the dashboard began: its past.
async fn absent(app: &App, session: &Session, name: String) -> Response {
    let past = past::of_volume(app, &name, &path_segment(&name)).await;
    let frame = Frame::new(format!("Volume {name}"), "overview", session);
    html(StatusCode::NOT_FOUND, &Absent { frame, past })
}
