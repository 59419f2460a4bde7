//! The main loop of a holder: one thread and one poll, which never waits for a connection.

use crate::absence::Absence;
use crate::connections::{Connections, Sent};
use crate::deadline::{Deadline, run_within};
use crate::directory::{self, HolderSocket};
use crate::image;
use crate::image_watch::ImageWatch;
use crate::key;
use crate::packet::{self, DESCRIPTORS, PACKET_BYTES, Received};
use crate::pid::own_pid;
use crate::record::{self, Records};
use crate::retained::{BACKING_MAX, RetainedVolume};
use crate::survey::{self, Contents, Survey};
use crate::warn::warn;
use crate::wire::{Answer, Ask, Status, encode};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Size of a signalfd_siginfo(2); the signal's number comes first.
const SIGNAL_BYTES: usize = 128;
/// Longest time that closing the backing may take.
const CLOSING: Duration = Duration::from_secs(2);
/// Time without an owner before this is reported: a restart or an upgrade of the owner is shorter,
/// and is not reported.
const REPORT_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of connections accepted per round, so that many clients cannot stop the loop.
const ADMITTED_MAX: usize = 8;

/// Whether the holder stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Life {
    Stays,
    /// Nothing is left to retain.
    Ends,
}

use Life::{Ends, Stays};

/// Descriptors sent with an answer.
#[derive(Clone, Copy)]
enum Attachment {
    Nothing,
    Memory,
    /// The memory and the backing, for the next owner.
    Both,
}

/// One volume's holder.
pub(crate) struct Holder<'a> {
    pub(crate) retained: RetainedVolume,
    pub(crate) arena: OwnedFd,
    pub(crate) backing: Vec<OwnedFd>,
    pub(crate) listener: HolderSocket,
    pub(crate) signals: host::File,
    pub(crate) connections: Connections,
    pub(crate) survey: Survey<'a>,
    /// Interval at which an orphan checks whether its image still exists.
    pub(crate) look_every: Duration,
    /// See [`HolderOptions::clean_max`](crate::HolderOptions::clean_max).
    pub(crate) clean_max: Duration,
    pub(crate) since_unix_s: u64,
    /// Number of takeovers.
    pub(crate) takes: u64,
    /// For a mount: its time without a daemon.
    pub(crate) absence: Option<Absence>,
    /// When to report that there is no owner. None: it was reported, or there is one.
    pub(crate) report: Option<Deadline>,
    /// Whether other programs may have written to the image.
    pub(crate) watch: ImageWatch,
    /// End of the time for which only clean blocks are retained without an owner. None: there is an
    /// owner, or other data is retained.
    pub(crate) clean_end: Option<Deadline>,
}

/// Events that poll found.
struct Ready {
    signals: bool,
    has_clients: bool,
    /// Indices of connections that have data.
    readable: Vec<usize>,
    /// The kernel has messages for a mount without an owner, or the mount is unmounted.
    mount: bool,
}

impl Holder<'_> {
    /// Runs until nothing is left to retain.
    pub(crate) fn live(&mut self) {
        let mut buffer = vec![0; PACKET_BYTES];
        let mut look = Deadline::after(self.look_every);
        loop {
            let ready = match self.poll(look) {
                Ok(ready) => ready,
                Err(Errno::INTR) => continue,
                // The kernel is out of memory. The retained data must not be lost because of that.
                Err(_) => {
                    pause_briefly();
                    continue;
                }
            };
            if self.handle_events(&ready, &mut buffer) == Ends || self.attend(&ready) == Ends {
                return;
            }
            if look.has_passed() {
                look = Deadline::after(self.look_every);
                if self.look() == Ends {
                    return;
                }
            }
        }
    }

    fn poll(&self, look: Deadline) -> Result<Ready, Errno> {
        let mut polled = Vec::with_capacity(2 + self.connections.len());
        polled.push(PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN));
        polled.push(PollFd::from_borrowed_fd(self.listener.socket(), PollFlags::IN));
        let sockets = self.connections.sockets();
        polled.extend(sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let end_of_connections = polled.len();
        if self.absence.as_ref().is_some_and(Absence::is_listening) {
            polled.push(PollFd::from_borrowed_fd(self.backing[0].as_fd(), PollFlags::IN));
        }
        // While there is an owner, nothing is due: the holder sleeps until a connection has data.
        let timeout = self.is_unserved().then(|| self.next(look).timeout());
        rustix::event::poll(&mut polled, timeout.as_ref())?;
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let readable = polled[..end_of_connections].iter().skip(2).enumerate();
        Ok(Ready {
            signals: is_ready(&polled[0]),
            has_clients: is_ready(&polled[1]),
            readable: readable.filter(|(_, fd)| is_ready(fd)).map(|(index, _)| index).collect(),
            mount: polled[end_of_connections..].iter().any(is_ready),
        })
    }

    /// Whether no daemon serves the volume: there is no owner, or one that is only ending.
    fn is_unserved(&self) -> bool {
        self.connections.owner().is_none()
            || self.absence.as_ref().is_some_and(Absence::is_owner_ending)
    }

    /// Returns the end of the time for which only clean blocks are retained, unless a daemon is
    /// about to take them over: one of many volumes opens them in turn, which may take longer.
    fn clean_end(&self) -> Option<Deadline> {
        self.clean_end.filter(|_| !self.connections.is_approached())
    }

    /// Returns the next moment at which a holder without an owner has work.
    fn next(&self, look: Deadline) -> Deadline {
        let absence = self.absence.as_ref().and_then(Absence::next);
        let others = [self.report, absence, self.watch.next(), self.clean_end()];
        let moments = others.into_iter().chain([Some(look)]).flatten();
        moments.min_by_key(|moment| moment.remaining()).unwrap_or(look)
    }

    /// Answers requests to a mount without an owner, and prints reports that are due.
    fn attend(&mut self, ready: &Ready) -> Life {
        // An owner that has just connected reads the messages itself.
        if !self.is_unserved() {
            return Stays;
        }
        if let Some(absence) = &mut self.absence {
            absence.set_approached(self.connections.is_approached());
            let device = self.backing[0].as_fd();
            if absence.advance(device) {
                warn(&refusing_message(&self.retained, absence));
            }
            if ready.mount && absence.attend(device).is_err() {
                return Ends;
            }
        }
        self.watch.advance(self.arena.as_fd(), self.backing[0].as_fd());
        if self.clean_end().is_some_and(Deadline::has_passed) {
            return Ends;
        }
        if self.report.is_some_and(Deadline::has_passed) {
            self.report = None;
            warn(&orphan_message(&self.retained, &self.contents(), self.absence.as_ref()));
        }
        Stays
    }

    /// Handles one packet of every connection that has data, then new connections, then signals.
    fn handle_events(&mut self, ready: &Ready, buffer: &mut [u8]) -> Life {
        // From last to first, because closing a connection moves only those after it.
        for &index in ready.readable.iter().rev() {
            if self.handle_packet(index, buffer) == Ends {
                return Ends;
            }
        }
        if ready.has_clients {
            self.accept_connections();
        }
        if ready.signals { self.handle_signal() } else { Stays }
    }

    fn accept_connections(&mut self) {
        for _ in 0..ADMITTED_MAX {
            match self.listener.accept() {
                Ok(socket) if directory::is_trusted(&socket) => self.connections.add(socket),
                // Another user, or a connection that was closed again.
                Ok(_) | Err(Errno::CONNABORTED | Errno::INTR) => (),
                Err(Errno::AGAIN) => return,
                // The system lacks some resource; connections that wait to be accepted stay queued.
                Err(_) => return pause_briefly(),
            }
        }
    }

    fn handle_packet(&mut self, index: usize, buffer: &mut [u8]) -> Life {
        let socket = &self.connections.get(index).socket;
        match packet::receive(socket, buffer) {
            Err(Errno::AGAIN | Errno::INTR) => Stays,
            Ok(Received::Closed) | Err(_) => self.end(index),
            Ok(Received::TooLong) => {
                let most = format!(
                    "a packet has at most {PACKET_BYTES} bytes and {DESCRIPTORS} descriptors"
                );
                self.refuse(index, most)
            }
            // Descriptors that come with any other request are not used: they are closed here.
            Ok(Received::Packet(bytes, descriptors)) => {
                self.connections.mark_active(index);
                match serde_json::from_slice(&buffer[..bytes]) {
                    Ok(Ask::Exchange) => self.exchange(index, descriptors),
                    Ok(ask) => self.answer(index, ask),
                    Err(error) => self.refuse(index, format!("unknown request: {error}")),
                }
            }
        }
    }

    fn answer(&mut self, index: usize, ask: Ask) -> Life {
        let is_owner = self.connections.get(index).is_owner;
        match ask {
            Ask::Status => {
                let status = Answer::Status(self.status());
                self.send(index, &status, Attachment::Nothing)
            }
            Ask::Look => {
                let retained = self.retained.clone();
                self.send(index, &Answer::Retained { retained, image: None }, Attachment::Memory)
            }
            Ask::Take { pid } => self.take(index, pid),
            Ask::Waiting => {
                let absence = self.absence.as_ref();
                let waiting = absence.and_then(|it| it.waiting(&self.retained.backing, own_pid()));
                self.send(index, &Answer::Waits { waiting }, Attachment::Nothing)
            }
            Ask::Describe(description) if is_owner => match &mut self.absence {
                Some(absence) => {
                    absence.describe(description);
                    self.send(index, &Answer::Accepted, Attachment::Nothing)
                }
                None => self.refuse(index, "this holder has no mount".to_owned()),
            },
            Ask::Approach => {
                self.connections.approach(index);
                self.send(index, &Answer::Accepted, Attachment::Nothing)
            }
            Ask::Leave if is_owner => {
                self.absence.iter_mut().for_each(Absence::leave);
                self.send(index, &Answer::Accepted, Attachment::Nothing)
            }
            Ask::Leave => self.refuse(index, "only the owner can leave it".to_owned()),
            Ask::Describe(_) => self.refuse(index, "only the owner can describe it".to_owned()),
            Ask::Watch if is_owner => {
                let answer = match self.watch.begin(self.backing[0].as_fd(), &self.retained.key) {
                    true => Answer::Accepted,
                    false => Answer::Opened,
                };
                self.send(index, &answer, Attachment::Nothing)
            }
            Ask::Watch => self.refuse(index, "only the owner can have it watched".to_owned()),
            Ask::Release if is_owner => Ends,
            Ask::Release => self.refuse(index, "only the owner can release".to_owned()),
            Ask::Discard { takes } => match self.owner_pid() {
                Some(pid) => self.send(index, &Answer::Busy { pid }, Attachment::Nothing),
                None if takes.is_some_and(|takes| takes != self.takes) => {
                    let changed = "it was served since, and may hold other data";
                    self.refuse(index, changed.to_owned())
                }
                None => self.give_up("an operator requested it"),
            },
            Ask::Keep { .. } => self.refuse(index, "this holder already has a volume".to_owned()),
            Ask::Exchange => unreachable!("it is handled with its descriptors"),
        }
    }

    /// Retains other descriptors of the backing, for its owner.
    fn exchange(&mut self, index: usize, backing: Vec<OwnedFd>) -> Life {
        if !self.connections.get(index).is_owner || self.absence.is_some() {
            return self.refuse(index, "only the owner of a volume can exchange these".to_owned());
        }
        if backing.is_empty() || backing.len() > BACKING_MAX {
            let most = format!("a backing has at least one descriptor and at most {BACKING_MAX}");
            return self.refuse(index, most);
        }
        self.backing = backing;
        self.send(index, &Answer::Accepted, Attachment::Nothing)
    }

    fn take(&mut self, index: usize, pid: i32) -> Life {
        // The client may have given up, for example while this process was stopped.
        if is_closed(&self.connections.get(index).socket) {
            return self.end(index);
        }
        // The owner may repeat the request: after an exec, the new program has only the connection.
        if let Some(pid) = self.owner_pid()
            && !self.connections.get(index).is_owner
        {
            return self.send(index, &Answer::Busy { pid }, Attachment::Nothing);
        }
        self.connections.set_owner(index, pid);
        self.takes += 1;
        self.report = None;
        if let Some(absence) = &mut self.absence {
            absence.end();
        }
        self.clean_end = None;
        let image = self.watch.end(self.arena.as_fd(), self.backing[0].as_fd());
        let retained = self.retained.clone();
        self.send(index, &Answer::Retained { retained, image }, Attachment::Both)
    }

    /// Returns the owner's process. None: there is no owner, or it has closed its connection.
    fn owner_pid(&self) -> Option<i32> {
        let owner = self.connections.owner()?;
        (!is_closed(&owner.socket)).then_some(owner.pid)
    }

    fn send(&mut self, index: usize, answer: &Answer, attachment: Attachment) -> Life {
        let backing = self.backing.iter().map(OwnedFd::as_fd);
        let both: Vec<_> = std::iter::once(self.arena.as_fd()).chain(backing).collect();
        let descriptors: &[BorrowedFd<'_>] = match attachment {
            Attachment::Nothing => &[],
            Attachment::Memory => &both[..1],
            Attachment::Both => &both,
        };
        match self.connections.send(index, &encode(answer), descriptors) {
            Sent::No { owner_lost: true } => self.orphaned(),
            Sent::Yes | Sent::No { owner_lost: false } => Stays,
        }
    }

    fn refuse(&mut self, index: usize, message: String) -> Life {
        self.send(index, &Answer::Error { message }, Attachment::Nothing)
    }

    fn end(&mut self, index: usize) -> Life {
        if self.connections.end(index) { self.orphaned() } else { Stays }
    }

    /// Returns the state of the memory or the mount.
    fn contents(&self) -> io::Result<Contents> {
        match key::is_mount(&self.retained.key) {
            true => Ok(survey::of_mount(self.backing[0].as_fd())),
            false => (self.survey)(self.arena.as_fd()),
        }
    }

    /// Handles the end of the owner without a release.
    fn orphaned(&mut self) -> Life {
        // First, because each moment until then may hide another program's write.
        self.watch.lose_owner(self.arena.as_fd(), self.backing[0].as_fd());
        let contents = self.contents();
        if let Ok(contents) = &contents
            && !contents.is_worth_keeping()
        {
            self.record_nothing_missing();
            self.watch.owner_was_quiet(self.backing[0].as_fd());
            let has_clean = contents.clean_blocks > 0 && self.watch.is_on();
            // The next daemon reads answers from the connections to a server, and so needs not wait
            // for changes that are under way.
            let has_connections = self.backing.len() > 1;
            if !has_clean && !has_connections {
                return Ends;
            }
            self.clean_end = Some(Deadline::after(self.clean_max));
            return Stays;
        }
        self.report = Some(Deadline::after(REPORT_AFTER));
        if let Some(absence) = &mut self.absence {
            absence.begin();
        }
        Stays
    }

    /// Records for the next process that no data is lost with this memory.
    fn record_nothing_missing(&self) {
        if !self.retained.is_recorded {
            return;
        }
        let records = Records::of(self.listener.runtime());
        let result = record::memory_identity(&self.arena)
            .and_then(|memory| records.clear_memory(&self.retained.key, &memory));
        if let Err(error) = result {
            warn(&format!(
                "{}: its record cannot be changed ({error}); a device that waits for it must be \
                 detached",
                self.retained.volume
            ));
        }
    }

    fn status(&self) -> Status {
        let contents = self.contents();
        let unknown = contents.as_ref().err().map(|error| shortened(error.to_string()));
        let Contents { dirty_blocks, ranges, failed, size_bytes, .. } =
            contents.unwrap_or_default();
        let RetainedVolume { volume, backing, key, .. } = self.retained.clone();
        let blocks = rustix::fs::fstat(&self.arena).map_or(0, |found| found.st_blocks);
        Status {
            volume,
            backing,
            key,
            owner_pid: self.owner_pid(),
            holder_pid: own_pid(),
            dirty_blocks,
            ranges,
            failed,
            unknown,
            held_bytes: blocks as u64 * 512,
            since_unix_s: self.since_unix_s,
            takes: self.takes,
            size_bytes,
            has_only_clean: self.clean_end.is_some(),
            path: image::path(&self.backing[0]),
        }
    }

    /// Ends although data may be lost, and reports that.
    fn give_up(&self, why: &str) -> Life {
        let RetainedVolume { volume, backing, .. } = &self.retained;
        warn(&format!("the retained data of volume {volume} ({backing}) is discarded: {why}"));
        Ends
    }

    /// Checks that the orphan can be found, and that its image still exists.
    fn look(&mut self) -> Life {
        if self.connections.owner().is_some() {
            return Stays;
        }
        // A holder whose socket is gone could not be taken over, so it binds again. If this fails,
        // the next check tries again.
        if !self.listener.is_reachable()
            && let Ok(listener) = self.listener.rebind()
        {
            self.listener = listener;
        }
        if key::is_mount(&self.retained.key) {
            return if self.contents().is_ok_and(|contents| contents.mounted) {
                Stays
            } else {
                Ends
            };
        }
        match image::is_deleted(&self.backing[0], &self.retained.key) {
            true => self.give_up("the image was deleted"),
            false => Stays,
        }
    }

    /// Handles a signal. Only SIGTERM ends the holder, and only if no data is lost by that.
    fn handle_signal(&self) -> Life {
        let mut buffer = [0; SIGNAL_BYTES];
        let Ok(SIGNAL_BYTES) = rustix::io::read(&*self.signals, &mut buffer) else {
            return Stays;
        };
        let number = i32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
        let is_term = number == rustix::process::Signal::TERM.as_raw();
        if !is_term || self.connections.owner().is_some() {
            return Stays;
        }
        match self.contents() {
            Ok(contents) if !contents.is_dirty() => {
                if !contents.is_worth_keeping() {
                    self.record_nothing_missing();
                }
                Ends
            }
            _ => Stays,
        }
    }

    /// Drops the memory and the backing, which frees the lock, then sends `done` to all
    /// connections. (If the backing's file system does not answer, closing takes longer, and the
    /// lock stays until then.)
    pub(crate) fn leave(self) {
        let Holder { arena, backing, listener, connections, .. } = self;
        drop((arena, listener));
        run_within(CLOSING, move || drop(backing));
        let done = encode(&Answer::Done);
        for socket in connections.sockets() {
            let _ = packet::send(socket, &done, &[]);
        }
    }
}

/// Whether the other end is closed, even if no poll has reported it yet.
fn is_closed(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let found = rustix::event::poll(&mut polled, Some(&now));
    found.is_ok() && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Waits a little while the system lacks resources.
fn pause_briefly() {
    Deadline::after(Duration::from_millis(100)).pause();
}

fn shortened(text: String) -> String {
    text.chars().take(200).collect()
}

/// Returns how messages name a mount: a device of ours, or files.
fn mount_words(retained: &RetainedVolume) -> String {
    let path = Path::new(&retained.backing);
    let names = (path.file_name(), path.parent().and_then(Path::file_name));
    match names {
        (Some(name), Some(above)) if above == "devices" => {
            format!("the device {}", name.display())
        }
        _ => format!("the files in {}", retained.backing),
    }
}

fn refusing_message(retained: &RetainedVolume, absence: &Absence) -> String {
    format!(
        "{} had no daemon for {} s: requests fail from now on; {}",
        mount_words(retained),
        absence.wait_ms().unwrap_or_default() / 1000,
        absence.advice()
    )
}

fn orphan_message(
    retained: &RetainedVolume,
    contents: &io::Result<Contents>,
    absence: Option<&Absence>,
) -> String {
    let RetainedVolume { volume, backing, .. } = retained;
    if let Some(absence) = absence {
        let until = match absence.wait_ms() {
            Some(wait_ms) => format!("for {} s, then fail", wait_ms / 1000),
            None => "for the next one".to_owned(),
        };
        return format!(
            "the daemon of {} has ended while it is in use: requests wait {until}; {}",
            mount_words(retained),
            absence.advice()
        );
    }
    let what = match contents {
        Ok(contents) => {
            let failed = if contents.failed { ", the volume has failed" } else { "" };
            format!(
                "{} dirty blocks and {} zeroed ranges are retained{failed}",
                contents.dirty_blocks, contents.ranges
            )
        }
        Err(error) => format!("its memory is retained, but cannot be examined ({error})"),
    };
    format!(
        "the daemon of volume {volume} ({backing}) has ended without releasing it: {what}; \
         continue with `overdrive serve {backing}`, or save the data with `overdrive volume \
         clear-error {volume} --rescue FILE`"
    )
}
