//! Command lines that are wrong.

use crate::common::{OVERDRIVE, image, place, run, serve};
use std::fs;

#[test]
fn wrong_values_are_named_and_nothing_is_changed() {
    let place = place();
    let image = image(&place, 4);
    fs::write(&image, [7; 65536]).expect("room");
    let plain = place.path().join("plain");
    fs::write(&plain, "not a socket").expect("room");
    let plain = format!("unix:{}", plain.display());
    let deep = format!("unix:/tmp/{}/socket", "d".repeat(120));
    let nowhere = format!("unix:{}", place.path().join("missing/socket").display());
    let long = "n".repeat(5000);
    let cases: &[(&[&str], &[&str])] = &[
        (&["--memory", "4Q"], &["--memory", "'4Q' is not a size"]),
        (&["--memory", "1K"], &["--memory 1 KiB", "at least 1 MiB"]),
        (&["--memory", "-1"], &["-1"]),
        (&["--memory", "99999999999999G"], &["not a size"]),
        (&["--write", "around"], &["--write", "back-now"]),
        (&["--durability", "scra"], &["--durability", "flush, ordered, scratch"]),
        (&["--dirty-bytes", "0"], &["--dirty-bytes", "--write through"]),
        (&["--memory", "4M", "--dirty-bytes", "4M"], &["--dirty-bytes 4 MiB", "3.8 MiB"]),
        (&["--dirty-age", "5"], &["--dirty-age", "is not a time"]),
        (&["--flush-target", "x"], &["--flush-target", "is not a time"]),
        (&["--retry-time", "99999999999999999999s"], &["--retry-time", "is not a time"]),
        (&["--delay", "read"], &["--delay", "KEY=VALUE"]),
        (&["--delay", "servers=0"], &["--delay", "1 or more"]),
        (&["--faults", "reads=1"], &["--faults", "'reads'"]),
        (&["--faults", "write=-1"], &["--faults", "not a number"]),
        (&["--nbd", "tcp:127.0.0.1:10809"], &["--nbd tcp:", "unix:PATH"]),
        (&["--nbd", "unix:"], &["--nbd", "unix:PATH"]),
        (&["--nbd", &plain], &["not a socket", "choose another path"]),
        (&["--nbd", &deep], &["too long", "shorter"]),
        (&["--nbd", &nowhere], &["missing", "no such directory", "make it"]),
        (&["--name", &long], &["--name", "255"]),
        (&["--no-such-option"], &["--no-such-option"]),
        (&["--policy", "lur"], &["'lur'", "similar", "'lru'"]),
        (&["--write", "bakc"], &["'back'"]),
    ];
    for (options, words) in cases {
        let run = [*options, &["-q", "--run", "exit 99"]].concat();
        serve(&image, &run).refused(2, words);
    }
    assert_eq!(fs::read(&image).expect("ours"), [7; 65536], "nothing was changed");
    assert!(!place.path().join("missing").exists(), "no directory is made for a typing error");
}

#[test]
fn wrong_backings_are_named() {
    for (backing, words) in [
        ("", &["the backing is empty"][..]),
        ("ram:", &["ram:", "is not a size"]),
        ("ram:0", &["multiple of 512"]),
        ("null:1000", &["multiple of 512"]),
        ("null:1Z", &["is not a size"]),
        ("nbd://host:0/", &["nbd://HOST:PORT/EXPORT"]),
        ("nbds://host/", &["tls-certificates=DIR"]),
        ("model:hdd", &["there is no such model", "'overdrive drive models' lists them"]),
        ("model:850pro", &["did you mean samsung-850-pro-128 or samsung-850-pro-256"]),
        ("null:8388608T", &["less than 8388608T"]),
        ("null:4081T", &["has 4081 TiB", "at most 4080 TiB", "--memory 0"]),
        ("model:samsung-840-evo-25", &["did you mean samsung-840-evo-250?"]),
        ("model:samsung-840-evo-250?siez=1G", &["did you mean 'size'?"]),
        ("model:samsung-840-evo-250?size=1T", &["samsung-840-evo-250", "too little flash"]),
    ] {
        serve(backing, &["--run", "exit 99"]).refused(2, words);
    }
}

#[test]
fn help_and_version_are_no_errors() {
    let help = run(OVERDRIVE, &["serve", "--help"]).well();
    let lax = ["--policy", "LRU", "--write", "Back", "--guard", "OFF", "-q", "--run", "true"];
    serve("ram:1M", &lax).well();
    for option in ["--memory", "--write", "--nbd", "--run", "--retry-time"] {
        assert!(help.stdout.contains(option), "{option}");
    }
    assert!(run(OVERDRIVE, &["--version"]).well().stdout.starts_with("overdrive "));
    assert_eq!(run(OVERDRIVE, &[]).status, 2);
    assert_eq!(run(OVERDRIVE, &["serve"]).status, 2);
    assert_eq!(run(OVERDRIVE, &["no-such-command"]).status, 2);
}

#[test]
fn the_largest_times_do_no_harm() {
    let forever = "18446744073709s";
    let options = [
        "--memory",
        "1M",
        "-q",
        "--run",
        "true",
        "--write",
        "back-now",
        "--dirty-age",
        forever,
        "--flush-target",
        forever,
        "--retry-time",
        forever,
    ];
    // In microseconds this fits; in nanoseconds it would not.
    serve("ram:1M", &options[..]).well();
}
