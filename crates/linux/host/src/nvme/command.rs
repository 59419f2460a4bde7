//! Admin commands by ioctl.
#![allow(unsafe_code)]

use super::NvmeError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// `NVME_IOCTL_ADMIN_CMD`.
const ADMIN: Opcode = 0xC048_4E41;
/// `NVME_IOCTL_ID`.
const ID: Opcode = 0x4E40;

/// All namespaces.
pub(super) const ALL: u32 = 0xffff_ffff;

/// `struct nvme_admin_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Command {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) reserved: u16,
    pub(super) namespace: u32,
    pub(super) words_2: [u32; 2],
    pub(super) metadata: u64,
    pub(super) address: u64,
    pub(super) metadata_bytes: u32,
    pub(super) data_bytes: u32,
    /// Command words 10 to 15.
    pub(super) words_10: [u32; 6],
    /// 0: the kernel's default, a minute.
    pub(super) timeout_ms: u32,
    pub(super) result: u32,
}

const _: () = assert!(size_of::<Command>() == 72);

/// A command, and the memory for its data.
struct Admin<'a> {
    command: Command,
    /// Borrowed as long as the command may write to it.
    _data: &'a mut [u8],
}

// SAFETY: NVME_IOCTL_ADMIN_CMD takes a pointer to `struct nvme_admin_cmd`, whose layout this has,
// reads it and writes its result. Its address and length are those of the borrowed data.
unsafe impl Ioctl for Admin<'_> {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        ADMIN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.command).cast()
    }

    unsafe fn output_from_ptr(status: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(status)
    }
}

/// Requests the number of a namespace.
struct NamespaceId;

// SAFETY: NVME_IOCTL_ID takes no argument and returns a number.
unsafe impl Ioctl for NamespaceId {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        ID
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(number: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        u32::try_from(number).map_err(|_| Errno::NXIO)
    }
}

/// Opens a device to query it. No claim: it may be in use.
pub(super) fn open(device: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(device, flags, Mode::empty())
}

/// A drive that takes commands: a device of the kernel, or a simulated one in tests.
pub(super) trait Drive {
    /// Runs a command. `data` receives what the drive returns.
    fn run(&self, command: Command, data: &mut [u8]) -> Result<(), NvmeError>;

    /// Returns the number of the namespace of a block device.
    ///
    /// # Errors
    /// It is not a namespace.
    fn namespace_id(&self) -> Result<u32, NvmeError>;
}

impl<T: AsFd> Drive for T {
    fn run(&self, command: Command, data: &mut [u8]) -> Result<(), NvmeError> {
        let address =
            if data.is_empty() { 0 } else { data.as_mut_ptr().expose_provenance() as u64 };
        let data_bytes = u32::try_from(data.len()).expect("pages");
        let command = Command { address, data_bytes, ..command };
        // SAFETY: `Admin` is the argument of this ioctl; the command reads no more than its data.
        let status = unsafe { ioctl(self, Admin { command, _data: data }) };
        match status.map_err(NvmeError::System)? {
            0 => Ok(()),
            status => Err(NvmeError::Drive(u16::try_from(status).unwrap_or(u16::MAX))),
        }
    }

    fn namespace_id(&self) -> Result<u32, NvmeError> {
        // SAFETY: `NamespaceId` is the argument of this ioctl, which has none.
        unsafe { ioctl(self, NamespaceId) }.map_err(NvmeError::System)
    }
}
