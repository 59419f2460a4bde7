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
    trouble: String,
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
    let kind = if value["rotational"] == true { ", hard disk" } else { "" };
    let about = format!(
        "{} {}{kind}{uses}",
        size(value["size_bytes"].as_u64().unwrap_or(0)),
        text("model")
    );
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
    let (value, trouble) = match asked {
        Ok(value) => {
            let trouble = verdict(&value);
            (value, trouble)
        }
        Err(failure) => (Value::Null, format!("{failure}.")),
    };
    let past = past::of_drives(&app, &name, &value).await;
    let health = if value.is_null() { String::new() } else { object(&value) };
    let frame = Frame::new(format!("Drive {name}"), "drive", &session);
    html(StatusCode::OK, &Health { frame, name, trouble, health, past })
}

/// Returns a sentence about a drive that reports its own failure; empty: it does not.
fn verdict(health: &Value) -> String {
    let fails = |one: &Value| one["passed"] == false || one["fails"] == true;
    let members = health["members"].as_array().into_iter().flatten();
    let failing = members.filter(|member| fails(member)).count();
    match failing {
        _ if fails(health) => "The drive reports that it fails: save its data now.".to_owned(),
        0 => String::new(),
        1 => "A member fails.".to_owned(),
        many => format!("{many} members fail."),
    }
}
