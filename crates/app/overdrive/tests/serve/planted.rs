//! Tests of this program fail if the daemon has a planted bug, and by the right assertion.

use crate::common::{have_libnbd, is_root, no_namespaces};
use std::path::Path;
use std::process::Command;

/// Runs one test with a bug planted in its daemons; asserts that it fails with these words.
fn is_found(bug: &str, test: &str, words: &str) {
    let program = std::env::current_exe().expect("a test is a program");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--test-threads", "1"]).env("OVERDRIVE_PLANTED", bug);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test"), "{test} is no test: {said}");
    assert!(!output.status.success(), "{test} does not find {bug}: {said}");
    assert!(said.contains(words), "{test} fails, but not with '{words}': {said}");
}

#[test]
fn a_device_that_is_served_although_its_memory_is_gone_is_found() {
    // As in the test itself, which would pass without doing anything.
    let may =
        is_root() && ["/dev/fuse", "/dev/loop-control"].iter().all(|it| Path::new(it).exists());
    if may {
        // The test has a process of its own, which does not share this lock.
        let _unshared = no_namespaces();
        let test = "devices::lost::a_device_whose_memory_is_lost_answers_with_errors_until_it_is_attached_again";
        is_found("ServeLostDevice", test, "right: \"lost\"");
    }
}

#[test]
fn contents_that_are_examined_at_a_takeover_are_found() {
    if have_libnbd() {
        let test = "accepted::what_a_client_writes_is_no_reason_to_refuse_the_next_process";
        is_found("ExamineTakenOver", test, "or use --raw to serve the bytes of the image itself");
    }
}

#[test]
fn clean_blocks_that_outlive_a_change_of_the_image_are_found() {
    if have_libnbd() {
        let test =
            "retained::what_another_program_writes_while_no_daemon_serves_is_read_by_the_next_one";
        is_found("TrustChangedImage", test, "MiB 2, byte 0: starts with 3");
    }
}

#[test]
fn daemons_that_are_not_confined_are_found() {
    if Path::new("/usr/bin/python3").exists() {
        let test = "confined::forbidden_calls_and_files_are_refused_to_a_daemon_and_to_the_programs_that_it_runs";
        is_found("StayUnconfined", test, "\"unshare done\"");
    }
    let test = "confined::all_threads_are_confined_and_an_upgrade_adds_no_filter";
    is_found("StayUnconfined", test, "a filter");
}
