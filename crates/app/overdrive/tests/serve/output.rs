//! What stands on the standard output, and what if it cannot.

use crate::common::{Ended, wait_until};
use crate::home::Home;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;

#[test]
fn with_json_the_standard_output_is_one_object_and_the_uri_is_told_beside_it() {
    let home = Home::new();
    let (said, told) = (home.path().join("said"), home.path().join("told"));
    let file = |path| fs::File::create(path).expect("a fresh home");
    let mut command = home.command(&["serve", "ram:8M", "--memory", "1M", "--json"]);
    command.stdout(file(&said)).stderr(file(&told));
    let mut child = command.spawn().expect("the binary under test");
    let read = |path: &Path| fs::read_to_string(path).expect("text");
    wait_until("the URI is told", || read(&told).contains("nbd+unix:///ram-8M?"));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it lives");
    assert!(child.wait().expect("our child").success());
    let object: serde_json::Value = serde_json::from_str(&read(&said)).expect("one object");
    let uri = object["volumes"][0]["uri"].as_str().expect("a text");
    assert!(read(&told).lines().any(|line| line == uri), "{uri}");
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
