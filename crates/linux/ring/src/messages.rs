//! Devices that are read and written by whole messages, such as /dev/fuse. They must be
//! non-blocking, because a read would block if another thread has taken the message.
#![allow(unsafe_code)]

use crate::operations::{failure, must_restart};
use crate::ring::Ring;
use block::{Part, Result};
use host::File;
use std::io;
use std::os::fd::AsRawFd;

/// Maximum number of parts of a message.
const PARTS_MAX: usize = 4;

/// Returns the list of a message's parts, which points into their memories.
fn list_of(parts: &[Part]) -> ([libc::iovec; PARTS_MAX], libc::c_int) {
    assert!(parts.len() <= PARTS_MAX, "a message has few parts");
    let mut list = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PARTS_MAX];
    for (vector, part) in list.iter_mut().zip(parts) {
        let at = part.memory.address(part.offset, part.length);
        *vector = libc::iovec { iov_base: at.as_ptr().cast(), iov_len: part.length };
    }
    (list, parts.len() as libc::c_int)
}

fn result_of(result: isize) -> i64 {
    match result {
        0.. => result as i64,
        _ => -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// Whether there is no message, or it was withdrawn while it was read.
fn is_no_message(result: i64) -> bool {
    must_restart(result) || result == -i64::from(libc::ENOENT)
}

/// Converts an error: `Stopping` if the other side of the device is gone.
fn error_of(result: i64, doing: &'static str) -> block::Error {
    match -result as i32 {
        errno @ (libc::ENODEV | libc::ECONNABORTED) => {
            block::Error { errno, ..block::Error::new(block::Kind::Stopping, doing) }
        }
        _ => failure(result, doing),
    }
}

/// Reads the next message into the parts, in order, if there is one. Returns its length.
///
/// # Errors
/// `Stopping`: no more messages come. `Io`.
///
/// # Panics
/// If a part exceeds its memory.
pub fn take_message(device: &File, parts: &[Part]) -> Result<Option<usize>> {
    let (list, count) = list_of(parts);
    // SAFETY: the list points into memories that outlive the call, as `address` has checked.
    let result = result_of(unsafe { libc::readv(device.as_raw_fd(), list.as_ptr(), count) });
    match result {
        0.. => Ok(Some(result as usize)),
        none if is_no_message(none) => Ok(None),
        error => Err(error_of(error, "take a message")),
    }
}

/// Sends the parts as one message.
///
/// # Errors
/// The device's errors. `Stopping`: its other side is gone.
///
/// # Panics
/// If a part exceeds its memory.
pub fn send_message(device: &File, parts: &[Part]) -> Result {
    let (list, count) = list_of(parts);
    loop {
        // SAFETY: as above; the memories are only read.
        let result = result_of(unsafe { libc::writev(device.as_raw_fd(), list.as_ptr(), count) });
        match result {
            0.. => return Ok(()),
            passing if must_restart(passing) => {}
            error => return Err(error_of(error, "send a message")),
        }
    }
}

impl Ring {
    /// Reads the next message into the parts, in order; waits until there is one. Dropping the
    /// future leaves an operation behind, which [`Ring::cancel`] ends.
    ///
    /// # Errors
    /// As [`take_message`].
    pub async fn message(&self, device: &File, parts: &[Part]) -> Result<usize> {
        loop {
            let taken = match take_message(device, parts)? {
                None => self.message_polling(device, parts).await?,
                taken => taken,
            };
            if let Some(bytes) = taken {
                self.0.idle.record_arrival(self.lane(), device.as_raw_fd());
                return Ok(bytes);
            }
            self.readable(device).await?;
        }
    }

    /// Same as [`Ring::message`], while the loop polls. None: it does not poll, or no message came
    /// while it did.
    async fn message_polling(&self, device: &File, parts: &[Part]) -> Result<Option<usize>> {
        let Some(receiver) = self.begin_direct() else { return Ok(None) };
        while receiver.next().await {
            if let Some(bytes) = take_message(device, parts)? {
                receiver.record_arrival();
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Kind, Memory};
    use std::sync::Arc;

    fn part(memory: &Arc<Memory>, offset: usize, length: usize) -> Part {
        Part { memory: memory.clone(), offset, length }
    }

    /// Returns the two ends of a connection that preserves message borders.
    fn pair() -> (File, File) {
        let (one, two) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
        one.set_nonblocking(true).expect("a socket");
        (Arc::new(one.into()), Arc::new(two.into()))
    }

    #[test]
    fn messages_are_taken_and_sent_whole() -> Result {
        let (ours, theirs) = pair();
        let memory = Arc::new(Memory::heap(4096));
        let apart = [part(&memory, 0, 4), part(&memory, 1000, 100)];
        assert_eq!(take_message(&ours, &apart)?, None);
        memory.write(2000, b"headbody");
        send_message(&theirs, &[part(&memory, 2000, 4), part(&memory, 2004, 4)])?;
        assert_eq!(take_message(&ours, &apart)?, Some(8));
        let mut body = [0; 4];
        memory.read(1000, &mut body);
        assert_eq!(&body, b"body");
        Ok(())
    }

    #[test]
    fn a_device_whose_other_side_is_gone_is_stopping() {
        assert_eq!(error_of(-i64::from(libc::ENODEV), "x").kind, Kind::Stopping);
        assert_eq!(error_of(-i64::from(libc::ECONNABORTED), "x").kind, Kind::Stopping);
        assert_eq!(error_of(-i64::from(libc::EINVAL), "x").kind, Kind::Invalid);
        assert!(is_no_message(-i64::from(libc::ENOENT)) && is_no_message(-i64::from(libc::EAGAIN)));
    }
}
