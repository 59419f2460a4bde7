//! Tables, JSON and pages; stored prices.

use crate::common::{PRICES, bench, json_and_errors, pause, run, target};
use serde_json::Value;
use std::process::Stdio;

#[test]
fn json_is_one_object_and_the_same_every_time() {
    let home = tempfile::tempdir().expect("a directory");
    let (prices, target) = (home.path().join("prices.json"), target());
    std::fs::write(&prices, PRICES).expect("written");
    let arguments = [
        "qd1",
        &target,
        "--cache",
        "64M",
        "--span",
        "256M",
        "--time",
        "500ms",
        "--json",
        "--prices",
        prices.to_str().expect("plain"),
    ];
    let once = run(home.path(), &arguments);
    let (object, errors) = json_and_errors(&once);
    assert_eq!(
        (once.status.code(), errors.as_str()),
        (Some(0), ""),
        "nothing on stderr, no terminal"
    );
    assert_eq!(object["schema"], "overdrive.bench/1");
    assert_eq!((&object["suite"], &object["target"]), (&"qd1".into(), &target.as_str().into()));
    assert_eq!((&object["cached"], &object["complete"]), (&true.into(), &true.into()));
    assert_eq!(object["prices"]["absorb_ns"], 500);
    assert_eq!(object["cache"]["flush_target_ms"], 0, "qd1's own");
    assert!(object["rows"][0]["p99_9_ns"].is_number());
    assert_eq!(run(home.path(), &arguments).stdout, once.stdout);
}

#[test]
fn prices_are_measured_once_and_kept() {
    let home = tempfile::tempdir().expect("a directory");
    let target = target();
    let arguments =
        ["qd1", &target, "--cache", "64M", "--span", "64M", "--time", "100ms", "--json"];
    let (first, errors) = json_and_errors(&run(home.path(), &arguments));
    assert!(errors.contains("measured the costs of the cache's work on this machine"), "{errors}");
    let (second, errors) = json_and_errors(&run(home.path(), &arguments));
    assert_eq!(errors, "");
    assert_eq!(first, second);
    assert!(first["prices"]["hit_ns"].as_u64().is_some_and(|ns| ns > 0));
    // A file of another machine is not used.
    let kept = home.path().join("overdrive/prices.json");
    let text = std::fs::read_to_string(&kept).expect("kept");
    let mut value: Value = serde_json::from_str(&text).expect("an object");
    value["machine"]["processor"] = "another one".into();
    std::fs::write(&kept, value.to_string()).expect("written");
    let (_, errors) = json_and_errors(&run(home.path(), &arguments));
    assert!(errors.contains("measured"), "{errors}");
}

#[test]
fn without_a_cache_nothing_is_measured_and_the_page_is_written() {
    let home = tempfile::tempdir().expect("a directory");
    let (page, target) = (home.path().join("page.html"), target());
    std::fs::write(&page, "what was there before, and longer than nothing").expect("written");
    let arguments =
        ["consistency", &target, "--time", "3s", "--report", page.to_str().expect("plain")];
    let output = run(home.path(), &arguments);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("random 4 KiB write, QD32") && table.contains("IOPS"), "{table}");
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    assert!(!home.path().join("overdrive").exists(), "no prices");
}

#[test]
fn no_page_takes_the_place_of_what_is_read() {
    let home = tempfile::tempdir().expect("a directory");
    let place = |name: &str| home.path().join(name).to_str().expect("plain").to_owned();
    let (job, model, kept, other) =
        (place("job.toml"), place("my.toml"), place("kept.json"), place("other.json"));
    std::fs::write(&job, "[[load]]\ntime = '10ms'\nspan = '64M'").expect("written");
    std::fs::write(&model, "base = 'samsung-840-evo-250'").expect("written");
    let result = run(home.path(), &["custom", "null:64M", "--job", &job, "--json"]);
    for path in [&kept, &other] {
        std::fs::write(path, &result.stdout).expect("written");
    }
    let drive = format!("model:{model}?seed=3");
    for (read, arguments) in [
        (&job, vec!["custom", "null:64M", "--job", &job]),
        (&model, vec!["custom", &drive]),
        (&kept, vec!["compare", &other, &kept]),
    ] {
        let before = std::fs::read(read).expect("there");
        let output = run(home.path(), &[&arguments[..], &["--report", read]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("uses it as input; name another file"), "{said}");
        assert!(std::fs::read(read).expect("there") == before, "nothing is changed");
    }
}

#[test]
fn an_interrupt_leaves_a_valid_partial_result() {
    let home = tempfile::tempdir().expect("a directory");
    let target = target();
    // Hours of virtual time: it cannot end by itself before the signal.
    let mut command = bench(home.path(), &["consistency", &target, "--time", "400000s", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let id = rustix::process::Pid::from_child(&child);
    // Until the program handles signals, one would kill it: that would show as output that is no
    // object.
    pause(3_000);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    let (object, errors) = json_and_errors(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("interrupted") && errors.lines().count() == 1, "{errors}");
    assert_eq!(
        (&object["complete"], &object["schema"]),
        (&false.into(), &"overdrive.bench/1".into())
    );
    assert!(object["rows"].is_array());
}

#[test]
fn a_limited_drive_has_the_rate_of_its_limit() {
    let home = tempfile::tempdir().expect("a directory");
    let target = format!("limit:iops=500:{}", target());
    let load = ["--depth", "8", "--span", "64M", "--time", "2s", "--json"];
    let (object, errors) =
        json_and_errors(&run(home.path(), &[&["custom", &target], &load[..]].concat()));
    let found = object["rows"][0]["value"].as_f64().expect("a rate");
    assert!((495.0..=505.0).contains(&found), "{found}: {errors}");
    assert_eq!(object["target"], target);
}

#[test]
fn a_cached_suite_takes_the_settings_of_a_daemon() {
    let home = tempfile::tempdir().expect("a directory");
    let run = |guard: &str| {
        let load = ["custom", "null:64M", "--depth", "8", "--time", "1s", "--json"];
        let settings = ["--cache", "1M", "--policy", "lru", "--readahead", "off", "--guard", guard];
        let (object, errors) = json_and_errors(&run(home.path(), &[&load[..], &settings].concat()));
        let cache = &object["cache"];
        assert_eq!((&cache["policy"], &cache["readahead"]), (&"lru".into(), &false.into()));
        assert_eq!(cache["guard"], guard == "on");
        object["counters"]["bypasses"].as_u64().unwrap_or_else(|| panic!("{errors}{object}"))
    };
    // The cache has one block of 64, and misses cost nothing: it never saves what it costs.
    assert_eq!(run("off"), 0);
    assert!(run("on") > 0);
}
