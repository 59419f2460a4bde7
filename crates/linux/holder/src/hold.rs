//! The hidden command: how a holder starts.

use crate::absence::Absence;
use crate::connections::Connections;
use crate::deadline::{Deadline, unix_s};
use crate::directory::Seat;
use crate::key;
use crate::life::Holder;
use crate::message::print_message;
use crate::packet::{self, PACKET_BYTES, Received};
use crate::survey::Contents;
use crate::wire::{Answer, Ask, encode};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketType;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The argument that makes a program a holder: `program hold`.
pub const HOLD: &str = "hold";
/// Marks the second start.
pub(crate) const DETACHED: &str = "OVERDRIVE_HOLDER";
/// Longest time in which the daemon must send what is to be retained.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Priority for being killed when memory runs out, from -1000 (never) to 1000 (first).
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// Parameters of a holder.
#[derive(Clone, Copy)]
pub struct HolderOptions<'a> {
    /// Reads from an arena how much of it is dirty.
    pub survey: &'a dyn Fn(BorrowedFd<'_>) -> io::Result<Contents>,
    /// Interval at which an orphan checks whether its image has been deleted.
    pub look_every: Duration,
}

/// Runs `overdrive hold`; the headers of the arena show what is dirty.
pub fn hold() -> ExitCode {
    hold_on(&HolderOptions { survey: &crate::survey::of_arena, look_every: Duration::from_secs(5) })
}

/// Runs a holder with other parameters. The process becomes the holder: this returns when it ends.
pub fn hold_on(options: &HolderOptions<'_>) -> ExitCode {
    let is_packets = rustix::net::sockopt::socket_type(io::stdin()) == Ok(SocketType::SEQPACKET);
    if !is_packets {
        let _ = writeln!(
            io::stderr(),
            "overdrive: `hold` is started by `overdrive serve`, with a socket as stdin; do not \
             run it directly"
        );
        return ExitCode::from(2);
    }
    let ended = match std::env::var_os(DETACHED) {
        None => detach(),
        Some(_) => keep(options),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_message(&format!("the holder cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Starts this program once more, in a new session and not as our child.
fn detach() -> io::Result<()> {
    close_strays();
    // Fails if this process already leads a group, which then is a separate session.
    let _ = rustix::process::setsid();
    Command::new("/proc/self/exe")
        .arg0("od-holder")
        .args(std::env::args_os().skip(1))
        .env(DETACHED, "1")
        .current_dir("/")
        .stdin(Stdio::inherit())
        // A holder prints nothing there, and a reader of the daemon's output must see its end.
        .stdout(Stdio::null())
        .stderr(if is_lasting(&io::stderr()) { Stdio::inherit() } else { Stdio::null() })
        .spawn()
        .map(drop)
}

/// Closes descriptors that the daemon's parent has left open by mistake: they would stay open as
/// long as this process lives.
fn close_strays() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> =
        open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The descriptor of the directory is closed by now; of the others only the standard ones belong
    // here.
    numbers.into_iter().for_each(|number| drop(host::inherited(number)));
}

/// Whether no reader waits for the end of this stream: it is a terminal or a file, not a pipe.
fn is_lasting(stream: &impl AsFd) -> bool {
    let kind = rustix::fs::fstat(stream).map(|found| FileType::from_raw_mode(found.st_mode));
    matches!(kind, Ok(FileType::RegularFile | FileType::CharacterDevice))
}

/// Retains the memory and descriptors that it receives, until nothing is left to retain.
fn keep(options: &HolderOptions<'_>) -> io::Result<()> {
    let signals = host::signals()?;
    settle_down();
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // Otherwise the connection would stay open here after it was closed.
    rustix::stdio::dup2_stdin(&null)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    let (mut holder, pid) = match handshake(&socket, signals, options) {
        Ok(made) => made,
        Err(error) => {
            let message = error.to_string();
            let _ = packet::send(&socket, &encode(&Answer::Error { message }), &[]);
            return Err(error);
        }
    };
    let retained = encode(&Answer::Retained(holder.retained.clone()));
    // If the daemon has died by now, the first round finds the connection closed, and decides.
    let _ = packet::send(&socket, &retained, &[]);
    holder.connections.add(socket);
    holder.connections.own(0, pid);
    holder.live();
    holder.leave();
    Ok(())
}

/// Makes the process small, quiet, and hard to kill by mistake, as far as it may.
fn settle_down() {
    let _ = rustix::thread::set_name(c"od-holder");
    let _ = rustix::process::chdir(OsStr::new("/"));
    // Protects it from being chosen when memory runs out. Without the right to that: not before
    // others.
    let score = || std::fs::read_to_string(OOM_SCORE).ok()?.trim().parse::<i32>().ok();
    if std::fs::write(OOM_SCORE, "-1000").is_err() && score().is_some_and(|score| score > 0) {
        let _ = std::fs::write(OOM_SCORE, "0");
    }
}

fn refused(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn handshake<'a>(
    socket: &OwnedFd,
    signals: host::File,
    options: &HolderOptions<'a>,
) -> io::Result<(Holder<'a>, i32)> {
    let (ask, descriptors) = first_packet(socket)?;
    let Ask::Keep { retained, runtime, pid } = ask else {
        return Err(refused("the first request to a holder must be `keep`"));
    };
    retained.check()?;
    let (arena, backing) = packet::arena_and_backing(descriptors)?;
    let seat = Seat::bind(Path::new(&runtime), &retained.key)?;
    let absence = key::is_mount(&retained.key).then(Absence::new);
    let holder = Holder {
        retained,
        arena,
        backing,
        seat,
        signals,
        connections: Connections::new(),
        survey: options.survey,
        look_every: options.look_every,
        since_unix_s: unix_s(),
        takes: 0,
        absence,
        report: None,
    };
    Ok((holder, pid))
}

fn first_packet(socket: &OwnedFd) -> io::Result<(Ask, Vec<OwnedFd>)> {
    let deadline = Deadline::after(HANDSHAKE);
    let mut buffer = vec![0; PACKET_BYTES];
    loop {
        packet::wait(socket, deadline)
            .map_err(|_| refused("the daemon has not sent the memory to retain"))?;
        match packet::receive(socket, &mut buffer) {
            Ok(Received::Packet(bytes, descriptors)) => {
                let ask = serde_json::from_slice(&buffer[..bytes])?;
                return Ok((ask, descriptors));
            }
            Ok(Received::TooLong) => return Err(refused("the first packet is too long")),
            Ok(Received::Closed) => return Err(refused("the daemon ended before it sent `keep`")),
            Err(Errno::AGAIN | Errno::INTR) => (),
            Err(errno) => return Err(errno.into()),
        }
    }
}
