//! A service manager with a descriptor store, as far as a daemon uses it.

use crate::common::{Daemon, TRIAL, TestDirectory, eventually};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::collections::BTreeMap;
use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

type Stored = Arc<Mutex<BTreeMap<String, OwnedFd>>>;

struct Manager {
    stored: Stored,
    thread: Option<JoinHandle<()>>,
    socket: std::path::PathBuf,
}

/// Handles one message; false at the end.
fn handle(socket: &UnixDatagram, stored: &Stored) -> bool {
    let mut buffer = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut text = [IoSliceMut::new(&mut buffer)];
    let got = rustix::net::recvmsg(socket, &mut text, &mut control, RecvFlags::CMSG_CLOEXEC);
    let bytes = got.expect("a datagram").bytes;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    let text = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let name = field("FDNAME=").unwrap_or_default().to_owned();
    let mut stored = stored.lock().expect("no thread panics");
    if field("FDSTORE=1").is_some() {
        stored.insert(name, descriptors.pop().expect("one comes along"));
    } else if field("FDSTOREREMOVE=1").is_some() {
        stored.remove(&name);
    }
    // Closing the descriptor that came with a barrier releases the sender; that happens here.
    text != "END"
}

impl Manager {
    fn new(place: &TestDirectory) -> Manager {
        let path = place.directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let stored = Stored::default();
        let seen = Arc::clone(&stored);
        let thread = std::thread::spawn(move || while handle(&socket, &seen) {});
        Manager { stored, thread: Some(thread), socket: path }
    }

    fn offer(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", &self.socket).env("FDSTORE", "8");
    }

    fn names(&self) -> Vec<String> {
        self.stored.lock().expect("no thread panics").keys().cloned().collect()
    }

    /// Starts a daemon with the stored descriptors from 3 on. Only a shell can put them there
    /// without unsafe code: they come as its stdin, stdout and stderr.
    fn restart(&self, place: &TestDirectory, output: &Path) -> ExitStatus {
        let script = "exec 3<&0 4<&1 5<&2 </dev/null >\"$OUTPUT\" 2>&1; LISTEN_PID=$$; \
                      export LISTEN_PID; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", TRIAL, "find"]);
        command.arg(place.runtime()).arg(&place.image);
        {
            let stored = self.stored.lock().expect("no thread panics");
            let mut copies = stored.values().map(|one| one.try_clone().expect("a copy"));
            command.stdin(copies.next().expect("three"));
            command.stdout(copies.next().expect("three"));
            command.stderr(copies.next().expect("three"));
            command.env("LISTEN_FDS", stored.len().to_string());
        }
        command.env("LISTEN_FDNAMES", self.names().join(":")).env("OUTPUT", output);
        self.offer(&mut command);
        command.status().expect("a shell")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let end = UnixDatagram::unbound().expect("a socket");
        let _ = end.send_to(b"END", &self.socket);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn the_service_managers_store_keeps_as_a_holder_does() {
    let place = TestDirectory::new();
    let manager = Manager::new(&place);
    let mut command = place.command("start");
    manager.offer(&mut command);
    let mut daemon = Daemon::new(command);
    daemon.says(&["started", "ready"]).order("dirty 5").says(&["done"]);
    let names = ["backing", "kept", "memory"].map(|what| format!("{}.{what}", place.key()));
    assert_eq!(manager.names(), names);
    assert!(place.status().is_none(), "no process of our own");
    daemon.kill();
    assert!(place.is_locked());

    let output = place.directory.path().join("output");
    assert!(manager.restart(&place, &output).success());
    let said = fs::read_to_string(&output).expect("its output");
    assert_eq!(said, "found 5 precious vol\nready\n");
    assert!(place.is_locked(), "that daemon, too, ended without a release");
    assert_eq!(manager.names(), names);
}

#[test]
fn a_release_empties_the_store() {
    let place = TestDirectory::new();
    let manager = Manager::new(&place);
    let mut command = place.command("start");
    manager.offer(&mut command);
    let mut daemon = Daemon::new(command);
    daemon.says(&["started", "ready"]).order("release").says(&["released"]);
    drop(daemon);
    assert_eq!(manager.names(), [""; 0]);
    assert!(!place.is_locked());
}

#[test]
fn an_incomplete_store_is_cleared_and_counts_as_nothing() {
    let place = TestDirectory::new();
    let manager = Manager::new(&place);
    for what in ["backing", "kept", "other"] {
        let file = fs::File::open(&place.image).expect("the image");
        let name = format!("{}.{what}", place.key());
        manager.stored.lock().expect("no thread panics").insert(name, file.into());
    }
    let output = place.directory.path().join("output");
    assert!(manager.restart(&place, &output).success());
    assert_eq!(fs::read_to_string(&output).expect("its output"), "none\n");
    assert!(eventually(|| manager.names() == [format!("{}.other", place.key())]));
}

#[test]
fn a_manager_without_a_store_means_a_holder() {
    let place = TestDirectory::new();
    let manager = Manager::new(&place);
    let mut command = place.command("start");
    manager.offer(&mut command);
    command.env_remove("FDSTORE");
    let mut daemon = Daemon::new(command);
    daemon.says(&["started", "ready"]);
    assert!(place.status().is_some());
    daemon.order("release").says(&["released"]);
}

#[test]
fn descriptors_that_are_not_there_are_not_believed() {
    let place = TestDirectory::new();
    for count in ["1000", "4000000000", "7"] {
        let script = "LISTEN_PID=$$; export LISTEN_PID; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", TRIAL, "find"]);
        command.arg(place.runtime()).arg(&place.image).env("LISTEN_FDS", count);
        let mut daemon = Daemon::new(command);
        let line = daemon.line();
        assert!(line.starts_with(&format!("error LISTEN_FDS={count}")), "{line}");
    }
}
