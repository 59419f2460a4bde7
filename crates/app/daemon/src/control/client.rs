//! The operator's side of the control socket.

use super::held::{self, PAGE_BYTES_MAX};
use super::recorded::{self, RecordedPage};
use super::statistics::Statistics;
use super::words::{Answer, Ask, LINE_BYTES_MAX, READ_BYTES_MAX, RecordAt, Row, UNKNOWN_ASK};
use hotlist::ClassList;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType, recvmsg, socket_with,
};
use stack::{Exit, Failure};
use std::io::{self, BufRead, BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that a daemon may take for requests that it answers immediately, such as a list of
/// volumes.
const LIST_TIME: Duration = Duration::from_secs(5);
/// Attempts to connect to a daemon whose queue is full, 50 ms apart.
const CONNECT_TRIES: u32 = 100;

/// Number of times that the daemon may close the connection before an answer.
const RECONNECTS_MAX: u32 = 3;

/// Longest time that a daemon may take to disconnect its clients and end.
const UPGRADE_TIME: Duration = Duration::from_secs(60);
/// Attempts to find the next daemon after that, 50 ms apart.
const UPGRADE_TRIES: u32 = 600;

/// Error text for a daemon that has closed the connection.
const HAS_ENDED: &str = "it has ended";

/// Waits a moment between two checks of another process.
#[allow(clippy::disallowed_methods, reason = "a command waits for a daemon: there is no lane here")]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// A connection to a daemon.
pub struct Daemon {
    stream: UnixStream,
    path: PathBuf,
}

/// Reads from a daemon whose answer may take as long as the backing does. After each read timeout,
/// a list request on another connection, which is answered immediately or never, shows whether the
/// daemon still runs.
struct Patient<'a>(&'a Daemon);

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let error = match (&self.0.stream).read(into) {
                Err(error) if is_timeout(&error) => error,
                received => return received,
            };
            if let Err(ExchangeError::Silent(_)) = Daemon::open_and_list(&self.0.path) {
                return Err(error);
            }
        }
    }
}

/// A daemon that exists and does not answer: it is stopped, or waits for the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Silent {
    /// Its process, if that is found.
    pub pid: Option<u32>,
    /// Its control socket.
    pub path: PathBuf,
}

/// Result of querying all daemons of a user for their volumes.
#[derive(Default)]
pub struct Roll {
    /// Daemons that answered, with their volumes.
    pub answered: Vec<(Daemon, Vec<Row>)>,
    /// Daemons that exist and do not answer within some seconds.
    pub silent: Vec<Silent>,
}

/// Reason why a daemon gave no answer.
enum ExchangeError {
    /// No answer in time.
    Silent(Silent),
    /// The connection has ended. `is_unsent`: the daemon has not received the request.
    Ended { is_unsent: bool, failure: Failure },
    /// There is no daemon, or another error.
    Other(Failure),
}

impl From<ExchangeError> for Failure {
    fn from(error: ExchangeError) -> Failure {
        match error {
            ExchangeError::Silent(silent) => silent.failure(),
            ExchangeError::Ended { failure, .. } | ExchangeError::Other(failure) => failure,
        }
    }
}

impl Silent {
    fn at(path: &Path) -> Silent {
        let pid = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        Silent { pid, path: path.to_owned() }
    }

    /// Returns the failure of a command that needs this daemon. Exit status 3.
    pub fn failure(&self) -> Failure {
        let path = self.path.display();
        let message = match self.pid {
            Some(pid) => format!(
                "process {pid} does not answer at {path}: it is stopped ('kill -CONT {pid}' \
                 continues it), or waits for a backing in the kernel"
            ),
            None => format!("{path}: the daemon does not answer; it may be stopped"),
        };
        Failure::new(Exit::NoDaemon, message)
    }
}

/// Whether nothing was received in time.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Whether the daemon has closed the connection: it has ended, or was replaced.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn no_answer_by(path: &Path, error: &io::Error) -> Failure {
    if is_gone(error) { no_answer(path, HAS_ENDED) } else { no_answer(path, error) }
}

fn no_answer(path: &Path, error: impl std::fmt::Display) -> Failure {
    let message = format!("{}: the daemon does not answer: {error}", path.display());
    Failure::new(Exit::NoDaemon, message)
}

/// Queries all daemons of this user for their volumes, in parallel. A socket without a listener is
/// left out, and so is a daemon that is just ending.
pub fn call_roll(runtime: &Path) -> Roll {
    let Ok(directory) = std::fs::read_dir(runtime.join("daemons")) else { return Roll::default() };
    let mut paths: Vec<PathBuf> = directory.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            paths.iter().map(|path| scope.spawn(|| Daemon::open_and_list(path))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut roll = Roll::default();
    for answer in answers {
        match answer {
            Ok(answered) => roll.answered.push(answered),
            Err(ExchangeError::Silent(silent)) => roll.silent.push(silent),
            Err(ExchangeError::Ended { .. } | ExchangeError::Other(_)) => {}
        }
    }
    roll
}

impl Daemon {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// Exit status 3 if no daemon listens there or accepts the connection, 4 if this user
    /// may not connect.
    pub fn connect(path: &Path) -> Result<Daemon, Failure> {
        Ok(Daemon::open(path)?)
    }

    /// Connects without a long wait: a stopped daemon accepts no connection, and its queue may be
    /// full.
    fn open(path: &Path) -> Result<Daemon, ExchangeError> {
        let other = |error: io::Error| {
            ExchangeError::Other(match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    let message =
                        format!("{}: {error}; run this as its user, or as root", path.display());
                    Failure::new(Exit::Permission, message)
                }
                _ => no_answer(path, error),
            })
        };
        let system = |errno: Errno| other(errno.into());
        let address = SocketAddrUnix::new(path).map_err(system)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.map_err(system)?;
        let mut tries = 0;
        loop {
            match rustix::net::connect(&socket, &address) {
                Err(Errno::AGAIN) if tries == CONNECT_TRIES => {
                    return Err(ExchangeError::Silent(Silent::at(path)));
                }
                Err(Errno::AGAIN) => pause(),
                Err(Errno::INTR) => {}
                connected => {
                    connected.map_err(system)?;
                    break;
                }
            }
            tries += 1;
        }
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false).map_err(other)?;
        Ok(Daemon { stream, path: path.to_owned() })
    }

    fn open_and_list(path: &Path) -> Result<(Daemon, Vec<Row>), ExchangeError> {
        let mut daemon = Daemon::open(path)?;
        let rows = daemon.list()?;
        Ok((daemon, rows))
    }

    fn exchange_error(&self, error: io::Error) -> ExchangeError {
        match error.kind() {
            _ if is_timeout(&error) => ExchangeError::Silent(Silent::at(&self.path)),
            io::ErrorKind::ConnectionReset => {
                let failure = no_answer_by(&self.path, &error);
                ExchangeError::Ended { is_unsent: false, failure }
            }
            _ => ExchangeError::Other(no_answer_by(&self.path, &error)),
        }
    }

    /// Opens another connection to the same daemon, for requests that are answered immediately,
    /// even while the first connection waits for an answer.
    ///
    /// # Errors
    /// As [`Daemon::connect`].
    pub fn open_another(&self) -> Result<Daemon, Failure> {
        let another = Daemon::connect(&self.path)?;
        let failed = |error| no_answer(&self.path, error);
        another.stream.set_read_timeout(Some(LIST_TIME)).map_err(failed)?;
        Ok(another)
    }

    /// Sends a request, and returns the answer's value.
    ///
    /// # Errors
    /// The daemon's refusal, with its exit status; status 3 if it has ended.
    pub fn ask(&mut self, ask: &Ask) -> Result<serde_json::Value, Failure> {
        Ok(self.exchange(ask)?)
    }

    /// Sends a request, and sends it again on another connection if the daemon has closed this one:
    /// it closes connections that have been quiet for long, and the quietest if there are too many.
    /// A request that may have been carried out is repeated only if it changes nothing.
    fn exchange(&mut self, ask: &Ask) -> Result<serde_json::Value, ExchangeError> {
        let is_repeatable = matches!(ask, Ask::List | Ask::Show { .. } | Ask::Stats { .. });
        for _ in 0..RECONNECTS_MAX {
            match self.exchange_once(ask) {
                Err(ExchangeError::Ended { is_unsent, .. }) if is_unsent || is_repeatable => {
                    self.stream = Daemon::open(&self.path)?.stream;
                }
                answered => return answered,
            }
        }
        self.exchange_once(ask)
    }

    /// Sends a request, whose answer may take as long as the backing does.
    fn exchange_once(&mut self, ask: &Ask) -> Result<serde_json::Value, ExchangeError> {
        self.stream
            .set_read_timeout(Some(LIST_TIME))
            .map_err(|error| self.exchange_error(error))?;
        self.send(ask)?;
        let mut line = Vec::new();
        let limit = LINE_BYTES_MAX as u64;
        let received = match ask {
            // This is the request that shows whether the daemon still runs.
            Ask::List => {
                BufReader::new(Read::take(&self.stream, limit)).read_until(b'\n', &mut line)
            }
            _ => BufReader::new(Read::take(Patient(self), limit)).read_until(b'\n', &mut line),
        };
        received.map_err(|error| self.exchange_error(error))?;
        if line.is_empty() {
            let failure = no_answer(&self.path, HAS_ENDED);
            return Err(ExchangeError::Ended { is_unsent: false, failure });
        }
        self.value(&String::from_utf8_lossy(&line)).map_err(ExchangeError::Other)
    }

    /// Returns the volumes of this daemon.
    ///
    /// # Errors
    /// As [`Daemon::ask`].
    pub fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        Ok(self.list()?)
    }

    /// Returns the statistics of a volume.
    ///
    /// # Errors
    /// As [`Daemon::ask`].
    pub fn statistics(&mut self, volume: &str) -> Result<Statistics, Failure> {
        let value = self.ask(&Ask::Stats { volume: volume.to_owned() })?;
        serde_json::from_value(value).map_err(|error| no_answer(&self.path, error))
    }

    fn list(&mut self) -> Result<Vec<Row>, ExchangeError> {
        let value = self.exchange(&Ask::List)?;
        serde_json::from_value(value)
            .map_err(|error| ExchangeError::Other(no_answer(&self.path, error)))
    }

    /// Reads a part of a volume, as its clients would, without a trace in its cache.
    ///
    /// # Errors
    /// As [`Daemon::ask`]; the backing's error.
    pub fn read(&mut self, volume: &str, first_byte: u64, into: &mut [u8]) -> Result<(), Failure> {
        let bytes = into.len().min(READ_BYTES_MAX as usize + 1) as u32;
        let ask = Ask::Read { volume: volume.to_owned(), first_byte, bytes };
        self.ask_for_bytes(&ask, |announced| Some(into).filter(|it| it.len() as u64 == announced))
    }

    /// Returns the blocks that the cache of a volume holds, by
    /// [`HELD_CLASSES`](super::words::HELD_CLASSES).
    ///
    /// # Errors
    /// As [`Daemon::ask`]; the volume has no cache.
    pub fn held(&mut self, volume: &str) -> Result<ClassList, Failure> {
        let (mut words, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let mut page = Vec::new();
            let ask = Ask::HeldBlocks { volume: volume.to_owned(), from };
            self.ask_for_bytes(&ask, |announced| {
                let fits = usize::try_from(announced).ok().filter(|it| *it <= PAGE_BYTES_MAX);
                page.resize(fits?, 0);
                Some(&mut page)
            })?;
            next = held::parse(&page, &mut words).map_err(|why| no_answer(&self.path, why))?;
            // A daemon that goes back would never end.
            if next.is_some_and(|next| next <= from) {
                return Err(no_answer(&self.path, "its pages of blocks have no end"));
            }
        }
        Ok(held::runs_of(words))
    }

    /// Has the requests of a volume recorded at these places from now on, until this connection
    /// ends.
    ///
    /// # Errors
    /// As [`Daemon::ask`]; another connection records them; there is no such place.
    pub fn record(&mut self, volume: &str, at: &[RecordAt]) -> Result<(), Failure> {
        let ask = Ask::Record { volume: volume.to_owned(), at: at.to_vec() };
        self.ask(&ask).map(|_| ())
    }

    /// Returns the next requests that this connection has recorded.
    ///
    /// # Errors
    /// As [`Daemon::ask`]. Exit status 3: the connection has ended, and the recording with it.
    /// 1: all are fetched, and the volume is not served any more.
    pub fn recorded(&mut self) -> Result<RecordedPage, Failure> {
        let mut page = Vec::new();
        self.ask_for_bytes(&Ask::Recorded, |announced| {
            let fits = |bytes: &usize| *bytes <= recorded::PAGE_BYTES_MAX;
            page.resize(usize::try_from(announced).ok().filter(fits)?, 0);
            Some(&mut page)
        })?;
        RecordedPage::parse(&page).map_err(|why| no_answer(&self.path, why))
    }

    /// Sends a request whose answer is a number of bytes, and these. `room` returns the memory for
    /// as many bytes, unless the number is wrong.
    fn ask_for_bytes<'a>(
        &mut self,
        ask: &Ask,
        room: impl FnOnce(u64) -> Option<&'a mut [u8]>,
    ) -> Result<(), Failure> {
        self.stream
            .set_read_timeout(Some(LIST_TIME))
            .map_err(|error| Failure::from(self.exchange_error(error)))?;
        self.send(ask)?;
        self.receive_bytes(room).unwrap_or_else(|error| {
            // The rest of this answer must not be taken for the next one.
            let _ = self.stream.shutdown(Shutdown::Both);
            Err(error.into())
        })
    }

    /// Receives a number of bytes, and these; or a refusal. An error: the connection cannot be used
    /// any more.
    fn receive_bytes<'a>(
        &self,
        room: impl FnOnce(u64) -> Option<&'a mut [u8]>,
    ) -> Result<Result<(), Failure>, ExchangeError> {
        let mut reader = BufReader::new(Patient(self));
        let mut line = Vec::new();
        Read::take(&mut reader, LINE_BYTES_MAX as u64)
            .read_until(b'\n', &mut line)
            .map_err(|error| self.exchange_error(error))?;
        let announced = match self.value(&String::from_utf8_lossy(&line)) {
            Ok(value) => value.as_u64(),
            Err(failure) => return Ok(Err(failure)),
        };
        let wrong = || no_answer(&self.path, "it sent another number of bytes");
        let into = announced.and_then(room).ok_or_else(|| ExchangeError::Other(wrong()))?;
        reader.read_exact(into).map_err(|error| self.exchange_error(error))?;
        Ok(Ok(()))
    }

    /// Requests the memory of a failed volume: a descriptor, and the number of the failure.
    ///
    /// # Errors
    /// As [`Daemon::ask`].
    pub fn memory(&mut self, volume: &str) -> Result<(OwnedFd, u64), Failure> {
        self.send(&Ask::Memory { volume: volume.to_owned() })?;
        let mut text = vec![0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(&mut text)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
        .map_err(|error| self.exchange_error(error.into()))?;
        let line = String::from_utf8_lossy(&text[..received.bytes]).into_owned();
        let failure = self.value(&line)?.as_u64().unwrap_or(0);
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        let descriptor = descriptors.last();
        let descriptor =
            descriptor.ok_or_else(|| no_answer(&self.path, "it sent no descriptor"))?;
        Ok((descriptor, failure))
    }

    /// Waits, after an upgrade was requested, until this daemon has ended and its successor
    /// answers.
    ///
    /// # Errors
    /// Exit status 3 if this daemon does not end within a minute, or its successor does not answer
    /// half a minute later.
    pub fn wait_for_the_next(mut self) -> Result<Daemon, Failure> {
        let failed = |error| no_answer(&self.path, error);
        self.stream.set_read_timeout(Some(UPGRADE_TIME)).map_err(failed)?;
        // The connection is closed when the program ends.
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).map_err(|error| no_answer(&self.path, error))?;
        for _ in 0..UPGRADE_TRIES {
            if let Ok(mut next) = Daemon::connect(&self.path)
                && next.rows().is_ok()
            {
                return match next.ask(&Ask::Upgraded) {
                    // An older program does not have this request.
                    Err(failure) if !failure.message.contains(UNKNOWN_ASK) => Err(failure),
                    _ => Ok(next),
                };
            }
            pause();
        }
        Err(no_answer(
            &self.path,
            "no other daemon has replaced it; read its messages, and start it",
        ))
    }

    /// Returns the version of its program. None: an earlier program that does not report it.
    ///
    /// # Errors
    /// Status 3 if the daemon has ended.
    pub fn version(&mut self) -> Result<Option<String>, Failure> {
        match self.ask(&Ask::Version) {
            Ok(value) => Ok(value.as_str().map(str::to_owned)),
            Err(failure) if failure.exit == Exit::NoDaemon => Err(failure),
            // The program does not have this request.
            Err(_) => Ok(None),
        }
    }

    fn send(&mut self, ask: &Ask) -> Result<(), ExchangeError> {
        let mut line = serde_json::to_string(ask).expect("plain data");
        line.push('\n');
        self.stream.write_all(line.as_bytes()).map_err(|error| {
            let is_unsent = error.kind() == io::ErrorKind::BrokenPipe;
            ExchangeError::Ended { is_unsent, failure: no_answer_by(&self.path, &error) }
        })
    }

    fn value(&self, line: &str) -> Result<serde_json::Value, Failure> {
        if line.is_empty() {
            return Err(no_answer(&self.path, HAS_ENDED));
        }
        match serde_json::from_str(line) {
            Ok(Answer::Done { value }) => Ok(value),
            Ok(Answer::Refused { exit, message }) => Err(Failure::new(Exit::of(exit), message)),
            Err(error) => Err(no_answer(&self.path, error)),
        }
    }
}
