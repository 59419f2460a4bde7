//! The standard output, also if it cannot be written.

use crate::common::{Ended, Server, image, place, wait_until};
use crate::home::Home;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[test]
fn with_json_the_standard_output_is_one_object_and_the_uri_is_reported_beside_it() {
    let home = Home::new();
    let (stdout, stderr) = (home.path().join("said"), home.path().join("told"));
    let file = |path| fs::File::create(path).expect("a fresh home");
    let mut command = home.command(&["serve", "ram:8M", "--memory", "1M", "--json"]);
    command.stdout(file(&stdout)).stderr(file(&stderr));
    let mut child = command.spawn().expect("the binary under test");
    let read = |path: &Path| fs::read_to_string(path).expect("text");
    wait_until("the URI is told", || read(&stderr).contains("nbd+unix:///ram-8M?"));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it lives");
    assert!(child.wait().expect("our child").success());
    let object: serde_json::Value = serde_json::from_str(&read(&stdout)).expect("one object");
    let uri = object["volumes"][0]["uri"].as_str().expect("a text");
    assert!(read(&stderr).lines().any(|line| line == uri), "{uri}");
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let home = Home::new();
    let to_full = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.stdout(fs::File::options().write(true).open("/dev/full").expect("Linux"));
        Ended::from(command.output().expect("the binary under test"))
    };
    let words = ["standard output cannot be written", "No space left"];
    to_full(&["doctor", "--json"]).refused(6, &words);
    to_full(&["serve", "ram:1M", "--memory", "1M", "-q", "--json", "--run", "true"])
        .refused(6, &words);
    // Its URI need not be read.
    to_full(&["serve", "ram:1M", "--memory", "1M", "-q", "--run", "true"]).well();
}

/// Returns the lines of a daemon's standard error; the first come before it serves.
fn lines_of_a_life(journal: bool) -> Vec<String> {
    let (home, place) = (Home::new(), place());
    let errors = home.path().join("stderr");
    let file = fs::File::create(&errors).expect("room");
    // More memory than the image requires is worth a note, at the start.
    let image = image(&place, 4);
    let nbd = format!("unix:{}", home.socket().display());
    let serve = ["serve", image.to_str().expect("plain"), "--memory", "8M", "--nbd", &nbd];
    let mut command = home.command(&serve);
    if journal {
        let found = file.metadata().expect("it is open");
        command.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
    }
    let server = Server::run_in(&home, command);
    server.end().well();
    let stdout = fs::read_to_string(&errors).expect("text");
    stdout.lines().map(str::to_owned).collect()
}

#[test]
fn messages_of_a_daemon_have_a_time_and_a_severity_once_it_serves() {
    let lines = lines_of_a_life(false);
    let (first, last) = (lines.first().expect("a note"), lines.last().expect("a summary"));
    assert!(first.starts_with("overdrive: the volume has only 4 MiB"), "{first}");
    let stdout = host::without_stamp(last);
    assert!(stdout.starts_with("overdrive: 0 reads") && last.contains("Z notice "), "{last}");
}

#[test]
fn messages_of_a_service_have_the_journal_s_severity_and_no_time() {
    let lines = lines_of_a_life(true);
    assert!(
        lines.len() > 1 && lines.iter().all(|line| line.starts_with("<5>overdrive: ")),
        "{lines:?}"
    );
}
