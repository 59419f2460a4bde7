//! The past of volumes and drives as CSV: all figures that are recorded.

use crate::access::sessions::Session;
use crate::app::App;
use crate::frame::{content, refused};
use crate::past::Span;
use crate::words::path_segment;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use std::sync::Arc;

pub(crate) async fn of_volume(
    State(app): State<Arc<App>>,
    _session: Session,
    Path((name, file)): Path<(String, String)>,
) -> Response {
    let Some(span) = Span::of_file(&file) else {
        return refused(StatusCode::NOT_FOUND, "There is no such page.");
    };
    respond(&app, &span.csv_arguments(&name), &format!("{}-{file}", path_segment(&name))).await
}

pub(crate) async fn of_drive(
    State(app): State<Arc<App>>,
    _session: Session,
    Path(name): Path<String>,
) -> Response {
    let arguments = ["drive", "history", "--csv", "--", &name];
    respond(&app, &arguments, &format!("{}.csv", path_segment(&name))).await
}

/// Returns the output of a command as a file with this name.
async fn respond(app: &App, arguments: &[&str], file: &str) -> Response {
    let Ok(_permit) = app.readers.acquire().await else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "The dashboard ends.");
    };
    match app.program.output(arguments).await {
        Ok((text, _)) => {
            let mut response = content(StatusCode::OK, "text/csv; charset=utf-8", text);
            if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{file}\"")) {
                response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
            }
            response
        }
        Err(failure) => refused(StatusCode::NOT_FOUND, &format!("There is no history: {failure}.")),
    }
}
