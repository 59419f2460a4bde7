//! Pages that stay up to date: server-sent events, each with the live part of a page as HTML.
//!
//! The next event is made when the client has taken the last one, so that a slow client costs no
//! memory.

use crate::access::sessions::Session;
use crate::app::App;
use crate::frame::refused;
use crate::pages;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{sleep, timeout};

/// Least time between two events.
const PAUSE: Duration = Duration::from_millis(900);
/// Time after which an event is sent even if nothing has changed, so that the page knows that the
/// dashboard runs.
const BEAT: Duration = Duration::from_secs(5);

/// The live part of a page, as HTML.
type Render = Box<dyn Fn(&App) -> String + Send>;

struct Stream {
    app: Arc<App>,
    session: Session,
    render: Render,
    changes: watch::Receiver<u64>,
    is_first: bool,
    _permit: OwnedSemaphorePermit,
}

impl Stream {
    /// Returns the next event. None: the session has ended.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Stream)> {
        if !self.is_first {
            sleep(PAUSE).await;
            // The end of the sender is the end of the process.
            let _ = timeout(BEAT, self.changes.changed()).await;
        }
        self.is_first = false;
        self.app.sessions().find(self.session.id(), self.app.now())?;
        let html = (self.render)(&self.app);
        Some((Ok(event(&html)), self))
    }
}

/// Returns an event; each line of its text is a line of data.
fn event(text: &str) -> String {
    let lines = text.lines().map(|line| format!("data: {line}\n"));
    lines.collect::<String>() + "\n"
}

fn stream(app: Arc<App>, session: Session, render: Render) -> Response {
    let Ok(permit) = app.streams.clone().try_acquire_owned() else {
        let why = "Too many pages are open; close some of them.";
        return refused(StatusCode::SERVICE_UNAVAILABLE, why);
    };
    let changes = app.changes.clone();
    let begin = Stream { app, session, render, changes, is_first: true, _permit: permit };
    let body = Body::from_stream(unfold(begin, Stream::next));
    let mut response = Response::new(body);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    response.headers_mut().extend(headers);
    response
}

pub(crate) async fn overview(State(app): State<Arc<App>>, session: Session) -> Response {
    stream(app, session, Box::new(pages::overview::live))
}

pub(crate) async fn volume(
    State(app): State<Arc<App>>,
    session: Session,
    Path(name): Path<String>,
) -> Response {
    stream(app, session, Box::new(move |app| pages::volume::live(app, &name)))
}

pub(crate) async fn bench(State(app): State<Arc<App>>, session: Session) -> Response {
    stream(app, session, Box::new(pages::bench::live))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_text_in_lines() {
        assert_eq!(event("<p>\nx\r\n</p>"), "data: <p>\ndata: x\ndata: </p>\n\n");
    }
}
