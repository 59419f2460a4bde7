//! The backing's process: a [`Lossy`] disk over NBD, which misbehaves on command as disks do at
//! their worst, and kills the daemon at exactly the given request.
//!
//! Commands come as lines on a socket, its standard input; each is answered by one line.
//!
//! Each line names a command, its effect, and the answer:
//!
//! - `arm PID KIND N WHEN`. At the Nth KIND (`write`, `flush`, `read`), `before`, `applied` or
//!   `answered`, the process is killed; PID 0: the power is cut there. `armed`; later `reached`.
//! - `arm PID flush N failing`. The process is killed in its Nth flush, which then fails and drops
//!   some writes. `armed`; later `reached`.
//! - `disarm`. No point is armed any more. `disarmed`.
//! - `cut SEED`. No request is answered any more; every unflushed unit keeps one version.
//!   `cut UNFLUSHED LOST GIVEN_UP`.
//! - `serve`. The surviving image is served; requests in progress have failed. `serving`.
//! - `fail write`, `fail flush`, `fail off`. EIO from now on, or no longer. `failing`.
//! - `dump PATH`. Writes the image as reads see it to a file. `dumped UNFLUSHED`.
//! - `load PATH`. Replaces the image by a file. `loaded`.

use crate::lossy::{Flushes, Lossy};
use block::{Block, Discard, Error, Fua, Kind, Limits, Memory, Request, Result, Stack};
use export::Export;
use host::File;
use lane::{Event, Lane, Random};
use nbd::{Exports, Options};
use ring::{Listener, Ring, Socket};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The request at which an action is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Arm {
    /// The process to kill; None: the power is cut.
    pid: Option<Pid>,
    kind: Doing,
    /// Number of such requests that are still to come.
    left: u64,
    when: When,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Read,
    Write,
    Flush,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// The request has arrived, and was not carried out.
    Before,
    /// The request was carried out, and not answered.
    Applied,
    /// The request was answered.
    Answered,
    /// A flush is in progress, and will fail.
    Failing,
}

/// State that the tasks of the process share.
struct State {
    lane: Lane,
    disk: RefCell<Lossy>,
    random: RefCell<Random>,
    /// Whether no request is answered: the power is cut.
    silent: Cell<bool>,
    /// Grows when the power comes back: requests that began before have failed.
    life: Cell<u64>,
    fail_writes: Cell<bool>,
    fail_flushes: Cell<bool>,
    changed: Event,
    arm: Cell<Option<Arm>>,
    reports: UnixStream,
}

const GONE: Error = Error::new(Kind::Io, "answer: the power was cut");
const FAILED: Error = Error::new(Kind::Io, "do it: an error was asked for");
/// Minimum time for a killed process to die before its flush fails, in microseconds.
const FAILS_AFTER_US: u64 = 2_000;

impl State {
    /// Waits while no request is answered.
    async fn alive(&self, life: u64) -> Result {
        loop {
            let seen = self.changed.seen();
            if self.life.get() != life {
                return Err(GONE);
            }
            if !self.silent.get() {
                return Ok(());
            }
            self.changed.after(seen).await;
        }
    }

    /// Waits as long as a disk takes: mostly not at all, sometimes long enough to outlive the
    /// daemon.
    async fn pause(&self, life: u64) -> Result {
        let us = {
            let mut random = self.random.borrow_mut();
            match random.below(1000) {
                0..600 => 0,
                600..950 => random.below(300),
                950..997 => random.below(3_000),
                _ => 10_000 + random.below(50_000),
            }
        };
        if us > 0 {
            self.lane.sleep_until(self.lane.now() + us * 1_000).await;
        }
        self.alive(life).await
    }

    /// Handles a request at a point; if it is the armed one, the action happens here. Returns
    /// whether it is.
    fn reached(self: &Rc<Self>, kind: Doing, when: When) -> bool {
        let Some(arm) = self.arm.get().filter(|arm| arm.kind == kind && arm.when == when) else {
            return false;
        };
        if arm.left > 1 {
            self.arm.set(Some(Arm { left: arm.left - 1, ..arm }));
            return false;
        }
        self.arm.set(None);
        if when == When::Answered {
            // The request is answered when this task has ended, so the kill happens a moment later.
            let state = self.clone();
            let strike = async move {
                state.lane.sleep_until(state.lane.now() + 100_000).await;
                state.strike(arm.pid);
            };
            if self.lane.spawn(strike).is_ok() {
                return true;
            }
        }
        self.strike(arm.pid);
        true
    }

    /// Fails the flush of a process that was killed, some time after the kill. Writes that were
    /// answered during the flush may be lost like those before it.
    async fn fail_late(&self, life: u64) -> Result {
        let until = self.disk.borrow_mut().begin_flush();
        let us = FAILS_AFTER_US + self.random.borrow_mut().below(20_000);
        self.lane.sleep_until(self.lane.now() + us * 1_000).await;
        self.alive(life).await?;
        self.disk.borrow_mut().fail_flush(until, &mut self.random.borrow_mut());
        Err(FAILED)
    }

    fn strike(&self, pid: Option<Pid>) {
        match pid {
            // The process may have ended by itself; the run that armed the point will detect that.
            Some(pid) => drop(kill_process(pid, Signal::KILL)),
            None => self.silent.set(true),
        }
        self.report("reached");
    }

    fn report(&self, words: &str) {
        // If the run does not read any more, it has ended, and so does this process.
        let _ = writeln!(&self.reports, "{words}");
    }
}

/// The disk as a block device.
struct Device {
    state: Rc<State>,
    limits: Limits,
}

impl Device {
    async fn change(&self, offset: u64, bytes: Vec<u8>, fua: bool) -> Result {
        let state = &self.state;
        let life = state.life.get();
        state.alive(life).await?;
        state.reached(Doing::Write, When::Before);
        state.pause(life).await?;
        if state.fail_writes.get() {
            return Err(FAILED);
        }
        let write = state.disk.borrow_mut().write(offset, &bytes);
        state.reached(Doing::Write, When::Applied);
        state.pause(life).await?;
        state.disk.borrow_mut().answered(write, offset, bytes.len());
        if fua {
            state.disk.borrow_mut().harden(offset, bytes.len());
        }
        state.reached(Doing::Write, When::Answered);
        Ok(())
    }

    async fn flush(&self) -> Result {
        let state = &self.state;
        let life = state.life.get();
        state.alive(life).await?;
        state.reached(Doing::Flush, When::Before);
        state.alive(life).await?;
        let begun = state.disk.borrow_mut().begin_flush();
        state.pause(life).await?;
        if state.reached(Doing::Flush, When::Failing) {
            return state.fail_late(life).await;
        }
        if state.fail_flushes.get() {
            return Err(FAILED);
        }
        state.disk.borrow_mut().end_flush(begun);
        state.reached(Doing::Flush, When::Applied);
        state.pause(life).await?;
        state.reached(Doing::Flush, When::Answered);
        Ok(())
    }

    async fn read(&self, offset: u64, into: &block::Buf) -> Result {
        let state = &self.state;
        let life = state.life.get();
        state.alive(life).await?;
        state.reached(Doing::Read, When::Before);
        state.pause(life).await?;
        let mut bytes = vec![0; into.bytes()];
        state.disk.borrow().read(offset, &mut bytes);
        into.write(&bytes);
        Ok(())
    }
}

impl Block for Device {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let offset = request.extent().map_or(0, |at| at.first * block::SECTOR);
        match request {
            Request::Read { into, .. } => self.read(offset, &into).await,
            Request::Write { from, fua, .. } => self.change(offset, from.to_vec(), fua).await,
            Request::Zero { at, fua, .. } => self.change(offset, zeros(at.count), fua).await,
            Request::Discard { at } => self.change(offset, zeros(at.count), false).await,
            Request::Flush => self.flush().await,
            Request::Advise { .. } => Ok(()),
        }
    }
}

fn zeros(sectors: u32) -> Vec<u8> {
    vec![0; sectors as usize * block::SECTOR as usize]
}

/// Parameters of the backing's process.
#[derive(Clone, Debug)]
pub struct DiskOptions<'a> {
    /// Its socket.
    pub socket: &'a Path,
    /// The disk's size, in bytes: a multiple of 4096.
    pub bytes: u64,
    /// Seed of its choices.
    pub seed: u64,
    /// How it handles a flush.
    pub flushes: Flushes,
}

/// Serves a disk until the process that gives the commands has ended; they arrive on a socket.
///
/// # Errors
/// If there is no io_uring, or the socket cannot be opened.
pub fn serve(options: &DiskOptions<'_>, commands: OwnedFd) -> io::Result<()> {
    let lane = Lane::new();
    let ring = Ring::new(&lane)?;
    let listener = Listener::bind(options.socket)?;
    let state = Rc::new(State {
        lane: lane.clone(),
        disk: RefCell::new(Lossy::new(options.bytes, options.flushes)),
        random: RefCell::new(Random::new(options.seed)),
        silent: Cell::new(false),
        life: Cell::new(0),
        fail_writes: Cell::new(false),
        fail_flushes: Cell::new(false),
        changed: Event::new(),
        arm: Cell::new(None),
        reports: UnixStream::from(commands.try_clone()?),
    });
    let limits = Limits {
        flush_needed: true,
        fua: Fua::Native,
        discard: Discard::Zeroes,
        ..Limits::plain(options.bytes / block::SECTOR, block::SECTOR as u32)
    };
    let device = Device { state: state.clone(), limits };
    let exports = Rc::new(Exports::new([Export::new("", Stack::new(&lane, device))]));
    let accepting = accept(ring.clone(), listener.file().clone(), exports);
    lane.spawn(accepting).map_err(|_| io::Error::other("a fresh lane has no room"))?;
    state.report("ready");
    let obeyed = ring.block_on(obey(ring.clone(), state, Arc::new(commands)));
    lane.abandon();
    obeyed
}

async fn accept(ring: Ring, listener: File, exports: Rc<Exports>) {
    while let Ok(socket) = ring.accept(&listener).await {
        let wire = Socket::new(&ring, Arc::new(socket));
        let (lane, exports) = (ring.lane().clone(), exports.clone());
        let served = async move {
            nbd::serve(lane, wire, exports, Options::default()).await;
        };
        if ring.lane().spawn(served).is_err() {
            return;
        }
    }
}

/// Executes the commands, one per line, until there are no more.
async fn obey(ring: Ring, state: Rc<State>, commands: File) {
    let memory = Arc::new(Memory::heap(4096));
    let mut text = Vec::new();
    loop {
        let Ok(received) = ring.receive(&commands, &memory, 0, memory.bytes()).await else {
            return;
        };
        if received == 0 {
            return;
        }
        let mut piece = vec![0; received];
        memory.read(0, &mut piece);
        text.extend_from_slice(&piece);
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            let answer = state.command(&line).unwrap_or_else(|| format!("not understood: {line}"));
            state.report(&answer);
        }
    }
}

impl State {
    fn command(&self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        Some(match words[..] {
            ["arm", pid, kind, left, when] => {
                self.arm.set(Some(arm(pid, kind, left, when)?));
                "armed".to_owned()
            }
            ["disarm"] => {
                self.arm.set(None);
                "disarmed".to_owned()
            }
            ["cut", seed] => self.cut(seed.parse().ok()?),
            ["serve"] => {
                self.life.set(self.life.get() + 1);
                self.set_silent(false);
                "serving".to_owned()
            }
            ["fail", what] => {
                self.fail_writes.set(what == "write");
                self.fail_flushes.set(what == "flush");
                "failing".to_owned()
            }
            ["dump", path] => {
                let disk = self.disk.borrow();
                std::fs::write(path, disk.image()).ok()?;
                format!("dumped {}", disk.unflushed())
            }
            ["load", path] => {
                self.disk.borrow_mut().replace(std::fs::read(path).ok()?);
                "loaded".to_owned()
            }
            _ => return None,
        })
    }

    fn cut(&self, seed: u64) -> String {
        self.set_silent(true);
        self.arm.set(None);
        let cut = self.disk.borrow_mut().cut(&mut Random::new(seed));
        format!("cut {} {} {}", cut.unflushed, cut.lost, cut.given_up)
    }

    fn set_silent(&self, silent: bool) {
        self.silent.set(silent);
        self.changed.notify();
    }
}

fn arm(pid: &str, kind: &str, left: &str, when: &str) -> Option<Arm> {
    Some(Arm {
        pid: Pid::from_raw(pid.parse().ok()?),
        kind: match kind {
            "read" => Doing::Read,
            "write" => Doing::Write,
            "flush" => Doing::Flush,
            _ => return None,
        },
        left: left.parse().ok()?,
        when: match when {
            "before" => When::Before,
            "applied" => When::Applied,
            "answered" => When::Answered,
            "failing" => When::Failing,
            _ => return None,
        },
    })
}
