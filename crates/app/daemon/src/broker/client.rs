//! The daemon's side of its broker.

use super::{Answer, BROKER, Numbered, PROTOCOL, Request, receive, send};
use crate::exec_values::read_variable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use stack::{Exit, Failure};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// `PID:DESCRIPTOR` of the connection, for the next program of this process.
pub(crate) const SOCKET: &str = "OVERDRIVE_BROKER";

/// Longest time that the broker may take for an answer: it looks through all processes.
const ANSWER_MAX: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// The broker of this process, once it has one.
static PRESENT: Mutex<Option<Arc<Broker>>> = Mutex::new(None);

/// A connection to a broker.
#[derive(Debug)]
pub(crate) struct Broker {
    link: Mutex<Link>,
    /// None: a former program of this process has started it.
    _child: Option<Child>,
}

#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    /// Number of the last request.
    number: u64,
}

/// Returns the broker of this process. None: the process may make the calls itself.
pub(crate) fn present() -> Option<Arc<Broker>> {
    PRESENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn set_present(broker: Broker) {
    *PRESENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(broker));
}

/// Takes over the connection that the former program of this process has left open. Call this at
/// the start, before any child is started.
pub(crate) fn find() {
    let number = read_variable(SOCKET).and_then(|number| number.parse().ok());
    if let Some(socket) = number.and_then(|number| host::inherited(number).ok()) {
        set_present(Broker::new(socket, None));
    }
}

/// Whether this program can be executed by a process that has a broker.
pub(crate) fn serves_daemons(program: &Path) -> bool {
    let output = Command::new(program).arg(BROKER).stdin(Stdio::null()).output();
    let protocol = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    protocol.is_some_and(|text| text.trim().parse().is_ok_and(|found: u64| found >= PROTOCOL))
}

fn failure(error: io::Error) -> Failure {
    let message = format!(
        "the process that makes calls for this daemon does not answer ({error}); kill the daemon, \
         process {}: data in memory stays retained, and the next daemon has another such process",
        std::process::id()
    );
    Failure::new(Exit::Io, message)
}

impl Broker {
    fn new(socket: OwnedFd, child: Option<Child>) -> Broker {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = since.as_nanos() as u64;
        Broker { link: Mutex::new(Link { socket, number }), _child: child }
    }

    /// Starts the broker of this process, which must not be confined yet, for mounts on these
    /// directories.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn start(directories: &[PathBuf]) -> io::Result<()> {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        // This also works if the program's file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("od-broker").arg(BROKER).arg(serde_json::json!(directories).to_string());
        command.current_dir("/").env_remove("NOTIFY_SOCKET");
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        host::make_ordinary(&mut command);
        let child = command.spawn()?;
        set_present(Broker::new(ours, Some(child)));
        Ok(())
    }

    /// Leaves the connection open for the next program of this process, and returns its number.
    pub(crate) fn leave_open(&self) -> io::Result<i32> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        host::set_inherited(&link.socket, true)?;
        Ok(link.socket.as_raw_fd())
    }

    /// Returns descriptions of the users of the device with this node.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(crate) fn users(&self, node: &Path) -> Result<Vec<String>, Failure> {
        match self.ask(Request::Users { node: node.to_owned() })?.0 {
            Answer::Users(users) => Ok(users),
            other => Err(failure(unexpected(&other))),
        }
    }

    /// Mounts on a directory of the daemon; returns the connection.
    ///
    /// # Errors
    /// Those of the mount; the broker does not answer.
    pub(crate) fn mount(&self, directory: &Path) -> Result<OwnedFd, Failure> {
        match self.ask(Request::Mount { directory: directory.to_owned() })? {
            (Answer::Done, Some(device)) => Ok(device),
            (other, _) => Err(failure(unexpected(&other))),
        }
    }

    /// Unmounts a directory of the daemon.
    ///
    /// # Errors
    /// It is in use; the broker does not answer.
    pub(crate) fn unmount(&self, directory: &Path, lazily: bool) -> Result<(), Failure> {
        match self.ask(Request::Unmount { directory: directory.to_owned(), lazily })?.0 {
            Answer::Done => Ok(()),
            other => Err(failure(unexpected(&other))),
        }
    }

    fn ask(&self, request: Request) -> Result<(Answer, Option<OwnedFd>), Failure> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        match link.ask(request).map_err(failure)? {
            (Answer::Refused { exit, message }, _) => Err(Failure::new(Exit::of(exit), message)),
            answered => Ok(answered),
        }
    }
}

impl Link {
    fn ask(&mut self, request: Request) -> io::Result<(Answer, Option<OwnedFd>)> {
        self.number = self.number.wrapping_add(1);
        send(&self.socket, &Numbered { number: self.number, body: request }, None)?;
        loop {
            self.wait()?;
            let (bytes, descriptor) = receive(&self.socket)?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let answer: Numbered<Answer> = serde_json::from_slice(&bytes)?;
            if answer.number == self.number {
                return Ok((answer.body, descriptor));
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut polled, Some(&ANSWER_MAX))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

fn unexpected(answer: &Answer) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("an unexpected answer: {answer:?}"))
}
