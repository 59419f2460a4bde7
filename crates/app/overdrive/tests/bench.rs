//! `overdrive bench` as users run it: its output, its files, and its exit status.

use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The tests' small drive.
const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/suites/tests/small.toml");
const PRICES: &str = r#"{"prices":{"hit_ns":300,"miss_ns":500,"fill_ns":400,"absorb_ns":500,
    "pass_ns":400,"write_out_ns":300,"flush_ns":500}}"#;

fn target() -> String {
    format!("model:{SMALL}?seed=5")
}

fn bench(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("bench").args(arguments).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", home).env("XDG_DATA_HOME", home.join("data"));
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    bench(home, arguments).output().expect("the command runs")
}

fn parse_output(output: &Output) -> (Value, String) {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let object = serde_json::from_slice(&output.stdout);
    (object.unwrap_or_else(|error| panic!("{error}: {errors}")), errors)
}

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
    let (object, errors) = parse_output(&once);
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
    let (first, errors) = parse_output(&run(home.path(), &arguments));
    assert!(errors.contains("measured the costs of the cache's work on this machine"), "{errors}");
    let (second, errors) = parse_output(&run(home.path(), &arguments));
    assert_eq!(errors, "");
    assert_eq!(first, second);
    assert!(first["prices"]["hit_ns"].as_u64().is_some_and(|ns| ns > 0));
    // A file of another machine is not used.
    let kept = home.path().join("overdrive/prices.json");
    let text = std::fs::read_to_string(&kept).expect("kept");
    let mut value: Value = serde_json::from_str(&text).expect("an object");
    value["machine"]["processor"] = "another one".into();
    std::fs::write(&kept, value.to_string()).expect("written");
    let (_, errors) = parse_output(&run(home.path(), &arguments));
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
        (vec!["qd1", "null:1G", "--verify"], "keeps nothing"),
        (vec!["qd1", "null:32M"], "null:32M: has only 32 MiB; qd1 needs at least 64 MiB"),
        (vec!["qd1", "null:1K"], "null:1K: has only 1 KiB; "),
        (vec!["qd1", "null:1G", "--span", "1K"], "--span 1 KiB: qd1 needs at least 64 MiB"),
        (vec!["qd1", "null:100M", "--spare", "90"], "of which --spare 90 leaves 10 MiB"),
        (vec!["qd1", new, "--size", "1K"], "--size 1 KiB: a suite works on at least 64 MiB"),
        (vec!["qd1", new, "--size", "8388608T"], "less than 8388608T"),
        (vec!["custom", "null:8388608T"], "null:8388608T: the size must be less than"),
        (vec!["custom", "ram:8388607T"], "MiB of memory are asked for"),
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
        (vec!["trim", &target, "--era", "2010"], "--era 2010: trim has 2009, 2011 to 2013, 2014"),
        (vec!["qd1", &target, "--era", "2010"], "--era 2010: qd1 was always the same"),
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
    let (object, _) = parse_output(&run(home.path(), &lax));
    assert_eq!((&object["suite"], &object["complete"]), (&"qd1".into(), &true.into()));
    let mode = run(home.path(), &["qd1", &target, "--write", "back"]);
    assert_eq!(mode.status.code(), Some(2), "--write is the cache's");
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
    let (object, errors) = parse_output(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("interrupted") && errors.lines().count() == 1, "{errors}");
    assert_eq!(
        (&object["complete"], &object["schema"]),
        (&false.into(), &"overdrive.bench/1".into())
    );
    assert!(object["rows"].is_array());
}

#[test]
fn a_suite_runs_on_a_file_for_real_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("test.img");
    let path = file.to_str().expect("plain");
    let arguments = [
        "qd1",
        path,
        "--size",
        "64M",
        "--time",
        "200ms",
        "--prepare",
        "fill",
        "--verify",
        "--json",
    ];
    let arguments = [&arguments[..], &["--only", "random 4 KiB read, QD1"]].concat();
    let output = run(home.path(), &arguments);
    let (object, errors) = parse_output(&output);
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""));
    assert_eq!((&object["time"], &object["complete"]), (&"real".into(), &true.into()));
    let row = &object["rows"][0];
    assert!(row["value"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    assert!(row["ceiling"].as_f64().is_some_and(|ceiling| ceiling > 0.0), "{row}");
    assert_eq!(row["shortened"], "0.2 s of 60 s, 64 MiB of 8 GiB");
    assert!(object["facts"]["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("Linux")));
    assert!(!file.exists());
}

#[test]
fn what_would_be_lost_is_said_and_an_interrupt_ends_a_real_run() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("disk.img");
    std::fs::File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("room");
    let path = file.to_str().expect("plain");
    let refused = run(home.path(), &["qd1", path]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("an image of 64 MiB") && errors.contains("--destroy"), "{errors}");
    let missing = run(home.path(), &["qd1", "no-such-volume"]);
    assert_eq!(missing.status.code(), Some(1));
    let mut command = bench(
        home.path(),
        &["qd1", path, "--destroy", "--time", "600s", "--prepare", "fresh", "--json"],
    );
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let id = rustix::process::Pid::from_child(&child);
    pause(2_000);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    let (object, errors) = parse_output(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!((&object["complete"], &object["rows"][0]["partial"]), (&false.into(), &true.into()));
    assert!(file.exists(), "it was there before");
}

/// Waits this many milliseconds.
fn pause(ms: u64) {
    #[allow(clippy::disallowed_methods, reason = "a test may wait")]
    std::thread::sleep(Duration::from_millis(ms));
}

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
        let (object, errors) = parse_output(&output);
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
    let (object, errors) = parse_output(&output);
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
    let (object, errors) = parse_output(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("did not answer") && errors.lines().count() == 1, "{errors}");
    assert_eq!((&object["complete"], &object["rows"][0]["partial"]), (&false.into(), &true.into()));
}

/// Returns a number in fio's report.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn fio_and_the_lab_agree_on_the_shape_of_a_job() {
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skipped: fio is missing (apt-get install fio)");
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("disk.img");
    std::fs::File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("room");
    let (path, job) = (file.to_str().expect("plain"), home.path().join("job.fio"));
    let shape = ["--block", "8K", "--depth", "4", "--reads", "70", "--time", "500ms"];
    let export = ["custom", path, "--export-fio", job.to_str().expect("plain")];
    let exported = run(home.path(), &[&export[..], &shape].concat());
    assert_eq!(exported.status.code(), Some(0), "{}", String::from_utf8_lossy(&exported.stderr));
    let mut fio = Command::new("fio");
    let output = fio.arg(&job).arg("--output-format=json").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let start = output.stdout.iter().position(|byte| *byte == b'{').expect("a report");
    let report: Value = serde_json::from_slice(&output.stdout[start..]).expect("a report");
    let jobs = report["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 2, "the filling, and the load");
    assert_eq!(
        number(&jobs[0]["write"]["io_bytes"]),
        f64::from(64 << 20),
        "it fills all of it once"
    );
    let (reads, writes) = (&jobs[1]["read"], &jobs[1]["write"]);
    let count = |side: &Value| number(&side["total_ios"]);
    let all = count(reads) + count(writes);
    assert_eq!(number(&reads["io_bytes"]), count(reads) * 8192.0);
    let share = count(reads) / all;
    let slack = 4.0 * (0.21 / all).sqrt();
    assert!((share - 0.7).abs() < slack + 0.01, "{share} of {all} are reads");
    let depths = &jobs[1]["iodepth_level"];
    assert!(number(&depths["4"]) > 90.0, "{depths}");
    let ours = [&["custom", path, "--destroy", "--json"][..], &shape].concat();
    let (object, errors) = parse_output(&run(home.path(), &ours));
    assert_eq!(object["rows"][0]["test"], "random 8 KiB 70 % reads, QD4", "{errors}");
    let refused = run(home.path(), &["qd1", path, "--destroy", "--depth", "4"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--depth: qd1 has its own loads"));
}

#[test]
fn fio_measures_the_file_that_was_named_or_the_name_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let job = home.path().join("job.fio");
    let export = |name: &str| {
        let folder = home.path().join("images");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("room");
        let image = folder.join(name);
        std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("room");
        let words = ["custom", image.to_str().expect("text"), "--export-fio"];
        let shape = [job.to_str().expect("plain"), "--reads", "0", "--time", "10ms"];
        (run(home.path(), &[&words[..], &shape].concat()), folder, image)
    };
    for (name, why) in [
        ("a#b", "beginning of a comment"),
        ("a;b", "beginning of a comment"),
        ("a\\b", "escape of the next character"),
        ("a\\", "escape"),
        ("a${HOME}b", "variable of the environment"),
        ("a$ncpus", "'$ncpus' in it for a number"),
        ("a ", "blanks at its ends"),
        ("a\u{2003}", "blanks at its ends"),
        ("a\t", "control character"),
        ("a\nb", "control character"),
    ] {
        let _ = std::fs::remove_file(&job);
        let (refused, _, _) = export(name);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{name:?}: {said}");
        assert!(said.contains(why) && said.contains("rename it"), "{name:?}: {said}");
        assert!(said.lines().count() == 1 && !job.exists(), "{name:?}: {said}");
    }
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skipped: fio is missing (apt-get install fio)");
        return;
    }
    for name in ["a:b", " a  b", "$HOME$", "a{b}", "'\"=,[%]", "\u{e4}\u{3000}b", "include a"] {
        let (exported, folder, image) = export(name);
        let said = String::from_utf8_lossy(&exported.stderr);
        assert_eq!(exported.status.code(), Some(0), "{name:?}: {said}");
        // Some file systems do not support direct I/O.
        let direct = std::fs::read_to_string(&job).expect("written");
        std::fs::write(&job, direct.replace("direct=1", "direct=0")).expect("written");
        let ran = Command::new("fio").arg(&job).output().expect("it runs");
        assert!(ran.status.success(), "{name:?}: {}", String::from_utf8_lossy(&ran.stderr));
        let written = std::fs::metadata(&image).expect("there").blocks() * 512;
        assert!(written >= 64 << 20, "{name:?}: {written} bytes of it were written");
        assert_eq!(std::fs::read_dir(folder).expect("there").count(), 1, "{name:?}");
    }
}

fn pause_ms(ms: u64) {
    #[allow(clippy::disallowed_methods, reason = "a test's own thread, not a lane")]
    std::thread::sleep(Duration::from_millis(ms));
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
fn neither_the_target_nor_what_took_the_place_of_a_made_file_is_lost() {
    let home = tempfile::tempdir().expect("a directory");
    let image = home.path().join("disk.img");
    let precious = vec![7; 64 << 20];
    std::fs::write(&image, &precious).expect("written");
    let image = image.to_str().expect("plain");
    for arguments in [
        &["custom", image, "--export-fio", image][..],
        &["custom", image, "--destroy", "--time", "50ms", "--report", image],
    ] {
        let output = run(home.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("uses it as input; name another"), "{said}");
        assert!(std::fs::read(image).expect("there") == precious, "nothing is changed");
    }
    let made = home.path().join("made.img");
    let name = made.to_str().expect("plain");
    let mut running = bench(home.path(), &["custom", name, "--size", "64M", "--time", "2s"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    while !made.exists() {
        pause_ms(1);
    }
    pause_ms(500);
    std::fs::rename(&made, home.path().join("old.img")).expect("there");
    std::fs::write(&made, "a thesis").expect("written");
    running.wait().expect("it ends");
    assert_eq!(std::fs::read_to_string(&made).expect("it stays"), "a thesis");
}

#[test]
fn no_run_writes_what_another_has_written() {
    let home = tempfile::tempdir().expect("a directory");
    let image = home.path().join("disk.img");
    std::fs::write(&image, vec![0; 64 << 20]).expect("written");
    let name = image.to_str().expect("plain");
    let mut images = (0..2).map(|_| {
        let output = run(home.path(), &["custom", name, "--destroy", "--time", "50ms", "--json"]);
        assert_eq!(parse_output(&output).0["complete"], true);
        std::fs::read(&image).expect("there")
    });
    let (one, two) = (images.next(), images.next());
    let same = one.iter().flatten().zip(two.iter().flatten()).filter(|(a, b)| a == b).count();
    // The head of a sector counts its writes; the rest is random.
    assert!(same < 64 << 15, "{same} of {} bytes are the same", 64 << 20);
}

#[test]
fn the_fill_compresses_as_far_as_the_data() {
    let home = tempfile::tempdir().expect("a directory");
    let image = home.path().join("disk.img");
    std::fs::write(&image, vec![1; 64 << 20]).expect("written");
    let name = image.to_str().expect("plain");
    let output = run(home.path(), &["custom", name, "--destroy", "--time", "50ms", "--data", "25"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&image).expect("there");
    let zeros = bytes.iter().filter(|byte| **byte == 0).count() as f64 / bytes.len() as f64;
    assert!((0.73..0.78).contains(&zeros), "{zeros} are zeros");
}

/// Returns the example of a job file in the document.
fn documented_job() -> &'static str {
    let page = include_str!("../../../../docs/SUITES.md");
    let (_, rest) = page.split_once("```toml\n").expect("an example");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_documented_job_runs_as_it_stands() {
    let home = tempfile::tempdir().expect("a directory");
    let (job, image) = (home.path().join("mail.toml"), home.path().join("disk.img"));
    std::fs::write(&job, documented_job()).expect("written");
    let (job, image) = (job.to_str().expect("plain"), image.to_str().expect("plain"));
    let arguments = ["custom", image, "--size", "256M", "--job", job, "--verify", "--json"];
    let (object, errors) = parse_output(&run(home.path(), &arguments));
    let rows = object["rows"].as_array().expect("rows");
    let tests: Vec<&str> = rows.iter().filter_map(|row| row["test"].as_str()).collect();
    assert_eq!(tests, ["log", "users read", "mail arrives"], "{errors}");
    assert_eq!((&rows[0]["unit"], &rows[1]["unit"]), (&"MB/s".into(), &"IOPS".into()));
    // The load is open, so it takes its nominal time, unless the machine stalls for that long.
    assert!((250.0..=510.0).contains(&number(&rows[2]["value"])), "{}", rows[2]);
    assert!(rows[0]["flush_ns"].is_number() && rows[2]["flush_ns"].is_null(), "{rows:?}");
    assert!(rows.iter().all(|row| row["shortened"].is_null()), "it is as long as it says");
    let method = object["method"].to_string();
    for part in ["log: sequential 16 KiB writes, QD1 over 64 MiB for 1 s", "after 2 s of idle"] {
        assert!(method.contains(part), "{method}");
    }
    assert_eq!(object["span_bytes"], 256 << 20);
}

#[test]
fn a_job_file_is_exported_for_fio_with_what_each_load_writes() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name).to_str().expect("plain").to_owned();
    let (job, image, fio) = (at("mail.toml"), at("disk.img"), at("mail.fio"));
    std::fs::write(&job, documented_job()).expect("written");
    std::fs::File::create(&image).and_then(|file| file.set_len(256 << 20)).expect("room");
    let output = run(home.path(), &["custom", &image, "--job", &job, "--export-fio", &fio]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&fio).expect("written");
    let jobs: Vec<&str> = text.split("\n[").collect();
    assert_eq!(jobs.len(), 1 + 1 + 1 + 3, "global, the filling, the loads: {text}");
    let named = |name: &str| {
        let found = jobs.iter().find(|job| job.starts_with(&format!("{name}]")));
        *found.unwrap_or_else(|| panic!("no {name}: {text}"))
    };
    let (log, users, mail) = (named("log"), named("users read"), named("mail arrives"));
    assert!(log.contains("buffer_compress_percentage=60\n") && log.contains("size=67108864\n"));
    assert!(users.contains("random_distribution=zipf:1.1\n") && users.contains("iodepth=16\n"));
    assert!(!users.contains("buffer_compress") && !users.contains("dedupe"), "{users}");
    assert!(mail.contains("dedupe_percentage=20\n") && mail.contains("rate_iops=325,175\n"));
    assert!(log.contains("end_fsync=1\n") && !mail.contains("end_fsync"), "{text}");
}

#[test]
fn each_load_of_a_job_writes_data_of_its_own_kind() {
    let home = tempfile::tempdir().expect("a directory");
    let (job, image) = (home.path().join("job.toml"), home.path().join("disk.img"));
    std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("room");
    let load = "[[load]]\norder = 'sequential'\nblock = '1M'\nreads = 0\ntime = '50ms'\n";
    let (quarter, whole) = ("span = '32M'\ndata = 25\n", "span = '1M'\n");
    std::fs::write(&job, [load, quarter, load, "name = 'b'\n", whole].concat()).expect("written");
    let (job, name) = (job.to_str().expect("plain"), image.to_str().expect("plain"));
    let output = run(home.path(), &["custom", name, "--destroy", "--job", job, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&image).expect("there");
    let zeros = |mib: usize| {
        let part = &bytes[mib << 20..(mib + 1) << 20];
        part.iter().filter(|byte| **byte == 0).count() as f64 / part.len() as f64
    };
    // The second load has rewritten the first mebibyte; the first load reached the next one, and
    // never the last. In an incompressible sector, the head has some zeros.
    let found = [zeros(0), zeros(1), zeros(63)];
    assert!(found[0] < 0.05 && (0.73..0.78).contains(&found[1]) && found[2] < 0.05, "{found:?}");
}

#[test]
fn a_job_that_cannot_be_run_is_refused_before_anything_is_written() {
    let home = tempfile::tempdir().expect("a directory");
    let (job, image) = (home.path().join("job.toml"), home.path().join("disk.img"));
    std::fs::write(&image, vec![7; 64 << 20]).expect("written");
    let (name, path) = (image.to_str().expect("plain"), job.to_str().expect("plain"));
    let model = target();
    for (text, arguments, says) in [
        ("[[load]]\nspan = '65M'", vec!["custom", name, "--destroy"], "span 65 MiB: only 64 MiB"),
        ("[[load]]\nname = 'a'\nblock = '1G'", vec!["custom", name, "--destroy"], "load 'a': "),
        ("[[load]]\n\nspeed = 1", vec!["custom", name, "--destroy"], "job.toml:3: unknown key"),
        ("[[load]]\ndata = 1", vec!["custom", &model], "write model:NAME?data=PERCENT"),
        ("[[load]]", vec!["qd1", name, "--destroy"], "--job: qd1 has its own loads"),
        ("[[load]]", vec!["custom", name, "--destroy", "--only", "b"], "has no such test"),
        (
            "[[load]]\nidle_before = '18446744073709s'",
            vec!["custom", name, "--destroy"],
            "10000000 s",
        ),
    ] {
        std::fs::write(&job, text).expect("written");
        let output = run(home.path(), &[&arguments[..], &["--job", path]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {errors}");
        assert!(errors.contains(says) && errors.lines().count() == 1, "{text}: {errors}");
    }
    let both = run(home.path(), &["custom", name, "--job", path, "--depth", "4"]);
    assert_eq!(both.status.code(), Some(2), "options beside a file");
    let bytes = std::fs::read(&image).expect("there");
    assert!(bytes.iter().all(|byte| *byte == 7), "nothing is written");
}

#[test]
fn a_suite_runs_as_it_did_in_a_year() {
    let home = tempfile::tempdir().expect("a directory");
    let target = target();
    let arguments =
        ["cdm", &target, "--era", "2013", "--time", "20ms", "--only", "512K read", "--json"];
    let (object, errors) = parse_output(&run(home.path(), &arguments));
    assert_eq!(object["era"], 2013, "{errors}");
    assert_eq!(object["rows"][1]["test"], "512K read");
    let help = run(home.path(), &["--help"]).stdout;
    let help = String::from_utf8_lossy(&help);
    assert!(help.contains("--era <YEAR>") && help.contains("2010 to 2014"), "{help}");
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
    let (object, errors) = parse_output(&run(home.path(), &only));
    assert_eq!(
        object["rows"][0]["test"], "random 4 KiB read, QD1",
        "case does not count: {errors}"
    );
    let output = run(home.path(), &["trim", &target(), "--only", "nonsense"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--only nonsense: trim runs as a whole"), "{said}");
}

#[test]
fn the_suites_are_listed_and_each_has_a_help_of_its_own() {
    let home = tempfile::tempdir().expect("a directory");
    let list = run(home.path(), &["list"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 15 && names.contains(&"cdm") && names.contains(&"loadtime"), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 110), "{list}");
    let help = run(home.path(), &["cdm", "--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for word in ["CrystalDiskMark 8", "RND4K Q32T1 read", "--era", "Usage: overdrive bench cdm"] {
        assert!(help.contains(word), "no '{word}' in {help}");
    }
    for other in ["fourcorners", "--job", "--dirty-age", "--share"] {
        assert!(!help.contains(other), "'{other}' in {help}");
    }
}

/// Makes a file without zero bytes.
fn full(path: &Path, mib: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..mib << 20).map(|at| (at / 512 % 251) as u8 + 1).collect();
    std::fs::write(path, &bytes).expect("room");
    bytes
}

/// A loop device over a file, mounted, until it is dropped.
struct Disk {
    node: String,
    directory: std::path::PathBuf,
}

impl Disk {
    fn mount(home: &Path) -> Disk {
        let (image, directory) = (home.join("mounted.img"), home.join("mounted"));
        std::fs::File::create(&image).and_then(|it| it.set_len(64 << 20)).expect("room");
        std::fs::create_dir(&directory).expect("room");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().expect("it is there");
            assert!(output.status.success(), "{program}: {output:?}");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        run("mkfs.ext4", &["-q", image.to_str().expect("plain")]);
        let node = run("losetup", &["--find", "--show", image.to_str().expect("plain")]);
        let disk = Disk { node, directory };
        run("mount", &[&disk.node, disk.directory.to_str().expect("plain")]);
        disk
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.directory).status();
        let _ = Command::new("losetup").args(["--detach", &self.node]).status();
    }
}

/// A mounted device is measured only by reads, as hdparm does.
#[test]
fn a_mounted_device_is_only_read_and_that_is_said() {
    let may = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
    if !may {
        println!("skipped: not root, or no loop devices");
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let disk = Disk::mount(home.path());
    let directory = disk.directory.to_str().expect("plain");
    for arguments in [&["qd1", &disk.node, "--read-only"][..], &["hdtune", &disk.node]] {
        let output = run(home.path(), &[arguments, &["--time", "20ms", "--json"]].concat());
        let (object, errors) = parse_output(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        let users = object["facts"]["in_use"].as_str().expect("a fact");
        assert!(users.ends_with(&format!("is mounted at {directory}")), "{users}");
        assert!(errors.contains("the results include the load of other users"), "{errors}");
        assert!(object["method"].to_string().contains("the load of others"), "{object}");
    }
    let output = run(home.path(), &["qd1", &disk.node, "--destroy", "--time", "20ms"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{errors}");
    assert!(errors.contains("is mounted at"), "{errors}");
}

#[test]
fn reads_alone_leave_a_target_as_it_is() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("disk.img");
    let bytes = full(&file, 64);
    // Root can write even a file that it may only read: the time of the last change shows that
    // nothing was written.
    let changed = || std::fs::metadata(&file).and_then(|it| it.modified()).expect("it is there");
    let before = changed();
    let path = file.to_str().expect("plain");
    let tests = |arguments: &[&str]| {
        let output = run(home.path(), &[arguments, &["--time", "20ms", "--json"]].concat());
        let (object, errors) = parse_output(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        assert_eq!(object["read_only"], true, "{arguments:?}");
        let rows = object["rows"].as_array().expect("a list").iter();
        rows.map(|row| row["test"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    // Suites of these names only read unless they may write.
    for arguments in [
        &["qd1", path, "--read-only"][..],
        &["cdm", path],
        &["hdtune", path],
        &["custom", path, "--reads", "100"],
        &["cdm", path, "--read-only", "--cache", "16M", "--prepare", "idle:0s"],
    ] {
        let names = tests(arguments);
        assert!(!names.is_empty() && names.iter().all(|name| !name.contains("write")), "{names:?}");
    }
    assert!(tests(&["as-ssd", path]).contains(&"Score read".to_owned()), "a score of reads alone");
    assert_eq!(std::fs::read(&file).expect("it is there"), bytes);
    assert_eq!(changed(), before, "it was opened for reading");
    let qcow2 = home.path().join("disk.qcow2");
    let header = [b"QFI\xfb\0\0\0\x03".to_vec(), vec![0; 4088]].concat();
    std::fs::write(&qcow2, header).expect("room");
    let qcow2 = qcow2.to_str().expect("plain");
    for (arguments, says) in [
        (vec!["consistency", path, "--read-only"], "consistency writes; choose one of corners"),
        (vec!["qd1", path, "--read-only", "--prepare", "fill"], "--prepare: writes to the target"),
        (vec!["custom", path, "--read-only", "--reads", "70"], "--reads 100"),
        (vec!["qd1", path, "--read-only", "--destroy"], "cannot be used with"),
        (vec!["qd1", &target(), "--read-only"], "a modelled drive is new"),
        (vec!["filebench", home.path().to_str().expect("plain"), "--read-only"], "--read-only"),
        (vec!["qd1", path], "or --read-only for reads alone"),
        (
            vec!["qd1", qcow2, "--destroy"],
            "is a qcow2 image, not a raw disk; its bytes are not those",
        ),
        (vec!["hdtune", qcow2], "is a qcow2 image"),
    ] {
        let output = run(home.path(), &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(says), "{arguments:?}: {errors}");
    }
    assert_eq!(std::fs::read(&file).expect("it is there"), bytes);
}
