//! A regular file or a block device, opened once for all lanes.

use crate::open_error::{OpenError, OpenErrorKind as Kind};
use crate::probe::{self, Alignment};
use crate::{File, busy, locks};
use block::{Fua, Limits, Memory, SECTOR};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use serde::Serialize;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The unit of atomicity of a regular file, in bytes. A premise that is stated to users: file
/// systems write whole pages, and the drives below them do not tear 4 KiB.
const FILE_PHYSICAL: u32 = 4096;
/// The largest transfer, in bytes.
const IO_MAX: u32 = 32 << 20;
/// Zeros to write where the kernel cannot zero by itself, in bytes.
pub(crate) const ZEROS: usize = 1 << 20;

/// How a backing is to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Refuse changes.
    pub read_only: bool,
    /// Use the host's page cache instead of direct I/O.
    pub buffered: bool,
}

/// Whether I/O goes around the host's page cache.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direct {
    /// It does.
    Yes,
    /// It does not, and why.
    No(String),
}

/// Whether other users of the image are kept out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lock {
    /// By the locks that qemu uses; a device by its exclusive open as well.
    Held,
    /// They are not, and why: that nobody else writes is then a premise.
    No(String),
}

/// A regular file or a block device that is open: what the lanes share.
///
/// A device is open exclusively, a file carries the locks that qemu uses. Both belong to the open
/// file description, and I/O in flight on io_uring keeps that alive beyond the end of its process:
/// once opening succeeds, the last I/O of an earlier owner on this machine is over (clause C15).
/// On network file systems this holds as far as the server's locks do.
#[derive(Debug)]
pub struct FileVolume {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) limits: Limits,
    pub(crate) alignment: Alignment,
    pub(crate) zeros: Arc<Memory>,
    /// Cleared when the kernel says that it cannot.
    pub(crate) can_punch: AtomicBool,
    pub(crate) can_zero: AtomicBool,
    lock: Lock,
    device: bool,
}

fn failed(kind: Kind, message: String) -> OpenError {
    OpenError::new(kind, message)
}

fn system_error(path: &Path, doing: &str, errno: Errno) -> OpenError {
    let name = path.display();
    match errno {
        Errno::NOENT | Errno::NOTDIR => failed(
            Kind::NotFound,
            format!(
                "{name}: no such file; check the path, or make an image with: \
                 truncate -s 10G {name}"
            ),
        ),
        Errno::ACCESS | Errno::PERM => failed(
            Kind::Permission,
            format!(
                "{name}: permission denied; run as a user who may open it, or use --read-only if \
                 it may only be read"
            ),
        ),
        Errno::ROFS => read_only(path),
        Errno::BUSY => failed(
            Kind::Busy,
            format!("{name}: in use by another program that opened it exclusively; end that first"),
        ),
        Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM => failed(
            Kind::NotFound,
            format!("{name}: there is no device or no medium behind this path"),
        ),
        _ => failed(
            Kind::Io,
            format!("{name}: cannot {doing}: {errno}; the kernel's log may say more"),
        ),
    }
}

fn read_only(path: &Path) -> OpenError {
    let name = path.display();
    failed(Kind::ReadOnly, format!("{name}: can only be read here; use --read-only"))
}

fn in_use(path: &Path, user: &str) -> OpenError {
    let name = path.display();
    failed(Kind::Busy, format!("{name}: {user}; release it there first"))
}

/// Whether it is a device; what is neither device nor file is refused.
fn is_device(path: &Path, found: &Stat) -> Result<bool, OpenError> {
    let what = match FileType::from_raw_mode(found.st_mode) {
        FileType::BlockDevice => return Ok(true),
        FileType::RegularFile => return Ok(false),
        FileType::Directory => "a directory",
        FileType::CharacterDevice => "a character device",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "of an unknown type",
    };
    Err(failed(
        Kind::Unsupported,
        format!("{}: is {what}; a backing is a regular file or a block device", path.display()),
    ))
}

fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

fn refuse_used(path: &Path, found: &Stat, device: bool) -> Result<(), OpenError> {
    let user = if device {
        busy::device_user(found.st_rdev, path)
    } else {
        busy::file_user(identity(found))
    };
    user.map_or(Ok(()), |user| Err(in_use(path, &user)))
}

/// Opens it, directly if that is wanted and possible; also says why it is not direct.
fn open(
    path: &Path,
    options: OpenOptions,
    device: bool,
) -> Result<(OwnedFd, Option<&'static str>), Errno> {
    let mut flags = if options.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    // NONBLOCK: should the path have become a pipe meanwhile, this does not hang.
    flags |= OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if device {
        flags |= OFlags::EXCL;
    }
    if options.buffered {
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        return Ok((file, Some("buffered I/O was asked for")));
    }
    match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
        Err(Errno::INVAL) => {
            let file = rustix::fs::open(path, flags, Mode::empty())?;
            Ok((file, Some("the file system refuses to open it directly")))
        }
        other => other.map(|file| (file, None)),
    }
}

fn lock(path: &Path, file: &OwnedFd, options: OpenOptions) -> Result<Lock, OpenError> {
    match locks::lock(file, !options.read_only) {
        locks::Locked::Yes => Ok(Lock::Held),
        locks::Locked::Busy => {
            Err(in_use(path, "is locked by another program (qemu, or another Overdrive)"))
        }
        locks::Locked::Unsupported(errno) => {
            Ok(Lock::No(format!("the file system has no locks ({errno})")))
        }
    }
}

fn check_size(path: &Path, bytes: u64, block: u32, device: bool) -> Result<(), OpenError> {
    let name = path.display();
    let block = u64::from(block);
    if bytes < block {
        let mend = if device {
            "is there a medium in it?".to_owned()
        } else {
            format!("make it larger, with: truncate -s 10G {name}")
        };
        return Err(failed(
            Kind::TooSmall,
            format!("{name}: holds {bytes} bytes, less than one block of {block}; {mend}"),
        ));
    }
    if !bytes.is_multiple_of(block) {
        let other =
            if block > SECTOR { ", or use it through the page cache (buffered)" } else { "" };
        return Err(failed(
            Kind::Misaligned,
            format!(
                "{name}: its size of {bytes} bytes is no multiple of {block}; fill it up with \
                 zeros, with: truncate -s %{block} {name}{other}"
            ),
        ));
    }
    Ok(())
}

/// Settles alignments, and makes the description buffered where direct I/O does not work.
fn align(file: &OwnedFd, device: bool, buffered: Option<&str>) -> Result<Alignment, Errno> {
    let least = if device { rustix::fs::ioctl_blksszget(file)?.max(512) } else { 512 };
    if let Some(why) = buffered {
        return Ok(Alignment::buffered(least, why));
    }
    let alignment = probe::direct(file, device, least);
    if alignment.direct != Direct::Yes {
        probe::make_buffered(file)?;
    }
    Ok(alignment)
}

fn limits(file: &OwnedFd, found: &Stat, bytes: u64, read_only: bool, block: u32) -> Limits {
    let device = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
    let (number, physical, discard) = if device {
        (
            found.st_rdev,
            rustix::fs::ioctl_blkpbszget(file).unwrap_or(block),
            probe::device_discard(found.st_rdev),
        )
    } else {
        let discard =
            if read_only { block::Discard::Ignored } else { probe::file_discard(file, bytes) };
        (found.st_dev, FILE_PHYSICAL, discard)
    };
    Limits {
        sectors: bytes / SECTOR,
        block_logical_bytes: block,
        block_physical_bytes: physical.clamp(block, block.max(1 << 20)),
        io_best_bytes: probe::io_best(number),
        io_max_bytes: IO_MAX,
        flush_needed: true,
        // RWF_DSYNC: the kernel flushes after the write where the device has no FUA.
        fua: Fua::Emulated,
        discard,
        zero_fast: discard == block::Discard::Zeroes && (device || probe::file_zero(file, bytes)),
        rotational: probe::rotational(number),
        read_only,
        grain: SECTOR as u32,
    }
}

impl FileVolume {
    /// Opens a regular file or a block device, for this process alone.
    ///
    /// # Errors
    /// [`OpenError`]: one sentence that names the path, what is wrong, and what to do.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Arc<FileVolume>, OpenError> {
        let system = |doing| move |errno| system_error(path, doing, errno);
        let named = rustix::fs::stat(path).map_err(system("look at it"))?;
        let device = is_device(path, &named)?;
        refuse_used(path, &named, device)?;
        if device && !options.read_only && probe::is_read_only(named.st_rdev) {
            return Err(read_only(path));
        }
        let (file, buffered) = open(path, options, device).map_err(system("open it"))?;
        let found = rustix::fs::fstat(&file).map_err(system("look at it"))?;
        if identity(&found) != identity(&named) || is_device(path, &found)? != device {
            let name = path.display();
            let message = format!("{name}: was replaced while it was being opened; try again");
            return Err(failed(Kind::Busy, message));
        }
        let flags = rustix::fs::fcntl_getfl(&file).map_err(system("open it"))?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(system("open it"))?;
        let lock = lock(path, &file, options)?;
        let alignment = align(&file, device, buffered).map_err(system("examine it"))?;
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(system("measure it"))?;
        check_size(path, bytes, alignment.block, device)?;
        let limits = limits(&file, &found, bytes, options.read_only, alignment.block);
        Ok(Arc::new(FileVolume {
            path: path.to_owned(),
            file: Arc::new(file),
            limits,
            alignment,
            zeros: Arc::new(Memory::heap(ZEROS)),
            can_punch: AtomicBool::new(true),
            can_zero: AtomicBool::new(true),
            lock,
            device,
        }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it can do.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether I/O goes around the host's page cache.
    pub fn direct(&self) -> &Direct {
        &self.alignment.direct
    }

    /// Whether others are kept out.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Whether it is a block device.
    pub fn is_device(&self) -> bool {
        self.device
    }

    /// The first bytes (up to 4096), for [`crate::detect`].
    ///
    /// # Errors
    /// `Io` if they cannot be read.
    pub fn first_bytes(&self) -> Result<Vec<u8>, OpenError> {
        // Twice 4096 leaves room to align the destination, which direct I/O wants.
        let mut room = vec![0u8; 8192];
        let skip = room.as_ptr().align_offset(4096);
        let block = self.alignment.block as usize;
        // A device with blocks above 4096 bytes is no place for an image file.
        if block > 4096 {
            return Ok(Vec::new());
        }
        let got = rustix::io::pread(&self.file, &mut room[skip..skip + 4096], 0)
            .map_err(|errno| system_error(&self.path, "read its first block", errno))?;
        Ok(room[skip..skip + got].to_vec())
    }
}
