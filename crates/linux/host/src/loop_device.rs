//! Loop devices: a file as a block device of this machine.
//!
//! Sources: include/uapi/linux/loop.h, loop(4), Documentation/ABI/stable/sysfs-block.
#![allow(unsafe_code)]

use crate::claimed::ClaimedDevice;
use crate::clock::Patience;
use crate::identity::Identity;
use crate::sysfs::number_in;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, Setter, Updater, ioctl};
use std::ffi::c_void;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

const SET_CAPACITY: Opcode = 0x4C07;
const CLEAR: Opcode = 0x4C01;
const STATUS: Opcode = 0x4C05;
const CONFIGURE: Opcode = 0x4C0A;
const GET_FREE: Opcode = 0x4C82;

const READ_ONLY: u32 = 1;
const PARTITIONS: u32 = 8;
const DIRECT: u32 = 16;

/// Number of attempts: another process may take the device that was just free.
const TRIES: usize = 32;

/// Time for programs that only inspect a device to close it, in milliseconds.
const INSPECTION_MS: u64 = 2_000;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    device_of_node: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: u32,
    key_bytes: u32,
    flags: u32,
    file_name: [u8; 64],
    encryption_name: [u8; 64],
    key: [u8; 32],
    init: [u64; 2],
}

impl Info {
    const NONE: Info = Info {
        device: 0,
        inode: 0,
        device_of_node: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encryption: 0,
        key_bytes: 0,
        flags: 0,
        file_name: [0; 64],
        encryption_name: [0; 64],
        key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    file: u32,
    block_bytes: u32,
    info: Info,
    reserved: [u64; 8],
}

/// Requests the number of a free device.
struct GetFree;

// SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
unsafe impl Ioctl for GetFree {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(number: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        u32::try_from(number).map_err(|_| Errno::NXIO)
    }
}

/// Settings of a loop device.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Block size of the device in bytes: 512 to 4096.
    pub block_bytes: u32,
    /// Whether to refuse changes.
    pub read_only: bool,
}

/// A loop device over a file.
#[derive(Debug)]
pub struct LoopDevice {
    number: u32,
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::ROFS | Errno::ACCESS) => {
            Ok(rustix::fs::open(path, OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// Returns the number in the name of a loop device in /sys/block.
fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("loop")?.parse().ok()
}

/// Whether the error means that the device has no file any more.
fn is_free(errno: Errno) -> bool {
    errno == Errno::NXIO
}

impl LoopDevice {
    /// Returns the device with this name in /sys/block.
    pub(crate) fn named(name: &str) -> Option<LoopDevice> {
        number_of(name).map(|number| LoopDevice { number })
    }

    /// Returns all loop devices over a file with this path, by the name that the kernel has stored.
    /// Accesses no file system.
    pub fn all_over(file: &Path) -> Vec<LoopDevice> {
        let entries = fs::read_dir("/sys/block").ok().into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| {
            let number = number_of(entry.file_name().to_str()?)?;
            let name = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            (Path::new(name.trim_end_matches('\n')) == file).then_some(LoopDevice { number })
        });
        found.collect()
    }

    /// Returns the device of this node, and the path of its file as the kernel has stored it. None:
    /// it is not a loop device, or has no file.
    pub fn at(node: &Path) -> Option<(LoopDevice, PathBuf)> {
        let device = LoopDevice { number: number_of(node.file_name()?.to_str()?)? };
        let file = device.attribute("loop/backing_file")?;
        Some((device, PathBuf::from(file)))
    }

    /// Attaches an open file to a free device, with direct I/O and a scan for partitions.
    ///
    /// # Errors
    /// The system's errors. `Unsupported`: the kernel would use buffered I/O only; the device is
    /// detached again.
    pub fn attach(file: &OwnedFd, options: LoopOptions) -> io::Result<LoopDevice> {
        let control = open(Path::new("/dev/loop-control"))?;
        for _ in 0..TRIES {
            // SAFETY: the request's implementation gives the reason.
            let number = unsafe { ioctl(&control, GetFree) }?;
            let device = LoopDevice { number };
            match device.configure(file, options) {
                Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
                Err(error) => return Err(error),
                Ok(()) if device.is_direct() => return Ok(device),
                Ok(()) => {
                    device.detach()?;
                    let message = "the kernel would keep it in its page cache";
                    return Err(io::Error::new(io::ErrorKind::Unsupported, message));
                }
            }
        }
        Err(Errno::BUSY.into())
    }

    fn configure(&self, file: &OwnedFd, options: LoopOptions) -> io::Result<()> {
        let node = open(&self.path())?;
        let read_only = if options.read_only { READ_ONLY } else { 0 };
        let info = Info { flags: DIRECT | PARTITIONS | read_only, ..Info::NONE };
        let file = file.as_raw_fd().unsigned_abs();
        let config = Config { file, block_bytes: options.block_bytes, info, reserved: [0; 8] };
        // SAFETY: LOOP_CONFIGURE reads one `struct loop_config`, which `config` is.
        Ok(unsafe { ioctl(&node, Setter::<CONFIGURE, Config>::new(config)) }?)
    }

    /// Returns the path of its node.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.number))
    }

    /// Returns its device number. None: the device does not exist.
    pub fn device(&self) -> Option<u64> {
        number_in(&self.attribute("dev")?)
    }

    /// Reads a file of its directory in /sys.
    fn attribute(&self, name: &str) -> Option<String> {
        let path = format!("/sys/block/loop{}/{name}", self.number);
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }

    /// Whether it uses direct I/O, according to the kernel.
    pub fn is_direct(&self) -> bool {
        self.attribute("loop/dio").as_deref() == Some("1")
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> Option<u64> {
        self.attribute("size")?.parse::<u64>().ok()?.checked_mul(512)
    }

    /// Whether it is over exactly this file, not an earlier file of the same name. Accesses the
    /// file systems of both.
    ///
    /// # Errors
    /// The system's errors, for example if the server of its file is gone.
    pub fn is_over(&self, file: impl AsFd) -> io::Result<bool> {
        Ok(self.backing_identity()? == Identity::of(&rustix::fs::fstat(file)?))
    }

    /// Returns the file or device below it. The kernel sends a request to the file system of a
    /// file.
    ///
    /// # Errors
    /// The system's errors, for example if the server of its file has ended.
    pub(crate) fn backing_identity(&self) -> io::Result<Identity> {
        let flags = OFlags::CLOEXEC | OFlags::NONBLOCK;
        let node = rustix::fs::open(self.path(), flags, Mode::empty())?;
        let mut info = Info::NONE;
        // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64`, which `info` is.
        unsafe { ioctl(&node, Updater::<STATUS, Info>::new(&mut info)) }?;
        Ok(match unpacked(info.device_of_node) {
            0 => Identity::File { system: unpacked(info.device), number: info.inode },
            number => Identity::Device { number },
        })
    }

    /// Sets its size to the current size of its file.
    ///
    /// # Errors
    /// The system's errors.
    pub fn resize(&self) -> io::Result<()> {
        let node = open(&self.path())?;
        // SAFETY: LOOP_SET_CAPACITY takes no argument.
        Ok(unsafe { ioctl(&node, NoArg::<SET_CAPACITY>::new()) }?)
    }

    /// Detaches its file: immediately, or once all programs that have the device open close it.
    ///
    /// # Errors
    /// The system's errors.
    pub fn detach(&self) -> io::Result<()> {
        clear(&open(&self.path())?)
    }

    /// Detaches its file, for the process that has claimed the device. Programs that only inspect
    /// the device, as udev does after each change, get two seconds to close it. Returns whether the
    /// file is detached.
    ///
    /// # Errors
    /// The system's errors.
    pub fn detach_claimed(&self, claimed: ClaimedDevice) -> io::Result<bool> {
        clear(&claimed.0)?;
        drop(claimed);
        let patience = Patience::new(INSPECTION_MS);
        while self.is_attached() {
            if !patience.pause() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether it has a file.
    pub fn is_attached(&self) -> bool {
        self.attribute("loop/backing_file").is_some()
    }
}

/// Returns the device number that the kernel packs as 12 bits of the major and 20 of the minor
/// number.
fn unpacked(packed: u64) -> u64 {
    let (major, minor) = ((packed >> 8) & 0xfff, (packed & 0xff) | ((packed >> 12) & 0xfff00));
    rustix::fs::makedev(major as u32, minor as u32)
}

fn clear(node: &OwnedFd) -> io::Result<()> {
    // SAFETY: LOOP_CLR_FD takes no argument.
    match unsafe { ioctl(node, NoArg::<CLEAR>::new()) } {
        Err(errno) if is_free(errno) => Ok(()),
        cleared => Ok(cleared?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn may_attach() -> bool {
        let may = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
        if !may {
            println!("skipped: not root, or no loop devices");
        }
        may
    }

    #[test]
    fn the_kernel_s_structures_have_its_sizes() {
        assert_eq!((size_of::<Info>(), size_of::<Config>()), (232, 304));
    }

    #[test]
    fn a_file_becomes_a_device_and_a_file_again() {
        if !may_attach() {
            return;
        }
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("room");
        let path = place.path().canonicalize().expect("it is there").join("image");
        let file = fs::File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.expect("room");
        file.set_len(1 << 20).expect("sparse");
        file.write_all_at(b"hello", 0).expect("room");
        let opened: OwnedFd = file.try_clone().expect("a descriptor").into();
        let options = LoopOptions { block_bytes: 512, read_only: false };
        let device = match LoopDevice::attach(&opened, options) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                return println!("skipped: no direct I/O on the build's file system");
            }
            device => device.expect("root may"),
        };
        assert!(device.is_over(&opened).expect("it answers"));
        assert_eq!(device.bytes(), Some(1 << 20));
        let found = LoopDevice::all_over(&path);
        assert_eq!(found.iter().map(LoopDevice::path).collect::<Vec<_>>(), [device.path()]);
        file.set_len(2 << 20).expect("sparse");
        device.resize().expect("it may grow");
        assert_eq!(device.bytes(), Some(2 << 20));
        let claimed = ClaimedDevice::claim(&device.path()).expect("nothing uses it");
        let again = ClaimedDevice::claim(&device.path()).expect_err("claimed");
        assert_eq!(again.kind(), io::ErrorKind::ResourceBusy);
        assert!(device.detach_claimed(claimed).expect("nothing else uses it"));
        assert!(!device.is_attached() && LoopDevice::all_over(&path).is_empty());
        device.detach().expect("it is over already");
    }
}
