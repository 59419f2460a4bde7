//! The daemon's side of a holder process.

use crate::absence::{Description, Waiting};
use crate::deadline::Deadline;
use crate::directory::{self, Reached};
use crate::hold::{DETACHED, HOLD};
use crate::image_report::ImageReport;
use crate::key;
use crate::packet::{self, PACKET_BYTES};
use crate::pid::{is_ending, own_pid};
use crate::retained::{Looked, RetainedVolume, Taken};
use crate::wire::{Answer, Ask, Status, encode};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{error, fmt};

/// Longest time that a holder may take to start, to answer, or to end.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Longest time for each answer when all holders are queried together.
const LIST_MAX: Duration = Duration::from_secs(5);
/// Time for which a volume must be busy before it is reported as busy: its daemon may just be
/// ending.
const BUSY_MAX: Duration = Duration::from_secs(1);

/// A daemon serves the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy {
    /// The daemon's process.
    pub pid: i32,
}

impl Busy {
    /// Returns the process that serves the volume, if that is the reason for this error.
    pub fn of(error: &io::Error) -> Option<Busy> {
        error.get_ref()?.downcast_ref::<Busy>().copied()
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the volume is served by process {}; end that first", self.pid)
    }
}

impl error::Error for Busy {}

impl From<Busy> for io::Error {
    fn from(busy: Busy) -> io::Error {
        io::Error::new(io::ErrorKind::ResourceBusy, busy)
    }
}

/// Result of querying all holders.
#[derive(Debug, Default)]
pub struct Roll {
    /// Statuses of the holders that answered.
    pub answered: Vec<Status>,
    /// Holders that exist and did not answer within some seconds.
    pub silent: Vec<Silent>,
}

/// A holder that exists and does not answer: it is stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Silent {
    /// Identity of the backing for which it retains memory.
    pub key: String,
    /// Its process, if it is found.
    pub pid: Option<i32>,
}

/// The owner's connection to a holder.
#[derive(Debug)]
pub(crate) struct Process {
    socket: OwnedFd,
}

fn unexpected(answer: Answer) -> io::Error {
    match answer {
        Answer::Busy { pid } => Busy { pid }.into(),
        Answer::Error { message } => io::Error::other(format!("the holder refused: {message}")),
        other => io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the holder gave an unexpected answer ({other:?})"),
        ),
    }
}

/// Sends one request to the holder of a key. None: there is no holder, or it has just ended.
fn ask_once(
    runtime: &Path,
    key: &str,
    ask: &Ask,
    deadline: Deadline,
) -> io::Result<Option<(OwnedFd, Answer, Vec<OwnedFd>)>> {
    loop {
        let answered = match directory::reach(runtime, key)? {
            Reached::No => return Ok(None),
            Reached::Crowded => Err(packet::cut_off()),
            Reached::Yes(socket) => packet::ask(&socket, ask, &[], deadline)
                .map(|(answer, descriptors)| (socket, answer, descriptors)),
        };
        match answered {
            // A holder that ends sends `done` to all connections, whatever they have requested.
            Ok((_, Answer::Done, _)) if !matches!(ask, Ask::Discard { .. }) => {
                if !deadline.pause() {
                    return Err(packet::cut_off());
                }
            }
            Ok(answered) => return Ok(Some(answered)),
            // It ended just now, or was crowded: the next attempt shows which.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                if !deadline.pause() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Sends a request as [`ask_once`] does. If the volume has an owner, waits as long as that owner
/// may just be ending.
fn ask_unowned(
    runtime: &Path,
    key: &str,
    ask: &Ask,
) -> io::Result<Option<(OwnedFd, Answer, Vec<OwnedFd>)>> {
    let deadline = Deadline::after(ANSWER_MAX);
    let patience = Deadline::after(BUSY_MAX);
    loop {
        match ask_once(runtime, key, ask, deadline)? {
            Some((_, Answer::Busy { pid }, _)) => {
                let may_end = pid != own_pid() && (!patience.has_passed() || is_ending(pid));
                if !may_end || !deadline.pause() {
                    return Err(Busy { pid }.into());
                }
            }
            other => return Ok(other),
        }
    }
}

fn check_kept(key: &str, answer: Answer) -> io::Result<(RetainedVolume, Option<ImageReport>)> {
    match answer {
        Answer::Retained { retained, image } if retained.key == key => Ok((retained, image)),
        other => Err(unexpected(other)),
    }
}

impl Process {
    /// Becomes the owner of the memory that an orphaned holder retains.
    pub(crate) fn take(runtime: &Path, key: &str) -> io::Result<Option<(Taken, Process)>> {
        let answered = ask_unowned(runtime, key, &Ask::Take { pid: own_pid() })?;
        let Some((socket, answer, descriptors)) = answered else { return Ok(None) };
        let (retained, image) = check_kept(key, answer)?;
        let (arena, backing) = packet::arena_and_backing(descriptors)?;
        Ok(Some((Taken { retained, arena, backing, image }, Process { socket })))
    }

    /// Requests the memory again by the owner's connection.
    pub(crate) fn resume(socket: OwnedFd) -> io::Result<(Taken, Process)> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let ask = Ask::Take { pid: own_pid() };
        let (answer, descriptors) = packet::ask(&socket, &ask, &[], Deadline::after(ANSWER_MAX))?;
        let Answer::Retained { retained, image } = answer else { return Err(unexpected(answer)) };
        let (arena, backing) = packet::arena_and_backing(descriptors)?;
        Ok((Taken { retained, arena, backing, image }, Process { socket }))
    }

    /// Starts a holder and sends it the descriptors.
    pub(crate) fn start(
        runtime: &Path,
        retained: &RetainedVolume,
        arena: BorrowedFd<'_>,
        backing: &[BorrowedFd<'_>],
        program: &Path,
    ) -> io::Result<Process> {
        let keep = keep_request(runtime, retained)?;
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut child = spawn(program, theirs)?;
        let deadline = Deadline::after(ANSWER_MAX);
        let descriptors = [&[arena], backing].concat();
        let answered = packet::ask(&ours, &keep, &descriptors, deadline);
        // The child only starts the actual holder, and has probably ended by now.
        reap(&mut child, deadline);
        match answered {
            Ok((Answer::Retained { .. }, _)) => Ok(Process { socket: ours }),
            Ok((other, _)) => Err(unexpected(other)),
            Err(error) => {
                let message = format!(
                    "{}: the process to retain the volume's memory did not start ({error}); its \
                     own message may be on stderr",
                    program.display()
                );
                Err(io::Error::new(error.kind(), message))
            }
        }
    }

    /// Returns the socket; it is readable, and hung up, once the holder has died.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Ends the connection, also if it has been cloned.
    pub(crate) fn abandon(self) {
        // This fails only if the holder has closed it first.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Sends the answers that the holder gives for the mount while there is no daemon.
    pub(crate) fn describe(&self, description: Description) -> io::Result<()> {
        let bytes = encode(&Ask::Describe(description.clone())).len();
        self.order(&Ask::Describe(description.shortened(bytes, PACKET_BYTES)))
    }

    /// Makes the holder watch the image.
    pub(crate) fn watch(&self) -> io::Result<bool> {
        match packet::ask(&self.socket, &Ask::Watch, &[], Deadline::after(ANSWER_MAX))? {
            (Answer::Accepted, _) => Ok(true),
            (Answer::Opened, _) => Ok(false),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Has other descriptors of the backing retained.
    pub(crate) fn exchange(&self, backing: &[BorrowedFd<'_>]) -> io::Result<()> {
        let deadline = Deadline::after(ANSWER_MAX);
        match packet::ask(&self.socket, &Ask::Exchange, backing, deadline)? {
            (Answer::Accepted, _) => Ok(()),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Makes the holder answer for the mount although this process has not ended yet.
    pub(crate) fn leave(&self) -> io::Result<()> {
        self.order(&Ask::Leave)
    }

    fn order(&self, ask: &Ask) -> io::Result<()> {
        match packet::ask(&self.socket, ask, &[], Deadline::after(ANSWER_MAX))? {
            (Answer::Accepted, _) => Ok(()),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Ends the holder.
    pub(crate) fn release(self) -> io::Result<()> {
        match packet::ask(&self.socket, &Ask::Release, &[], Deadline::after(ANSWER_MAX)) {
            Ok((Answer::Done, _)) => Ok(()),
            Ok((other, _)) => Err(unexpected(other)),
            // The holder had ended already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn keep_request(runtime: &Path, retained: &RetainedVolume) -> io::Result<Ask> {
    retained.check()?;
    let absolute = std::path::absolute(runtime)?;
    let Some(runtime) = absolute.to_str() else {
        let message = format!(
            "{}: the runtime directory's name is not UTF-8; use another one",
            absolute.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    };
    Ok(Ask::Keep { retained: retained.clone(), runtime: runtime.to_owned(), pid: own_pid() })
}

fn spawn(program: &Path, stdin: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg(HOLD).env_remove(DETACHED).stdin(stdin).stdout(Stdio::null());
    command.spawn().map_err(|error| {
        let message = format!(
            "{}: the process to retain the volume's memory cannot be started ({error})",
            program.display()
        );
        io::Error::new(error.kind(), message)
    })
    // This drops the command, and with it our copy of the child's stdin: otherwise the end of the
    // connection would not show.
}

fn reap(child: &mut Child, deadline: Deadline) {
    while matches!(child.try_wait(), Ok(None)) {
        if !deadline.pause() {
            // The child is ours and not yet reaped, so the number is still its own.
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
    }
}

/// Returns the memory that the holder of a key retains, without becoming its owner.
pub(crate) fn look(runtime: &Path, key: &str) -> io::Result<Option<Looked>> {
    match ask_once(runtime, key, &Ask::Look, Deadline::after(ANSWER_MAX))? {
        None => Ok(None),
        Some((_, answer, descriptors)) => Ok(Some(Looked {
            retained: check_kept(key, answer)?.0,
            arena: packet::first_descriptor(descriptors)?,
        })),
    }
}

/// Returns the status of a key's holder.
pub(crate) fn status(runtime: &Path, key: &str) -> io::Result<Option<Status>> {
    match ask_once(runtime, key, &Ask::Status, Deadline::after(ANSWER_MAX))? {
        None => Ok(None),
        Some((_, Answer::Status(status), _)) => Ok(Some(status)),
        Some((_, other, _)) => Err(unexpected(other)),
    }
}

/// Announces that this process is about to take over the retained memory, while the connection is
/// open. None: there is no holder.
pub(crate) fn approach(runtime: &Path, key: &str) -> io::Result<Option<OwnedFd>> {
    match ask_once(runtime, key, &Ask::Approach, Deadline::after(LIST_MAX))? {
        None => Ok(None),
        Some((socket, Answer::Accepted, _)) => Ok(Some(socket)),
        Some((_, other, _)) => Err(unexpected(other)),
    }
}

/// Ends an orphaned holder and discards its data. False: there was no holder.
pub(crate) fn discard(runtime: &Path, key: &str, takes: Option<u64>) -> io::Result<bool> {
    match ask_unowned(runtime, key, &Ask::Discard { takes })? {
        None => Ok(false),
        Some((_, Answer::Done, _)) => Ok(true),
        Some((_, other, _)) => Err(unexpected(other)),
    }
}

/// Queries all holders of volumes in parallel.
pub(crate) fn roll(runtime: &Path) -> io::Result<Roll> {
    let mut keys = directory::keys(runtime)?;
    keys.retain(|key| !key::is_mount(key));
    let answers = std::thread::scope(|scope| {
        let ask = |key: &String| {
            scope.spawn({
                let key = key.clone();
                move || ask_status(runtime, key)
            })
        };
        let threads: Vec<_> = keys.iter().map(ask).collect();
        let answers = threads.into_iter().filter_map(|thread| thread.join().ok()?);
        answers.collect::<Vec<_>>()
    });
    let mut roll = Roll::default();
    for answer in answers {
        match answer {
            Ok(status) => roll.answered.push(status),
            Err(silent) => roll.silent.push(silent),
        }
    }
    Ok(roll)
}

/// Queries all holders of mounts in parallel, and returns the mounts without a daemon.
pub(crate) fn waiting(runtime: &Path) -> io::Result<Vec<Waiting>> {
    let mut keys = directory::keys(runtime)?;
    keys.retain(|key| key::is_mount(key));
    let mut waiting: Vec<Waiting> = std::thread::scope(|scope| {
        let ask = |key: String| scope.spawn(move || ask_waiting(runtime, &key));
        let threads: Vec<_> = keys.into_iter().map(ask).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()?).collect()
    });
    waiting.sort_by(|one, two| one.directory.cmp(&two.directory));
    Ok(waiting)
}

fn ask_waiting(runtime: &Path, key: &str) -> Option<Waiting> {
    match ask_once(runtime, key, &Ask::Waiting, Deadline::after(LIST_MAX)) {
        Ok(Some((_, Answer::Waits { waiting }, _))) => waiting,
        _ => None,
    }
}

/// Returns the status of a key's holder, or that it does not answer. None: no holder listens there.
fn ask_status(runtime: &Path, key: String) -> Option<Result<Status, Silent>> {
    match ask_once(runtime, &key, &Ask::Status, Deadline::after(LIST_MAX)) {
        Ok(Some((_, Answer::Status(status), _))) => Some(Ok(status)),
        Ok(Some(_)) => None,
        Ok(None) => {
            directory::sweep(runtime, &key);
            None
        }
        Err(error) => match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::ConnectionAborted => {
                let pid = directory::pid_at(runtime, &key);
                Some(Err(Silent { key, pid }))
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::HolderSocket;
    use crate::key_at;
    use std::thread;

    #[test]
    fn a_holder_that_ends_while_somebody_connects_has_gone() {
        let runtime = tempfile::tempdir().expect("a directory");
        let image = tempfile::NamedTempFile::new().expect("a file");
        let key = key_at(image.path()).expect("a file has a key");
        let seat = HolderSocket::bind(runtime.path(), &key).expect("it is free");
        // Its owner has just ended and has left nothing dirty: it sends that to all connections.
        let holder = thread::spawn(move || {
            let deadline = Deadline::after(ANSWER_MAX);
            packet::wait(seat.socket(), deadline).expect("a connection comes");
            let socket = seat.accept().expect("it is there");
            packet::wait(&socket, deadline).expect("it asks something");
            drop(seat);
            packet::send(&socket, &encode(&Answer::Done), &[]).expect("it listens");
        });
        let taken = Process::take(runtime.path(), &key).expect("nothing is in the way");
        assert!(taken.is_none());
        holder.join().expect("it has ended");
    }
}
