//! `cargo xtask guest` itself: returns the output, the written files and the status of a command,
//! and leaves nothing behind.
//!
//! Each boot takes seconds under emulation: `cargo test --package xtask` skips these tests, and
//! `cargo xtask test` has a separate step for them.
#![cfg(target_arch = "x86_64")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Status if something that a guest needs is missing.
const MISSING: i32 = 4;

fn guest(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("guest").args(arguments);
    command
}

/// Runs a command until it ends. None: a guest is not possible here.
fn run(arguments: &[&str]) -> Option<Output> {
    let output = guest(arguments).output().expect("xtask can be run");
    if output.status.code() != Some(MISSING) {
        return Some(output);
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(std::env::var_os("CI").is_none(), "no guest, and this is CI: {why}");
    println!("skipped: {}", why.replace('\n', " "));
    None
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Creates a directory below the temporary ones, which are empty in a guest.
fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("overdrive-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory can be made");
    path
}

#[test]
#[ignore = "boots a machine; 'cargo xtask test' has a step that does"]
fn what_a_command_prints_and_writes_and_its_status_come_back() {
    let kept = directory("written");
    let lost = directory("not-written");
    let script = "
        echo said >&2; echo kept > $1/kept; echo lost > lost-in-the-guest; [ -e $2 ] || echo hidden
        uname -r
        echo 8 > /proc/sys/vm/nr_hugepages; grep HugePages_Total /proc/meminfo
        ls -d /dev/fuse /dev/nullb1 /dev/nbd0
        sleep 1000 &
        exit 7";
    let (kept_name, lost_name) = (kept.display().to_string(), lost.display().to_string());
    let modules = ["--module", "null_blk nr_devices=2", "--module", "nbd"];
    let command =
        ["--write-to", &kept_name, "--", "sh", "-c", script, "sh", &kept_name, &lost_name];
    let Some(output) = run(&[&modules[..], &command].concat()) else { return };
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(7), "{printed}{said}");
    let lines: Vec<&str> = printed.lines().collect();
    let [hidden, release, pages, devices @ ..] = &lines[..] else { panic!("{printed}") };
    assert_eq!(*hidden, "hidden");
    assert!(release.starts_with("6.12."), "{release}");
    assert!(pages.ends_with(" 8"), "{pages}");
    assert_eq!(devices, ["/dev/fuse", "/dev/nbd0", "/dev/nullb1"]);
    assert!(said.ends_with("said\n"), "{said}");
    assert_eq!(std::fs::read_to_string(kept.join("kept")).expect("it came back"), "kept\n");
    assert!(!Path::new("lost-in-the-guest").exists(), "the host's tree was changed");
    for directory in [kept, lost] {
        std::fs::remove_dir_all(directory).expect("it is ours");
    }
}

#[test]
#[ignore = "boots a machine; 'cargo xtask test' has a step that does"]
fn a_kernel_that_panics_is_distinguished_from_a_command_that_fails() {
    let Some(output) = run(&["--", "sh", "-c", "echo c > /proc/sysrq-trigger"]) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("its kernel panicked") && said.contains("sysrq triggered crash"),
        "{said}"
    );
}

#[test]
#[ignore = "boots a machine; 'cargo xtask test' has a step that does"]
fn a_command_that_does_not_end_is_ended() {
    let Some(output) = run(&["--timeout-seconds", "3", "--", "sleep", "1000"]) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(124), "{said}");
    assert!(said.contains("not ended after 3 s"), "{said}");
}

#[test]
#[ignore = "boots a machine; 'cargo xtask test' has a step that does"]
fn what_is_not_there_is_named() {
    let Some(output) = run(&["--", "no-such-program"]) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{said}");
    assert!(said.contains("cannot start no-such-program"), "{said}");
    let Some(output) = run(&["--module", "no_such_module", "--", "true"]) else { return };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("--module no_such_module: "), "{said}");
}

/// Returns QEMU's process, if it is already running.
fn machine_of(xtask: &Child) -> Option<String> {
    let children = format!("/proc/{0}/task/{0}/children", xtask.id());
    let children = std::fs::read_to_string(children).ok()?;
    let mut pids = children.split_whitespace().map(str::to_owned);
    let is_machine = |pid: &String| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.starts_with("qemu"))
    };
    pids.find(is_machine)
}

#[allow(clippy::disallowed_methods, reason = "no lane here: another process is waited for")]
fn wait_until<T>(mut what: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if let Some(found) = what() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

#[test]
#[ignore = "boots a machine; 'cargo xtask test' has a step that does"]
fn no_machine_outlives_the_command_that_has_started_it() {
    if run(&["--timeout-seconds", "1", "--", "true"]).is_none() {
        return;
    }
    let mut xtask = guest(&["--", "sleep", "1000"]).stderr(Stdio::null()).spawn().expect("it runs");
    let machine = wait_until(|| machine_of(&xtask)).expect("QEMU is started");
    xtask.kill().expect("it can be killed");
    xtask.wait().expect("it has ended");
    let stat = format!("/proc/{machine}/stat");
    let gone = |stat: &str| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"));
    let ended = wait_until(|| match std::fs::read_to_string(&stat) {
        Ok(stat) if !gone(&stat) => None,
        _ => Some(()),
    });
    assert!(ended.is_some(), "QEMU's process {machine} goes on");
}
