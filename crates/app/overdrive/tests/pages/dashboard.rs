//! The dashboard in a browser: each page is read and used on a phone and on a desktop, light and
//! dark, by pointer and by keyboard, with a script and without. Other sites are refused.

use crate::browser::{Browser, REBOUND};
use crate::{DESK, DRIVE, LOOK, PHONE, describe_faults, violations};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const OVERDRIVE: &str = env!("CARGO_BIN_EXE_overdrive");
/// A directory for pictures of the pages, if a person wants to look at them.
const PICTURES: &str = "OVERDRIVE_TEST_PICTURES";

/// A process that is killed at the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn overdrive(home: &Path) -> Command {
    let mut command = Command::new(OVERDRIVE);
    command.current_dir(home).stdin(Stdio::null());
    for name in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
        command.env(name, home);
    }
    command
}

/// Starts a command, and returns its first line.
fn start(command: &mut Command) -> (Process, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    (Process(child), line.trim().to_owned())
}

fn serve(home: &Path, arguments: &[&str]) -> Process {
    let (process, line) = start(overdrive(home).arg("serve").args(arguments));
    assert!(line.contains("nbd"), "{line}");
    process
}

/// A dashboard, and the browser in which it is used.
struct Visit {
    browser: Browser,
    url: String,
    faults: Vec<String>,
    pictures: Option<PathBuf>,
}

impl Visit {
    fn go(&mut self, path: &str) {
        let url = format!("{}{path}", self.url);
        self.browser.go(&url);
    }

    fn text(&mut self) -> String {
        let text = self.browser.value("document.body.innerText");
        text.as_str().expect("text").to_owned()
    }

    /// Waits until the page contains these words.
    fn wait_for(&mut self, words: &str) {
        self.browser.wait(&format!("document.body.innerText.includes({})", json!(words)));
    }

    /// Returns an expression for the button with this name.
    fn button(name: &str) -> String {
        format!("[...document.querySelectorAll('button')].find(it => it.innerText === '{name}')")
    }

    /// Looks at the open page on all screens.
    fn look(&mut self, name: &str) {
        let all = [(PHONE, "light"), (PHONE, "dark"), (DESK, "light"), (DESK, "dark")];
        self.look_on(name, &all);
    }

    /// Looks at a page that a command has written: the other tests look at those on all screens.
    fn look_at_saved(&mut self, name: &str) {
        self.look_on(name, &[(PHONE, "dark")]);
    }

    fn look_on(&mut self, name: &str, screens: &[((u32, u32), &str)]) {
        for (size, scheme) in screens.iter().copied() {
            self.browser.show_as(size, scheme);
            self.settle();
            let place = format!("{name}: {} px, {scheme}", size.0);
            let found = self.browser.value(&format!("({LOOK})(null)"));
            self.faults.extend(describe_faults(&found).map(|it| format!("{place}: {it}")));
            let found = violations(&mut self.browser);
            self.faults.extend(found.into_iter().map(|it| format!("{place}: axe: {it}")));
            self.picture(&format!("{name}-{}-{scheme}.png", size.0));
        }
        // Where a pointer is used.
        self.browser.show_as(DESK, "light");
        self.settle();
    }

    /// Waits until the layout has followed a new size: within two frames.
    fn settle(&mut self) {
        let frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))";
        self.browser.value(frames);
    }

    fn picture(&mut self, name: &str) {
        let Some(directory) = &self.pictures else { return };
        let path = directory.join(name);
        let parameters = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.browser.call("Page.captureScreenshot", parameters);
        let data = picture["data"].as_str().expect("data");
        let mut decode = Command::new("base64");
        let mut child = decode
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(path).expect("a file"))
            .spawn()
            .expect("base64 runs");
        let stdin = child.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut &stdin, data.as_bytes()).expect("written");
        drop(stdin);
        child.wait().expect("it ends");
    }

    /// Checks that no page has sent anything to another host, or failed.
    fn check_events(&mut self) {
        for event in std::mem::take(&mut self.browser.events) {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                    self.faults.push(parameters.to_string());
                }
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str().unwrap_or_default();
                    if !url.starts_with(&self.url) {
                        self.faults.push(format!("a page asks for {url}"));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Makes an image with a file system that has some files.
fn image(home: &Path) {
    let contents = home.join("contents/mail");
    std::fs::create_dir_all(&contents).expect("made");
    std::fs::write(contents.join("box.mbox"), vec![1; 4 << 20]).expect("written");
    let image = home.join("disk.img");
    std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("room");
    let mut make = Command::new("mkfs.ext4");
    let made = make.args(["-q", "-F", "-d"]).args([&home.join("contents"), &image]).status();
    assert!(made.expect("mkfs.ext4 runs").success());
}

/// Records two weeks of the volume `db`, and 100 days of a drive.
fn record(home: &Path) {
    use history::{DriveFigures, DriveIdentity, DriveSample, Figures, Samples, VolumeSample};
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now.expect("after 1970").as_secs().cast_signed();
    let mut samples = Samples::open(&home.join("overdrive/samples.sqlite3")).expect("room");
    let minutes = (now_s - 14 * 86_400..now_s - 3600).step_by(600);
    let seconds = now_s - 3600..now_s;
    let sample = |at_s: i64| {
        // A day of rest, and noon is busier than midnight.
        let busy = 200 + (at_s / 60 % 1440).unsigned_abs() / 10 * 10;
        let reads = if at_s / 86_400 % 7 == 3 { 0 } else { busy };
        let figures = Figures {
            reads,
            read_hits: reads * 9 / 10,
            changes: reads / 4,
            written_bytes: reads << 12,
            written_back_bytes: reads << 11,
            saved_bytes: reads << 11,
            time_saved_ns: reads * 100_000,
            miss_p99_ns: 2_000_000 + reads * 1000,
            flush_p99_ns: 9_000_000,
            dirty_bytes: reads << 14,
            dirty_age_ns: reads * 1_000_000,
            held_bytes: 1 << 20,
            ..Figures::default()
        };
        VolumeSample { volume: "db".to_owned(), at_s, figures }
    };
    let all: Vec<VolumeSample> = minutes.chain(seconds).map(sample).collect();
    samples.record_volumes(&all).expect("room");
    let drive = DriveIdentity {
        model: "A drive".to_owned(),
        serial: "S123".to_owned(),
        device: "/dev/null".to_owned(),
    };
    for day in 0..100 {
        let figures = DriveFigures {
            worn_percent: Some(20 + day / 10),
            host_written_bytes: Some((200 + day) * 100_000_000_000),
            nand_written_bytes: Some((250 + day) * 130_000_000_000),
            temperature_c: Some(30 + day % 9),
            ..DriveFigures::default()
        };
        let sample = DriveSample { at_s: now_s - (100 - day) * 86_400, figures };
        samples.record_drive(&drive, &sample).expect("room");
    }
    let script = r#"#!/bin/sh
echo '{ "smartctl": { "exit_status": 0 }, "model_name": "A drive", "serial_number": "S123",
  "smart_status": { "passed": true }, "temperature": { "current": 33 },
  "nvme_smart_health_information_log": { "percentage_used": 30, "data_units_written": 58600000,
  "available_spare": 100 } }'
"#;
    let tools = home.join("tools");
    std::fs::create_dir(&tools).expect("room");
    std::fs::write(tools.join("smartctl"), script).expect("room");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(tools.join("smartctl"), mode).expect("its own file");
}

#[test]
#[ignore = "needs a browser; 'cargo xtask pages' installs one and runs this, and so does 'cargo xtask nightly'"]
fn the_dashboard_is_read_and_used() {
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    image(home);
    record(home);
    let file = ["disk.img", "--name", "db", "--memory", "32M", "--files", "auto"];
    let db = serve(home, &file);
    let _drive = serve(home, &[DRIVE, "--name", "ssd", "--memory", "8M"]);
    let _plain = serve(home, &["ram:16M", "--name", "plain", "--memory", "0"]);
    let mut command = overdrive(home);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", home.join("tools").display()));
    let (_dashboard, url) = start(command.args(["dashboard", "--listen", "127.0.0.1:0"]));
    let url = url.trim_end_matches('/').to_owned();
    let port = url.rsplit(':').next().expect("a port").to_owned();
    let token = |name: &str| {
        let path = home.join(format!("overdrive/dashboard/{port}.{name}"));
        std::fs::read_to_string(path).expect("a token").trim().to_owned()
    };
    let profile = tempfile::tempdir().expect("a directory");
    let browser = Browser::start(profile.path()).expect("a browser: Debian's package chromium");
    let pictures = std::env::var_os(PICTURES).map(PathBuf::from);
    let mut visit = Visit { browser, url, faults: Vec::new(), pictures };

    log_in(&mut visit, "wrong");
    visit.wait_for("not a token of the dashboard that runs now");
    visit.look("refused-token");
    // Browsers report the status 403 as an error of the page.
    visit.browser.events.clear();
    log_in(&mut visit, &token("admin-token"));
    visit.wait_for("Live: the figures change by themselves.");
    visit.wait_for("ssd");
    visit.look("overview");
    visit.check_events();

    let read = |name: &str| {
        let list = overdrive(home).args(["volume", "list", "--json"]).output().expect("it runs");
        let list: Value = serde_json::from_slice(&list.stdout).expect("JSON");
        let rows = list["volumes"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["name"] == name).expect("served");
        let uri = row["uri"].as_str().expect("a URI").to_owned();
        for _ in 0..2 {
            let copied = Command::new("nbdcopy").args([&uri, "null:"]).status();
            assert!(copied.expect("nbdcopy runs").success());
        }
    };
    read("db");
    visit.browser.follow("document.querySelector('a[href=\"/volume/db\"]')");
    visit.wait_for("Hit ratio");
    visit.wait_for("Requests of clients");
    read("db");
    visit.wait_for("Classes of files");
    visit.look("volume");
    use_history(&mut visit);
    use_volume(&mut visit);
    use_drives(&mut visit);
    use_bench(&mut visit);
    visit.check_events();
    without_script(&mut visit);
    visit.check_events();

    // The daemon dies, and another one begins.
    visit.go("/volume/db");
    visit.wait_for("Live: the figures change");
    drop(db);
    visit.wait_for("Its daemon (process ");
    visit.wait_for("State: ended");
    visit.look("without-daemon");
    let _db = serve(home, &file);
    visit.browser.wait("document.querySelector('strong.good')?.innerText === 'serving'");
    visit.check_events();
    other_sites(&mut visit);
    let faults = &visit.faults;
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

fn log_in(visit: &mut Visit, token: &str) {
    visit.go("/login");
    if token == "wrong" {
        visit.look("login");
        visit.check_events();
    }
    // The field has the focus by itself.
    visit.browser.wait("document.activeElement.id === 'token'");
    visit.browser.call("Input.insertText", json!({ "text": token }));
    visit.browser.press_to_follow("Enter", 13);
}

/// The tables and files of a volume's history.
fn use_history(visit: &mut Visit) {
    visit.go("/volume/db");
    visit.wait_for("Hit ratio: latest 90.0 %, from 90.0 % to 90.0 %.");
    let summary = "[...document.querySelectorAll('summary')].find(it => \
        it.innerText === 'Table of the last two weeks')";
    visit.browser.value(&format!("{summary}.focus()"));
    visit.browser.press("Enter", 13);
    visit.browser.wait(&format!("{summary}.parentElement.open"));
    visit.look("history");
    let lines = "fetch(document.querySelector('a[href$=\"fortnight.csv\"]').href)\
        .then(answer => answer.text()).then(text => text.split('\\r\\n').length)";
    let lines = visit.browser.value(lines).as_u64().expect("a number");
    assert!(lines > 1000, "{lines} lines of CSV");
}

/// The map, the actions and the settings of a volume.
fn use_volume(visit: &mut Visit) {
    visit.browser.follow(&Visit::button("Show the map"));
    visit.wait_for("Files in the cache: db");
    visit.look_at_saved("map");
    visit.go("/volume/db");
    for (button, result) in [
        ("Flush", "Flushed: all answered writes are durable"),
        ("Pause", "Paused: all requests bypass the cache"),
        ("Resume", "Resumed."),
    ] {
        visit.browser.follow(&Visit::button(button));
        visit.wait_for(result);
    }
    visit.browser.value("document.getElementById('set-dirty_age').value = '3s'");
    visit.browser.follow(&Visit::button("Change settings"));
    visit.wait_for("Set until the daemon ends: dirty_age=3s.");
    visit.look("changed");
    // By keyboard: the first stop leads to the contents, and a live page keeps the focus.
    visit.go("/volume/db");
    visit.browser.press("Tab", 9);
    let focus = visit.browser.value("document.activeElement.innerText");
    assert_eq!(focus, "Skip to the contents");
    visit.browser.value("document.querySelector('.tip')?.focus()");
    visit.browser.value("window.events = 0; new MutationObserver(() => window.events++)\
        .observe(document.getElementById('live'), { subtree: true, childList: true, characterData: true })");
    visit.browser.wait("window.events > 0");
    let kind = visit.browser.value("document.activeElement.getAttribute('class')");
    assert_eq!(kind, "tip", "the focus stays where it was");
    visit.browser.value(&format!("{}.focus()", Visit::button("Flush")));
    visit.browser.press_to_follow("Enter", 13);
    visit.wait_for("Flushed: all answered writes are durable. 0 s ago");
}

fn use_drives(visit: &mut Visit) {
    visit.browser.follow("document.querySelector('a[href=\"/drive\"]')");
    visit.wait_for("Drives below volumes");
    visit.look("drives");
    visit.browser.follow("document.querySelector('a[href=\"/drive/ssd\"]')");
    visit.wait_for("write amplification");
    visit.look("drive");
    visit.go("/drive/null");
    visit.wait_for("Temperature: latest 33 C, from 30 C to 38 C.");
    visit.wait_for("Forecast from ");
    visit.look("drive-history");
    visit.go("/drive/db");
    visit.wait_for("Drive db");
    assert!(visit.browser.value("document.querySelector('.verdict')?.innerText").is_string());
}

/// Two runs of a suite: the second is compared with the first.
fn use_bench(visit: &mut Visit) {
    visit.browser.follow("document.querySelector('a[href=\"/bench\"]')");
    visit.wait_for("No suite was run here yet.");
    visit.look("bench");
    let run = |visit: &mut Visit| {
        visit.browser.value(
            "document.getElementById('suite').value = 'cdm'; \
            document.getElementById('time').value = '10ms'",
        );
        visit.browser.follow(&Visit::button("Run"));
        visit.wait_for("Open the page of the result");
    };
    run(visit);
    run(visit);
    visit.wait_for("Compared with result 1 of");
    visit.wait_for("Compared with earlier results");
    visit.look("bench-result");
    visit.browser.follow("document.querySelector('a[href=\"/bench/comparison\"]')");
    visit.look_at_saved("bench-comparison");
    visit.go("/bench");
    visit.browser.follow("document.querySelector('a[href=\"/bench/result\"]')");
    visit.look_at_saved("bench-page");
    visit.go("/bench");
    visit.check_events();
    visit.browser.value("document.getElementById('time').value = 'soon'");
    visit.browser.follow(&Visit::button("Run"));
    visit.wait_for("Time of each test: ");
    // Browsers report the status 400 as an error of the page.
    visit.browser.events.clear();
}

/// The pages and their forms without a script.
fn without_script(visit: &mut Visit) {
    let off = |off: bool| json!({ "value": off });
    visit.browser.call("Emulation.setScriptExecutionDisabled", off(true));
    visit.go("/");
    let text = visit.text();
    assert!(text.contains("ssd") && text.contains("Reload the page for new figures."), "{text}");
    visit.go("/volume/db");
    visit.browser.activate(&Visit::button("Flush"));
    let text = visit.text();
    assert!(text.contains("Flushed: all answered writes are durable"), "{text}");
    visit.browser.call("Emulation.setScriptExecutionDisabled", off(false));
}

/// DNS rebinding, a form of another site, and a page that frames this one.
fn other_sites(visit: &mut Visit) {
    let rebound = visit.url.replace("127.0.0.1", REBOUND);
    visit.browser.go(&rebound);
    let text = visit.text();
    assert!(text.contains("own address only") && !text.contains("ssd"), "{text}");
    let form = format!(
        "data:text/html,<form method=post action='{}/volume/db/pause'><button>x</button></form>",
        visit.url
    );
    visit.browser.go(&form);
    visit.browser.follow("document.querySelector('button')");
    let text = visit.text();
    assert!(text.contains("own pages only"), "{text}");
    visit.browser.go(&format!("data:text/html,<iframe src='{}/'></iframe>", visit.url));
    let framed = visit.browser.value("document.querySelector('iframe').contentDocument");
    assert!(framed.is_null(), "{framed}");
    visit.go("/volume/db");
    let text = visit.text();
    assert!(text.contains("State: serving"), "nothing was paused: {text}");
    visit.browser.events.clear();
}
