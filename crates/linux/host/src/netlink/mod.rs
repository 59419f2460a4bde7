//! Requests to a family of generic netlink.

mod codec;

pub(crate) use codec::{Attributes, attributes, find, find_u32};

use codec::{Answer, CONTROL, FAMILY_ID, FAMILY_NAME, GET_FAMILY};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Maximum length of an answer, which is a list of devices.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Maximum time of a request, which may include waiting for I/O in the kernel.
const PATIENCE: Duration = Duration::from_secs(60);

/// A family, and a socket for requests to it.
pub(crate) struct Family {
    socket: OwnedFd,
    number: u16,
    sequence: u32,
}

impl Family {
    /// Opens the family with this name.
    ///
    /// # Errors
    /// `NotFound`: the kernel has no such family, at least until its module is loaded. Otherwise
    /// the system's errors.
    pub(crate) fn open(name: &str) -> io::Result<Family> {
        let flags = SocketFlags::CLOEXEC;
        let protocol = Some(netlink::GENERIC);
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(PATIENCE))?;
        let mut family = Family { socket, number: CONTROL, sequence: 0 };
        let mut asked = Attributes::default();
        asked.put_text(FAMILY_NAME, name);
        let reply = family.ask(GET_FAMILY, &asked)?;
        family.number = codec::find_u16(&reply, FAMILY_ID).ok_or(io::ErrorKind::InvalidData)?;
        Ok(family)
    }

    /// Sends a request, and waits for its end. Returns the attributes of the answer, possibly none.
    ///
    /// # Errors
    /// The kernel's errors.
    pub(crate) fn ask(&mut self, command: u8, asked: &Attributes) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let request = codec::request(self.number, command, self.sequence, asked);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        let (mut reply, mut buffer) = (Vec::new(), vec![0; ANSWER_BYTES_MAX]);
        loop {
            let bytes = match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((bytes, _)) => bytes,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for answer in codec::answers(&buffer[..bytes], self.sequence) {
                match answer {
                    Answer::Attributes(attributes) => reply = attributes.to_vec(),
                    Answer::Ended(0) => return Ok(reply),
                    Answer::Ended(error) => {
                        return Err(io::Error::from_raw_os_error(error.wrapping_neg()));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_its_own_family_and_no_other() {
        let mut control = match Family::open("nlctrl") {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                return println!("skipped: no generic netlink here: {error}");
            }
            opened => opened.expect("generic netlink"),
        };
        assert_eq!(control.number, CONTROL);
        let missing = Family::open("no-such-family").map(|_| ()).expect_err("there is none");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let refused = control.ask(200, &Attributes::default()).expect_err("no such command");
        assert!(refused.raw_os_error().is_some(), "{refused}");
    }
}
