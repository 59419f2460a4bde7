//! Commands to the driver, for a thread that may block.
#![allow(unsafe_code)]

use crate::restrictions;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

const NODE: &str = "/dev/ublk-control";

/// Offsets of the length and the address of the attached data in a command.
const LENGTH_AT: usize = 6;
const ADDRESS_AT: usize = 8;

/// A connection to the driver.
pub struct UblkControl {
    uring: IoUring<squeue::Entry128, cqueue::Entry>,
    node: OwnedFd,
}

impl UblkControl {
    /// Whether this kernel has the driver.
    pub fn is_possible() -> bool {
        Path::new(NODE).exists()
    }

    /// Opens the driver.
    ///
    /// # Errors
    /// `NotFound`: the kernel has no driver. Otherwise the system's errors.
    pub fn open() -> io::Result<UblkControl> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let node = rustix::fs::open(NODE, flags, Mode::empty())?;
        let uring =
            IoUring::<squeue::Entry128, cqueue::Entry>::builder().setup_r_disabled().build(4)?;
        restrictions::enable_for_commands(&uring)?;
        Ok(UblkControl { uring, node })
    }

    /// Sends a command with attached data, which the driver may change, and waits for its
    /// completion. Fills in the length and the address in `command`.
    ///
    /// # Errors
    /// The driver's errors.
    pub fn ask(&mut self, number: u32, command: [u8; 32], with: &mut [u8]) -> io::Result<u32> {
        // A copy, because the kernel may use the data even after this call has failed.
        let mut room = with.to_vec().into_boxed_slice();
        let mut bytes = [0; 80];
        bytes[..32].copy_from_slice(&command);
        if !room.is_empty() {
            let (length, address) = (room.len() as u16, room.as_mut_ptr() as u64);
            bytes[LENGTH_AT..LENGTH_AT + 2].copy_from_slice(&length.to_ne_bytes());
            bytes[ADDRESS_AT..ADDRESS_AT + 8].copy_from_slice(&address.to_ne_bytes());
        }
        let file = types::Fd(self.node.as_raw_fd());
        let entry = opcode::UringCmd80::new(file, number).cmd(bytes).build();
        // SAFETY: the command points to `room`, which lives until its completion arrives, or is
        // leaked.
        unsafe { self.uring.submission().push(&entry) }.map_err(io::Error::other)?;
        let result = loop {
            let waited = self.uring.submit_and_wait(1);
            if let Some(done) = self.uring.completion().next() {
                break done.result();
            }
            match waited.map_err(|error| error.raw_os_error()) {
                Ok(_) | Err(Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {}
                Err(errno) => {
                    std::mem::forget(room);
                    return Err(io::Error::from_raw_os_error(errno.unwrap_or(libc::EIO)));
                }
            }
        };
        with.copy_from_slice(&room);
        u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
    }
}
