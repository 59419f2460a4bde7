//! Fencing: a daemon that is killed in the middle of a write keeps its fence until that write has
//! ended, and no longer.
//!
//! The slow device is nbdkit's memory plugin with a delay, mounted as a file by nbdfuse. A direct
//! write to it waits on a kernel thread of the process; through a loop device on top (root only) it
//! waits in the device, and the process can exit completely.

mod common;

use block::Buf;
use common::{image, ring};
use ring::{Fence, HugePages, SharedMemory, shared_memory};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Path of the file that the child writes to; unset: this is not the child.
const TARGET: &str = "OVERDRIVE_TEST_FENCE_TARGET";
const DELAY: Duration = Duration::from_secs(3);

/// Prints why a test is skipped; with CI=true that is a failure.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "cannot skip: {why}");
    println!("skipped: {why}");
}

/// A slow file: nbdfuse over nbdkit.
struct Slow {
    fuse: Child,
    directory: tempfile::TempDir,
}

impl Slow {
    fn start() -> Option<Slow> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = image(directory.path(), 0);
        let delay = format!("wdelay={}", DELAY.as_secs());
        let arguments = ["nbdkit", "--exit-with-parent", "--filter=delay", "memory", "16M"];
        let fuse = Command::new("nbdfuse")
            .arg(&path)
            .arg("[")
            .args(arguments)
            .args([&delay, "]"])
            .stderr(Stdio::inherit())
            .spawn();
        let fuse = match fuse {
            Ok(fuse) => fuse,
            Err(error) => {
                skip(&format!("nbdfuse cannot be run: {error}"));
                return None;
            }
        };
        let slow = Slow { fuse, directory };
        let is_there = || std::fs::metadata(slow.path()).is_ok_and(|found| found.len() == 16 << 20);
        if !wait_until(is_there) {
            skip("nbdfuse shows no file; is /dev/fuse there, and nbdkit installed?");
            return None;
        }
        Some(slow)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("image")
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // Not SIGKILL: that would leave the mount behind.
        let _ = kill_process(Pid::from_child(&self.fuse), Signal::TERM);
        let _ = self.fuse.wait();
    }
}

#[allow(clippy::disallowed_methods, reason = "a test waits for another program")]
fn wait_until(there: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !there() {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Runs the daemon's part: memory from standard input, a fence on it, and a slow write.
#[test]
fn child() {
    let Some(target) = std::env::var_os(TARGET) else { return };
    let memory = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let shared = SharedMemory::adopt(memory).expect("the parent's memory");
    let fence = Fence::take(shared.file(), 0).expect("it is free");
    let ring = ring();
    ring.hold(&fence).expect("a free place");
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = std::fs::File::options();
    let file = options.read(true).write(true).custom_flags(direct).open(target).expect("a file");
    let file = Arc::new(OwnedFd::from(file));
    let writer = ring.clone();
    let writes = async move {
        let from = Buf::from_memory(Arc::new(block::Memory::heap(4096)), 0, 8, 512);
        from.write(&[7; 4096]);
        writer.write(&file, 0, &from, false).await.expect("written");
        unreachable!("it was to be killed long before");
    };
    ring.lane().spawn(writes).expect("a slot is free");
    let sleeper = ring.lane().clone();
    let says = async move {
        // Long after the write was submitted, and long before it ends.
        sleeper.sleep_until(sleeper.now() + 200_000_000).await;
        println!("in flight");
        #[allow(
            clippy::disallowed_methods,
            reason = "this is a pipe, and the parent waits for it"
        )]
        std::io::stdout().flush().expect("the parent listens");
    };
    ring.lane().spawn(says).expect("a slot is free");
    ring.run(|| false).expect("the loop runs");
}

fn start_child(shared: &SharedMemory, target: &Path) -> Child {
    let memory = shared.file().try_clone_to_owned().expect("a descriptor");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child", "--nocapture"])
        .env(TARGET, target)
        .stdin(Stdio::from(memory))
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let said = BufReader::new(child.stdout.take().expect("it is piped"));
    let in_flight = said.lines().map_while(Result::ok).any(|line| line.contains("in flight"));
    assert!(in_flight, "the child ended early");
    child
}

/// Kills the child in the middle of its write. `gone`: whether the process disappears at once.
#[allow(clippy::disallowed_methods, reason = "the time is what is tested")]
fn kill_in_flight(slow: &Slow, target: &Path, gone: bool) {
    let shared = shared_memory("test", 1 << 20, HugePages::Never, &mut |_, _| ()).expect("memory");
    let start = Instant::now();
    let mut child = start_child(&shared, target);
    let used = Fence::take(shared.file(), 0).expect_err("the child has it").to_string();
    assert!(used.contains(&format!("process {} (", child.id())), "{used}");
    child.kill().expect("it lives");
    if gone {
        child.wait().expect("it ends");
    }
    let busy = Fence::take(shared.file(), 300).expect_err("its write is in flight").to_string();
    assert!(!gone || busy.contains("which has ended"), "{busy}");
    assert!(start.elapsed() < DELAY, "this machine is too slow to tell anything");
    let fence = Fence::take(shared.file(), 20_000).expect("the write ends");
    let took = start.elapsed();
    println!("{}: the fence was had after {took:?}: {busy}", target.display());
    assert!(took >= DELAY - Duration::from_millis(300), "after {took:?}");
    // The write has taken effect: it will not overwrite later data.
    let mut first = [0; 512];
    std::fs::File::open(slow.path())
        .and_then(|mut file| file.read_exact(&mut first))
        .expect("read");
    assert_eq!(first, [7; 512]);
    drop(fence);
    child.wait().expect("it has ended");
}

#[test]
fn a_write_on_a_thread_of_the_process() {
    if let Some(slow) = Slow::start() {
        kill_in_flight(&slow, &slow.path(), false);
    }
}

#[test]
fn a_write_in_a_device_when_the_process_is_gone() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a loop device needs root");
        return;
    }
    let Some(slow) = Slow::start() else { return };
    let name = slow.path().display().to_string();
    let Some(made) = common::program("losetup", &["--find", "--show", &name]) else {
        return skip("losetup cannot be run");
    };
    if !made.status.success() {
        return skip(&format!("no loop device: {}", common::output_text(&made)));
    }
    let device = PathBuf::from(common::output_text(&made).trim());
    let result = std::panic::catch_unwind(|| kill_in_flight(&slow, &device, true));
    common::program("losetup", &["--detach", &device.display().to_string()]);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
