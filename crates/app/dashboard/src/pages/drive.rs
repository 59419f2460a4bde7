//! Drives: the machine's, those below volumes, and the health of one.

use super::facts::object;
use crate::access::sessions::Session;
use crate::app::App;
use crate::frame::{Frame, html};
use crate::past;
use crate::words::{path_segment, size};
use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use std::sync::Arc;

#[derive(Template)]
#[template(path = "drives.html")]
struct Drives {
    frame: Frame,
    drives: Vec<Drive>,
    volumes: Vec<Drive>,
    trouble: String,
}

struct Drive {
    name: String,
    path: String,
    about: String,
}

#[derive(Template)]
#[template(path = "drive.html")]
struct Health {
    frame: Frame,
    name: String,
    verdict: String,
    /// The class of the verdict's colour.
    class: &'static str,
    health: String,
    past: String,
}

fn drive(value: &Value) -> Drive {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let name = text("name");
    let uses = value["uses"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let uses: Vec<&str> = uses.collect();
    let uses = match uses.is_empty() {
        true => String::new(),
        false => format!(", used by {}", uses.join(", ")),
    };
    let model = text("model");
    // Loop devices and disks of virtual machines are called rotational as well: only a disk with a
    // model is known to be one.
    let is_disk = value["rotational"] == true && !model.is_empty() && !name.starts_with("loop");
    let kind = if is_disk { ", hard disk" } else { "" };
    let model = if model.is_empty() { model } else { format!(" {model}") };
    let bytes = size(value["size_bytes"].as_u64().unwrap_or(0));
    let about = format!("{bytes}{model}{kind}{uses}");
    Drive { path: path_segment(&name), name, about }
}

pub(crate) async fn list(State(app): State<Arc<App>>, session: Session) -> Response {
    let (listed, trouble) = match app.program.json(&["drive", "list", "--json"]).await {
        Ok(listed) => (listed, String::new()),
        Err(failure) => (Value::Null, format!("The drives cannot be listed: {failure}.")),
    };
    let drives = listed["drives"].as_array().into_iter().flatten().map(drive).collect();
    let snapshot = app.fleet.snapshot();
    let volumes = snapshot.volumes.iter().map(|volume| Drive {
        name: volume.row.name.clone(),
        path: path_segment(&volume.row.name),
        about: volume.row.backing.clone(),
    });
    let (frame, volumes) = (Frame::new("Drives", "drive", &session), volumes.collect());
    html(StatusCode::OK, &Drives { frame, drives, volumes, trouble })
}

/// Shows what `overdrive drive health NAME --json` reports.
pub(crate) async fn health(
    State(app): State<Arc<App>>,
    session: Session,
    Path(name): Path<String>,
) -> Response {
    let asked = app.program.json(&["drive", "health", "--json", "--", &name]).await;
    let (mut value, trouble) = match asked {
        Ok(value) => (value, None),
        Err(failure) => (Value::Null, Some(format!("{failure}."))),
    };
    let past = past::of_drives(&app, &name, &value).await;
    let (verdict, class) = verdict(&mut value);
    let (verdict, class) = trouble.map_or((verdict, class), |trouble| (trouble, "bad"));
    let health = if value.is_null() { String::new() } else { object(&value) };
    let frame = Frame::new(format!("Drive {name}"), "drive", &session);
    html(StatusCode::OK, &Health { frame, name, verdict, class, health, past })
}

/// Takes the verdict and its reasons out of a report. Returns them as sentences, and the class of
/// their colour.
fn verdict(health: &mut Value) -> (String, &'static str) {
    let fails = |one: &Value| one["passed"] == false || one["fails"] == true;
    let members = health["members"].as_array().into_iter().flatten();
    let failing = members.filter(|member| fails(member)).count();
    let itself = match failing {
        _ if fails(health) => "The drive reports that it fails: save its data now.".to_owned(),
        0 => String::new(),
        1 => "A member fails.".to_owned(),
        many => format!("{many} members fail."),
    };
    let word = health["verdict"].as_str().unwrap_or_default().to_owned();
    if word.is_empty() {
        return (itself, "bad");
    }
    let class = match &*word {
        "good" if itself.is_empty() => "good",
        "good" | "watch" | "unknown" if itself.is_empty() => "doubtful",
        _ => "bad",
    };
    let reasons = health["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let reasons: String = reasons.map(|reason| format!(" {}.", capitalized(reason))).collect();
    if let Some(parts) = health.as_object_mut() {
        parts.retain(|key, _| !matches!(&**key, "verdict" | "reasons"));
    }
    (format!("Verdict: {word}.{reasons} {itself}").trim_end().to_owned(), class)
}

/// Returns a sentence with a large first letter.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_verdict_is_said_first() {
        let mut good = json!({ "verdict": "good", "reasons": ["3 % are used"], "passed": true });
        assert_eq!(verdict(&mut good), ("Verdict: good. 3 % are used.".to_owned(), "good"));
        assert_eq!(good, json!({ "passed": true }), "it is not shown again");
        let mut failing = json!({ "verdict": "failing", "reasons": ["it is worn", "it says so"], "passed": false });
        let words = "Verdict: failing. It is worn. It says so. The drive reports that it fails: \
                     save its data now.";
        assert_eq!(verdict(&mut failing), (words.to_owned(), "bad"));
        let mut watched = json!({ "verdict": "watch", "reasons": [] });
        assert_eq!(verdict(&mut watched), ("Verdict: watch.".to_owned(), "doubtful"));
        let mut pool = json!({ "members": [{ "fails": true }, { "fails": false }] });
        assert_eq!(verdict(&mut pool), ("A member fails.".to_owned(), "bad"));
        assert_eq!(verdict(&mut json!({ "members": [] })).0, "");
    }

    #[test]
    fn only_a_disk_with_a_model_is_called_one() {
        let about = |name: &str, model: &str| {
            drive(&json!({ "name": name, "model": model, "size_bytes": 4096, "rotational": true }))
                .about
        };
        assert_eq!(about("sda", "WDC"), "4 KiB WDC, hard disk");
        assert_eq!(about("vda", ""), "4 KiB");
        assert_eq!(about("loop0", "/a.img"), "4 KiB /a.img");
    }
}
