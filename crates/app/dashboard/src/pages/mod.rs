//! The pages, rendered from templates.

pub(crate) mod bench;
pub(crate) mod csv;
pub(crate) mod drive;
mod facts;
pub(crate) mod login;
pub(crate) mod map;
pub(crate) mod overview;
pub(crate) mod saved;
pub(crate) mod volume;

use crate::frame::{content, refused};
use axum::http::StatusCode;
use axum::response::Response;

pub(crate) async fn missing() -> Response {
    refused(StatusCode::NOT_FOUND, "There is no such page.")
}

pub(crate) async fn style() -> Response {
    let text = format!("{}{}", report::page::style(), include_str!("../../assets/style.css"));
    content(StatusCode::OK, "text/css; charset=utf-8", text)
}

pub(crate) async fn script() -> Response {
    let text = include_str!("../../assets/live.js");
    content(StatusCode::OK, "text/javascript; charset=utf-8", text)
}

pub(crate) async fn icon() -> Response {
    content(StatusCode::OK, "image/svg+xml", include_str!("../../assets/icon.svg"))
}
