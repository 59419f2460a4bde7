//! `overdrive advise` of a loop device, a process, a command and a served volume, while they work.

use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const INSTANCES: &str = "/sys/kernel/tracing/instances";
const BLOCK: usize = 4096;

fn advise(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("advise").args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn object(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"))
}

/// A loop device over a new file of 64 MiB.
struct Loop(PathBuf);

impl Loop {
    /// Makes one; if that is impossible, prints why the test skips.
    fn new(home: &Path) -> Option<Loop> {
        let image = home.join("image");
        File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("made");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        match made {
            Ok(made) if made.status.success() && Path::new(INSTANCES).exists() => {
                Some(Loop(String::from_utf8_lossy(&made.stdout).trim().into()))
            }
            _ => {
                println!("skipped: watching a device needs root, tracefs and a loop device");
                None
            }
        }
    }

    fn node(&self) -> &str {
        self.0.to_str().expect("plain")
    }

    fn detach(&self) {
        let mut command = Command::new("losetup");
        // It may be detached already.
        _ = command.arg("--detach").arg(&self.0).stderr(Stdio::null()).status();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.detach();
    }
}

/// A watching process, which ends with the test even if that fails.
struct Watching(Option<Child>);

impl Watching {
    fn start(arguments: &[&str]) -> Watching {
        let child = advise(arguments).spawn().expect("started");
        let watching = Watching(Some(child));
        wait_until_watching(watching.0.as_ref().expect("it runs"));
        watching
    }

    /// Ends watching as Ctrl-C does.
    fn interrupt(self) -> Output {
        let pid = rustix::process::Pid::from_child(self.0.as_ref().expect("it runs"));
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        self.wait()
    }

    fn wait(mut self) -> Output {
        let child = self.0.take().expect("it runs");
        child.wait_with_output().expect("ended")
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Waits until a watching process collects events.
#[allow(clippy::disallowed_methods, reason = "another process is waited for")]
fn wait_until_watching(child: &Child) {
    let begin = Instant::now();
    let enabled = format!(
        "{INSTANCES}/overdrive-record-{}/events/block/block_rq_complete/enable",
        child.id()
    );
    while std::fs::read_to_string(&enabled).map_or(true, |text| text.trim() != "1") {
        assert!(begin.elapsed() < Duration::from_secs(20), "not watching");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads blocks one after the other, past the page cache.
fn read(device: &Path, blocks: impl Iterator<Item = u64>) {
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(direct).open(device).expect("opened");
    let mut memory = vec![0; 2 * BLOCK];
    let begin = memory.as_ptr().align_offset(BLOCK);
    for block in blocks {
        let into = &mut memory[begin..begin + BLOCK];
        file.read_exact_at(into, block * BLOCK as u64).expect("read");
    }
}

#[test]
fn a_watched_load_has_the_hits_that_its_addresses_say() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    let page = home.path().join("page.html");
    let report = page.to_str().expect("plain");
    let watching = Watching::start(&[device.node(), "--json", "--for", "1h", "--report", report]);
    // 4,000 blocks in a random order, and again: every second read would hit.
    let blocks = 16_384u64;
    let order = |number: u64| number * 7919 % blocks;
    read(&device.0, (0..2).flat_map(|_| (0..4000).map(order)));
    let output = watching.interrupt();
    let value = object(&output);
    assert_eq!(
        (&value["kind"], &value["schema"]),
        (&"device".into(), &"overdrive.advise/1".into())
    );
    let reads = value["reads"].as_u64().expect("reads");
    assert!(reads >= 8000, "{reads}");
    assert_eq!(value["latency_source"], "recorded");
    assert_eq!(value["lost_events"], 0);
    // Other programs (udev) may read the device as well.
    let first = &value["processes"][0];
    assert_eq!((&first["name"], &first["reads"]), (&"a_watched_load_".into(), &8000.into()));
    let sizes = first["sizes"].as_array().expect("sizes");
    let ratio = sizes.last().expect("one")["read_hit_ratio"].as_f64().expect("a ratio");
    assert!((ratio - 0.5).abs() <= 0.02, "{first}");
    let unseen = value["unseen"].to_string();
    assert!(unseen.contains("Ended by a signal after"), "{unseen}");
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("<h2>Processes") && page.contains("Ended by a signal"));
}

#[test]
fn the_requests_of_a_command_are_its_own() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    // A child of the command reads; another process reads as well.
    let dd = format!("dd if={} of=/dev/null bs=4k count=300 iflag=direct; true", device.node());
    let watching = Watching::start(&["--json", "--", "sh", "-c", &format!("sleep 0.5; {dd}")]);
    read(&device.0, (0..200).map(|number| number * 37));
    let value = object(&watching.wait());
    assert_eq!((&value["kind"], &value["reads"]), (&"command".into(), &300.into()), "{value}");
    let name = value["processes"][0]["name"].as_str().expect("a name");
    assert!(name.starts_with("dd, process "), "{name}");
    assert!(value["sequential_share"].as_f64().is_some_and(|share| share > 0.9), "{value}");
    let source = value["source"].as_str().expect("a source");
    assert!(source.contains(device.node()), "{source}");
}

#[test]
fn processes_that_live_for_a_moment_have_their_names() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    // Each dd ends within a few milliseconds.
    let dd = format!("dd if={} of=/dev/null bs=4k count=1 skip=$i iflag=direct", device.node());
    let all = format!("for i in $(seq 50); do {dd} 2>/dev/null; done");
    // The programs are read from their own disk first: afterwards only the device has requests.
    assert!(Command::new("sh").args(["-c", &all]).status().is_ok_and(|it| it.success()));
    let value = object(&advise(&["--json", "--", "sh", "-c", &all]).output().expect("run"));
    assert_eq!(value["reads"], 50, "{value}");
    let processes = value["processes"].as_array().expect("processes");
    let own: Vec<_> = processes.iter().filter(|it| it["counts"] == true).collect();
    let is_dd = |it: &&&Value| it["name"].as_str().is_some_and(|it| it.starts_with("dd, process "));
    assert_eq!((own.len(), own.iter().filter(is_dd).count()), (50, 50), "{own:?}");
    // The command itself may end as soon.
    let input = format!("if={}", device.node());
    let words = ["--json", "--", "dd", &input, "of=/dev/null", "bs=4k", "count=1", "iflag=direct"];
    let value = object(&advise(&words).output().expect("run"));
    let name = value["processes"][0]["name"].as_str().expect("a name");
    assert!(value["reads"] == 1 && name.starts_with("dd, process "), "{value}");
}

#[test]
fn a_process_without_requests_gets_an_answer() {
    let home = tempfile::tempdir().expect("a directory");
    if Loop::new(home.path()).is_none() {
        return;
    }
    let mut idle = Command::new("sleep").arg("60").spawn().expect("started");
    let pid = idle.id().to_string();
    let output = advise(&["--pid", &pid, "--for", "300ms", "--json"]).output().expect("run");
    idle.kill().and_then(|()| idle.wait()).expect("ended");
    let value = object(&output);
    assert_eq!((output.status.code(), &value["reads"]), (Some(1), &0.into()), "{value}");
    assert!(value["reason"].as_str().is_some_and(|it| it.starts_with("No read or write")));
    let gone = advise(&["--pid", &pid]).output().expect("run");
    let words = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert_eq!(gone.status.code(), Some(2), "{words}");
    assert!(words.contains("does not exist"), "{words}");
}

#[test]
fn a_device_that_vanishes_leaves_an_answer() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    let watching = Watching::start(&[device.node(), "--json", "--for", "1h"]);
    read(&device.0, 0..100);
    device.detach();
    let output = watching.wait();
    let value = object(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(value["reads"].as_u64().is_some_and(|reads| reads >= 100), "{value}");
    assert!(value["unseen"][0].as_str().is_some_and(|it| it.contains("vanished after")), "{value}");
}

#[test]
fn without_permission_the_counters_answer_and_say_so() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    let mut command = advise(&[device.node(), "--json", "--for", "1s"]);
    command.uid(65_534).gid(65_534).current_dir("/");
    let Ok(child) = command.spawn() else {
        println!("skipped: another user cannot run the program in this directory");
        return;
    };
    let value = object(&child.wait_with_output().expect("ended"));
    assert_eq!(value["source"], "counters of /proc/diskstats");
    let unseen = value["unseen"].to_string();
    assert!(unseen.contains("Requests cannot be watched"), "{unseen}");
    assert!(unseen.contains("cannot be read"), "{unseen}");
}

#[test]
fn a_served_volume_is_judged_by_its_own_statistics() {
    let home = tempfile::tempdir().expect("a directory");
    File::create(home.path().join("disk.img")).and_then(|it| it.set_len(16 << 20)).expect("made");
    let program = env!("CARGO_BIN_EXE_overdrive");
    let mut serve = Command::new(program);
    serve.args(["serve", "disk.img", "--name", "db", "--memory", "64M", "--run"]);
    serve.arg(format!("\"{program}\" advise db --json > advice.json"));
    serve.current_dir(home.path());
    for variable in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
        serve.env(variable, home.path());
    }
    let output = serve.output().expect("run");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{words}");
    let text = std::fs::read(home.path().join("advice.json")).expect("written");
    let value: Value = serde_json::from_slice(&text).expect("an object");
    assert_eq!((&value["kind"], &value["target"]), (&"volume".into(), &"db".into()));
    let verdict = value["verdict"].as_str().expect("a verdict");
    assert!(verdict.contains("too few requests"), "{verdict}");
}
