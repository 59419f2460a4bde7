//! Notifies the service manager (sd_notify(3)) by datagrams to the socket in `NOTIFY_SOCKET`.

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Duration;

/// Longest wait for the manager.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the address of the manager's socket. None if no manager expects notifications.
pub(crate) fn address() -> Option<OsString> {
    std::env::var_os("NOTIFY_SOCKET").filter(|place| !place.is_empty())
}

fn parse(place: &OsString) -> io::Result<SocketAddrUnix> {
    let parsed = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
        [b'/', ..] => SocketAddrUnix::new(place.as_os_str()),
        _ => Err(Errno::AFNOSUPPORT),
    };
    parsed.map_err(|errno| {
        let place = place.display();
        let message = format!("NOTIFY_SOCKET={place}: not the address of a unix socket ({errno})");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

/// Sends a message; does nothing without a manager.
pub(crate) fn notify(message: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let Some(place) = address() else { return Ok(()) };
    let address = parse(&place)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    let descriptors: &[BorrowedFd<'_>] = descriptor.as_slice();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL.into());
    }
    let text = [IoSlice::new(message.as_bytes())];
    loop {
        let sent =
            rustix::net::sendmsg_addr(&socket, &address, &text, &mut control, SendFlags::NOSIGNAL);
        match sent {
            Err(Errno::INTR) => (),
            Ok(_) => return Ok(()),
            Err(errno) => {
                let message = format!(
                    "NOTIFY_SOCKET={}: the service manager does not listen ({errno})",
                    place.display()
                );
                return Err(io::Error::new(io::Error::from(errno).kind(), message));
            }
        }
    }
}

/// Notifies the service manager, if there is one, that clients can connect.
///
/// # Errors
/// If the manager does not listen.
pub fn notify_ready() -> io::Result<()> {
    notify("READY=1", None)
}

/// Notifies the service manager, if there is one, that the service is ending.
///
/// # Errors
/// If the manager does not listen.
pub fn notify_stopping() -> io::Result<()> {
    notify("STOPPING=1", None)
}

/// Removes the variables that the service manager has set for this process alone from a command's
/// environment. Also call this before this process executes another program: the exec closes the
/// descriptors that the variables describe.
pub fn scrub(command: &mut Command) {
    for name in ["NOTIFY_SOCKET", "FDSTORE", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
        command.env_remove(name);
    }
}
