//! `bench drives`: an interrupted run, and its continuation.

use crate::common::{bench, json_and_errors, pause, run};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// The tests' small drive.
const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/suites/tests/small.toml");
const LOAD: [&str; 6] = ["qd1", "--span", "64M", "--time", "50ms", "--json"];

/// Copies the small drive's model to other names, and returns their paths.
fn models(home: &Path, names: &[&str]) -> Vec<String> {
    let copy = |name: &&str| {
        let path = home.join(name).with_extension("toml");
        std::fs::copy(SMALL, &path).expect("copied");
        path.to_str().expect("plain").to_owned()
    };
    names.iter().map(copy).collect()
}

fn drives(models: &[String], options: &[&str]) -> Vec<String> {
    let models = models.join(",");
    let words = [&["drives"][..], options, &["--models", &models]].concat();
    words.into_iter().map(str::to_owned).collect()
}

fn as_words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Waits until the program receives signals itself: it blocks SIGINT (2).
fn wait_for_watch(process: u32) {
    for _ in 0..3000 {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if blocked.is_some_and(|mask| mask & 0b10 != 0) {
            return;
        }
        pause(10);
    }
    panic!("the program does not watch for signals");
}

fn names(list: &Value) -> Vec<&str> {
    let drives = list.as_array().expect("a list").iter();
    drives.filter_map(|it| it["model"].as_str().or(it.as_str())).collect()
}

#[test]
fn an_interrupted_run_shows_the_complete_drives_and_resumes() {
    let home = tempfile::tempdir().expect("a directory");
    let models = models(home.path(), &["one", "two", "three"]);
    // Hours of virtual time: none of them can end before the signal.
    let long = drives(&models, &["consistency", "--time", "400000s", "--json"]);
    let mut command = bench(home.path(), &as_words(&long));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    wait_for_watch(child.id());
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    let (object, errors) = json_and_errors(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("--resume continues") && errors.lines().count() == 1, "{errors}");
    assert_eq!((&object["complete"], names(&object["drives"]).len()), (&false.into(), 0));
    assert_eq!(names(&object["missing"]), as_words(&models));
}

#[test]
fn drives_of_an_earlier_result_are_not_tested_again() {
    let home = tempfile::tempdir().expect("a directory");
    let models = models(home.path(), &["one", "two"]);
    let (first, _) = json_and_errors(&run(home.path(), &as_words(&drives(&models[..1], &LOAD))));
    // A figure that no drive has shows that the earlier one was taken.
    let mut marked = first.clone();
    marked["drives"][0]["rows"][0]["value"] = 77.into();
    let path = home.path().join("part.json");
    std::fs::write(&path, marked.to_string()).expect("written");
    let resume = ["--resume", path.to_str().expect("plain")];
    let all = drives(&models, &[&LOAD[..], &resume].concat());
    let (object, errors) = json_and_errors(&run(home.path(), &as_words(&all)));
    assert_eq!(names(&object["drives"]), as_words(&models), "{errors}");
    assert_eq!(object["complete"], true);
    assert_eq!(object["drives"][0]["rows"][0]["value"], 77);
    assert_eq!(object["drives"][1]["rows"], first["drives"][0]["rows"], "the same drive");
    let other = drives(&models, &[&["cdm", "--json"][..], &resume].concat());
    let output = run(home.path(), &as_words(&other));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(7), "{errors}");
    assert!(errors.contains("has other tests"), "{errors}");
}
