//! Pages that commands write with `--report`, as this host shows them.

use crate::frame::{content, refused};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use report::page::without_script;

/// Permissions of such a page: it contains its styles, and has no script here.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri \
                      'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns a saved page.
pub(crate) fn response(page: &str) -> Response {
    let kind = "text/html; charset=utf-8";
    let mut response = content(StatusCode::OK, kind, without_script(page));
    let policy = HeaderValue::from_static(POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// Returns a saved page from its file.
pub(crate) async fn file(path: std::path::PathBuf, missing: &str) -> Response {
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    match read {
        Ok(Ok(page)) => response(&page),
        _ => refused(StatusCode::NOT_FOUND, missing),
    }
}
