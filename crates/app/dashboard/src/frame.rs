//! The frame of all pages, and the page with the reason for a refusal.

use crate::access::sessions::Session;
use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Parts of a page around its contents.
pub(crate) struct Frame {
    pub(crate) title: String,
    /// The page in the navigation; empty: none of it.
    pub(crate) active: &'static str,
    /// The path of its events; empty: it has none.
    pub(crate) events: String,
    pub(crate) csrf: String,
    pub(crate) is_admin: bool,
    pub(crate) has_session: bool,
}

impl Frame {
    pub(crate) fn new(title: impl Into<String>, active: &'static str, session: &Session) -> Frame {
        Frame {
            title: title.into(),
            active,
            events: String::new(),
            csrf: session.csrf.text().to_owned(),
            is_admin: session.is_admin(),
            has_session: true,
        }
    }

    pub(crate) fn with_events(self, events: String) -> Frame {
        Frame { events, ..self }
    }

    /// Returns the frame of a page without a session.
    pub(crate) fn outside(title: &str) -> Frame {
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
pub(crate) fn html(status: StatusCode, template: &impl Template) -> Response {
    let text = template.render().unwrap_or_else(|error| error.to_string());
    content(status, "text/html; charset=utf-8", text)
}

pub(crate) fn content(status: StatusCode, kind: &'static str, text: impl Into<String>) -> Response {
    let mut response = (status, text.into()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Returns a part of a page.
pub(crate) fn part(template: &impl Template) -> String {
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
