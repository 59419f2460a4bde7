//! The map of a volume's files: by class, with the page of `overdrive volume map`.

use super::saved;
use crate::access::sessions::Session;
use crate::app::App;
use crate::frame::refused;
use crate::requests::form::Form;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use live::Presence;
use std::sync::Arc;

/// Leads a reload of the map back to the volume, whose button makes it.
pub(crate) async fn page(_session: Session, Path(name): Path<String>) -> Response {
    Redirect::to(&format!("/volume/{}", crate::words::path_segment(&name))).into_response()
}

/// Reads the file systems of a volume, and shows the map.
pub(crate) async fn make(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    _form: Form,
) -> Response {
    let snapshot = app.fleet.snapshot();
    let volume = snapshot.find(&name);
    let Some(volume) = volume.filter(|volume| volume.presence == Presence::Answering) else {
        let why = "No daemon answers for a volume of this name.";
        return refused(StatusCode::NOT_FOUND, why);
    };
    let socket = volume.socket.to_string_lossy().into_owned();
    // One map at a time: its file has a fixed name, and its work is bounded.
    let _turn = app.map_turn.lock().await;
    let path = app.runs.map_page();
    let page = path.to_string_lossy();
    let arguments = ["volume", "map", "--control", &socket, "--report", &page, "--", &name];
    match app.program.output(&arguments).await {
        Ok(_) => saved::file(path.clone(), "The map could not be made.").await,
        Err(failure) => {
            let why = format!("The map could not be made: {failure}");
            refused(StatusCode::BAD_GATEWAY, &why)
        }
    }
}
