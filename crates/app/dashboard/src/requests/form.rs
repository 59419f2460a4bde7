//! The session of a request, by its cookie, and the fields of its form, with its CSRF token.

use crate::access::secret::Secret;
use crate::access::sessions::{SESSION_TIME, Session};
use crate::app::App;
use crate::frame::refused;
use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;

/// Maximum size of a form.
const BODY_BYTES_MAX: usize = 16 << 10;
/// The field of a form with its CSRF token.
const CSRF: &str = "csrf";

/// Returns the name of the cookie. It contains the port, because browsers send cookies to all
/// ports of a host.
fn cookie_name(app: &App) -> String {
    format!("overdrive-dashboard-{}", app.port)
}

/// Returns the cookie that begins a session.
pub(crate) fn cookie(app: &App, session: &Session) -> String {
    let (name, id, seconds) = (cookie_name(app), session.id(), SESSION_TIME.as_secs());
    format!("{name}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}")
}

/// Returns the cookie that replaces that of a session which has ended.
pub(crate) fn no_cookie(app: &App) -> String {
    format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", cookie_name(app))
}

/// Returns the session of a request.
pub(crate) fn session(app: &App, headers: &HeaderMap) -> Option<Session> {
    let name = cookie_name(app);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|it| it.split_once('='));
    let (_, id) = pairs.find(|(key, _)| key.trim() == name)?;
    app.sessions().find(id.trim(), app.now())
}

impl FromRequestParts<Arc<App>> for Session {
    type Rejection = Response;

    /// Returns the session. A page without one leads to the login.
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        if let Some(session) = session(app, &parts.headers) {
            return Ok(session);
        }
        let is_page = parts.method == Method::GET && !parts.uri.path().starts_with("/events/");
        Err(match is_page {
            true => Redirect::to("/login").into_response(),
            false => {
                let why = "The session has ended; log in again.";
                refused(StatusCode::UNAUTHORIZED, why)
            }
        })
    }
}

/// The fields of a form.
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads the body of a request.
    pub(crate) async fn read(app: &App, request: Request) -> Result<Fields, Response> {
        let time = app.limits.form_time;
        let read = tokio::time::timeout(time, to_bytes(request.into_body(), BODY_BYTES_MAX));
        let bytes = match read.await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) => {
                let why = "The form is too large.";
                return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            Err(_) => {
                let why = "The form did not arrive in time.";
                return Err(refused(StatusCode::REQUEST_TIMEOUT, why));
            }
        };
        Ok(Fields(form_urlencoded::parse(&bytes).into_owned().collect()))
    }

    /// Returns a field; empty if it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Whether the form contains this CSRF token.
    pub(crate) fn has_token(&self, csrf: &Secret) -> bool {
        csrf.is(self.get(CSRF))
    }
}

/// A form that was sent by a page of this session.
pub(crate) struct Form {
    pub(crate) session: Session,
    pub(crate) fields: Fields,
}

impl FromRequest<Arc<App>> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let session = Session::from_request_parts(&mut parts, app).await?;
        let fields = Fields::read(app, Request::from_parts(parts, body)).await?;
        if fields.has_token(&session.csrf) {
            return Ok(Form { session, fields });
        }
        let why = "The form is not of this session; reload the page and send it again.";
        Err(refused(StatusCode::FORBIDDEN, why))
    }
}

/// A form of an administrator.
pub(crate) struct AdminForm(pub(crate) Form);

impl FromRequest<Arc<App>> for AdminForm {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let form = Form::from_request(request, app).await?;
        match form.session.is_admin() {
            true => Ok(AdminForm(form)),
            false => {
                let why = "Changes need the admin token; log out, and log in with it.";
                Err(refused(StatusCode::FORBIDDEN, why))
            }
        }
    }
}
