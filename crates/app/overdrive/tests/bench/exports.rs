//! Suites over NBD.

use crate::common::{bench, json_and_errors, pause};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a volume served over NBD without a cache, and waits until it can be reached; returns the
/// server, and its URI.
fn serve(home: &Path, backing: &str, name: &str) -> (Child, String) {
    let socket = home.join("served.sock");
    let mut server = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    server.args(["serve", backing, "--name", name, "--write", "none", "--nbd"]);
    server.arg(format!("unix:{}", socket.display())).env("XDG_RUNTIME_DIR", home);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(server.try_wait().expect("asked").is_none(), "the server has ended");
        pause(20);
    }
    (server, format!("nbd+unix:///{name}?socket={}", socket.display()))
}

#[test]
fn a_suite_runs_over_nbd_and_on_a_volume_by_its_name() {
    let home = tempfile::tempdir().expect("a directory");
    let (mut server, uri) = serve(home.path(), "ram:64M", "bench-me");
    for target in [uri.as_str(), "bench-me"] {
        let arguments = ["qd1", target, "--destroy", "--time", "200ms", "--prepare", "fill"];
        let more = ["--verify", "--json", "--only", "random 4 KiB read, QD1"];
        let mut command = bench(home.path(), &[&arguments[..], &more].concat());
        let output = command.env("XDG_RUNTIME_DIR", home.path()).output().expect("it runs");
        let (object, errors) = json_and_errors(&output);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert_eq!((&object["target"], &object["complete"]), (&target.into(), &true.into()));
        assert_eq!(object["rows"].as_array().map(Vec::len), Some(1));
    }
    // A server that dies in the middle leaves the measurements until then.
    let arguments =
        ["qd1", uri.as_str(), "--destroy", "--time", "600s", "--prepare", "fresh", "--json"];
    let command = &mut bench(home.path(), &arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    pause(1_000);
    // A volume with a client cannot be tested by its name.
    let taken = ["qd1", "bench-me", "--destroy", "--time", "200ms"];
    let mut command = bench(home.path(), &taken);
    let output = command.env("XDG_RUNTIME_DIR", home.path()).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{errors}");
    assert!(errors.contains("has clients that may use it (1)"), "{errors}");
    server.kill().expect("it lives");
    server.wait().expect("it ends");
    let output = child.wait_with_output().expect("it ends");
    let (object, errors) = json_and_errors(&output);
    assert_eq!(output.status.code(), Some(6), "{errors}");
    assert!(errors.contains("the connection has ended") && errors.lines().count() == 1, "{errors}");
    assert_eq!((&object["complete"], &object["rows"][0]["partial"]), (&false.into(), &true.into()));
}

#[test]
fn an_interrupt_gives_up_a_target_that_does_not_answer() {
    let home = tempfile::tempdir().expect("a directory");
    let (mut server, uri) = serve(home.path(), "null:64M", "silent");
    let arguments = ["qd1", &uri, "--destroy", "--time", "600s", "--prepare", "fresh", "--json"];
    let mut command = bench(home.path(), &arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let signal = |id: rustix::process::Pid, signal| {
        rustix::process::kill_process(id, signal).expect("it lives");
    };
    pause(2000);
    signal(rustix::process::Pid::from_child(&server), rustix::process::Signal::STOP);
    pause(200);
    signal(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    server.kill().expect("it lives");
    server.wait().expect("it ends");
    let (object, errors) = json_and_errors(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("did not answer") && errors.lines().count() == 1, "{errors}");
    assert_eq!((&object["complete"], &object["rows"][0]["partial"]), (&false.into(), &true.into()));
}
