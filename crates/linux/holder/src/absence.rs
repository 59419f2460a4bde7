//! A mount whose daemon is absent: its holder answers requests that need no data, and refuses the
//! others after a time.
//!
//! ```text
//!   served --owner gone--> grace --0.5 s--> answers --wait_ms--> refuses
//!     ^                                                            |
//!     +-------------- the next daemon takes it over ---------------+
//! ```
//!
//! A daemon that ends cleanly stops serving before it writes everything back, which may take long.
//! From then on the holder answers requests about names; the time counts from the end of the
//! daemon's process.
//!
//! While a daemon announces that it is taking the mount over, that time stops: the daemon may have
//! to wait for the I/O of the one before, or to write back its data. `TAKEOVER_MAX` bounds this.
//!
//! A request that was read here and not answered is not lost: the next daemon, and the step to
//! refusing, make the kernel send all unanswered requests again. A refused request was not carried
//! out here. The dead daemon may have carried it out, but only before any action of the next
//! daemon, which first waits for the dead daemon's I/O to end (the fence).

use crate::deadline::{Deadline, unix_s};
use fuse::{MESSAGE_BYTES_MAX, Outline, Verdict, refusal, resend_message, verdict};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Time without a daemon before the holder answers, so that a daemon that restarts immediately is
/// not disturbed.
const GRACE: Duration = Duration::from_millis(500);
/// A daemon that has lived this long counts as one that has served, even if its version does not
/// send a description.
const SERVED: Duration = Duration::from_secs(10);
/// Default time without a daemon after which requests fail, in milliseconds.
pub const WAIT_DEFAULT_MS: u64 = 30_000;
/// Longest time that takeovers may add to the time without a daemon. Longer than the wait for the
/// I/O of a dead daemon and the retries after it.
const TAKEOVER_MAX: Duration = Duration::from_secs(60);
/// Maximum number of messages handled before connections to the holder are served again.
const BURST: u32 = 64;
/// Maximum number of file names in an answer.
const FILES_MAX: usize = 16;
/// Length of the longest text in a description, in characters.
const TEXT_CHARACTERS: usize = 1000;

/// A mount's description by its daemon, for the time without a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The directory's names and attributes. None: it is too large for a packet, so requests about
    /// names wait as requests for data do.
    pub outline: Option<Outline>,
    /// Milliseconds without a daemon after which requests fail. None: they wait for the next
    /// daemon.
    pub wait_ms: Option<u64>,
    /// Command that starts the daemon again, for messages.
    pub again: String,
    /// The backings of its volumes, for messages.
    pub backing: String,
}

impl Description {
    /// Returns it without the parts that are too long for a packet.
    pub(crate) fn shortened(mut self, bytes: usize, bytes_max: usize) -> Description {
        self.backing = self.backing.chars().take(TEXT_CHARACTERS).collect();
        // A truncated command would be a wrong command.
        if self.again.chars().count() > TEXT_CHARACTERS {
            self.again.clear();
        }
        if bytes > bytes_max {
            self.outline = None;
        }
        self
    }
}

impl Default for Description {
    fn default() -> Description {
        let (again, backing) = (String::new(), String::new());
        Description { outline: None, wait_ms: Some(WAIT_DEFAULT_MS), again, backing }
    }
}

/// A mount that has no daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waiting {
    /// Mount point.
    pub directory: String,
    /// Start of the time without a daemon, in seconds since 1970.
    pub since_unix_s: u64,
    /// When its requests fail or began to fail, in seconds since 1970. None: never.
    pub fails_unix_s: Option<u64>,
    /// The holder's process.
    pub holder_pid: i32,
    /// Names of its files, at most the first 16.
    pub files: Vec<String>,
    /// Description sent by its daemon.
    pub description: Description,
}

/// Step of an absence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Served,
    Grace,
    Answers,
    /// Nothing is read until the time to refuse, because this kernel cannot send requests again
    /// (before Linux 6.9).
    Leaves,
    Refuses,
}

/// Times of an absence.
#[derive(Clone, Copy)]
struct Times {
    since_unix_s: u64,
    begins: Deadline,
    refuses: Option<Deadline>,
    /// Unused part of [`TAKEOVER_MAX`].
    spare: Duration,
    /// While a daemon takes over: the remaining time without a daemon, which continues afterwards.
    left: Option<Duration>,
}

impl Times {
    /// Stops the time: a daemon begins to take over.
    fn stop(&mut self) {
        if let (Some(refuses), None) = (self.refuses, self.left) {
            self.left = Some(refuses.remaining());
            self.refuses = Some(Deadline::after(refuses.remaining() + self.spare));
        }
    }

    /// Continues the time: that daemon has ended.
    fn resume(&mut self) {
        if let (Some(refuses), Some(left)) = (self.refuses, self.left.take()) {
            self.spare = refuses.remaining().saturating_sub(left);
            self.refuses = Some(Deadline::after(left));
        }
    }
}

/// State of a mount with regard to its daemon: served, or for how long without one.
pub(crate) struct Absence {
    description: Description,
    step: Step,
    times: Option<Times>,
    /// Whether the owner no longer serves, but has not ended yet.
    is_owner_ending: bool,
    /// Whether a daemon has served the mount since the latest absence.
    was_served: bool,
    /// When the present owner counts as one that has served.
    served: Deadline,
    buffer: Vec<u8>,
    /// Processes that wait for answers to messages that were read and not answered.
    held: BTreeMap<u64, u32>,
}

/// Whether a process has a pending SIGKILL (bit 8 of the signals pending for its thread or for the
/// whole process).
fn is_killed(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let pending = status.lines().filter_map(|line| {
        let (name, signals) = line.split_once(':')?;
        ["SigPnd", "ShdPnd"]
            .contains(&name)
            .then(|| u64::from_str_radix(signals.trim(), 16).ok())?
    });
    pending.fold(0, |all, signals| all | signals) >> 8 & 1 == 1
}

/// Error of a connection that the kernel has closed: the mount was unmounted or aborted.
#[derive(Debug)]
pub(crate) struct Unmounted;

impl Absence {
    /// Returns the absence of a mount that a daemon has just made.
    pub(crate) fn new() -> Absence {
        Absence {
            description: Description::default(),
            step: Step::Served,
            times: None,
            is_owner_ending: false,
            was_served: true,
            served: Deadline::after(SERVED),
            buffer: Vec::new(),
            held: BTreeMap::new(),
        }
    }

    /// Stores the owner's description of the mount, which it serves from now on.
    pub(crate) fn describe(&mut self, description: Description) {
        self.description = description;
        self.was_served = true;
    }

    /// Notes whether a daemon is about to take the mount over.
    pub(crate) fn set_approached(&mut self, is_approached: bool) {
        match &mut self.times {
            Some(times) if is_approached => times.stop(),
            Some(times) => times.resume(),
            None => {}
        }
    }

    /// Notes that a daemon has taken the mount over.
    pub(crate) fn end(&mut self) {
        if self.step == Step::Served {
            return;
        }
        self.set_approached(false);
        self.step = Step::Served;
        self.buffer = Vec::new();
        self.held.clear();
        self.is_owner_ending = false;
        self.was_served = false;
        self.served = Deadline::after(SERVED);
    }

    /// Notes that the owner is ending and no longer serves.
    pub(crate) fn leave(&mut self) {
        self.is_owner_ending = true;
        self.step = Step::Grace;
        if self.times.is_none() || self.was_served {
            self.set_times(None);
        }
    }

    /// Notes that the owner has ended. If it never served, the earlier time continues.
    pub(crate) fn begin(&mut self) {
        // If the holder already answers messages, it continues.
        if !std::mem::take(&mut self.is_owner_ending) {
            self.step = Step::Grace;
        }
        if self.times.is_none() || self.was_served || self.served.has_passed() {
            self.set_times(self.description.wait_ms);
        }
    }

    fn set_times(&mut self, wait_ms: Option<u64>) {
        let wait = wait_ms.map(Duration::from_millis);
        let refuses = wait.map(Deadline::after);
        let begins = Deadline::after(GRACE);
        self.times = Some(Times {
            since_unix_s: unix_s(),
            begins,
            refuses,
            spare: TAKEOVER_MAX,
            left: None,
        });
    }

    /// Whether the owner, if there is one, no longer serves.
    pub(crate) fn is_owner_ending(&self) -> bool {
        self.is_owner_ending
    }

    /// Returns when [`Absence::advance`] next has work.
    pub(crate) fn next(&self) -> Option<Deadline> {
        let times = self.times?;
        match self.step {
            Step::Grace => Some(times.begins),
            Step::Answers | Step::Leaves => times.refuses,
            Step::Served | Step::Refuses => None,
        }
    }

    /// Whether the holder reads messages of the kernel now.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.step, Step::Answers | Step::Refuses)
    }

    /// Takes the next step if it is due. True: requests fail from now on.
    pub(crate) fn advance(&mut self, device: BorrowedFd<'_>) -> bool {
        if !self.next().is_some_and(Deadline::has_passed) {
            return false;
        }
        // The kernel sends these messages again.
        self.held.clear();
        let is_resent = rustix::io::write(device, &resend_message()).is_ok();
        self.step = match (self.step, is_resent) {
            (Step::Grace, true) => Step::Answers,
            (Step::Grace, false) => Step::Leaves,
            _ => Step::Refuses,
        };
        self.step == Step::Refuses
    }

    /// Reads messages of the kernel and answers those that need no daemon, or all of them once
    /// requests fail.
    pub(crate) fn attend(&mut self, device: BorrowedFd<'_>) -> Result<(), Unmounted> {
        self.buffer.resize(MESSAGE_BYTES_MAX, 0);
        for _ in 0..BURST {
            let bytes = match rustix::io::read(device, &mut self.buffer[..]) {
                Ok(bytes) => bytes,
                // The program withdrew the request while it was read.
                Err(Errno::NOENT | Errno::INTR) => continue,
                Err(Errno::NODEV | Errno::CONNABORTED) => return Err(Unmounted),
                Err(Errno::AGAIN) => break,
                // The system lacks some resource; the message stays in the queue.
                Err(_) => {
                    Deadline::after(GRACE).pause();
                    break;
                }
            };
            let outline = self.description.outline.as_ref();
            let answer = match verdict(outline, &self.buffer[..bytes]) {
                Verdict::Answer(answer) => answer,
                Verdict::NeedsDaemon { unique, .. } if self.step == Step::Refuses => {
                    refusal(unique, false)
                }
                Verdict::NeedsDaemon { unique, process } => {
                    self.held.insert(unique, process);
                    continue;
                }
                // A killed process cannot end before its request is answered. For other signals,
                // the request continues to wait.
                Verdict::Interrupt { unique } => match self.held.get(&unique) {
                    Some(process) if is_killed(*process) => {
                        self.held.remove(&unique);
                        refusal(unique, true)
                    }
                    _ => continue,
                },
                Verdict::Silent => continue,
            };
            // The kernel refuses an answer if no process waits for it any more.
            let _ = rustix::io::write(device, &answer);
        }
        Ok(())
    }

    /// Describes the absence for a client. None: a daemon serves the mount.
    pub(crate) fn waiting(&self, directory: &str, holder_pid: i32) -> Option<Waiting> {
        let times = self.times.filter(|_| self.step != Step::Served)?;
        let wait_s = self.description.wait_ms.map(|wait_ms| wait_ms / 1000);
        let outline = self.description.outline.as_ref();
        let files = outline.into_iter().flat_map(|outline| &outline.files).take(FILES_MAX);
        let files = files.map(|file| file.name.clone()).collect();
        let description = Description { outline: None, ..self.description.clone() };
        Some(Waiting {
            directory: directory.to_owned(),
            since_unix_s: times.since_unix_s,
            fails_unix_s: wait_s.map(|wait_s| times.since_unix_s.saturating_add(wait_s)),
            holder_pid,
            files,
            description,
        })
    }

    /// Returns the user's next step, as words that follow a semicolon in messages.
    pub(crate) fn advice(&self) -> String {
        match self.description.again.as_str() {
            "" => "start the daemon as before to continue".to_owned(),
            again => format!("to continue, run: {again}"),
        }
    }

    /// Returns the milliseconds without a daemon after which requests fail.
    pub(crate) fn wait_ms(&self) -> Option<u64> {
        self.description.wait_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuse::OutlineFile;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::{AsFd, OwnedFd};

    const GETATTR: u32 = 3;
    const READ: u32 = 15;
    const EIO: i32 = -5;

    /// Stands for the kernel and /dev/fuse: transfers whole messages in both directions.
    fn connection() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("two sockets")
    }

    fn ask(kernel: &OwnedFd, opcode: u32, unique: u64, node: u64) {
        let bytes = 40 + 40u32;
        let mut message = [bytes, opcode].map(u32::to_ne_bytes).concat();
        message.extend([unique, node].map(u64::to_ne_bytes).concat());
        message.resize(80, 0);
        rustix::io::write(kernel, &message).expect("room");
    }

    /// Returns the next answer: its error, and the request that it answers. None: there is none.
    fn answer(kernel: &OwnedFd) -> Option<(i32, u64)> {
        let mut bytes = [0; 4096];
        rustix::io::read(kernel, &mut bytes).ok()?;
        let error = i32::from_ne_bytes(bytes[4..8].try_into().expect("four"));
        Some((error, u64::from_ne_bytes(bytes[8..16].try_into().expect("eight"))))
    }

    fn described(wait_ms: Option<u64>) -> Absence {
        let file = OutlineFile { name: "db".to_owned(), bytes: 4096, read_only: false };
        let outline = Outline { files: vec![file], ..Outline::default() };
        let mut absence = Absence::new();
        absence.describe(Description { outline: Some(outline), wait_ms, ..Description::default() });
        absence
    }

    fn wait_for_step(absence: &mut Absence, device: &OwnedFd) -> bool {
        let deadline = absence.next().expect("there is a next step");
        while deadline.pause() {}
        absence.advance(device.as_fd())
    }

    const RESEND: (i32, u64) = (7, 0);

    #[test]
    fn names_are_answered_at_once_and_data_is_refused_after_a_time() {
        let (kernel, device) = connection();
        let mut absence = described(Some(700));
        assert!(absence.next().is_none() && !absence.is_listening(), "a daemon serves it");
        absence.begin();
        assert!(!absence.is_listening(), "a daemon that comes back at once is not disturbed");
        assert!(!wait_for_step(&mut absence, &device));
        assert_eq!(answer(&kernel), Some(RESEND), "also of what the dead daemon has read");
        assert!(absence.is_listening());
        ask(&kernel, READ, 1, 2);
        ask(&kernel, GETATTR, 2, 1);
        absence.attend(device.as_fd()).expect("it is mounted");
        assert_eq!(answer(&kernel), Some((0, 2)));
        assert_eq!(answer(&kernel), None, "the other one waits");
        assert!(wait_for_step(&mut absence, &device), "requests fail from now on");
        assert_eq!(answer(&kernel), Some(RESEND));
        ask(&kernel, READ, 1, 2);
        ask(&kernel, GETATTR, 2, 1);
        absence.attend(device.as_fd()).expect("it is mounted");
        assert_eq!((answer(&kernel), answer(&kernel)), (Some((EIO, 1)), Some((0, 2))));
        assert!(absence.next().is_none(), "nothing follows");
        absence.end();
        assert!(!absence.is_listening(), "a daemon reads the messages itself");
    }

    #[test]
    fn daemons_that_serve_nothing_do_not_restart_the_time() {
        let mut absence = described(Some(1000));
        absence.begin();
        let begun = absence.times.expect("it has begun").refuses.expect("a time").remaining();
        absence.end();
        let Some(deadline) = absence.times.map(|times| times.begins) else { panic!() };
        while deadline.pause() {}
        absence.begin();
        let left = |absence: &Absence| {
            absence.times.and_then(|times| times.refuses).map(Deadline::remaining)
        };
        assert!(left(&absence) < Some(begun - GRACE / 2), "it has not begun anew");
        absence.end();
        absence.describe(absence.description.clone());
        absence.begin();
        assert!(left(&absence) > Some(Duration::from_millis(900)), "one has served meanwhile");
    }

    #[test]
    fn the_time_stops_while_a_daemon_takes_over() {
        let mut absence = described(Some(1000));
        absence.begin();
        let left = |absence: &Absence| {
            absence.times.and_then(|times| times.refuses).map(Deadline::remaining).expect("a time")
        };
        let pause = || while_passes(Duration::from_millis(300));
        absence.set_approached(true);
        absence.set_approached(true);
        pause();
        assert!(left(&absence) > TAKEOVER_MAX, "it does not end while one is in sight");
        absence.set_approached(false);
        absence.set_approached(false);
        let stood = left(&absence);
        assert!(stood > Duration::from_millis(900) && stood <= Duration::from_millis(1000));
        // Time used by one such daemon is not available to the next one.
        absence.set_approached(true);
        let second = left(&absence);
        assert!(second < TAKEOVER_MAX + stood - Duration::from_millis(250), "{second:?}");
        // A daemon that takes it over, and ends without serving, changes nothing.
        absence.end();
        absence.begin();
        assert!(left(&absence) <= stood);
        pause();
        assert!(left(&absence) < stood - Duration::from_millis(250), "it goes on");
    }

    fn while_passes(time: Duration) {
        let deadline = Deadline::after(time);
        while deadline.pause() {}
    }

    #[test]
    fn the_time_begins_when_the_process_of_an_ending_daemon_has_ended() {
        let mut absence = described(Some(1));
        absence.leave();
        assert!(absence.is_owner_ending());
        assert!(absence.times.is_some_and(|times| times.refuses.is_none()));
        assert!(absence.waiting("/run/x", 7).is_some());
        absence.begin();
        assert!(!absence.is_owner_ending());
        assert!(absence.times.is_some_and(|times| times.refuses.is_some()));
    }

    #[test]
    fn parts_too_long_for_a_packet_are_left_out() {
        let again = "x".repeat(TEXT_CHARACTERS + 1);
        let outline = Some(Outline::default());
        let long = Description { again, outline, ..Description::default() };
        let short = long.shortened(2, 1);
        assert_eq!((short.again.as_str(), short.outline), ("", None));
    }
}
