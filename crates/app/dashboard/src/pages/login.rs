//! The login: a token begins a session.

use crate::app::App;
use crate::frame::{Frame, html, refused};
use crate::requests::form::Form;
use crate::requests::form::{Fields, cookie, no_cookie, session};
use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    frame: Frame,
    trouble: String,
    viewer_file: String,
    admin_file: String,
}

fn form(app: &App, status: StatusCode, trouble: String) -> Response {
    let mut frame = Frame::outside("Log in");
    frame.csrf = app.login_csrf.text().to_owned();
    let viewer_file = app.tokens.viewer_file.display().to_string();
    let admin_file = app.tokens.admin_file.display().to_string();
    html(status, &Login { frame, trouble, viewer_file, admin_file })
}

pub(crate) async fn page(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match session(&app, &headers) {
        Some(_) => Redirect::to("/").into_response(),
        None => form(&app, StatusCode::OK, String::new()),
    }
}

pub(crate) async fn log_in(State(app): State<Arc<App>>, request: Request) -> Response {
    let fields = match Fields::read(&app, request).await {
        Ok(fields) => fields,
        Err(refusal) => return refusal,
    };
    if !fields.has_token(&app.login_csrf) {
        let why = "This form is of an earlier dashboard. Enter a token of the present one.";
        return form(&app, StatusCode::FORBIDDEN, why.to_owned());
    }
    let Some(role) = app.tokens.role(fields.get("token")) else {
        let why = "This is not a token of the dashboard that runs now. Each start makes new ones: \
                   read the file below again.";
        return form(&app, StatusCode::FORBIDDEN, why.to_owned());
    };
    let begun = app.sessions().begin(role, app.now());
    match begun {
        Ok(session) => with_cookie(Redirect::to("/").into_response(), &cookie(&app, &session)),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

pub(crate) async fn log_out(State(app): State<Arc<App>>, form: Form) -> Response {
    app.sessions().end(&form.session);
    with_cookie(Redirect::to("/login").into_response(), &no_cookie(&app))
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}
