//! The daemon's side of the control socket: tasks of its lane.

use super::words::{Answer, Ask, LINE_BYTES_MAX};
use crate::serve::{Site, Sites, statistics};
use block::{Kind, Memory, Part};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use stack::{Exit, Failure};
use std::cell::Cell;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use uring::{File, Ring};

/// Operators at a time.
const CONNECTIONS_MAX: usize = 32;
/// Bytes received at a time.
const PIECE_BYTES: usize = 4096;
/// After accepting has failed, in nanoseconds.
const PAUSE_NS: u64 = 200_000_000;

/// The control socket of a daemon.
pub(crate) struct Control {
    ring: Ring,
    sites: Rc<Sites>,
    open: Cell<usize>,
}

impl Control {
    /// Begins to listen, until the listener is shut down.
    pub(crate) fn open(ring: &Ring, sites: &Rc<Sites>, listener: File) {
        let (ring, sites) = (ring.clone(), sites.clone());
        let control = Rc::new(Control { ring, sites, open: Cell::new(0) });
        let lane = control.ring.lane().clone();
        let accepting = async move { control.accept(&listener).await };
        lane.spawn(accepting).expect("a fresh lane has room");
    }

    async fn accept(self: &Rc<Self>, listener: &File) {
        let lane = self.ring.lane();
        loop {
            match self.ring.accept(listener).await {
                Ok(socket) if self.open.get() < CONNECTIONS_MAX => self.serve(Arc::new(socket)),
                Ok(_) => {}
                Err(error) if error.kind == Kind::Stopping => return,
                Err(_) => lane.sleep_until(lane.now() + PAUSE_NS).await,
            }
        }
    }

    fn serve(self: &Rc<Self>, socket: File) {
        // The directory keeps others out; this does where it was opened to them.
        let user = rustix::process::geteuid().as_raw();
        let known = uring::peer(&socket).is_ok_and(|peer| peer.user == user || peer.user == 0);
        if !known {
            return;
        }
        self.open.set(self.open.get() + 1);
        let control = self.clone();
        let talk = async move {
            control.talk(&socket).await;
            control.open.set(control.open.get() - 1);
        };
        if self.ring.lane().spawn(talk).is_err() {
            self.open.set(self.open.get() - 1);
        }
    }

    async fn talk(&self, socket: &File) {
        let memory = Arc::new(Memory::heap(PIECE_BYTES));
        let mut line = Vec::new();
        loop {
            while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                let rest = line.split_off(end + 1);
                let asked = std::mem::replace(&mut line, rest);
                if self.reply(socket, &asked[..end]).await.is_err() {
                    return;
                }
            }
            let received = self.ring.receive(socket, &memory, 0, PIECE_BYTES).await;
            let Ok(bytes @ 1..) = received else { return };
            let before = line.len();
            line.resize(before + bytes, 0);
            memory.read(0, &mut line[before..]);
            if line.len() > LINE_BYTES_MAX {
                return;
            }
        }
    }

    async fn reply(&self, socket: &File, asked: &[u8]) -> block::Result {
        let ask = serde_json::from_slice(asked);
        if let Ok(Ask::Memory { volume }) = &ask {
            return self.reply_memory(socket, volume).await;
        }
        let result = match ask {
            Ok(ask) => self.answer(ask).await,
            Err(error) => Err(Failure::new(
                Exit::Usage,
                format!("this daemon does not know what it is asked ({error}); is it older?"),
            )),
        };
        self.send(socket, &answer_of(result)).await
    }

    async fn answer(&self, ask: Ask) -> Result<serde_json::Value, Failure> {
        let done = |()| serde_json::Value::Null;
        match ask {
            Ask::List => Ok(self.sites.rows()),
            Ask::Show { volume } => {
                let site = self.site(&volume)?;
                Ok(site.show(&self.sites.row(&site), self.sites.lanes.threads()))
            }
            Ask::Stats { volume } => Ok(serde_json::json!(statistics(&*self.site(&volume)?))),
            Ask::Flush { volume } => self.site(&volume)?.flush().await.map(done),
            Ask::Pause { volume } => self.site(&volume)?.pause().await.map(done),
            Ask::Freeze { volume } => self.site(&volume)?.freeze().await.map(done),
            Ask::Resume { volume } => self.site(&volume)?.resume().map(done),
            Ask::Set { volume, changes } => {
                let notes = self.sites.set(&volume, &changes).await?;
                Ok(notes.into())
            }
            Ask::ClearError { volume, discard_dirty, failure, saved_to } => {
                self.site(&volume)?.clear_error(discard_dirty, failure, saved_to).await
            }
            Ask::PowerCut { volume, seed, off_ns } => {
                self.site(&volume)?.power_cut(seed, off_ns).await
            }
            Ask::Detach { volume } => {
                self.sites.detach(&volume).await.map(|losses| serde_json::json!(losses))
            }
            Ask::Upgrade => self.sites.upgrade().map(done),
            Ask::Memory { .. } => unreachable!("it has an answer of its own"),
        }
    }

    fn site(&self, name: &str) -> Result<Rc<Site>, Failure> {
        self.sites.find(name)
    }

    async fn send(&self, socket: &File, answer: &Answer) -> block::Result {
        let text = line_of(answer);
        let memory = Arc::new(Memory::heap(text.len()));
        memory.write(0, &text);
        self.ring.send(socket, &[Part { memory, offset: 0, length: text.len() }]).await
    }

    async fn reply_memory(&self, socket: &File, volume: &str) -> block::Result {
        let site = match self.site(volume) {
            Ok(site) => site,
            Err(failure) => return self.send(socket, &answer_of(Err(failure))).await,
        };
        let failed = site.shared().filter(|shared| shared.has_failed());
        let (Some(memory), Some(shared)) = (site.volume.memory(), failed) else {
            let message = format!("{volume}: has not failed; its memory changes, do not copy it");
            return self.send(socket, &answer_of(Err(Failure::new(Exit::Negative, message)))).await;
        };
        let failure = shared.times_cleared();
        // One small packet into an empty socket: this does not wait.
        let _ = send_descriptor(socket.as_fd(), memory.file(), failure);
        Ok(())
    }
}

fn answer_of(result: Result<serde_json::Value, Failure>) -> Answer {
    match result {
        Ok(value) => Answer::Done { value },
        Err(failure) => Answer::Refused { exit: failure.exit as u8, message: failure.message },
    }
}

fn line_of(answer: &Answer) -> Vec<u8> {
    let mut text = serde_json::to_vec(answer).expect("plain data");
    text.push(b'\n');
    text
}

fn send_descriptor(
    socket: BorrowedFd<'_>,
    descriptor: BorrowedFd<'_>,
    failure: u64,
) -> rustix::io::Result<()> {
    let text = line_of(&Answer::Done { value: failure.into() });
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&text)], &mut beside, flags).map(|_| ())
}
