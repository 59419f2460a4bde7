//! The hidden command: how a holder starts.

use crate::absence::Absence;
use crate::connections::Connections;
use crate::deadline::{Deadline, unix_s};
use crate::directory::HolderSocket;
use crate::image_watch::ImageWatch;
use crate::key;
use crate::life::Holder;
use crate::packet::{self, PACKET_BYTES, Received};
use crate::survey::Contents;
use crate::warn::warn;
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
/// Environment variable that marks the second start of the program.
pub(crate) const DETACHED: &str = "OVERDRIVE_HOLDER";
/// Longest time that the daemon may take to send the descriptors to retain.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Priority for being killed when memory runs out, from -1000 (never) to 1000 (first).
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// Parameters of a holder.
#[derive(Clone, Copy)]
pub struct HolderOptions<'a> {
    /// Returns from an arena how much of it is dirty.
    pub survey: &'a dyn Fn(BorrowedFd<'_>) -> io::Result<Contents>,
    /// Interval at which an orphan checks whether its image has been deleted.
    pub look_every: Duration,
    /// Longest time for which only clean blocks are retained without an owner, and without a daemon
    /// that is about to take them over. The image stays locked for as long.
    pub clean_max: Duration,
}

/// Time for which only clean blocks are retained: a supervisor's longest pause before a restart,
/// and some time to start.
const CLEAN_MAX: Duration = Duration::from_secs(15);

/// Runs `overdrive hold`, which reads the amount of dirty data from the arena's headers.
pub fn hold() -> ExitCode {
    hold_on(&HolderOptions {
        survey: &crate::survey::of_arena,
        look_every: Duration::from_secs(5),
        clean_max: CLEAN_MAX,
    })
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
        Some(_) => retain(options),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&format!("the holder cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Starts this program once more in a new session, so that it outlives this process, which then
/// exits.
fn detach() -> io::Result<()> {
    close_strays();
    // Fails if this process already leads a process group, which is then not the daemon's.
    let _ = rustix::process::setsid();
    Command::new("/proc/self/exe")
        .arg0("od-holder")
        .args(std::env::args_os().skip(1))
        .env(DETACHED, "1")
        .current_dir("/")
        .stdin(Stdio::inherit())
        // A holder prints nothing there, and must not keep the daemon's output open for its reader.
        .stdout(Stdio::null())
        .stderr(if is_lasting(&io::stderr()) { Stdio::inherit() } else { Stdio::null() })
        .spawn()
        .map(drop)
}

/// Closes descriptors that the daemon's parent has left open by mistake: the holder would keep them
/// open as long as it lives.
fn close_strays() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> =
        open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The directory's own descriptor is closed by now, and the standard ones are not touched.
    numbers.into_iter().for_each(|number| drop(host::inherited(number)));
}

/// Whether no reader waits for the end of this stream: it is a terminal or a file, not a pipe.
fn is_lasting(stream: &impl AsFd) -> bool {
    let kind = rustix::fs::fstat(stream).map(|found| FileType::from_raw_mode(found.st_mode));
    matches!(kind, Ok(FileType::RegularFile | FileType::CharacterDevice))
}

/// Retains the memory and descriptors that it receives, until nothing is left to retain.
fn retain(options: &HolderOptions<'_>) -> io::Result<()> {
    let signals = host::signals()?;
    configure_process();
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // Otherwise stdin would keep the connection open after `socket` is closed.
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
    let retained = encode(&Answer::Retained { retained: holder.retained.clone(), image: None });
    // If the daemon has died by now, the main loop finds the connection closed, and handles that.
    let _ = packet::send(&socket, &retained, &[]);
    holder.connections.add(socket);
    holder.connections.set_owner(0, pid);
    holder.live();
    holder.leave();
    Ok(())
}

/// Names the process, leaves the working directory, and protects the process when memory runs out.
fn configure_process() {
    let _ = rustix::thread::set_name(c"od-holder");
    let _ = rustix::process::chdir(OsStr::new("/"));
    // Without permission for a negative score, at least a positive one, which makes this process a
    // preferred victim, is removed.
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
    let listener = HolderSocket::bind(Path::new(&runtime), &retained.key)?;
    let absence = key::is_mount(&retained.key).then(Absence::new);
    let holder = Holder {
        retained,
        arena,
        backing,
        listener,
        signals,
        connections: Connections::new(),
        survey: options.survey,
        look_every: options.look_every,
        clean_max: options.clean_max,
        since_unix_s: unix_s(),
        takes: 0,
        absence,
        report: None,
        watch: ImageWatch::default(),
        clean_end: None,
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
