//! Packets with descriptors, sent and received without ever waiting.

use crate::deadline::Deadline;
use crate::retained::BACKING_MAX;
use crate::wire::{Answer, Ask, encode};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Length of the longest packet, in bytes.
pub(crate) const PACKET_BYTES: usize = 32 << 10;
/// Maximum number of descriptors in a packet: an arena and a backing.
pub(crate) const DESCRIPTORS: usize = 1 + BACKING_MAX;

/// Result of receiving.
#[derive(Debug)]
pub(crate) enum Received {
    /// A packet: its bytes, and its descriptors.
    Packet(usize, Vec<OwnedFd>),
    /// A packet that exceeds the buffer; it is dropped.
    TooLong,
    /// The other end is closed.
    Closed,
}

/// Sends a packet immediately, or not at all (`AGAIN`).
pub(crate) fn send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
}

/// Receives a packet that has arrived; `AGAIN` if there is none.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Ok(Received::TooLong);
    }
    // An empty packet looks like the end of the connection; neither side sends one.
    if got.bytes == 0 {
        return Ok(Received::Closed);
    }
    Ok(Received::Packet(got.bytes, descriptors))
}

fn protocol(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Returns the error of a client that was cut off without an answer: the holder has just ended, or
/// was killed, or had too many connections.
pub(crate) fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the holder ended the connection")
}

/// Waits until there is data to receive.
pub(crate) fn wait(socket: impl AsFd, deadline: Deadline) -> io::Result<()> {
    loop {
        let mut polled = [PollFd::new(&socket, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&deadline.timeout())) {
            Ok(0) if deadline.has_passed() => {
                let message = "the holder does not answer; is it stopped?";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Ok(0) | Err(Errno::INTR) => (),
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Sends a client's packet, and returns the answer.
pub(crate) fn ask(
    socket: impl AsFd,
    ask: &Ask,
    descriptors: &[BorrowedFd<'_>],
    deadline: Deadline,
) -> io::Result<(Answer, Vec<OwnedFd>)> {
    let packet = encode(ask);
    if packet.len() > PACKET_BYTES {
        return Err(protocol("the name of the volume is too long for a packet"));
    }
    match send(&socket, &packet, descriptors) {
        Ok(()) => (),
        Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(cut_off()),
        Err(errno) => return Err(errno.into()),
    }
    let mut buffer = vec![0; PACKET_BYTES];
    loop {
        wait(&socket, deadline)?;
        match receive(&socket, &mut buffer) {
            Ok(Received::Packet(bytes, descriptors)) => {
                let answer = serde_json::from_slice(&buffer[..bytes]);
                let answer = answer.map_err(|_| {
                    protocol("the holder's answer is invalid; is it of another version?")
                })?;
                return Ok((answer, descriptors));
            }
            Ok(Received::TooLong) => return Err(protocol("the holder's answer is too long")),
            Ok(Received::Closed) | Err(Errno::CONNRESET) => return Err(cut_off()),
            Err(Errno::AGAIN | Errno::INTR) => (),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Returns the first descriptor of a retained volume: its arena. (Holders of earlier versions send
/// the backing too.)
pub(crate) fn first_descriptor(descriptors: Vec<OwnedFd>) -> io::Result<OwnedFd> {
    let first = descriptors.into_iter().next();
    first.ok_or_else(|| protocol("the volume's memory did not come with the packet"))
}

/// Returns the descriptors of a retained volume: its arena, and those of its backing, at least one.
pub(crate) fn arena_and_backing(descriptors: Vec<OwnedFd>) -> io::Result<(OwnedFd, Vec<OwnedFd>)> {
    let mut descriptors = descriptors.into_iter();
    match (descriptors.next(), descriptors.collect::<Vec<_>>()) {
        (Some(arena), backing) if !backing.is_empty() => Ok((arena, backing)),
        _ => Err(protocol("the descriptors of a volume did not come with the packet")),
    }
}
