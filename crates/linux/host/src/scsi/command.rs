//! Commands by SG_IO.
#![allow(unsafe_code)]

use super::sense::{self, Sense};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::fmt;
use std::os::fd::AsFd;

/// `SG_IO`.
const SG_IO: Opcode = 0x2285;
/// `SG_DXFER_NONE`, `SG_DXFER_TO_DEV`, `SG_DXFER_FROM_DEV`.
const NONE: i32 = -1;
const TO_DEVICE: i32 = -2;
const FROM_DEVICE: i32 = -3;
/// Maximum size of sense data.
const SENSE_BYTES: usize = 252;
/// The status CHECK CONDITION.
const CHECK_CONDITION: u8 = 2;
/// `DRIVER_SENSE`: the driver's status says only that there is sense data.
const DRIVER_SENSE: u16 = 8;

/// An error of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScsiError {
    /// The system has refused the command.
    System(Errno),
    /// The drive has answered with sense data.
    Sense(Sense),
    /// The drive has answered with this status, without sense data.
    Status(u8),
    /// The command did not reach the drive, or its answer was lost: the status of the host adapter
    /// and of its driver.
    Transport {
        /// `DID_...` of the kernel.
        host: u16,
        /// `DRIVER_...` of the kernel.
        driver: u16,
    },
}

impl ScsiError {
    /// Whether the drive has no such command, or does not accept a field of it.
    pub fn is_refused(&self) -> bool {
        matches!(self, ScsiError::Sense(sense) if sense.is_refused())
    }
}

impl fmt::Display for ScsiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScsiError::System(error) => write!(f, "{error}"),
            ScsiError::Sense(sense) => write!(f, "the drive has answered: {sense}"),
            ScsiError::Status(status) => {
                write!(f, "the drive has answered with the status {status:#04x}")
            }
            ScsiError::Transport { host, driver } => write!(
                f,
                "the drive does not answer (host adapter {host:#x}, driver {driver:#x}); check its \
                 cable and power"
            ),
        }
    }
}

impl std::error::Error for ScsiError {}

/// The data of a command.
pub(super) enum Data<'a> {
    Nothing,
    ToDrive(&'a [u8]),
    FromDrive(&'a mut [u8]),
}

/// A drive that takes commands: a device of the kernel, or a simulated one in tests.
pub(super) trait Drive {
    /// Runs a command. Returns the number of bytes that the drive has returned.
    fn run(&self, command: &[u8], data: Data<'_>, timeout_ms: u32) -> Result<usize, ScsiError>;
}

/// `struct sg_io_hdr`.
#[repr(C)]
struct Header {
    interface: i32,
    direction: i32,
    command_bytes: u8,
    sense_bytes_max: u8,
    pieces: u16,
    data_bytes: u32,
    data: *mut c_void,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut c_void,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_bytes: u8,
    host_status: u16,
    driver_status: u16,
    rest: i32,
    duration_ms: u32,
    info: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Header>() == 88);

/// A command, and the memory that it reads and writes.
struct Request<'a> {
    header: Header,
    _memory: std::marker::PhantomData<&'a mut [u8]>,
}

// SAFETY: SG_IO takes a pointer to `struct sg_io_hdr`, whose layout this has. Its addresses and
// lengths are those of memory that is borrowed as long as the request lives.
unsafe impl Ioctl for Request<'_> {
    type Output = Answer;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SG_IO
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.header).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, header: *mut c_void) -> rustix::io::Result<Answer> {
        // SAFETY: it is the pointer of `as_ptr`.
        let header = unsafe { &*header.cast::<Header>() };
        Ok(Answer {
            status: header.status,
            sense_bytes: header.sense_bytes,
            host: header.host_status,
            driver: header.driver_status,
            rest: header.rest,
        })
    }
}

/// The kernel's and the drive's answer to a command.
#[derive(Clone, Copy)]
struct Answer {
    status: u8,
    sense_bytes: u8,
    host: u16,
    driver: u16,
    rest: i32,
}

impl Answer {
    /// Returns the number of transferred bytes of `length`.
    fn check(self, sense: &[u8], length: usize) -> Result<usize, ScsiError> {
        let sense = &sense[..usize::from(self.sense_bytes).min(sense.len())];
        if self.status == CHECK_CONDITION
            && let Some(sense) = sense::parse(sense)
        {
            return Err(ScsiError::Sense(sense));
        }
        // The driver's upper bits are suggestions.
        if self.host != 0 || ![0, DRIVER_SENSE].contains(&(self.driver & 0xf)) {
            return Err(ScsiError::Transport { host: self.host, driver: self.driver });
        }
        if self.status != 0 {
            return Err(ScsiError::Status(self.status));
        }
        Ok(length.saturating_sub(usize::try_from(self.rest).unwrap_or(0)))
    }
}

impl<T: AsFd> Drive for T {
    fn run(&self, command: &[u8], data: Data<'_>, timeout_ms: u32) -> Result<usize, ScsiError> {
        let mut sense = [0; SENSE_BYTES];
        let (direction, address, length) = match data {
            Data::Nothing => (NONE, std::ptr::null_mut(), 0),
            Data::ToDrive(bytes) => (TO_DEVICE, bytes.as_ptr().cast_mut().cast(), bytes.len()),
            Data::FromDrive(bytes) => (FROM_DEVICE, bytes.as_mut_ptr().cast(), bytes.len()),
        };
        let header = Header {
            interface: i32::from(b'S'),
            direction,
            command_bytes: u8::try_from(command.len()).expect("at most 16 bytes"),
            sense_bytes_max: SENSE_BYTES as u8,
            pieces: 0,
            data_bytes: u32::try_from(length).expect("at most a few KiB"),
            data: address,
            command: command.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms,
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_bytes: 0,
            host_status: 0,
            driver_status: 0,
            rest: 0,
            duration_ms: 0,
            info: 0,
        };
        // SAFETY: `Request` is the argument of this ioctl; command, data and sense outlive the
        // call, and data for the drive is only read.
        let answer = unsafe { ioctl(self, Request { header, _memory: std::marker::PhantomData }) };
        answer.map_err(ScsiError::System)?.check(&sense, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_error_of_the_drive_the_way_to_it_or_none() {
        let good = Answer { status: 0, sense_bytes: 0, host: 0, driver: 0, rest: 12 };
        assert_eq!(good.check(&[], 32), Ok(20));
        // A driver that returns more or less than the request has.
        assert_eq!(Answer { rest: 99, ..good }.check(&[], 32), Ok(0));
        assert_eq!(Answer { rest: -5, ..good }.check(&[], 32), Ok(32));
        let late = Answer { host: 3, ..good };
        assert_eq!(late.check(&[], 0), Err(ScsiError::Transport { host: 3, driver: 0 }));
        assert_eq!(Answer { status: 8, ..good }.check(&[], 0), Err(ScsiError::Status(8)));
        let sense = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0];
        let refused = Answer { status: 2, sense_bytes: 18, driver: 8, ..good };
        assert!(refused.check(&sense, 0).is_err_and(|error| error.is_refused()));
        let more = Answer { sense_bytes: 255, ..refused };
        assert!(more.check(&sense, 0).is_err_and(|error| error.is_refused()));
        let none = Answer { sense_bytes: 0, ..refused };
        assert_eq!(none.check(&sense, 0), Err(ScsiError::Status(2)));
    }
}
