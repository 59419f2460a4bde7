//! The pages, rendered from templates.

pub(crate) mod bench;
pub(crate) mod drive;
mod facts;
pub(crate) mod login;
pub(crate) mod map;
pub(crate) mod overview;
pub(crate) mod saved;
pub(crate) mod volume;

use crate::access::sessions::Session;
use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// What all pages have around their contents.
pub(crate) struct Frame {
    title: String,
    /// The page in the navigation; empty: none of it.
    active: &'static str,
    /// The path of its events; empty: it has none.
    events: String,
    csrf: String,
    is_admin: bool,
    has_session: bool,
}

impl Frame {
    fn new(title: impl Into<String>, active: &'static str, session: &Session) -> Frame {
        Frame {
            title: title.into(),
            active,
            events: String::new(),
            csrf: session.csrf.text().to_owned(),
            is_admin: session.is_admin(),
            has_session: true,
        }
    }

    fn with_events(self, events: String) -> Frame {
        Frame { events, ..self }
    }

    /// Returns the frame of a page without a session.
    fn outside(title: &str) -> Frame {
        Frame {
            title: title.to_owned(),
            active: "",
            events: String::new(),
            csrf: String::new(),
            is_admin: false,
            has_session: false,
        }
    }
}

/// Returns a page.
fn html(status: StatusCode, template: &impl Template) -> Response {
    let text = template.render().unwrap_or_else(|error| error.to_string());
    content(status, "text/html; charset=utf-8", text)
}

fn content(status: StatusCode, kind: &'static str, text: impl Into<String>) -> Response {
    let mut response = (status, text.into()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Returns a part of a page.
fn part(template: &impl Template) -> String {
    template.render().unwrap_or_else(|error| error.to_string())
}

#[derive(Template)]
#[template(path = "refused.html")]
struct Refused<'a> {
    frame: Frame,
    why: &'a str,
}

/// Returns a page with the reason why a request is refused.
pub(crate) fn refused(status: StatusCode, why: &str) -> Response {
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::SERVICE_UNAVAILABLE => "Busy",
        _ => "Refused",
    };
    html(status, &Refused { frame: Frame::outside(title), why })
}

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
