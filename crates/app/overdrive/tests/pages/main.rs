//! The pages in a browser: on a phone and on a desktop, light and dark, and on paper. No page uses
//! the network, nothing fails, nothing is clipped, and all text is readable.

mod browser;
mod dashboard;

use browser::Browser;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const LOOK: &str = include_str!("look.js");
const PHONE: (u32, u32) = (390, 844);
const DESK: (u32, u32) = (1280, 900);
const LARGE_DESK: (u32, u32) = (1920, 1080);
/// Largest page, in bytes.
const PAGE_MAX: u64 = 1_500_000;
/// A4 within its margins, at 96 pixels per inch.
const PAPER: (u32, u32) = (718, 1046);
/// A drive that takes a moment to simulate.
const DRIVE: &str =
    concat!("model:", env!("CARGO_MANIFEST_DIR"), "/../../lab/suites/tests/small.toml");

const MODELS: &str = "intel-x25-m-g2-80,disk-5400-1000";
const OWN: &str = "samsung-840-evo-250";

/// The prices of the review: they need not be measured.
const PRICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reviews/prices.json");
/// The script of axe, if `cargo xtask pages` has installed it.
const AXE: &str = "OVERDRIVE_TEST_AXE";
/// Runs axe, and returns a sentence for each violation.
const VIOLATIONS: &str = "axe.run(document, { resultTypes: ['violations'] }).then(found => \
    found.violations.map(it => it.id + ': ' + it.help + ': ' + it.nodes[0].html.slice(0, 120)))";

/// Pages, and the commands that write them.
const PAGES: [(&str, &[&str]); 12] = [
    (
        "review.html",
        &[
            "review",
            DRIVE,
            "--quick",
            "--only",
            "qd1,cdm,iometer",
            "--cache",
            "64M",
            "--with",
            "rapid",
            "--baseline",
            DRIVE,
            "--prices",
            PRICES,
        ],
    ),
    ("consistency.html", &["bench", "consistency", DRIVE, "--time", "20s", "--spare", "0,12,25"]),
    ("qd1.html", &["bench", "qd1", "model:samsung-840-evo-250", "--span", "256M", "--time", "12s"]),
    (
        "corners.html",
        &["bench", "corners", DRIVE, "--cache", "64M", "--span", "128M", "--time", "1s"],
    ),
    ("sizes.html", &["bench", "sizes", DRIVE, "--span", "128M", "--time", "50ms"]),
    ("sweep.html", &["bench", "sweep", DRIVE, "--span", "128M", "--time", "10ms"]),
    ("pts.html", &["bench", "pts", DRIVE, "--time", "50ms"]),
    (
        "many.html",
        &[
            "bench", "drives", "qd1", "--models", MODELS, "--time", "1s", "--span", "128M",
            "--own", OWN,
        ],
    ),
    ("trim.html", &["bench", "trim", DRIVE, "--prepare", "fill,torture:20s,trim"]),
    ("real.html", &["bench", "cdm", "ram:256M", "--span", "64M", "--time", "10ms"]),
    ("spares.html", &["bench", "compare", "consistency.html"]),
    (
        "drives.html",
        &["bench", "compare", "qd1.html", "corners.html", "sizes.html", "corners.html"],
    ),
];

/// Writes the pages into a directory.
fn written(directory: &Path) -> Vec<PathBuf> {
    let write = |(name, arguments): &(&str, &[&str])| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
        command.args(*arguments).args(["--report", name]).current_dir(directory);
        command.env("XDG_CACHE_HOME", directory).env("XDG_DATA_HOME", directory);
        let output = command.output().expect("the command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        directory.join(name)
    };
    let others = [written_map(directory), written_advice(directory)];
    PAGES.iter().map(write).chain(others).collect()
}

/// Writes the page of advice on a trace of two processes into a directory.
fn written_advice(directory: &Path) -> PathBuf {
    let event = |number: u64| trace::Event {
        time_ns: number * 20_000_000,
        took_ns: Some(4_000_000),
        operation: trace::Operation::Read,
        device: 0,
        first: number * 7919 % 9000 * 8,
        sectors: 8,
        failed: None,
    };
    let entry = |number: u64| trace::recording::Entry {
        process: Some(number as u32 % 2),
        ..event(number).into()
    };
    let name = |number, letters| trace::recording::Name {
        named: trace::recording::Named::Process,
        number,
        letters,
    };
    let entries: Vec<_> = (0..30_000).map(entry).collect();
    let names = [name(0, &b"mysqld"[..]), name(1, &b"a <name>"[..])];
    let mut bytes = Vec::new();
    trace::recording::header(&mut bytes);
    trace::recording::entries_with(&mut bytes, &entries, &names, 0);
    std::fs::write(directory.join("load.odtrace"), bytes).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.args(["advise", "load.odtrace", "--report", "advise.html"]).current_dir(directory);
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    directory.join("advise.html")
}

/// Writes the page on the files of a served volume into a directory.
fn written_map(directory: &Path) -> PathBuf {
    let (contents, image) = (directory.join("contents"), directory.join("disk.img"));
    for (number, name) in ["film.mp4", "box.mbox", "letter.odt", "a & <b>.jpg"].iter().enumerate() {
        let below = contents.join(format!("directory-{number}"));
        std::fs::create_dir_all(&below).expect("made");
        std::fs::write(below.join(name), vec![1; (number + 1) << 20]).expect("written");
    }
    let file = std::fs::File::create(&image).expect("a file");
    file.set_len(64 << 20).expect("it grows");
    let run = |command: &mut Command| {
        let output = command.output().expect("the command runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).args([&contents, &image]));
    let program = env!("CARGO_BIN_EXE_overdrive");
    let steps = format!(
        "nbdcopy \"$uri\" null: && \"{program}\" volume map db --report map.html >/dev/null"
    );
    let mut serve = Command::new(program);
    serve.arg("serve").arg(&image).args(["--name", "db", "--memory", "64M", "--files", "auto"]);
    serve.args(["--run", &steps]).current_dir(directory);
    for variable in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
        serve.env(variable, directory);
    }
    run(&mut serve);
    directory.join("map.html")
}

/// Returns the forbidden actions of a page.
fn misdeeds(events: &[Value], page: &Path) -> Vec<String> {
    let own = format!("file://{}", page.display());
    let misdeed = |event: &Value| {
        let parameters = &event["params"];
        match event["method"].as_str()? {
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                Some(parameters.to_string())
            }
            "Network.requestWillBeSent" => {
                let url = parameters["request"]["url"].as_str()?;
                (url != own).then(|| format!("it asks for {url}"))
            }
            _ => None,
        }
    };
    events.iter().filter_map(misdeed).collect()
}

/// Returns the violations that axe finds in the open page.
fn violations(browser: &mut Browser) -> Vec<String> {
    let Some(path) = std::env::var_os(AXE) else { return Vec::new() };
    let script = std::fs::read_to_string(path).expect("the script of axe");
    browser.value(&format!("{script}; undefined"));
    describe_faults(&browser.value(VIOLATIONS)).collect()
}

/// Returns all faults of a page.
fn wrong(browser: &mut Browser, page: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let bytes = std::fs::metadata(page).expect("a page").len();
    if bytes > PAGE_MAX {
        wrong.push(format!("it has {bytes} bytes"));
    }
    let mut papers = Vec::new();
    for size in [PHONE, DESK, LARGE_DESK] {
        for scheme in ["light", "dark"] {
            browser.open(page, size, scheme);
            let place = format!("{} px, {scheme}", size.0);
            let found = browser.value(&format!("({LOOK})(null)"));
            wrong.extend(describe_faults(&found).map(|it| format!("{place}: {it}")));
            wrong.extend(violations(browser).into_iter().map(|it| format!("{place}: axe: {it}")));
            wrong.extend(misdeeds(&browser.events, page));
            papers.push(browser.value("getComputedStyle(document.body).backgroundColor"));
        }
    }
    // Paper is white even if the screen is dark.
    browser.open(page, PAPER, "dark");
    browser.media("print", "dark");
    let found = browser.value(&format!("({LOOK})('rgb(255, 255, 255)')"));
    wrong.extend(describe_faults(&found).map(|it| format!("printed: {it}")));
    if papers[0] == papers[1] {
        wrong.push(format!("light and dark are both on {}", papers[0]));
    }
    let pdf = browser.call("Page.printToPDF", json!({ "printBackground": false }));
    // "%PDF-" in base 64.
    let is_pdf = |data: &str| data.starts_with("JVBERi0") && data.len() > 10_000;
    if !pdf["data"].as_str().is_some_and(is_pdf) {
        wrong.push("it cannot be printed".to_owned());
    }
    let schema = browser.value("JSON.parse(document.getElementById('raw').textContent).schema");
    let is_known = |schema: &str| {
        let all = ["overdrive.advise", "overdrive.bench", "overdrive.map", "overdrive.review"];
        all.iter().any(|known| schema.starts_with(known))
    };
    if !schema.as_str().is_some_and(is_known) {
        wrong.push(format!("its data are of {schema}"));
    }
    wrong
}

fn describe_faults(found: &Value) -> impl Iterator<Item = String> {
    let list = found.as_array().expect("a list").iter();
    list.map(|it| it.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>().into_iter()
}

#[test]
#[ignore = "needs a browser; 'cargo xtask pages' installs one and runs this, and so does 'cargo xtask nightly'"]
fn pages_look_right_on_a_phone_on_a_desk_and_on_paper() {
    let directory = tempfile::tempdir().expect("a directory");
    let pages = written(directory.path());
    let profile = tempfile::tempdir().expect("a directory");
    let mut browser = Browser::start(profile.path()).expect("a browser: Debian's package chromium");
    let mut all = Vec::new();
    for page in &pages {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.extend(wrong(&mut browser, page).into_iter().map(|it| format!("{name}: {it}")));
    }
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
}

#[test]
#[ignore = "needs a browser; 'cargo xtask pages' installs one and runs this, and so does 'cargo xtask nightly'"]
fn faults_of_a_page_are_seen() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("bad.html");
    let bad = "<!doctype html><meta name=\"viewport\" content=\"width=device-width\"><style>body{background:#fff}</style>\
        <p style=\"color:#ccc\">pale</p><p style=\"width:900px\">wide</p><img src=\"http://127.0.0.1:9/x.png\">\
        <svg viewBox=\"0 0 10 10\" width=\"10\"><text x=\"8\" y=\"5\">cut</text></svg>\
        <script>console.error('said')</script><script id=\"raw\" type=\"application/json\">{\"schema\":\"x\"}</script>";
    std::fs::write(&page, bad).expect("a file");
    let profile = tempfile::tempdir().expect("a directory");
    let mut browser = Browser::start(profile.path()).expect("a browser: Debian's package chromium");
    let found = wrong(&mut browser, &page).join("\n");
    for fault in [
        "P 'pale' has a contrast of 1.6",
        "390 px, dark: the page is ",
        "P 'wide' ends at ",
        "it asks for http://127.0.0.1:9/x.png",
        "'cut' is cut off",
        "said",
        "light and dark are both on",
        "its data are of \"x\"",
    ] {
        assert!(found.contains(fault), "{fault}:\n{found}");
    }
}
