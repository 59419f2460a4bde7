//! The dashboard over HTTP: tokens and sessions, refused requests, and the contents of the pages.

mod common;

use common::{Fake, Served, csrf, options};
use dashboard::Dashboard;
use stack::Exit;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn without_a_token_nothing_is_shown() {
    let served = Served::start();
    let _daemon = Fake::start(&served.runtime(), &["secret-volume"]);
    for path in ["/", "/volume/secret-volume", "/drive", "/bench", "/bench/result"] {
        for cookie in ["", "overdrive-dashboard-1=x", "overdrive-dashboard=; a=b"] {
            let (status, head, body) = served.get(path, cookie);
            assert_eq!((status, head.contains("location: /login")), (303, true), "{path}");
            assert!(!body.contains("secret"), "{body}");
        }
    }
    assert_eq!(served.get("/events/overview", "").0, 401);
    assert_eq!(served.post("/volume/secret-volume/flush", "", "csrf=x").0, 401);
    for wrong in ["", "x", &served.viewer[1..], "0000"] {
        let (status, head, body) = served.log_in_with(wrong);
        assert_eq!(status, 403);
        assert!(body.contains("not a token of the dashboard that runs now"), "{body}");
        assert!(!head.contains("set-cookie"));
    }
    // The token of another start is stale.
    let other = Served::start();
    assert_eq!(served.log_in_with(&other.viewer).0, 403);
    let (status, _, body) = served.post("/login", "", &format!("csrf=x&token={}", served.viewer));
    assert_eq!((status, body.contains("earlier dashboard")), (403, true));
}

#[test]
fn other_sites_are_refused() {
    let served = Served::start();
    let cookie = served.log_in(&served.admin);
    let own = format!("http://{}", served.host);
    // DNS rebinding: the name of another site, with this address.
    for host in ["evil.example", &format!("evil.example:{}", served.host.len())] {
        let (status, _, body) = served.send("GET /", &[("Host", host), ("Cookie", &cookie)], "");
        assert_eq!((status, body.contains("own address only")), (403, true));
    }
    let page = served.get("/", &cookie).2;
    let body = format!("csrf={}", csrf(&page));
    let post = |headers: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie.as_str())], headers].concat();
        served.send("POST /logout", &headers, &body).0
    };
    assert_eq!(post(&[]), 403, "without an origin");
    assert_eq!(post(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(post(&[("Origin", "null")]), 403);
    assert_eq!(post(&[("Origin", &own), ("Sec-Fetch-Site", "same-site")]), 403);
    assert_eq!(served.post("/logout", &cookie, "").0, 403, "without a CSRF token");
    let other = served.log_in(&served.admin);
    let foreign = served.get("/", &other).2;
    let (status, _, _) = served.post("/logout", &cookie, &format!("csrf={}", csrf(&foreign)));
    assert_eq!(status, 403, "the token of another session");
    assert_eq!(served.get("/", &cookie).0, 200, "nothing was done");
    assert_eq!(post(&[("Origin", &own)]), 303);
    assert_eq!(served.get("/", &cookie).0, 303, "logged out");
    let events = [("Cookie", other.as_str()), ("Origin", "http://evil.example")];
    assert_eq!(served.send("GET /events/overview", &events, "").0, 403);
}

#[test]
fn every_answer_forbids_scripts_of_others_and_frames() {
    let served = Served::start();
    let cookie = served.log_in(&served.viewer);
    for path in ["/", "/login", "/nothing", "/style.css", "/live.js", "/icon.svg", "/drive"] {
        let (_, head, body) = served.get(path, &cookie);
        for part in [
            "default-src 'none'; script-src 'self'; style-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
            "referrer-policy: same-origin",
        ] {
            assert!(head.contains(part), "{path}: {part}: {head}");
        }
        assert!(!head.contains("unsafe"), "{head}");
        assert!(!body.contains("<script>") && !body.contains(" style="), "{path}: inline");
        assert!(!body.contains("http://") || path == "/icon.svg" || path == "/nothing", "{path}");
    }
}

#[test]
fn changes_need_the_admin_token() {
    let served = Served::start();
    let daemon = Fake::start(&served.runtime(), &["db"]);
    let viewer = served.log_in(&served.viewer);
    let page = served.wait_for("/volume/db", &viewer, "State: ");
    assert!(page.contains("need the admin token") && !page.contains("/volume/db/flush"));
    let body = format!("csrf={}", csrf(&page));
    for action in ["flush", "pause", "freeze", "resume", "retry", "discard", "settings"] {
        let (status, _, answer) = served.post(&format!("/volume/db/{action}"), &viewer, &body);
        assert_eq!((status, answer.contains("admin token")), (403, true), "{action}");
    }
    assert_eq!(daemon.asks(), [serde_json::Value::Null; 0]);
    let admin = served.log_in(&served.admin);
    let page = served.get("/volume/db", &admin).2;
    let csrf = csrf(&page);
    let post = |path: &str, fields: &str| {
        let (status, head, _) =
            served.post(&format!("/volume/db/{path}"), &admin, &format!("csrf={csrf}{fields}"));
        assert_eq!((status, head.contains("location: /volume/db")), (303, true), "{path}");
    };
    post("flush", "");
    post("discard", "&confirm=mail");
    post("settings", "&was-write=back&write=through&was-durability=flush&durability=flush");
    post("discard", "&confirm=db");
    let asks = daemon.asks();
    let words: Vec<&str> = asks.iter().filter_map(|ask| ask["ask"].as_str()).collect();
    assert_eq!(words, ["flush", "set", "clear-error"]);
    assert_eq!(asks[1]["changes"], serde_json::json!(["write=through"]));
    assert_eq!(asks[2]["discard_dirty"], true);
    let page = served.get("/volume/db", &admin).2;
    for result in ["Flushed: all answered", "Nothing was discarded: type the name", "Set until"] {
        assert!(page.contains(result), "{result}: {page}");
    }
    assert_eq!(served.post("/volume/db/explode", &admin, &format!("csrf={csrf}")).0, 404);
    assert_eq!(served.post("/volume/x/flush", &admin, &format!("csrf={csrf}")).0, 404);
}

#[test]
fn pages_show_figures_and_escape_names() {
    let served = Served::start();
    let _daemon = Fake::start(&served.runtime(), &["<i>db</i>"]);
    let cookie = served.log_in(&served.viewer);
    let page = served.wait_for("/", &cookie, "75.0 %");
    assert!(page.contains("href=\"/volume/%3Ci%3Edb%3C%2Fi%3E\""), "{page}");
    let volume = served.wait_for("/volume/%3Ci%3Edb%3C%2Fi%3E", &cookie, "Hit ratio");
    for part in [
        "75.0 % now, 75.0 % since the start",
        "Twice the memory (64 MiB) would miss 12.5 %",
        "Half the memory (16 MiB)",
        "Reads are not cached now: the backing is fast &#60;b&#62;.",
        "databases",
        "/srv/a &#38; b.img",
        "12 KiB of at most 400 KiB",
    ] {
        assert!(volume.contains(part), "{part}: {volume}");
    }
    assert!(!page.contains("<i>") && !volume.contains("<i>") && !volume.contains("<b>"));
}

#[test]
fn an_ended_daemon_is_said_and_the_page_stays() {
    let served = Served::start();
    let daemon = Fake::start(&served.runtime(), &["db"]);
    let cookie = served.log_in(&served.admin);
    served.wait_for("/", &cookie, "serving");
    drop(daemon);
    let page = served.wait_for("/", &cookie, "ended");
    assert!(page.contains("The figures are from then") || page.contains("the figures are from"));
    let page = served.get("/volume/db", &cookie).2;
    assert!(page.contains("The settings cannot be read: no daemon answers."), "{page}");
    let body = format!("csrf={}", csrf(&page));
    assert_eq!(served.post("/volume/db/flush", &cookie, &body).0, 303);
    assert!(served.get("/volume/db", &cookie).2.contains("no daemon answers for this volume now"));
    let _again = Fake::start(&served.runtime(), &["db"]);
    served.wait_for("/", &cookie, "serving");
}

#[test]
fn the_first_page_with_twenty_volumes_is_small() {
    let served = Served::start();
    let names: Vec<String> = (0..20).map(|number| format!("volume-number-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let _daemon = Fake::start(&served.runtime(), &names);
    let cookie = served.log_in(&served.viewer);
    let page = served.wait_for("/", &cookie, "volume-number-19");
    let all: usize = ["/style.css", "/live.js", "/icon.svg"]
        .iter()
        .map(|path| served.get(path, "").2.len())
        .sum();
    assert!(page.len() + all <= 150_000, "{} + {all}", page.len());
    let volume = served.get("/volume/volume-number-3", &cookie).2;
    assert!(volume.len() + all <= 150_000, "{} + {all}", volume.len());
}

#[test]
fn clients_are_bounded() {
    let served = Served::start();
    let cookie = served.log_in(&served.viewer);
    let page = served.get("/", &cookie).2;
    let large = format!("csrf={}&x={}", csrf(&page), "y".repeat(20_000));
    assert_eq!(served.post("/logout", &cookie, &large).0, 413);
    let open = |_| {
        let mut stream = TcpStream::connect(&served.host).expect("it listens");
        let head = format!(
            "GET /events/overview HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
            served.host
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut first = [0; 15];
        stream.read_exact(&mut first).expect("an answer");
        (String::from_utf8_lossy(&first).into_owned(), stream)
    };
    let streams: Vec<(String, TcpStream)> = (0..33).map(open).collect();
    let statuses: Vec<&str> = streams.iter().map(|(first, _)| &first[9..12]).collect();
    assert_eq!(statuses, [vec!["200"; 32], vec!["503"]].concat());
    assert_eq!(served.get("/", &cookie).0, 200, "pages are still served");
    drop(streams);
    // The server notices the end of the others with their next events.
    while open(0).0 != "HTTP/1.1 200 OK" {
        std::thread::yield_now();
    }
}

#[test]
fn addresses_are_of_this_machine_and_free() {
    let home = tempfile::tempdir().expect("a directory");
    let refused = |listen: &str| Dashboard::bind(options(&home, listen)).err().expect("refused");
    let failure = refused("0.0.0.0:0");
    assert_eq!(failure.exit, Exit::Usage);
    assert!(failure.message.contains("other machines"), "{failure}");
    let served = Served::start();
    let failure = refused(&served.host);
    assert_eq!(failure.exit, Exit::Busy);
    assert!(failure.message.contains("the port is in use"), "{failure}");
}
