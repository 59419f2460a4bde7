//! Metrics for Prometheus: what a scrape shows, what hostile clients get, and the dashboard and
//! the alerts of `packaging`, by the programs that use them.

use crate::common::{Server, have, image, place, python, run, serve, wait_until};
use crate::config::two_volumes;
use crate::home::Home;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Sends a request, and returns the whole response.
fn exchange(mut stream: impl Read + Write, request: &[u8]) -> Vec<u8> {
    // The daemon may refuse, and close, before it has read everything.
    let _ = stream.write_all(request);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    response
}

fn scrape(socket: &Path) -> String {
    let stream = UnixStream::connect(socket).expect("it listens");
    String::from_utf8(exchange(stream, SCRAPE.as_bytes())).expect("text")
}

/// Returns the value of a sample.
fn value(text: &str, sample: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    let value = lines.next().unwrap_or_else(|| panic!("no {sample} in {text}"));
    value.parse().expect("a number")
}

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging").join(file)
}

#[test]
fn a_scrape_shows_each_volume_and_what_its_clients_have_done() {
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "");
    let socket = home.path().join("metrics.sock");
    let text = fs::read_to_string(&config).expect("just written");
    fs::write(&config, format!("metrics = 'unix:{}'\n{text}", socket.display())).expect("room");
    let config = config.to_str().expect("plain");
    let server = Server::run_in(&home, home.command(&["serve", "--config", config]));
    wait_until("metrics are served", || UnixStream::connect(&socket).is_ok());
    let mode = fs::metadata(&socket).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its user alone");
    let before = scrape(&socket);
    assert!(before.starts_with("HTTP/1.1 200 OK\r\n"), "{before}");
    assert!(before.contains("application/openmetrics-text; version=1.0.0"), "{before}");
    assert!(before.ends_with("# EOF\n"));
    for name in ["one", "two"] {
        let state = |state| format!("overdrive_state{{volume=\"{name}\",state=\"{state}\"}}");
        assert_eq!((value(&before, &state("serving")), value(&before, &state("failed"))), (1., 0.));
    }
    assert_eq!(value(&before, "overdrive_size_bytes{volume=\"one\"}"), f64::from(8 << 20));
    if have(&["qemu-io"]) {
        let uri = &server.uri;
        let commands = ["-c", "write 0 64k", "-c", "read 0 64k"];
        // In its default mode, every write would be durable, and none would be buffered.
        let options = ["-t", "writeback", "-f", "raw"];
        run("qemu-io", &[&options, &commands[..], &[uri]].concat()).well();
        let after = scrape(&socket);
        let written = "overdrive_asked_write_bytes_total{volume=\"one\"}";
        assert_eq!(value(&after, written) - value(&before, written), f64::from(64 << 10));
        let absorbed = "overdrive_absorbed_bytes_total{volume=\"one\"}";
        assert_eq!(value(&after, absorbed), f64::from(64 << 10));
        assert_eq!(
            value(&after, "overdrive_hit_latency_seconds_bucket{le=\"+Inf\",volume=\"one\"}"),
            value(&after, "overdrive_hit_latency_seconds_count{volume=\"one\"}")
        );
        let other = "overdrive_asked_write_bytes_total{volume=\"two\"}";
        assert_eq!(value(&after, other), 0.0);
    }
    server.volume(&["pause", "two"]).well();
    let paused = "overdrive_state{volume=\"two\",state=\"paused\"}";
    assert_eq!(value(&scrape(&socket), paused), 1.0);
    server.end().well();
    assert!(!socket.exists(), "the socket is removed");
}

#[test]
fn a_volume_without_a_daemon_is_shown_by_other_daemons_of_its_user() {
    if !have(&["qemu-io"]) {
        return;
    }
    let (home, place, other) = (Home::new(), place(), place());
    let options = ["--write", "back-now", "--dirty-age", "1000s", "--name", "left"];
    let server = Server::start_in(&home, image(&place, 8), &options);
    // Killed before it closes the volume, which would flush.
    let script = format!("write 0 64k\nsigraise {}\n", rustix::process::Signal::KILL.as_raw());
    let mut client = Command::new("qemu-io");
    client.args(["-t", "writeback", "-f", "raw", &server.uri]).stdin(Stdio::piped());
    let mut client = client.stdout(Stdio::null()).spawn().expect("it is installed");
    client.stdin.take().expect("piped").write_all(script.as_bytes()).expect("it reads");
    client.wait().expect("our child");
    server.kill();
    let socket = home.path().join("metrics.sock");
    let address = format!("unix:{}", socket.display());
    let server = Server::start_in(&home, image(&other, 8), &["--metrics", &address]);
    wait_until("metrics are served", || UnixStream::connect(&socket).is_ok());
    let text = scrape(&socket);
    assert_eq!(value(&text, "overdrive_state{volume=\"left\",state=\"orphaned\"}"), 1.0);
    server.end().well();
}

#[test]
fn hostile_requests_are_refused_and_delay_no_scrape() {
    let (home, place) = (Home::new(), place());
    let socket = home.path().join("metrics.sock");
    let address = format!("unix:{}", socket.display());
    let server = Server::start_in(&home, image(&place, 8), &["--metrics", &address]);
    wait_until("metrics are served", || UnixStream::connect(&socket).is_ok());
    let status = |request: &[u8]| {
        let stream = UnixStream::connect(&socket).expect("it listens");
        let response = exchange(stream, request);
        String::from_utf8_lossy(&response).lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(status(b"\0\xff\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(status(b"PUT /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
    let long = [b"GET /metrics HTTP/1.1\r\nA: ".as_slice(), &[b'a'; 9000]].concat();
    let refused = status(&long);
    // The rest of the request may reset the connection before the refusal is read.
    assert!(refused.is_empty() || refused.contains(" 431 "), "{refused}");
    // More clients that send half a request than are served at a time.
    let mut halves: Vec<UnixStream> = Vec::new();
    for _ in 0..20 {
        let mut half = UnixStream::connect(&socket).expect("it listens");
        half.write_all(b"GET /metr").expect("room");
        halves.push(half);
    }
    assert!(scrape(&socket).ends_with("# EOF\n"), "they give way to it");
    // Those that are left are closed after some seconds.
    for mut half in halves {
        let mut rest = Vec::new();
        let _ = half.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
    server.end().well();
}

#[test]
fn an_address_that_other_machines_reach_is_refused_and_one_in_use_delays_no_volume() {
    let place = place();
    let disk = image(&place, 8);
    serve(&disk, &["--metrics", "0.0.0.0:0"]).refused(2, &["0.0.0.0", "--insecure-tcp"]);
    serve(&disk, &["--metrics", "9469"]).refused(2, &["unix:PATH or 127.0.0.1:PORT"]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let server = Server::start(&disk, &["--metrics", &address.to_string()]);
    server.says("metrics are not served");
    drop(taken);
    let get = || exchange_at(address, SCRAPE).is_some_and(|text| text.ends_with("# EOF\n"));
    wait_until("the address is tried again", get);
    server.end().well();
}

/// Sends a request to an address, and returns the response. None: the connection is refused.
fn exchange_at(address: SocketAddr, request: &str) -> Option<String> {
    let stream = TcpStream::connect(address).ok()?;
    String::from_utf8(exchange(stream, request.as_bytes())).ok()
}

/// Returns the expressions of the dashboard, for all volumes.
fn expressions() -> Vec<String> {
    let text = fs::read_to_string(packaging("grafana/overdrive.json")).expect("the dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let expressions = targets.map(|target| target["expr"].as_str().expect("an expression"));
    let all = |text: &str| text.replace("$volume", ".*").replace("$__rate_interval", "1m");
    expressions.map(all).collect()
}

#[test]
fn the_alerts_are_valid_and_fire_as_their_tests_say() {
    if !have(&["promtool"]) {
        return;
    }
    let path = |file: &str| packaging(file).to_string_lossy().into_owned();
    run("promtool", &["check", "rules", &path("prometheus/overdrive.rules.yml")]).well();
    run("promtool", &["test", "rules", &path("prometheus/overdrive.test.yml")]).well();
}

/// A Prometheus of this test, which scrapes one target each second.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn start(place: &Path, target: SocketAddr) -> Prometheus {
        let config = place.join("prometheus.yml");
        let rules = packaging("prometheus/overdrive.rules.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n  - job_name: overdrive\n    static_configs:\n      \
             - targets: ['{target}']\n",
            rules.display()
        );
        fs::write(&config, text).expect("room");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = free.expect("a free port");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", place.join("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Prometheus { child: child.expect("it is installed"), address }
    }

    /// Returns the result of an expression now. None: it does not answer yet.
    fn query(&self, expression: &str) -> Option<serde_json::Value> {
        let plain = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        let query: String = expression.bytes().map(plain).collect();
        let request = format!("GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n");
        let response = exchange_at(self.address, &request)?;
        let body = response.split_once("\r\n\r\n")?.1;
        serde_json::from_str(body).ok()
    }

    /// Returns the number of series that an expression has now.
    fn series(&self, expression: &str) -> usize {
        let Some(answer) = self.query(expression) else { return 0 };
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().map_or(0, Vec::len)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_expression_of_the_dashboard_has_a_result_in_a_real_prometheus() {
    if !have(&["prometheus", "qemu-io"]) {
        return;
    }
    let place = place();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let target = free.expect("a free port");
    let options = ["--metrics", &target.to_string(), "--write", "back-now"];
    let server = Server::start(image(&place, 8), &options);
    let prometheus = Prometheus::start(place.path(), target);
    wait_until("it was scraped", || prometheus.series("overdrive_state == 1") > 0);
    let commands = ["-c", "write 0 64k", "-c", "read 0 64k", "-c", "flush"];
    run("qemu-io", &[&["-f", "raw"], &commands[..], &[&server.uri]].concat()).well();
    wait_until("a rate has two scrapes", || {
        prometheus.series("rate(overdrive_asked_write_bytes_total[1m]) > 0") > 0
    });
    let expressions = expressions();
    assert!(expressions.len() > 20, "{expressions:?}");
    let is_empty = |expression: &&String| prometheus.series(expression) == 0;
    let empty: Vec<_> = expressions.iter().filter(is_empty).collect();
    assert_eq!(empty, Vec::<&String>::new(), "expressions without a result");
    assert!(prometheus.series("up{job=\"overdrive\"} == 1") > 0);
    server.end().well();
}

#[test]
fn a_scrape_is_what_a_parser_of_open_metrics_reads() {
    if !have(&["promtool"]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let socket = home.path().join("metrics.sock");
    let address = format!("unix:{}", socket.display());
    let name = "a \"b\" \\ c";
    let options = ["--metrics", &address, "--name", name];
    let server = Server::start_in(&home, image(&place, 8), &options);
    wait_until("metrics are served", || UnixStream::connect(&socket).is_ok());
    let text = scrape(&socket);
    assert!(text.contains(r#"volume="a \"b\" \\ c""#), "{text}");
    // Compressed, and as another program unpacks it.
    const UNPACK: &str = r##"
import gzip, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
data = b""
while more := s.recv(65536):
    data += more
head, body = data.split(b"\r\n\r\n", 1)
assert b"Content-Encoding: gzip" in head, head
assert f"Content-Length: {len(body)}\r\n".encode() in head, head
text = gzip.decompress(body).decode()
assert text.endswith("# EOF\n") and "overdrive_state" in text
"##;
    python(UNPACK, &[socket.to_str().expect("plain")]).well();
    server.end().well();
}
