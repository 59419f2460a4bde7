//! A backing behind a server that stops answering, for real: a FUSE file whose server is stopped.
//! There the kernel may wait within the very call that submits a request.

use crate::common::{
    OVERDRIVE, Server, have, have_libnbd, is_root, other_disk, pause, python, run, wait_until,
};
use crate::mounted::plain;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A file served by another process.
struct Remote {
    nbdkit: Child,
    nbdfuse: Child,
    directory: TempDir,
}

impl Remote {
    fn new() -> Remote {
        let directory = tempfile::Builder::new().prefix("od").tempdir_in("/tmp").expect("room");
        let path = |name: &str| directory.path().join(name);
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.args(["-f", "-U"]).arg(path("socket")).args(["memory", "64M"]);
        let nbdkit = nbdkit.stderr(Stdio::null()).spawn().expect("it was there");
        // The socket is there before it listens.
        wait_until("nbdkit listens", || UnixStream::connect(path("socket")).is_ok());
        std::fs::write(path("disk"), "").expect("a fresh directory");
        let mut nbdfuse = Command::new("nbdfuse");
        nbdfuse.arg(path("disk"));
        nbdfuse.arg(format!("nbd+unix:///?socket={}", path("socket").display()));
        let nbdfuse = nbdfuse.stderr(Stdio::null()).spawn().expect("it was there");
        let remote = Remote { nbdkit, nbdfuse, directory };
        wait_until("nbdfuse shows the file", || {
            std::fs::metadata(remote.file()).is_ok_and(|found| found.len() == 64 << 20)
        });
        remote
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.nbdkit), signal).expect("ours");
    }

    /// Stops the file system itself: not even a stat of the file is answered.
    fn stop(&self) {
        kill_process(Pid::from_child(&self.nbdfuse), Signal::STOP).expect("ours");
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // All requests that wait for it must be able to end.
        for child in [&self.nbdkit, &self.nbdfuse] {
            let _ = kill_process(Pid::from_child(child), Signal::CONT);
        }
        let _ = run("umount", &[plain(&self.file())]);
        for child in [&mut self.nbdfuse, &mut self.nbdkit] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Arguments: URI, process to stop.
const STOPPED: &str = r#"
import nbd, os, signal, sys, time
def error_of(most, command, *arguments):
    start = time.monotonic()
    result = None
    try: command(*arguments)
    except nbd.Error as error: result = error.errno
    took = time.monotonic() - start
    assert took < most, f"{command.__name__} took {took:.1f} s"
    return result
def stopped(process):
    status = lambda task: open(f"/proc/{process}/task/{task}/stat").read().rpartition(")")[2]
    return all(status(task).split()[0] == "T" for task in os.listdir(f"/proc/{process}/task"))
h = nbd.NBD(); h.connect_uri(sys.argv[1])
A, B = b"A" * 4096, b"B" * 4096
for n in range(300): h.pwrite(A, n * 4096)
h.flush()
os.kill(int(sys.argv[2]), signal.SIGSTOP)
# On a busy machine its threads go on for a while, long enough to serve all that follows.
while not stopped(sys.argv[2]): time.sleep(0.001)
for n in range(100): h.pwrite(B, n * 4096)
answer = error_of(15, h.flush)
assert answer == "EIO", f"the flush was answered with {answer}"
for n in range(100): assert h.pread(4096, n * 4096) == B
answer = error_of(2, h.pread, 4096, 40 << 20)
assert answer == "EIO", f"a read that misses was answered with {answer}"
answer = error_of(2, h.pwrite, A, 0)
assert answer == "EIO", f"a write was answered with {answer}"
"#;

/// Whether there can be such a file here; if not, prints that the test is skipped.
fn have_remote() -> bool {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: needs root and /dev/fuse");
        return false;
    }
    have(&["nbdkit", "nbdfuse", "umount"]) && have_libnbd()
}

#[test]
fn a_server_that_stops_below_keeps_neither_clients_nor_operators() {
    if !have_remote() {
        return;
    }
    let remote = Remote::new();
    let options = ["--memory", "8M", "--write", "back-now", "--dirty-age", "500ms"];
    let server = Server::start(remote.file(), &[&options[..], &["--retry-time", "1s"]].concat());
    python(STOPPED, &[&server.uri, &remote.nbdkit.id().to_string()]).well();
    let state = || {
        let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        rows["volumes"][0]["state"].as_str().expect("a word").to_owned()
    };
    assert_eq!(state(), "stalled");
    remote.signal(Signal::CONT);
    wait_until("the server answers again", || state() == "failed");
    server.volume(&["clear-error", "--retry"]).well();
    assert_eq!(state(), "serving");
    const WELL: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for n in range(300): assert h.pread(4096, n * 4096) == (b"B" if n < 100 else b"A") * 4096, n
"#;
    python(WELL, &[&server.uri]).well();
    server.end().well();
}

/// Longer than the interval at which an orphaned holder checks its image.
const LOOKED: Duration = Duration::from_secs(7);

#[test]
fn a_server_that_stops_below_keeps_neither_an_orphan_nor_the_list() {
    if !have_remote() {
        return;
    }
    let remote = Remote::new();
    let options = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
    let server = Server::start(remote.file(), &options);
    let write =
        "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b'A' * 4096, 0)";
    python(write, &[&server.uri]).well();
    let home = server.kill();
    let orphaned = || home.holders().iter().any(|holder| holder.owner_pid.is_none());
    wait_until("the holder is an orphan", orphaned);
    remote.stop();
    // The holder checks whether its image still exists, and the kernel has dropped its cached
    // attributes.
    pause(LOOKED);
    let within = |time: &str, arguments: &[&str]| {
        let runtime = format!("XDG_RUNTIME_DIR={}", home.runtime().display());
        run("timeout", &[&["-s", "KILL", time, "env", &runtime, OVERDRIVE], arguments].concat())
    };
    let rows = within("5", &["volume", "list", "--json"]).json("overdrive.volumes/1");
    let row = &rows["volumes"][0];
    assert_eq!(row["state"], "orphaned");
    assert_eq!((&row["size_bytes"], &row["dirty_bytes"]), (&(64 << 20).into(), &4096.into()));
    assert_eq!(row["backing"], plain(&remote.file()));
    let aside = other_disk();
    let file = aside.path().join("saved");
    let rescue = ["volume", "clear-error", "disk", "--rescue", plain(&file)];
    within("5", &rescue).well();
    assert_eq!(fs::read(&file).expect("saved")[..4096], [b'A'; 4096]);
    within("10", &[&rescue[..], &["--discard-dirty"]].concat()).well();
    wait_until("the holder ends", || home.holders().is_empty());
}
