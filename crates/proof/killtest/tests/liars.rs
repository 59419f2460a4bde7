//! Tests of the judge: setups that break a promise must be detected, and the honest one must pass.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const KILLTEST: &str = env!("CARGO_BIN_EXE_killtest");
/// The program's exit status if a promise was broken.
const EXIT_INTEGRITY: i32 = 7;

/// Builds `overdrive` next to the program: cargo only builds it for tests of its own package. The
/// variable reports that it was built with these tests, as `cargo xtask parallel` does.
fn build() {
    static BUILT: OnceLock<()> = OnceLock::new();
    if std::env::var_os("OVERDRIVE_TEST_BUILT").is_some() {
        return;
    }
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        // Build scripts run again if the variables that describe a package change.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(&name);
            }
        }
        cargo.args(["build", "--quiet", "--package", "overdrive"]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo runs us").success(), "overdrive does not build");
    });
}

/// Whether a file can be mounted here.
fn have_fuse() -> bool {
    let found = |name: &str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|path| path.join(name).is_file())
    };
    let root = rustix::process::geteuid().is_root();
    let have =
        found("nbdfuse") && Path::new("/dev/fuse").exists() && (root || found("fusermount3"));
    if !have {
        assert!(std::env::var_os("CI").is_none(), "no nbdfuse or no /dev/fuse, and this is CI");
        println!("skipped: no nbdfuse or no /dev/fuse");
    }
    have
}

/// Runs the program; returns its status and its counts.
fn run(arguments: &[&str]) -> (Option<i32>, serde_json::Value) {
    build();
    let mut command = Command::new("timeout");
    command.args(["600", KILLTEST, "--json"]).args(arguments);
    let output = command.output().expect("timeout is part of coreutils");
    let said = String::from_utf8_lossy(&output.stderr);
    let value = serde_json::from_slice(&output.stdout);
    (output.status.code(), value.unwrap_or_else(|error| panic!("{error}: {said}")))
}

#[test]
fn a_daemon_without_a_holder_is_caught_losing_what_was_acknowledged() {
    if !have_fuse() {
        return;
    }
    let (status, counted) = run(&["--seconds", "500", "--kills", "1000", "--no-holder"]);
    assert_eq!(status, Some(EXIT_INTEGRITY), "{counted:#}");
    let violation = &counted["violations"][0];
    assert!(violation["expected"].as_array().is_some_and(|list| !list.is_empty()), "{violation}");
    let history = violation["history"].to_string();
    assert!(history.contains("answered") && history.contains("killed"), "{violation}");
}

#[test]
fn a_daemon_without_a_holder_is_caught_believing_a_flush_after_one_that_failed_unheard() {
    if !have_fuse() {
        return;
    }
    let lie =
        ["--only", "lost-flush", "--write", "through", "--durability", "flush", "--no-holder"];
    let (status, counted) = run(&[&["--seconds", "500"], &lie[..]].concat());
    assert_eq!(status, Some(EXIT_INTEGRITY), "{counted:#}");
    let violation = &counted["violations"][0];
    let what = violation["what"].as_str().expect("a sentence");
    assert!(what.contains("after a power cut a sector holds what it must not"), "{violation}");
    let history = violation["history"].to_string();
    assert!(history.contains("was under way, and fails"), "{violation}");
}

#[test]
fn a_backing_that_lies_about_flushes_is_caught_by_power_cuts() {
    if !have_fuse() {
        return;
    }
    let (status, counted) = run(&["--seconds", "500", "--cuts", "1000", "--lying-backing"]);
    assert_eq!(status, Some(EXIT_INTEGRITY), "{counted:#}");
    assert!(counted["tally"]["cuts"].as_u64() > Some(0));
    assert_eq!(counted["tally"]["kills"], 0, "power cuts alone have shown it");
}

/// Runs only power cuts, with this lie, until it is detected; returns the violation.
fn found_by_cuts(lie: &[&str]) -> String {
    let (status, counted) = run(&[&["--seconds", "500", "--cuts", "1000"], lie].concat());
    assert_eq!(status, Some(EXIT_INTEGRITY), "{counted:#}");
    assert!(counted["tally"]["cuts"].as_u64() > Some(0));
    counted["violations"][0]["what"].as_str().expect("a sentence").to_owned()
}

/// Runs only power cuts under `ordered` daemons, with this lie: the violation is then of the order.
/// (The loss of changes that an operator had flushed would be detected as well, and sometimes
/// first.)
fn breaks_the_order(lie: &[&str]) {
    let what = found_by_cuts(&[&["--durability", "ordered", "--only", "cut"], lie].concat());
    assert!(what.contains("the order is broken"), "{what}");
}

#[test]
fn a_backing_that_does_not_flush_is_caught_breaking_the_order() {
    if !have_fuse() {
        return;
    }
    breaks_the_order(&["--lying-backing"]);
}

#[test]
fn a_backing_that_does_each_flush_one_flush_late_is_caught_breaking_the_order() {
    if !have_fuse() {
        return;
    }
    breaks_the_order(&["--lying-backing", "late"]);
}

#[test]
fn a_daemon_that_ignores_flushes_is_caught_breaking_the_order() {
    if !have_fuse() {
        return;
    }
    breaks_the_order(&["--serve-as", "scratch"]);
}

#[test]
fn a_daemon_that_only_orders_is_caught_losing_what_was_flushed() {
    if !have_fuse() {
        return;
    }
    let what = found_by_cuts(&["--durability", "flush", "--serve-as", "ordered"]);
    assert!(what.contains("holds what it must not"), "{what}");
}

#[test]
fn the_honest_set_up_is_found_honest() {
    if !have_fuse() {
        return;
    }
    for durability in ["flush", "ordered"] {
        let (status, counted) = run(&["--kills", "3", "--cuts", "2", "--durability", durability]);
        assert_eq!(status, Some(0), "{counted:#}");
        let tally = &counted["tally"];
        assert!(tally["lives"].as_u64() > Some(3), "{tally}");
        assert!(tally["requests"].as_u64() > Some(100), "{tally}");
    }
    let (status, counted) = run(&["--only", "lost-flush", "--kills", "6"]);
    assert_eq!(status, Some(0), "{counted:#}");
    assert!(counted["tally"]["flushes_lost"].as_u64() > Some(0), "{counted:#}");
}
