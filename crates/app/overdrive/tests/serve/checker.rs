//! The independent checker (`checker/`): it finds each liar, and nothing in an honest run.

use crate::common::{OVERDRIVE, have, have_libnbd};
use std::path::Path;
use std::process::{Command, Output};

/// Debian's Python: the one that its libnbd module belongs to.
const PYTHON: &str = "/usr/bin/python3";

/// Values of the option `--liar`, with options that let the lie show soon.
const LIARS: [(&str, &[&str]); 8] = [
    ("no-flush", &["--durability", "flush"]),
    ("forget", &[]),
    ("misplace", &[]),
    ("tear", &[]),
    ("proxy-flush", &["--write", "back-now", "--durability", "flush"]),
    ("no-holder", &["--write", "back-now", "--durability", "flush"]),
    ("weaker", &["--write", "back-now"]),
    ("scratch", &["--write", "back-now", "--durability", "ordered"]),
];

fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../checker").join(name)
}

fn check(arguments: &[&str]) -> Output {
    let mut command = Command::new(PYTHON);
    command.arg("-B").arg(script("main.py")).args(["--program", OVERDRIVE]).args(arguments);
    command.output().expect("Python starts")
}

fn can_check() -> bool {
    if !Path::new("/dev/fuse").exists() {
        // A privilege, not a program: build servers may lack it, too.
        println!("skipped: the checker's disk needs /dev/fuse");
        return false;
    }
    have_libnbd() && have(&["fusermount3"])
}

fn printed(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn the_checkers_rules_hold_for_histories_by_hand() {
    for tests in ["test_ledger.py", "test_disk.py"] {
        let output = Command::new(PYTHON).arg("-B").arg(script(tests)).output().expect("it starts");
        assert!(output.status.success(), "{}", printed(&output));
    }
}

#[test]
fn the_checker_finds_nothing_in_an_honest_run() {
    if can_check() {
        let output = check(&["--seconds", "3", "--seed", "1"]);
        assert!(output.status.success(), "{}", printed(&output));
    }
}

#[test]
fn the_checker_finds_nothing_over_tls() {
    if can_check() && have(&["openssl"]) {
        let output = check(&["--export", "--tls", "--seconds", "3", "--seed", "1"]);
        assert!(output.status.success(), "{}", printed(&output));
    }
}

#[test]
fn the_checker_finds_each_liar() {
    if !can_check() {
        return;
    }
    std::thread::scope(|scope| {
        for (liar, options) in LIARS {
            scope.spawn(move || finds(liar, options));
        }
    });
}

/// Asserts that a liar is found, by the bytes of a sector.
fn finds(liar: &str, options: &[&str]) {
    let output = check(&[&["--liar", liar, "--seconds", "60", "--seed", "1"], options].concat());
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{liar}: {text}");
    let rules = ["after read: found", "after power cut: found", "torn unit"];
    assert!(rules.iter().any(|rule| text.contains(rule)), "{liar}: {text}");
}
