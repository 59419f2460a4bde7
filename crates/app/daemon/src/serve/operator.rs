//! The daemon's side of the control socket: tasks of its lane.
//!
//! There are at most 32 connections. A further one closes the one that has waited longest for its
//! client, so that many of them cannot lock an operator out. A connection is closed after 5 s with
//! half a request or an unread answer, and after 5 min of silence. Its client then connects again.

use super::connections::{Connection, Connections, Limits, Phase};
use super::record::VolumeRecording;
use super::stats;
use super::volume_service::VolumeService;
use super::volume_services::VolumeServices;
use crate::control::recorded::RecordedPage;
use crate::control::words::{Answer, Ask, LINE_BYTES_MAX, RecordAt, UNKNOWN_ASK};
use block::{Memory, Part};
use host::File;
use ring::Ring;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use stack::{Exit, Failure};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Connections of operators.
const LIMITS: Limits =
    Limits { connections: 32, quiet_ns: 300_000_000_000, stalled_ns: 5_000_000_000 };
/// Bytes received at a time.
const PIECE_BYTES: usize = 4096;

/// The control socket of a daemon.
pub(crate) struct Control {
    ring: Ring,
    services: Rc<VolumeServices>,
    connections: Rc<Connections>,
}

impl Control {
    /// Starts to listen, until the listener is shut down.
    pub(crate) fn open(ring: &Ring, services: &Rc<VolumeServices>, listener: File) {
        let (connections, ring) = (Connections::new(ring, LIMITS), ring.clone());
        let control = Rc::new(Control { ring, services: services.clone(), connections });
        let lane = control.ring.lane().clone();
        let accepting = async move {
            control.connections.accept(&listener, |socket| control.serve(socket)).await;
        };
        lane.spawn(accepting).expect("a fresh lane has room");
    }

    fn serve(self: &Rc<Self>, socket: File) {
        // The mode of the directory excludes other users; this check still does if the directory
        // was opened to them.
        let user = rustix::process::geteuid().as_raw();
        let is_permitted =
            ring::peer(&socket).is_ok_and(|peer| peer.user == user || peer.user == 0);
        if !is_permitted {
            return;
        }
        let control = self.clone();
        self.connections.serve(socket, |connection| async move {
            control.serve_requests(&connection).await;
        });
    }

    async fn serve_requests(&self, connection: &Connection) {
        let (socket, lane) = (&connection.socket, self.ring.lane());
        let memory = Arc::new(Memory::heap(PIECE_BYTES));
        let mut line = Vec::new();
        loop {
            while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                let rest = line.split_off(end + 1);
                let request = std::mem::replace(&mut line, rest);
                connection.enter(Phase::Working, lane.now());
                if self.reply(connection, &request[..end]).await.is_err() {
                    return;
                }
            }
            // The rest of a line has one time limit, however many pieces it arrives in.
            match (line.is_empty(), connection.phase()) {
                (false, Phase::Receiving) => {}
                (false, _) => connection.enter(Phase::Receiving, lane.now()),
                (true, _) => connection.enter(Phase::Quiet, lane.now()),
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

    async fn reply(&self, connection: &Connection, request: &[u8]) -> block::Result {
        let ask = serde_json::from_slice(request);
        let checked = check_observer(&connection.observed.borrow(), &ask);
        if let Err(failure) = checked {
            return self.send(connection, &answer_of(Err(failure))).await;
        }
        if let Ok(Ask::Observe { volume }) = &ask {
            let observed = self.service(volume).map(|service| {
                connection.observed.replace(service.name.clone());
                serde_json::Value::Null
            });
            return self.send(connection, &answer_of(observed)).await;
        }
        if let Ok(Ask::Memory { volume }) = &ask {
            return self.reply_memory(connection, volume).await;
        }
        if let Ok(Ask::Record { volume, at }) = &ask {
            let begun = self.record(connection, volume, at).await;
            return self
                .send(connection, &answer_of(begun.map(|()| serde_json::Value::Null)))
                .await;
        }
        if let Ok(ask @ (Ask::Read { .. } | Ask::HeldBlocks { .. } | Ask::Recorded)) = ask {
            return self.reply_bytes(connection, ask).await;
        }
        let result = match ask {
            Ok(ask) => self.answer(ask).await,
            Err(error) => {
                Err(Failure::new(Exit::Usage, format!("{UNKNOWN_ASK} ({error}); is it older?")))
            }
        };
        self.send(connection, &answer_of(result)).await
    }

    async fn answer(&self, ask: Ask) -> Result<serde_json::Value, Failure> {
        crate::detail!("overdrive: an operator's request: {}", serde_json::json!(ask));
        let done = |()| serde_json::Value::Null;
        match ask {
            Ask::List => Ok(self.services.rows()),
            Ask::Show { volume } => {
                let service = self.service(&volume)?;
                Ok(self.services.show(&service))
            }
            Ask::Stats { volume } => Ok(serde_json::json!(stats::of(&*self.service(&volume)?))),
            Ask::Flush { volume } => {
                let service = self.service(&volume)?;
                service.flush().await.map(|()| serde_json::json!(service.losses()))
            }
            Ask::Pause { volume } => self.service(&volume)?.pause().await.map(done),
            Ask::Freeze { volume } => {
                let service = self.service(&volume)?;
                service.freeze().await.map(|()| serde_json::json!(service.losses()))
            }
            Ask::Resume { volume } => self.service(&volume)?.resume().map(done),
            Ask::Set { volume, changes } => {
                let notes = self.services.set(&volume, &changes).await?;
                Ok(notes.into())
            }
            Ask::ClearError { volume, discard_dirty, failure, saved_to } => {
                self.service(&volume)?.clear_error(discard_dirty, failure, saved_to).await
            }
            Ask::PowerCut { volume, seed, off_ns } => {
                self.service(&volume)?.power_cut(seed, off_ns).await
            }
            Ask::Detach { volume, force } => {
                let losses = self.services.detach(&volume, force).await;
                losses.map(|losses| serde_json::json!(losses))
            }
            Ask::Version => Ok(env!("CARGO_PKG_VERSION").into()),
            Ask::Forget { volume } => Ok(self.service(&volume)?.forget_list().await?.into()),
            Ask::Upgrade => self.services.upgrade().await.map(done),
            Ask::Upgraded => crate::former::check_upgraded().map(done),
            Ask::Memory { .. }
            | Ask::Observe { .. }
            | Ask::Record { .. }
            | Ask::Recorded
            | Ask::Read { .. }
            | Ask::HeldBlocks { .. } => {
                unreachable!("they have separate answers")
            }
        }
    }

    fn service(&self, name: &str) -> Result<Rc<VolumeService>, Failure> {
        self.services.find(name)
    }

    /// Begins a recording for this connection, instead of its former one.
    async fn record(
        &self,
        connection: &Connection,
        volume: &str,
        at: &[RecordAt],
    ) -> Result<(), Failure> {
        drop(connection.recording.take());
        let (service, recorders) = (self.service(volume)?, &self.services.recorders);
        let begun = VolumeRecording::begin(&service, at, recorders).await?;
        connection.recording.replace(Some(begun));
        Ok(())
    }

    /// Returns the next requests that this connection has recorded.
    ///
    /// # Errors
    /// Usage: it records nothing. Negative: all are fetched, and the volume is not served any more.
    fn recorded(&self, connection: &Connection) -> Result<RecordedPage, Failure> {
        let mut recording = connection.recording.borrow_mut();
        let Some(recording) = &mut *recording else {
            return Err(Failure::new(Exit::Usage, "this connection records no volume"));
        };
        let page = recording.page();
        if page.events.is_empty() && page.dropped == 0 {
            self.service(&recording.volume)?;
        }
        Ok(page)
    }

    async fn send(&self, connection: &Connection, answer: &Answer) -> block::Result {
        connection.enter(Phase::Sending, self.ring.lane().now());
        self.ring.send(&connection.socket, &[part_of(&line_of(answer))]).await
    }

    /// Answers with bytes, behind the line that has their number.
    async fn reply_bytes(&self, connection: &Connection, ask: Ask) -> block::Result {
        let bytes = match ask {
            Ask::Read { volume, first_byte, bytes } => match self.service(&volume) {
                Ok(service) => {
                    let read = service.observe(first_byte, bytes).await;
                    if read.is_ok() && *connection.observed.borrow() == volume {
                        service.note_observed();
                    }
                    read
                }
                Err(failure) => Err(failure),
            },
            Ask::HeldBlocks { volume, from } => match self.service(&volume) {
                Ok(service) => service.held_blocks(from).await,
                Err(failure) => Err(failure),
            },
            Ask::Recorded => self.recorded(connection).map(|page| part_of(&page.encode())),
            _ => unreachable!("it has another answer"),
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(failure) => return self.send(connection, &answer_of(Err(failure))).await,
        };
        self.send(connection, &answer_of(Ok(bytes.length.into()))).await?;
        self.ring.send(&connection.socket, &[bytes]).await
    }

    async fn reply_memory(&self, connection: &Connection, volume: &str) -> block::Result {
        let service = match self.service(volume) {
            Ok(service) => service,
            Err(failure) => return self.send(connection, &answer_of(Err(failure))).await,
        };
        let failed = service.shared().filter(|shared| shared.has_failed());
        let (Some(memory), Some(shared)) = (service.volume.memory(), failed) else {
            let message =
                format!("{volume}: has not failed; its memory still changes and cannot be copied");
            let failure = Failure::new(Exit::Negative, message);
            return self.send(connection, &answer_of(Err(failure))).await;
        };
        let failure = shared.times_cleared();
        // One small packet into an empty socket: this does not block.
        let _ = send_descriptor(connection.socket.as_fd(), memory.file(), failure);
        Ok(())
    }
}

/// Checks a request of a connection that is limited to this volume; empty: it is not limited.
///
/// # Errors
/// Permission: the request is no read of the volume.
fn check_observer<E>(observed: &str, ask: &Result<Ask, E>) -> Result<(), Failure> {
    match ask {
        _ if observed.is_empty() => Ok(()),
        Ok(Ask::Read { volume, .. }) if volume == observed => Ok(()),
        _ => {
            let message = format!("this connection reads {observed}, and does nothing else");
            Err(Failure::new(Exit::Permission, message))
        }
    }
}

fn answer_of(result: Result<serde_json::Value, Failure>) -> Answer {
    match result {
        Ok(value) => Answer::Done { value },
        Err(failure) => Answer::Refused { exit: failure.exit as u8, message: failure.message },
    }
}

/// Returns a copy of these bytes in memory that can be sent.
fn part_of(bytes: &[u8]) -> Part {
    let memory = Arc::new(Memory::heap(bytes.len()));
    memory.write(0, bytes);
    Part { memory, offset: 0, length: bytes.len() }
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
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&text)], &mut ancillary, flags).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_connection_reads_its_volume_and_does_nothing_else() {
        let read = |volume: &str| Ask::Read { volume: volume.into(), first_byte: 0, bytes: 512 };
        let check = |observed: &str, ask| check_observer::<()>(observed, &Ok(ask)).is_ok();
        assert!(check("db", read("db")));
        let record = Ask::Record { volume: "db".into(), at: vec![RecordAt::Above] };
        let observe = Ask::Observe { volume: "db".into() };
        let others = [read("mail"), Ask::List, Ask::Upgrade, observe, record, Ask::Recorded];
        for ask in others {
            assert!(check("", ask.clone()), "a connection without a limit");
            assert!(!check("db", ask.clone()), "{ask:?}");
        }
        assert!(check_observer("db", &Err::<Ask, ()>(())).is_err());
    }
}
