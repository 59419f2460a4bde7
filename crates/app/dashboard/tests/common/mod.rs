//! A dashboard that is served for a test.

#[path = "../../../live/tests/common/fake.rs"]
mod fake;

pub(crate) use fake::Fake;

use dashboard::{Dashboard, Limits, Options};
use live::Source;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// A dashboard that is served, and its runtime directory.
#[allow(dead_code, reason = "not every test needs all of it")]
pub(crate) struct Served {
    pub(crate) home: TempDir,
    pub(crate) host: String,
    pub(crate) viewer: String,
    pub(crate) admin: String,
    end: Sender<()>,
    serving: Option<JoinHandle<()>>,
}

pub(crate) fn options(home: &TempDir, listen: &str) -> Options {
    Options {
        listen: listen.parse().expect("an address"),
        source: Source::All(home.path().join("overdrive"), Box::new(Vec::new)),
        runtime: home.path().join("overdrive"),
        program: PathBuf::from("/bin/false"),
        history: None,
        limits: Limits::default(),
        pace: Duration::from_millis(20),
    }
}

#[allow(dead_code, reason = "not every test needs all of it")]
impl Served {
    pub(crate) fn start() -> Served {
        Served::start_with(|_| {})
    }

    /// Starts a dashboard with other options.
    pub(crate) fn start_with(change: impl FnOnce(&mut Options)) -> Served {
        let home = tempfile::tempdir().expect("a directory");
        let mut options = options(&home, "127.0.0.1:0");
        change(&mut options);
        let dashboard = Dashboard::bind(options).expect("a free port");
        let host = dashboard.url().replace("http://", "").replace('/', "");
        let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a token");
        let [viewer, admin] = dashboard.token_files().map(read);
        let (end, ended) = channel::<()>();
        let serving = std::thread::spawn(move || {
            dashboard
                .serve(|| {
                    let _ = ended.recv();
                })
                .expect("served");
        });
        Served { home, host, viewer, admin, end, serving: Some(serving) }
    }

    pub(crate) fn runtime(&self) -> PathBuf {
        self.home.path().join("overdrive")
    }

    /// Sends a request; returns the status, the head and the body.
    pub(crate) fn send(
        &self,
        first: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        let length = body.len();
        let mut head =
            format!("{first} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.host);
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        // A refusal may come before the whole body was sent.
        let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, head.to_owned(), body.to_owned())
    }

    pub(crate) fn get(&self, path: &str, cookie: &str) -> (u16, String, String) {
        self.send(&format!("GET {path}"), &[("Cookie", cookie)], "")
    }

    pub(crate) fn post(&self, path: &str, cookie: &str, body: &str) -> (u16, String, String) {
        let origin = format!("http://{}", self.host);
        self.send(&format!("POST {path}"), &[("Cookie", cookie), ("Origin", &origin)], body)
    }

    pub(crate) fn log_in_with(&self, token: &str) -> (u16, String, String) {
        let (_, _, page) = self.get("/login", "");
        self.post("/login", "", &format!("csrf={}&token={}", csrf(&page), token.trim()))
    }

    /// Logs in; returns the cookie.
    pub(crate) fn log_in(&self, token: &str) -> String {
        let (status, head, body) = self.log_in_with(token);
        assert_eq!(status, 303, "{body}");
        let cookie = head.split("set-cookie: ").nth(1).expect("a cookie");
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/;"), "{cookie}");
        cookie.split(';').next().expect("a pair").to_owned()
    }

    /// Waits until a page contains these words.
    pub(crate) fn wait_for(&self, path: &str, cookie: &str, words: &str) -> String {
        loop {
            let (_, _, page) = self.get(path, cookie);
            if page.contains(words) {
                return page;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.end.send(());
        let ended = self.serving.take().map(JoinHandle::join);
        if std::thread::panicking() {
            return;
        }
        assert!(ended.is_none_or(|ended| ended.is_ok()));
        let left = std::fs::read_dir(self.runtime().join("dashboard")).expect("a directory");
        assert_eq!(left.count(), 0, "tokens and pages are removed at the end");
    }
}

/// Returns the CSRF token of the first form of a page.
pub(crate) fn csrf(page: &str) -> &str {
    let rest = page.split("name=\"csrf\" value=\"").nth(1).expect("a form");
    rest.split('"').next().expect("a value")
}
