//! Suites on modelled drives: a form, the progress, the result, and its comparison with the last.

use super::saved;
use crate::access::sessions::Session;
use crate::app::App;
use crate::frame::{Frame, html, part, refused};
use crate::past;
use crate::requests::form::Form;
use crate::runs::{CACHE_BYTES_MAX, Choice, Figure, Run, TEST_TIME_US_MAX};
use crate::words::size;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use daemon::units;
use serde_json::Value;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "bench.html")]
struct Page {
    frame: Frame,
    trouble: String,
    suites: Vec<(String, String)>,
    models: Vec<(String, String)>,
    choice: Choice,
    live: String,
}

#[derive(Template)]
#[template(path = "bench_live.html")]
struct Live {
    state: &'static str,
    words: String,
    stage: String,
    percent: String,
    headline: String,
    why: String,
    figures: Vec<Figure>,
    is_partial: bool,
    compared: String,
    comparison: String,
    /// The figures among those of earlier runs.
    past: String,
    has_page: bool,
}

/// The suite that needs a job, which cannot be given here.
const CUSTOM: &str = "custom";

/// The names and descriptions in a list.
fn names(listed: &Value, list: &str, about: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = listed[list].as_array().into_iter().flatten();
    all.map(|one| (text(&one["name"]), text(&one[about]))).collect()
}

/// Returns the part of the page that changes.
pub(crate) fn live(app: &App) -> String {
    let mut live = Live {
        state: "none",
        words: String::new(),
        stage: String::new(),
        percent: String::new(),
        headline: String::new(),
        why: String::new(),
        figures: Vec::new(),
        is_partial: false,
        compared: String::new(),
        comparison: String::new(),
        past: String::new(),
        has_page: app.runs.result_page().exists(),
    };
    match app.runs.run() {
        Run::None => {}
        Run::Running { choice, stage, share } => {
            live.state = "running";
            live.words = choice.words();
            live.stage = stage;
            live.percent = format!("{:.0}", share * 100.0);
        }
        Run::Failed { choice, why } => {
            live.state = "failed";
            live.words = choice.words();
            live.why = why;
        }
        Run::Done { choice, done } => {
            live.state = "done";
            live.words = choice.words();
            live.headline = done.headline;
            live.past = past::of_results(&done.figures, &done.earlier);
            live.figures = done.figures;
            live.is_partial = done.is_partial;
            if let Some((with, text)) = done.compared {
                (live.compared, live.comparison) = (with, text);
            }
        }
    }
    part(&live)
}

async fn show(app: &App, session: &Session, status: StatusCode, trouble: String) -> Response {
    let (suites, models) = tokio::join!(
        app.program.json(&["bench", "list", "--json"]),
        app.program.json(&["drive", "models", "--json"])
    );
    let failed = [&suites, &models].into_iter().find_map(|it| it.as_ref().err());
    let trouble = match failed {
        Some(failure) => format!("The suites cannot be listed: {failure}."),
        None => trouble,
    };
    let mut suites = names(&suites.unwrap_or_default(), "suites", "about");
    suites.retain(|(name, _)| name != CUSTOM);
    let models = names(&models.unwrap_or_default(), "models", "title");
    let choice = match app.runs.run() {
        Run::Running { choice, .. } | Run::Done { choice, .. } | Run::Failed { choice, .. } => {
            choice
        }
        Run::None => Choice {
            suite: "cdm".to_owned(),
            model: "samsung-840-evo-250".to_owned(),
            ..Choice::default()
        },
    };
    let frame = Frame::new("Bench", "bench", session).with_events("/events/bench".to_owned());
    html(status, &Page { frame, trouble, suites, models, choice, live: live(app) })
}

pub(crate) async fn page(State(app): State<Arc<App>>, session: Session) -> Response {
    show(&app, &session, StatusCode::OK, String::new()).await
}

/// Returns the reason why a choice cannot be run; None: it can.
async fn mistake(app: &App, choice: &Choice) -> Option<String> {
    let suites = app.program.json(&["bench", "list", "--json"]).await.unwrap_or_default();
    let models = app.program.json(&["drive", "models", "--json"]).await.unwrap_or_default();
    let has = |list: &[(String, String)], name: &str| list.iter().any(|(known, _)| known == name);
    if !has(&names(&suites, "suites", "about"), &choice.suite) {
        return Some(format!("There is no suite '{}'; choose one of the list.", choice.suite));
    }
    if !has(&names(&models, "models", "title"), &choice.model) {
        return Some(format!("There is no model '{}'; choose one of the list.", choice.model));
    }
    size_mistake(&choice.cache).or_else(|| time_mistake(&choice.time))
}

/// Returns the reason why a size of the cache is refused.
fn size_mistake(text: &str) -> Option<String> {
    match units::size(text) {
        _ if text.is_empty() => None,
        Err(why) => Some(format!("Memory of the cache: {why}.")),
        Ok(bytes) if bytes.0 > CACHE_BYTES_MAX => {
            let most = size(CACHE_BYTES_MAX);
            Some(format!("Memory of the cache: at most {most} here; the command has no limit."))
        }
        Ok(_) => None,
    }
}

/// Returns the reason why a time of each test is refused.
fn time_mistake(text: &str) -> Option<String> {
    match units::time_us(text) {
        _ if text.is_empty() => None,
        Err(why) => Some(format!("Time of each test: {why}.")),
        Ok(us) if us > TEST_TIME_US_MAX => {
            let most = TEST_TIME_US_MAX / 1_000_000;
            Some(format!("Time of each test: at most {most}s here; the command has no limit."))
        }
        Ok(_) => None,
    }
}

pub(crate) async fn start(State(app): State<Arc<App>>, form: Form) -> Response {
    let field = |name: &str| form.fields.get(name).trim().to_owned();
    let choice = Choice {
        suite: field("suite"),
        model: field("model"),
        cache: field("cache"),
        time: field("time"),
    };
    if let Some(why) = mistake(&app, &choice).await {
        return show(&app, &form.session, StatusCode::BAD_REQUEST, why).await;
    }
    if !app.runs.begin(&choice) {
        let why = "A suite is running; wait for its end, or end it.".to_owned();
        return show(&app, &form.session, StatusCode::CONFLICT, why).await;
    }
    tokio::spawn(async move { app.runs.carry_out(&app.program, choice).await });
    Redirect::to("/bench").into_response()
}

pub(crate) async fn cancel(State(app): State<Arc<App>>, _form: Form) -> Response {
    app.runs.end();
    Redirect::to("/bench").into_response()
}

pub(crate) async fn result(State(app): State<Arc<App>>, _session: Session) -> Response {
    saved::file(app.runs.result_page(), "No suite has ended here yet.").await
}

pub(crate) async fn comparison(State(app): State<Arc<App>>, _session: Session) -> Response {
    let page = app.runs.comparison_page();
    if !page.exists() {
        let why = "There is no earlier result of the same suite and drive to compare with.";
        return refused(StatusCode::NOT_FOUND, why);
    }
    saved::file(page, "There is no comparison.").await
}
