//! `overdrive trace record` of a device: the kernel's events of a loop device become a recording.

use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const INSTANCES: &str = "/sys/kernel/tracing/instances";

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("trace").args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert_eq!((output.status.code(), errors(output).as_str()), (Some(0), ""));
    serde_json::from_slice(&output.stdout).expect("one object")
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// A loop device over a new file.
struct Loop(PathBuf);

impl Loop {
    /// Makes one; if that is impossible, prints why the test skips.
    fn new(home: &Path) -> Option<Loop> {
        let image = home.join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("made");
        let made = Command::new("losetup").args(["--find", "--show", plain(&image)]).output();
        match made {
            Ok(made) if made.status.success() && Path::new(INSTANCES).exists() => {
                Some(Loop(String::from_utf8_lossy(&made.stdout).trim().into()))
            }
            _ => {
                println!("skipped: recording a device needs root, tracefs and a loop device");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

fn instance_of(recorder: &Child) -> PathBuf {
    Path::new(INSTANCES).join(format!("overdrive-record-{}", recorder.id()))
}

/// Starts a recorder, and waits until it records.
#[allow(clippy::disallowed_methods, reason = "another process is waited for")]
fn start(arguments: &[&str], output: &Path) -> Child {
    let recorder = program(&[&["record"], arguments].concat()).spawn().expect("started");
    let begin = Instant::now();
    // The file is created after the events are switched on.
    while !output.exists() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not recording");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(instance_of(&recorder).exists());
    recorder
}

/// Ends a recorder as Ctrl-C does.
fn interrupt(recorder: Child) -> Output {
    let instance = instance_of(&recorder);
    let pid = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = recorder.wait_with_output().expect("ended");
    assert!(!instance.exists(), "the instance is removed");
    output
}

fn dd(arguments: &[&str]) {
    let done = Command::new("dd").args(arguments).output().expect("dd runs");
    assert!(done.status.success(), "{}", errors(&done));
}

#[test]
fn requests_of_a_device_are_recorded() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    for name in ["plain", "packed.zst"] {
        let output = home.path().join(name);
        let recorder = start(&[plain(&device.0), plain(&output), "--json"], &output);
        let (into, from) = (format!("of={}", plain(&device.0)), format!("if={}", plain(&device.0)));
        dd(&["if=/dev/zero", &into, "bs=4k", "count=50", "seek=16", "oflag=direct", "conv=fsync"]);
        dd(&[&from, "of=/dev/null", "bs=16k", "count=20", "skip=9", "iflag=direct"]);
        let recorded = json(&interrupt(recorder));
        let count = |key: &str| recorded[key].as_u64().expect("a number");
        assert_eq!(recorded["schema"], "overdrive.trace-record/1");
        assert!(count("requests") >= 70, "{recorded}");
        for key in ["unanswered", "unknown_answers", "dropped", "unreadable"] {
            assert_eq!(count(key), 0, "{key}: {recorded}");
        }
        assert_eq!(recorded["complete"], true);
        let found = output.metadata().expect("there");
        assert_eq!(found.permissions().mode() & 0o777, 0o600);

        let csv = program(&["convert", plain(&output), "-", "--to", "csv"]).output().expect("run");
        let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
        let short = plain(&device.0).trim_start_matches("/dev/");
        // Other programs (udev) may read the device as well.
        let of = |operation: &str| -> Vec<Vec<String>> {
            let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
            let lines = csv.lines().map(fields).filter(|line| line[0] == operation);
            lines.filter(|line| line[5] == short && line[6] == "dd").collect()
        };
        let (writes, reads) = (of("W"), of("R"));
        assert_eq!((writes.len(), reads.len()), (50, 20), "{csv}");
        for (number, write) in writes.iter().enumerate() {
            assert_eq!(write[1..3], [((16 + number) * 4096).to_string(), "4096".to_owned()]);
            assert!(write[4].parse::<u64>().expect("a time") > 0);
        }
        for (number, read) in reads.iter().enumerate() {
            assert_eq!(read[1..3], [((9 + number) * 16_384).to_string(), "16384".to_owned()]);
        }
        assert!(csv.lines().any(|line| line.starts_with("F,0,0,")), "a flush: {csv}");
    }
}

#[test]
fn a_recording_ends_after_its_time_and_with_its_device() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    let output = home.path().join("timed");
    let arguments = [plain(&device.0), plain(&output), "--for", "300ms", "--json"];
    let recorded = json(&start(&arguments, &output).wait_with_output().expect("ended"));
    let duration_ns = recorded["duration_ns"].as_u64().expect("a number");
    assert!((300_000_000..20_000_000_000).contains(&duration_ns), "{recorded}");

    let output = home.path().join("gone");
    let recorder = start(&[plain(&device.0), plain(&output), "--json"], &output);
    dd(&[&format!("if={}", plain(&device.0)), "of=/dev/null", "bs=4k", "count=9", "iflag=direct"]);
    let instance = instance_of(&recorder);
    drop(device);
    let ended = recorder.wait_with_output().expect("ended");
    assert_eq!(ended.status.code(), Some(1), "{}", errors(&ended));
    assert!(errors(&ended).contains("has gone"), "{}", errors(&ended));
    let recorded: Value = serde_json::from_slice(&ended.stdout).expect("one object");
    assert_eq!(recorded["complete"], false);
    assert!(recorded["requests"].as_u64() >= Some(9) && !instance.exists(), "{recorded}");
}

#[test]
fn the_buffer_of_a_killed_recorder_is_removed_by_the_next() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    let output = home.path().join("killed");
    let mut killed = start(&[plain(&device.0), plain(&output)], &output);
    let instance = instance_of(&killed);
    killed.kill().and_then(|()| killed.wait()).expect("killed");
    assert!(instance.exists());
    let output = home.path().join("next");
    let next = start(&[plain(&device.0), plain(&output), "--json"], &output);
    assert!(!instance.exists());
    json(&interrupt(next));
}

#[test]
fn recordings_of_themselves_and_of_files_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let refused = |device: &str, output: &Path| {
        let output = program(&["record", device, plain(output)]).output().expect("run");
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        errors(&output)
    };
    let output = home.path().join("out");
    assert!(refused("/dev/null", &output).contains("not a block device"));
    assert!(refused("/dev/no-such-disk", &output).contains("No such file"));
    let Some(device) = Loop::new(home.path()) else { return };
    std::fs::write(&output, "mine").expect("written");
    assert!(refused(plain(&device.0), &output).contains("exists"));
    assert_eq!(std::fs::read_to_string(&output).expect("read"), "mine");

    let mount = home.path().join("mount");
    std::fs::create_dir(&mount).expect("made");
    let made = Command::new("mkfs.ext4").arg("-q").arg(&device.0).status();
    let mounted = Command::new("mount").arg(&device.0).arg(&mount).status();
    if ![made, mounted].iter().all(|status| status.as_ref().is_ok_and(|status| status.success())) {
        println!("skipped in part: mounting needs mkfs.ext4 and root");
        return;
    }
    let message = refused(plain(&device.0), &mount.join("out"));
    let unmounted = Command::new("umount").arg(&mount).status().expect("umount runs");
    assert!(unmounted.success() && message.contains("its own writes"), "{message}");
}

#[test]
fn without_permission_the_status_is_4() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(device) = Loop::new(home.path()) else { return };
    std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o777)).expect("set");
    assert_eq!(home.path().metadata().expect("there").uid(), 0);
    // A copy: another user may not reach the one of the build.
    let copy = home.path().join("overdrive");
    std::fs::copy(env!("CARGO_BIN_EXE_overdrive"), &copy).expect("copied");
    let output = home.path().join("out");
    let arguments = ["--reuid=65534", "--regid=65534", "--clear-groups", plain(&copy), "trace"];
    let mut command = Command::new("setpriv");
    command.args(arguments).args(["record", plain(&device.0), plain(&output)]);
    let Ok(refused) = command.output() else {
        println!("skipped: no setpriv");
        return;
    };
    assert_eq!(refused.status.code(), Some(4), "{}", errors(&refused));
    assert_eq!(errors(&refused).trim().lines().count(), 1);
    assert!(errors(&refused).contains("needs root"), "{}", errors(&refused));
}
