//! The operator's side of the control socket.

use super::words::{Answer, Ask, LINE_BYTES_MAX, Row};
use crate::failure::{Exit, Failure};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{BufRead, BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a daemon may take for what it answers at once, as to list its volumes.
const LIST_TIME: Duration = Duration::from_secs(5);

/// How long a daemon may take to let its clients go, and the next one to be there.
const UPGRADE_TIME: Duration = Duration::from_secs(60);
/// Looks for the next one, 50 ms apart.
const UPGRADE_TRIES: u32 = 600;

#[allow(clippy::disallowed_methods, reason = "a command waits for a daemon: there is no lane here")]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// A connection to a daemon.
pub struct Daemon {
    stream: UnixStream,
    path: PathBuf,
}

fn broken(path: &Path, error: impl std::fmt::Display) -> Failure {
    let message = format!("{}: the daemon does not answer: {error}", path.display());
    Failure::new(Exit::NoDaemon, message)
}

/// All daemons of this user. A socket that nobody listens on is left out.
pub fn daemons(runtime: &Path) -> Vec<Daemon> {
    let Ok(directory) = std::fs::read_dir(runtime.join("daemons")) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = directory.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| Daemon::connect(path).ok()).collect()
}

impl Daemon {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// Exit status 3 if nobody listens there, 4 if we may not.
    pub fn connect(path: &Path) -> Result<Daemon, Failure> {
        match UnixStream::connect(path) {
            Ok(stream) => Ok(Daemon { stream, path: path.to_owned() }),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let message = format!("{}: {error}; ask as its user, or as root", path.display());
                Err(Failure::new(Exit::Permission, message))
            }
            Err(error) => Err(broken(path, error)),
        }
    }

    /// Another connection to the same daemon, for what is answered at once: also while the first one waits
    /// for an answer.
    ///
    /// # Errors
    /// As [`Daemon::connect`].
    pub fn beside(&self) -> Result<Daemon, Failure> {
        let beside = Daemon::connect(&self.path)?;
        let failed = |error| broken(&self.path, error);
        beside.stream.set_read_timeout(Some(LIST_TIME)).map_err(failed)?;
        Ok(beside)
    }

    /// Asks, and waits for the answer's value.
    ///
    /// # Errors
    /// What the daemon refused, with its exit status; status 3 if it has gone.
    pub fn ask(&mut self, ask: &Ask) -> Result<serde_json::Value, Failure> {
        self.send(ask)?;
        let mut line = String::new();
        let limited = Read::take(&self.stream, LINE_BYTES_MAX as u64);
        BufReader::new(limited).read_line(&mut line).map_err(|error| broken(&self.path, error))?;
        self.value(&line)
    }

    /// The volumes of this daemon.
    ///
    /// # Errors
    /// As [`Daemon::ask`].
    pub fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        // This is answered at once or never; what others are asked may take as long as a backing does.
        let failed = |error| broken(&self.path, error);
        self.stream.set_read_timeout(Some(LIST_TIME)).map_err(failed)?;
        let value = self.ask(&Ask::List)?;
        let failed = |error| broken(&self.path, error);
        self.stream.set_read_timeout(None).map_err(failed)?;
        serde_json::from_value(value).map_err(|error| broken(&self.path, error))
    }

    /// Asks for the memory of a failed volume: a descriptor, and the number of the failure.
    ///
    /// # Errors
    /// As [`Daemon::ask`].
    pub fn memory(&mut self, volume: &str) -> Result<(OwnedFd, u64), Failure> {
        self.send(&Ask::Memory { volume: volume.to_owned() })?;
        let mut text = vec![0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(&mut text)],
            &mut beside,
            RecvFlags::CMSG_CLOEXEC,
        )
        .map_err(|error| broken(&self.path, error))?;
        let line = String::from_utf8_lossy(&text[..received.bytes]).into_owned();
        let failure = self.value(&line)?.as_u64().unwrap_or(0);
        let descriptors = beside.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        let descriptor = descriptors.last();
        let descriptor = descriptor.ok_or_else(|| broken(&self.path, "it sent no descriptor"))?;
        Ok((descriptor, failure))
    }

    /// After an upgrade was asked for: waits until this daemon has gone, and another one answers in
    /// its place.
    ///
    /// # Errors
    /// Exit status 3 if none does within a minute.
    pub fn wait_for_the_next(mut self) -> Result<(), Failure> {
        let failed = |error| broken(&self.path, error);
        self.stream.set_read_timeout(Some(UPGRADE_TIME)).map_err(failed)?;
        // It ends with the program.
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).map_err(|error| broken(&self.path, error))?;
        for _ in 0..UPGRADE_TRIES {
            if Daemon::connect(&self.path).is_ok_and(|mut next| next.rows().is_ok()) {
                return Ok(());
            }
            pause();
        }
        Err(broken(&self.path, "no other one took its place; see what it said, and start it"))
    }

    fn send(&mut self, ask: &Ask) -> Result<(), Failure> {
        let mut line = serde_json::to_string(ask).expect("plain data");
        line.push('\n');
        self.stream.write_all(line.as_bytes()).map_err(|error| broken(&self.path, error))
    }

    fn value(&self, line: &str) -> Result<serde_json::Value, Failure> {
        if line.is_empty() {
            return Err(broken(&self.path, "it has ended meanwhile"));
        }
        match serde_json::from_str(line) {
            Ok(Answer::Done { value }) => Ok(value),
            Ok(Answer::Refused { exit, message }) => Err(Failure::new(Exit::of(exit), message)),
            Err(error) => Err(broken(&self.path, error)),
        }
    }
}
