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
        let mut attributes = Attributes::default();
        attributes.put_text(FAMILY_NAME, name);
        let answer = family.ask(GET_FAMILY, &attributes)?;
        family.number = codec::find_u16(&answer, FAMILY_ID).ok_or(io::ErrorKind::InvalidData)?;
        Ok(family)
    }

    /// Sends a request, and waits for its end. Returns the attributes of the answer, possibly none.
    ///
    /// # Errors
    /// The kernel's errors.
    pub(crate) fn ask(&mut self, command: u8, attributes: &Attributes) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        let request = codec::request(self.number, command, self.sequence, attributes);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        let (mut answer, mut buffer) = (Vec::new(), vec![0; ANSWER_BYTES_MAX]);
        loop {
            let bytes = match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((bytes, _)) => bytes,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for message in codec::answers(&buffer[..bytes], self.sequence) {
                match message {
                    Answer::Attributes(attributes) => answer = attributes.to_vec(),
                    Answer::Ended(0) => return Ok(answer),
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
    fn an_existing_family_is_opened_and_a_missing_one_is_not_found() {
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
