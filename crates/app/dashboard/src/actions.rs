//! Changes of volumes. Each asks the volume's daemon, and its result is shown on the volume's page.

use crate::app::App;
use crate::frame::refused;
use crate::notices::Notice;
use crate::requests::form::AdminForm;
use crate::words::{path_segment, size};
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use daemon::control::Daemon;
use daemon::control::losses::Losses;
use daemon::control::words::Ask;
use daemon::settings::SETTINGS;
use live::Presence;
use serde_json::Value;
use stack::Failure;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time for which a page waits for an action. A longer one continues, and its result is shown
/// later.
const WAIT: Duration = Duration::from_secs(10);
/// Maximum number of results that are shown.
const NOTICES_MAX: usize = 40;

/// Prefix of the fields with the settings as they were shown.
pub(crate) const BEFORE: &str = "was-";

/// Changes the settings that differ from those that the form showed.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    UrlPath(name): UrlPath<String>,
    AdminForm(form): AdminForm,
) -> Response {
    let live = SETTINGS.iter().filter(|setting| setting.is_live());
    let changed = live.filter_map(|setting| {
        let value = form.fields.get(setting.key).trim();
        let before = form.fields.get(&format!("{BEFORE}{}", setting.key));
        (!value.is_empty() && value != before).then(|| format!("{}={value}", setting.key))
    });
    let changes: Vec<String> = changed.collect();
    if changes.is_empty() {
        return note(&app, &name, Ok("No setting was changed.".to_owned()));
    }
    let done = format!("Set until the daemon ends: {}.", changes.join(" "));
    let ask = Ask::Set { volume: name.clone(), changes };
    carry_out(&app, name, ask, done).await
}

/// Carries out the action of this name.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    UrlPath((name, action)): UrlPath<(String, String)>,
    AdminForm(form): AdminForm,
) -> Response {
    let volume = name.clone();
    let clear = |discard_dirty| Ask::ClearError {
        volume: name.clone(),
        discard_dirty,
        failure: None,
        saved_to: None,
    };
    let (ask, done) = match action.as_str() {
        "flush" => (Ask::Flush { volume }, "Flushed: all answered writes are durable"),
        "pause" => (Ask::Pause { volume }, "Paused: all requests bypass the cache"),
        "freeze" => (Ask::Freeze { volume }, "Frozen: writes wait, and the backing can be copied"),
        "resume" => (Ask::Resume { volume }, "Resumed"),
        "retry" => (clear(false), "The failed state is cleared: all data was written back"),
        "discard" if form.fields.get("confirm").trim() != name => {
            let why = format!("Nothing was discarded: type the name of the volume, {name}.");
            return note(&app, &name, Err(why));
        }
        "discard" => (clear(true), "The failed state is cleared: dirty data was discarded"),
        _ => return refused(StatusCode::NOT_FOUND, "There is no such action."),
    };
    carry_out(&app, name, ask, done.to_owned()).await
}

/// Sends a request to the volume's daemon, and leads back to the volume's page.
async fn carry_out(app: &Arc<App>, name: String, ask: Ask, done: String) -> Response {
    let snapshot = app.fleet.snapshot();
    let socket = match snapshot.find(&name) {
        Some(volume) if volume.presence == Presence::Answering => volume.socket.clone(),
        Some(_) => {
            let why = "Nothing was done: no daemon answers for this volume now.".to_owned();
            return note(app, &name, Err(why));
        }
        None => return refused(StatusCode::NOT_FOUND, "There is no such volume."),
    };
    let Ok(permit) = app.actions.clone().try_acquire_owned() else {
        let why = "Nothing was done: too many actions are in progress; wait for their results.";
        return note(app, &name, Err(why.to_owned()));
    };
    let (noted, volume) = (app.clone(), name.clone());
    let action = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let result = send(&socket, &ask).map(|value| sentence(&done, &value));
        add_notice(&noted, &volume, result.map_err(|failure| failure.to_string()));
    });
    if tokio::time::timeout(WAIT, action).await.is_err() {
        let text = "It takes longer than 10 s; the result appears here when it is known.";
        return note(app, &name, Ok(text.to_owned()));
    }
    back(&name)
}

fn send(socket: &Path, ask: &Ask) -> Result<Value, Failure> {
    Daemon::connect(socket)?.ask(ask)
}

/// Returns the result of an action as sentences, with what its daemon reports.
fn sentence(done: &str, value: &Value) -> String {
    let mut text = done.trim_end_matches('.').to_owned();
    for (key, words) in [("written_bytes", "written back"), ("discarded_bytes", "discarded")] {
        if let Some(bytes) = value[key].as_u64() {
            text += &format!("; {} {words}", size(bytes));
        }
    }
    if value["may_miss_unflushed"] == true {
        text += "; writes made directly to the backing since its last successful flush may be \
                 missing: check its contents";
    }
    let losses = serde_json::from_value::<Losses>(value.clone()).ok();
    if let Some(missing) = losses.filter(|_| value.is_object()).and_then(|it| it.sentence()) {
        text += &format!("; {missing}");
    }
    let notes = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    notes.for_each(|note| text += &format!("; note: {note}"));
    text + "."
}

/// Notes a result, and leads back to the volume's page.
pub(crate) fn note(app: &App, name: &str, result: Result<String, String>) -> Response {
    add_notice(app, name, result);
    back(name)
}

fn add_notice(app: &App, volume: &str, result: Result<String, String>) {
    let is_good = result.is_ok();
    let text = result.unwrap_or_else(|why| why);
    let notice = Notice { volume: volume.to_owned(), text, is_good, at: app.now() };
    let mut notices = app.notices();
    notices.push_back(notice);
    while notices.len() > NOTICES_MAX {
        notices.pop_front();
    }
}

fn back(name: &str) -> Response {
    Redirect::to(&format!("/volume/{}", path_segment(name))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_says_what_was_written_and_what_is_missing() {
        let written = json!({ "written_bytes": 8192, "may_miss_unflushed": true });
        let text = sentence("Cleared.", &written);
        assert!(text.starts_with("Cleared; 8 KiB written back; writes made directly"), "{text}");
        assert_eq!(sentence("Flushed.", &Value::Null), "Flushed.");
        assert_eq!(sentence("Set: a=1.", &json!(["it is slow"])), "Set: a=1; note: it is slow.");
    }
}
