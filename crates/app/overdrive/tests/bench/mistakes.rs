//! Mistakes on the command line: one sentence, a status, and an untouched target.

use crate::common::{json_and_errors, run, target};
use std::path::Path;

#[test]
fn what_is_wrong_gets_one_sentence_and_a_status() {
    let home = tempfile::tempdir().expect("a directory");
    let target = target();
    let bad = home.path().join("bad.json");
    std::fs::write(&bad, "{\"prices\":{\"hit_ns\":1}}").expect("written");
    let bad = bad.to_str().expect("plain");
    let new = home.path().join("new.img");
    let new = new.to_str().expect("plain");
    for (arguments, says) in [
        (vec!["qd1", &target, "--verify"], "--verify: is for targets in real time"),
        (vec!["qd1", "null:1G", "--verify"], "stores no data"),
        (vec!["qd1", "limit:iops=0:null:1G"], "write iops=N, requests per second, from 1 to"),
        (vec!["qd1", "limit:iop=5:model:x"], "'iop' is unknown; did you mean 'iops'?"),
        (vec!["qd1", "limit:iops=5:model:samsung-841"], "there is no such model"),
        (vec!["qd1", "limit:iops=5:null:1K"], "limit:iops=5:null:1K: has only 1 KiB; "),
        (vec!["qd1", "limit:iops=5:null:1G", "--verify"], "stores no data"),
        (vec!["qd1", "null:32M"], "null:32M: has only 32 MiB; qd1 needs at least 64 MiB"),
        (vec!["qd1", "null:1K"], "null:1K: has only 1 KiB; "),
        (vec!["qd1", "null:1G", "--span", "1K"], "--span 1 KiB: qd1 needs at least 64 MiB"),
        (vec!["qd1", "null:100M", "--spare", "90"], "of which --spare 90 leaves 10 MiB"),
        (vec!["qd1", new, "--size", "1K"], "--size 1 KiB: a suite works on at least 64 MiB"),
        (vec!["qd1", new, "--size", "8388608T"], "less than 8388608T"),
        (vec!["custom", "null:8388608T"], "null:8388608T: the size must be less than"),
        (vec!["custom", "ram:8388607T"], "MiB of memory are requested"),
        (vec!["qd1", "null:1G", "--span", "2G"], "--span 2 GiB: null:1G has only 1 GiB"),
        (vec!["qd1", "nbd+unix:///disk", "--destroy"], "nbd+unix:///NAME?socket=PATH"),
        (vec!["qd1", "model:samsung-841"], "there is no such model"),
        (vec!["qd1", "model:samsung-840-evo-250?size=x"], "not a size"),
        (vec!["consistency", &target, "--state", "steady"], "--state steady"),
        (vec!["qd1", &target, "--cache", "4K"], "at least 1 MiB"),
        (vec!["qd1", &target, "--cache", "64M", "--prices", "/no/such"], "--prices /no/such"),
        (vec!["qd1", &target, "--cache", "64M", "--prices", bad], "miss_ns"),
        (vec!["qd1", &target, "--report", "/no/such/page.html"], "--report /no/such/page.html"),
        (vec!["qd1", &target, "--time", "0"], "--time 0"),
        (
            vec!["trim", &target, "--era", "2010"],
            "--era 2010: trim has no such era; write a year of 2009, 2011 to 2013, 2014",
        ),
        (vec!["qd1", &target, "--era", "2010"], "--era 2010: qd1 has no eras"),
    ] {
        let output = run(home.path(), &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(says) && errors.lines().count() == 1, "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!Path::new(new).exists(), "nothing was made");
    let unknown = run(home.path(), &["corner", &target]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("corners"), "it names the nearest");
    for (arguments, status, says) in [
        (vec!["cmd", &target], 2, "'cdm'"),
        (vec!["cdm", "samsung-840-evo-250"], 1, "did you mean model:samsung-840-evo-250?"),
        (vec!["cdm", "840evo250"], 1, "did you mean model:samsung-840-evo-250?"),
        (vec!["cdm", "model:850pro"], 2, "did you mean samsung-850-pro-128 or samsung-850-pro-256"),
        (vec!["cdm", "null:1G", "--cache", "64M", "--durability", "flsh"], 2, "'flush'"),
        (vec!["seqfill", &target, "--state", "stedy"], 2, "did you mean steady?"),
    ] {
        let output = run(home.path(), &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(says), "{arguments:?}: {errors}");
    }
    // Case is ignored in names of suites, drives and steps.
    let lax =
        ["QD1", "model:Samsung-840-EVO-250", "--state", "Fresh", "--span", "64M", "--time", "1ms"];
    let lax = [&lax[..], &["--json"]].concat();
    let (object, _) = json_and_errors(&run(home.path(), &lax));
    assert_eq!((&object["suite"], &object["complete"]), (&"qd1".into(), &true.into()));
    let mode = run(home.path(), &["qd1", &target, "--write", "back"]);
    assert_eq!(mode.status.code(), Some(2), "--write is the cache's");
}

#[test]
fn a_test_that_a_suite_has_not_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let image = home.path().join("disk.img");
    std::fs::write(&image, vec![7; 64 << 20]).expect("written");
    let name = image.to_str().expect("plain");
    let output = run(home.path(), &["corners", name, "--destroy", "--only", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let bytes = std::fs::read(&image).expect("there");
    assert!(bytes.iter().all(|byte| *byte == 7), "nothing is written");
    let output = run(home.path(), &["corners", &target(), "--only", "nonsense"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--only nonsense: corners has no such test; it has '"), "{said}");
    assert!(said.contains("'write, random 4 KiB, QD32'"), "{said}");
    let near = ["corners", &target(), "--only", "write, random 4 KB, QD32"];
    let said = run(home.path(), &near);
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("did you mean 'write, random 4 KiB, QD32'?"), "{said}");
    let only = ["qd1", &target(), "--only", "RANDOM 4 KIB READ, QD1", "--time", "10ms", "--json"];
    let (object, errors) = json_and_errors(&run(home.path(), &only));
    assert_eq!(
        object["rows"][0]["test"], "random 4 KiB read, QD1",
        "case does not count: {errors}"
    );
    let output = run(home.path(), &["trim", &target(), "--only", "nonsense"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--only nonsense: trim runs as a whole"), "{said}");
}
