//! The broker: a process outside of the confinement, which makes those calls for its daemon that
//! Landlock forbids to every process that it confines.
//!
//! ```text
//!   daemon (confined) ---- socket pair ---- od-broker (not confined)
//!     users {node}                            finds the users of a device in /proc
//!     mount {directory}                       mounts there again; returns /dev/fuse
//!     unmount {directory, lazily}             unmounts
//! ```
//!
//! The daemon starts it directly before it confines itself, with the list of the daemon's own
//! mounts: it mounts and unmounts nothing else. It ends when the last descriptor of the connection
//! is closed, so with its daemon, however that ends. An upgrade leaves the connection open for the
//! next program of the process. So a broker may be older or newer than its daemon: requests and
//! answers are JSON, fields are only added, and an unknown request is refused.
//!
//! This is the daemon's side, and the packets. The broker itself: `device/broker_process.rs`.

mod client;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

pub(crate) use client::{Broker, SOCKET, find, present, serves_daemons};

/// The program's hidden command that runs a broker.
pub const BROKER: &str = "broker";

/// Version of the requests. A program that a confined process executes must have this one at least.
pub(crate) const PROTOCOL: u64 = 1;

/// Length of the longest packet, in bytes.
const PACKET_BYTES: usize = 32 << 10;
/// Maximum number of users in an answer.
pub(crate) const USERS_MAX: usize = 16;
/// Maximum length of a user's description in an answer, in characters.
pub(crate) const USER_CHARACTERS: usize = 300;

/// A request to the broker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Finds the users of the block device with this node.
    Users { node: PathBuf },
    /// Mounts on one of the daemon's directories.
    Mount { directory: PathBuf },
    /// Unmounts one of the daemon's directories.
    Unmount { directory: PathBuf, lazily: bool },
}

/// An answer of the broker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The users of a device, described in words.
    Users(Vec<String>),
    /// It is done. The descriptor of a mount comes with the packet.
    Done,
    /// It is not done.
    Refused { exit: u8, message: String },
}

/// A request or an answer with the request's number: an answer that came too late is not taken for
/// that of a later request.
#[derive(Serialize, Deserialize)]
pub(crate) struct Numbered<T> {
    pub(crate) number: u64,
    pub(crate) body: T,
}

/// Sends a packet, with a descriptor if there is one.
///
/// # Errors
/// Those of the system.
pub(crate) fn send(
    socket: impl AsFd,
    packet: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(packet).map_err(io::Error::other)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for a packet, and returns its bytes and its descriptor. No bytes: the connection has
/// ended.
///
/// # Errors
/// Those of the system.
pub(crate) fn receive(socket: impl AsFd) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0; PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    let descriptor = descriptors.last();
    bytes.truncate(received.bytes);
    Ok((bytes, descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_form_that_other_versions_know() {
        let request = |text| serde_json::from_str::<Numbered<Request>>(text);
        let unmount = r#"{"number":7,"body":{"unmount":{"directory":"/a","lazily":true,"new":1}}}"#;
        let unmount = request(unmount).expect("a later version may add fields");
        let directory = PathBuf::from("/a");
        assert_eq!(
            (unmount.number, unmount.body),
            (7, Request::Unmount { directory, lazily: true })
        );
        assert!(request(r#"{"number":7,"body":{"format":{"node":"/dev/sda"}}}"#).is_err());
    }
}
