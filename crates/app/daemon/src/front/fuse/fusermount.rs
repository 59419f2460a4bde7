//! fusermount3, with which users mount without root's rights (libfuse's doc/kernel.txt,
//! util/fusermount.c).
//!
//! It opens /dev/fuse, mounts, and sends the descriptor over the socket whose number is in
//! `_FUSE_COMMFD`.

use rustix::fs::OFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = "fusermount3";
/// Options of a mount. The list of mounts then shows `fuse.overdrive`, as for one made by root.
const OPTIONS: &str = "rw,nosuid,nodev,noatime,fsname=overdrive,subtype=overdrive";

/// Returns its output as an error, if it has failed.
fn check(output: Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Mounts on a directory of this user; returns the connection.
///
/// # Errors
/// It is not installed, or its own error.
pub(super) fn mount(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let mut command = Command::new(PROGRAM);
    command.args(["-o", OPTIONS, "--"]).arg(path).env("_FUSE_COMMFD", "0");
    let output = command.stdin(Stdio::from(theirs)).output();
    // Closes our copy of the other end.
    drop(command);
    check(output?)?;
    let device = receive(&ours)?;
    let flags = rustix::fs::fcntl_getfl(&device)?;
    rustix::fs::fcntl_setfl(&device, flags | OFlags::NONBLOCK)?;
    Ok(device)
}

/// Receives the descriptor that it has sent before it ended.
fn receive(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut text = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    descriptors.last().ok_or_else(|| io::Error::other(format!("{PROGRAM} sent no descriptor")))
}

/// Unmounts. If `lazily`, the mount's name is removed even if it is in use.
///
/// # Errors
/// As [`mount`].
pub(super) fn unmount(path: &Path, lazily: bool) -> io::Result<()> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(path);
    check(command.stdin(Stdio::null()).output()?)
}
