//! `overdrive sweep` in front of prepared Python packages: the words that it passes on, its page,
//! its statuses and its messages. The package itself is tested in python/tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The beginning of a package with the command's version.
const VERSION: &str = concat!("__version__ = '", env!("CARGO_PKG_VERSION"), "'\n");

/// A package that prints its words, writes prepared rows, and ends with status 1.
const PREPARED: &str = r#"
import json

def main(words):
    print(json.dumps(words))
    if "--rows-to" in words:
        rows = [{"schema": "overdrive.sweep/1", "manifest": "x.toml", "version": "1", "traces": 9,
                 "jobs": 18, "complete": True, "marked_rows": 0}]
        for trace in range(9):
            for policy, ratio in (("lru", 0.5), ("sieve", 0.4)):
                rows.append({"trace": str(trace), "class": "all", "policy": policy,
                             "compression": "off", "drive": "none", "memory": "1%",
                             "memory_bytes": 4096, "miss_ratio": ratio + trace / 100,
                             "mean_ns": None, "p99_ns": None, "error": None, "new": 1})
        with open(words[words.index("--rows-to") + 1], "w") as file:
            file.write("\n".join(map(json.dumps, rows)) + "\n")
    return 1
"#;

/// Writes a package `overdrive` with this beginning and this command. Returns the folder above.
fn package(home: &Path, begin: &str, command: &str) -> PathBuf {
    let above = home.join("packages");
    let sweep = above.join("overdrive/sweep");
    std::fs::create_dir_all(&sweep).expect("created");
    std::fs::write(above.join("overdrive/__init__.py"), begin).expect("written");
    std::fs::write(sweep.join("__init__.py"), "").expect("written");
    std::fs::write(sweep.join("__main__.py"), command).expect("written");
    above
}

fn command(home: &Path, packages: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("sweep").args(words).current_dir(home).stdin(Stdio::null());
    command.env("PYTHONPATH", packages).env_remove("OVERDRIVE_PYTHON");
    command
}

fn run(home: &Path, packages: &Path, words: &[&str]) -> Output {
    command(home, packages, words).output().expect("the command runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn words_and_statuses_are_passed_on_and_the_page_is_made() {
    let home = tempfile::tempdir().expect("a directory");
    let packages = package(home.path(), VERSION, PREPARED);
    let words = ["-odd.toml", "--on", "dask://h:1", "--json", "--report", "page.html"];
    let words = [&["--"][..], &words[..1]].concat();
    let with_options = ["--on", "dask://h:1", "--json", "--report", "page.html"];
    let output = run(home.path(), &packages, &[&with_options[..], &words].concat());
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(1), ""));
    let passed: Vec<String> = serde_json::from_slice(&output.stdout).expect("words");
    let (rows, others) = passed.split_last().expect("words");
    assert_eq!(others, ["./-odd.toml", "--on=dask://h:1", "--json", "--rows-to"]);
    assert!(!Path::new(rows).exists(), "the rows are removed");
    let page = std::fs::read_to_string(home.path().join("page.html")).expect("a page");
    assert!(page.contains("sieve misses least") && page.contains("This is beyond chance"));
    let output = run(home.path(), &packages, &["x.toml", "--workers", "3", "--check"]);
    let passed: Vec<String> = serde_json::from_slice(&output.stdout).expect("words");
    assert_eq!(passed, ["x.toml", "--workers=3", "--check"]);
}

#[test]
fn a_missing_package_or_another_version_is_one_sentence_with_the_remedy() {
    let home = tempfile::tempdir().expect("a directory");
    let other = "__version__ = '0.0.1'\n";
    let missing = "raise ImportError(\"No module named 'overdrive'\")\n";
    let old = "import_error = True\n";
    let no_sweep = format!("{VERSION}\n");
    for (begin, command, parts) in [
        (missing, "", ["the Python package overdrive is missing", "cargo xtask wheel"]),
        (old, "", ["the Python package overdrive is missing", "pip install WHEEL"]),
        (other, "", ["has version 0.0.1 of the package overdrive", "cargo xtask wheel"]),
        (&no_sweep, "import no_such_module\n", ["a sweep requires no_such_module", "pip install"]),
    ] {
        let packages = package(home.path(), begin, command);
        let output = run(home.path(), &packages, &["x.toml", "--report", "page.html"]);
        let message = errors(&output);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        assert!(message.starts_with("overdrive: "), "{message}");
        assert!(!home.path().join("page.html").exists());
    }
    // A folder of this name in the working directory is not the package.
    std::fs::create_dir(home.path().join("overdrive")).expect("created");
    let begin = "raise ImportError('none')\n";
    let output = run(home.path(), &package(home.path(), begin, ""), &["x.toml"]);
    assert!(errors(&output).contains("is missing (none)"), "{}", errors(&output));
}

#[test]
fn a_python_is_named_by_the_option_or_the_environment() {
    let home = tempfile::tempdir().expect("a directory");
    let output = run(home.path(), home.path(), &["x.toml", "--python", "/no/python"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        errors(&output).trim(),
        "overdrive: --python: /no/python is no program; name a Python"
    );
    let mut command = command(home.path(), home.path(), &["x.toml"]);
    let output = command.env("OVERDRIVE_PYTHON", "no-python").output().expect("the command runs");
    let message = errors(&output);
    assert!(
        message.starts_with("overdrive: OVERDRIVE_PYTHON: no-python is no program"),
        "{message}"
    );
}

#[test]
fn ctrl_c_reaches_the_package_once_and_a_kill_is_reported() {
    let home = tempfile::tempdir().expect("a directory");
    let waiting = r#"
import signal, sys, time

def main(words):
    interrupts = []
    signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
    print("ready", flush=True)
    while not interrupts:
        time.sleep(0.01)
    time.sleep(0.3)
    print(len(interrupts), flush=True)
    return 1
"#;
    let packages = package(home.path(), VERSION, waiting);
    let mut command = command(home.path(), &packages, &["x.toml"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the command runs");
    let mut out = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    let pid = rustix::process::Pid::from_child(&child);
    for _ in 0..2 {
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    }
    line.clear();
    std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
    assert_eq!((line.as_str(), child.wait().expect("it ends").code()), ("1\n", Some(1)));
    let killed =
        "import os, signal\n\ndef main(words):\n    os.kill(os.getpid(), signal.SIGKILL)\n";
    let output = run(home.path(), &package(home.path(), VERSION, killed), &["x.toml"]);
    let message = errors(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("was killed by signal 9; run the same command again"), "{message}");
}
