//! A regular file or a block device, opened once for all lanes.

use crate::identity::Identity;
use crate::image::ImageFormat;
use crate::mounts::mounts;
use crate::open_error::{OpenError, OpenErrorKind as Kind};
use crate::probe::{self, Alignment, Direct};
use crate::refusal::{check_size, failed, in_use as refused, read_only, system_error};
use crate::shrink_guard::ShrinkGuard;
use crate::signatures::{Found, Kind as Contents};
use crate::{File, clock, in_use, locks, network_locks, signatures, stretches};
use block::{Extent, Fua, Limits, Memory, SECTOR, Stretch};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use serde::Serialize;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Unit of atomic writes of a regular file, in bytes. This is a premise, documented for users: file
/// systems write whole pages, and the drives below them do not tear 4 KiB.
const FILE_PHYSICAL: u32 = 4096;
/// Maximum size of a transfer, in bytes.
const IO_MAX: u32 = 32 << 20;
/// Bytes of a page, the unit of the search for signatures.
const PAGE: usize = 4096;
/// Size of the buffer of zeros, for files that the kernel cannot zero, in bytes.
const ZEROS: usize = 1 << 20;

/// Settings for opening a backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Whether to refuse changes.
    pub read_only: bool,
    /// Whether to use the host's page cache instead of direct I/O.
    pub buffered: bool,
    /// Whether to open it even while it has other users. They may change it at any time, so no data
    /// read from it may be relied on.
    pub is_shared: bool,
}

/// Whether other users of the image are excluded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lock {
    /// Excluded by the locks that qemu uses; for a device also by the exclusive open.
    Held,
    /// Not excluded, for this reason: the user must ensure that no other program writes.
    No(String),
}

/// An open regular file or block device, shared by the lanes.
///
/// A device is open exclusively, a file has the locks that qemu uses. Both belong to the open file
/// description, and I/O in flight on io_uring keeps the description alive beyond the end of its
/// process. So when opening succeeds, the last I/O of an earlier owner on this machine has ended
/// (C15). (If a holder retains the description, the ring's `Fence` guarantees that instead.) On
/// network file systems this depends on the server's locks.
#[derive(Debug)]
pub struct FileVolume {
    path: PathBuf,
    file: File,
    limits: Limits,
    alignment: Alignment,
    zeros: Arc<Memory>,
    /// Cleared when the kernel reports that it is not supported.
    can_punch: AtomicBool,
    can_zero: AtomicBool,
    /// Whether it depends on a server, which may not answer.
    remote: bool,
    size: ShrinkGuard,
    identity: Identity,
    lock: Lock,
    device: bool,
    note: Option<String>,
}

/// Returns whether it is a device. Refuses anything that is neither device nor file.
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

/// Refuses a file or device that is in use. If `is_patient` is set, ignores programs that may have
/// just ended.
fn refuse_used(
    path: &Path,
    identity: Identity,
    options: OpenOptions,
    is_patient: bool,
) -> Result<(), OpenError> {
    let users = in_use::find(identity, !options.read_only);
    let found = users.iter().find(|user| !(is_patient && user.usage.may_end_soon()));
    found.map_or(Ok(()), |user| Err(refused(path, &user.to_string())))
}

/// Opens the path, for direct I/O if that is requested and possible; otherwise also returns the
/// reason.
fn open(
    path: &Path,
    options: OpenOptions,
    device: bool,
) -> Result<(OwnedFd, Option<&'static str>), Errno> {
    let mut flags = if options.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    // NONBLOCK: does not hang if the path has become a pipe in the meantime.
    flags |= OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if device {
        flags |= OFlags::EXCL;
    }
    match open_as(path, options, flags) {
        Err(Errno::BUSY) if options.is_shared => open_as(path, options, flags - OFlags::EXCL),
        other => other,
    }
}

fn open_as(
    path: &Path,
    options: OpenOptions,
    flags: OFlags,
) -> Result<(OwnedFd, Option<&'static str>), Errno> {
    if options.buffered {
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        return Ok((file, Some("buffered I/O was requested")));
    }
    match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
        Err(Errno::INVAL) => {
            let file = rustix::fs::open(path, flags, Mode::empty())?;
            Ok((file, Some("the file system refuses to open it directly")))
        }
        other => other.map(|file| (file, None)),
    }
}

/// Returns the image format at the start of a file that is open but has an unsuitable size.
fn format_of(file: &OwnedFd, block: u32) -> Option<ImageFormat> {
    let unit = (block as usize).max(PAGE);
    let mut room = vec![0u8; unit * 2];
    let skip = room.as_ptr().align_offset(unit);
    let got = rustix::io::pread(file, &mut room[skip..skip + unit], 0).ok()?;
    signatures::detect(&room[skip..skip + got])
}

fn lock(path: &Path, file: &OwnedFd, options: OpenOptions) -> Result<Lock, OpenError> {
    match locks::lock(file, !options.read_only) {
        locks::Locked::Yes => Ok(Lock::Held),
        locks::Locked::Busy if options.is_shared => {
            Ok(Lock::No("is locked by another program".to_owned()))
        }
        locks::Locked::Busy => Err(refused(
            path,
            "is locked by another program (qemu, another Overdrive, or an od-holder that retains \
             unwritten data)",
        )),
        locks::Locked::Unsupported(errno) => {
            Ok(Lock::No(format!("the file system has no locks ({errno})")))
        }
    }
}

/// Determines the alignments, and makes the description buffered if direct I/O does not work.
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
        loses_with_connection: false,
        // RWF_DSYNC: the kernel flushes after the write if the device has no FUA.
        fua: Fua::Emulated,
        discard,
        zero_fast: discard == block::Discard::Zeroes && (device || probe::file_zero(file, bytes)),
        rotational: probe::rotational(number),
        read_only,
        unaligned: false,
        grain: SECTOR as u32,
    }
}

/// Applies `options` to an open description: requests direct I/O if possible, otherwise returns the
/// reason.
fn set_direct(file: &OwnedFd, options: OpenOptions) -> Result<Option<&'static str>, Errno> {
    if options.buffered {
        probe::make_buffered(file)?;
        return Ok(Some("buffered I/O was requested"));
    }
    let flags = rustix::fs::fcntl_getfl(file)?;
    match rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT) {
        Err(Errno::INVAL) => Ok(Some("the file system refuses to use it directly")),
        other => other.map(|()| None),
    }
}

/// Returns a note about the path of a received description.
///
/// A missing path is accepted: the description still leads to the file that the cache belongs to.
fn note_on_path(path: &Path, identity: Identity) -> Result<Option<String>, OpenError> {
    let name = path.display();
    match rustix::fs::stat(path) {
        Ok(named) if Identity::of(&named) == identity => Ok(None),
        Ok(_) => Err(failed(
            Kind::Busy,
            format!(
                "{name}: is no longer the file or device that was served under this path, whose \
                 changes are still in memory; restore that one, or recover it under its new path"
            ),
        )),
        Err(errno) => Ok(Some(format!(
            "{name}: no longer exists ({errno}); the file that was open under this path is used, \
             and may be lost when it is closed"
        ))),
    }
}

impl FileVolume {
    /// Opens a regular file or a block device, for this process only.
    ///
    /// # Errors
    /// [`OpenError`]: a sentence with the path, the reason, and a remedy.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Arc<FileVolume>, OpenError> {
        let system = |doing| move |errno| system_error(path, doing, errno);
        let named = rustix::fs::stat(path).map_err(system("examine it"))?;
        let device = is_device(path, &named)?;
        if !options.is_shared {
            refuse_used(path, Identity::of(&named), options, false)?;
        }
        if device && !options.read_only && probe::is_read_only(named.st_rdev) {
            return Err(read_only(path));
        }
        let (file, buffered) = open(path, options, device).map_err(system("open it"))?;
        let found = rustix::fs::fstat(&file).map_err(system("examine it"))?;
        if Identity::of(&found) != Identity::of(&named) {
            let name = path.display();
            let message = format!("{name}: was replaced while it was being opened; try again");
            return Err(failed(Kind::Busy, message));
        }
        if device && !options.is_shared {
            // Another program may have claimed the drive by another name in between. Of two
            // programs that open one drive by two names, the second one detects the first.
            let users = in_use::find_beside(found.st_rdev, !options.read_only);
            users.first().map_or(Ok(()), |user| Err(refused(path, &user.to_string())))?;
        }
        let flags = rustix::fs::fcntl_getfl(&file).map_err(system("open it"))?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(system("open it"))?;
        FileVolume::examine(path, file, options, &found, buffered, None)
    }

    /// Same as [`FileVolume::open`], but waits up to `lock_wait_ms` for a process that has it
    /// locked or open exclusively: a killed process keeps its locks until its last I/O has ended.
    /// Blocks the thread. Refuses a mounted device or a file in use as swap immediately.
    ///
    /// # Errors
    /// As [`FileVolume::open`], from the last try.
    pub fn open_waiting(
        path: &Path,
        options: OpenOptions,
        lock_wait_ms: u64,
    ) -> Result<Arc<FileVolume>, OpenError> {
        let patience = clock::Patience::new(lock_wait_ms);
        loop {
            let error = match FileVolume::open(path, options) {
                Err(error) if error.kind == Kind::Busy => error,
                other => return other,
            };
            let named = rustix::fs::stat(path).map_err(|e| system_error(path, "examine it", e))?;
            is_device(path, &named)?;
            refuse_used(path, Identity::of(&named), options, true)?;
            if !patience.pause() {
                return Err(error);
            }
        }
    }

    /// Creates a volume from an open description that a holder has retained. Locks and
    /// exclusiveness belong to the description, so the volume has them too.
    ///
    /// A missing path is not an error, but causes a [`FileVolume::note`].
    ///
    /// # Errors
    /// As [`FileVolume::open`]; also if the path now names another file, if the description is
    /// read-only and `options` request writing, or if another process has locked the file.
    pub fn from_file(
        path: &Path,
        file: OwnedFd,
        options: OpenOptions,
    ) -> Result<Arc<FileVolume>, OpenError> {
        let system = |doing| move |errno| system_error(path, doing, errno);
        let found = rustix::fs::fstat(&file).map_err(system("examine it"))?;
        let device = is_device(path, &found)?;
        let note = note_on_path(path, Identity::of(&found))?;
        refuse_used(path, Identity::of(&found), options, false)?;
        let flags =
            rustix::fs::fcntl_getfl(&file).map_err(system("use the retained descriptor"))?;
        let writable = flags & OFlags::RWMODE == OFlags::RDWR;
        if !options.read_only && (!writable || device && probe::is_read_only(found.st_rdev)) {
            return Err(read_only(path));
        }
        let buffered = set_direct(&file, options).map_err(system("use the retained descriptor"))?;
        FileVolume::examine(path, file, options, &found, buffered, note)
    }

    /// Locks an open description and determines its abilities.
    fn examine(
        path: &Path,
        file: OwnedFd,
        options: OpenOptions,
        found: &Stat,
        buffered: Option<&str>,
        note: Option<String>,
    ) -> Result<Arc<FileVolume>, OpenError> {
        let system = |doing| move |errno| system_error(path, doing, errno);
        let device = is_device(path, found)?;
        let lock = lock(path, &file, options)?;
        let alignment = align(&file, device, buffered).map_err(system("examine it"))?;
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(system("measure it"))?;
        check_size(path, bytes, alignment.block, device)
            .map_err(|error| OpenError { image: format_of(&file, alignment.block), ..error })?;
        let limits = limits(&file, found, bytes, options.read_only, alignment.block);
        Ok(Arc::new(FileVolume {
            path: path.to_owned(),
            remote: stretches::is_remote(&file, device),
            file: Arc::new(file),
            limits,
            alignment,
            zeros: Arc::new(Memory::heap(ZEROS)),
            can_punch: AtomicBool::new(true),
            can_zero: AtomicBool::new(true),
            size: ShrinkGuard::new(bytes, device),
            identity: Identity::of(found),
            lock,
            device,
            note,
        }))
    }

    /// Returns the open description with its locks, for a holder to retain.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns a number that identifies the file or device, whatever its path. It is a hash
    /// (FNV-1a, 64 bits) of `st_dev` and `st_ino` for a file, of `st_rdev` for a device, and of the
    /// kind. It is the same in all builds, and valid while the file system stays mounted and the
    /// device attached; after a restart of the machine it may differ.
    pub fn identity(&self) -> u64 {
        self.identity.hash()
    }

    /// Returns the numbers of which this is made.
    pub(crate) fn numbers(&self) -> Identity {
        self.identity
    }

    /// Returns the same identity as a file name: `file-<st_dev>-<st_ino>` or
    /// `device-<major>-<minor>`.
    pub fn key(&self) -> String {
        self.identity.key()
    }

    /// Whether it was found shorter than when it was opened, so that changes and flushes fail.
    pub fn was_short(&self) -> bool {
        self.size.was_short()
    }

    /// Accepts a file that was too short and has its full size again; the data beyond the cut is
    /// lost. Returns whether both conditions were met.
    pub fn accept_size(&self) -> bool {
        self.size.accept(&self.file)
    }

    /// Returns a sentence for the user about the state in which it was found.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the path of the backing.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the limits of the backing.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether I/O bypasses the host's page cache.
    pub fn direct(&self) -> &Direct {
        &self.alignment.direct
    }

    /// Whether other users are excluded.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Returns the alignments that direct I/O requires.
    pub fn alignment(&self) -> &Alignment {
        &self.alignment
    }

    /// Returns a buffer of zeros, for ranges that the kernel cannot zero.
    pub fn zeros(&self) -> &Arc<Memory> {
        &self.zeros
    }

    /// Whether the kernel can punch holes in it; cleared when that fails.
    pub fn can_punch(&self) -> &AtomicBool {
        &self.can_punch
    }

    /// Whether the kernel can zero a range of it; cleared when that fails.
    pub fn can_zero(&self) -> &AtomicBool {
        &self.can_zero
    }

    /// Whether it depends on a server, which may not answer.
    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// Returns its size when it was opened, with a mark if it has been smaller since.
    pub fn shrink_guard(&self) -> &ShrinkGuard {
        &self.size
    }

    /// Returns the stretches of data and holes in `at`. Only for a regular file on a local file
    /// system: otherwise the call may block for a long time.
    pub fn stretches(&self, at: Extent) -> Vec<Stretch> {
        stretches::of(&self.file, at)
    }

    /// Whether it is a block device.
    pub fn is_device(&self) -> bool {
        self.device
    }

    /// Returns its signatures of the wanted kinds, strongest first.
    ///
    /// # Errors
    /// `Io`: the pages of their marks cannot be read.
    pub fn signatures(
        &self,
        is_wanted: impl Fn(Contents) -> bool,
    ) -> Result<Vec<Found>, OpenError> {
        signatures::find(self.limits.bytes(), is_wanted, |offset| self.page(offset))
    }

    /// Returns the reason why other hosts are not excluded, as words that follow the file's name.
    pub fn local_locks(&self) -> Option<String> {
        let found = rustix::fs::fstat(&self.file).ok()?;
        let (kind, option) = network_locks::local_locks(&mounts(), found.st_dev)?;
        Some(format!("is on {kind}, mounted so that locks are this machine's alone ({option})"))
    }

    /// Returns the 4096 bytes at this multiple of 4096, or fewer at the end.
    fn page(&self, offset: u64) -> Result<Vec<u8>, OpenError> {
        // Direct I/O reads whole blocks, which may be larger, into aligned memory.
        let unit = (self.alignment.block as usize).max(PAGE);
        let mut room = vec![0u8; unit * 2];
        let skip = room.as_ptr().align_offset(unit);
        let first = offset - offset % unit as u64;
        let got = rustix::io::pread(&self.file, &mut room[skip..skip + unit], first)
            .map_err(|errno| system_error(&self.path, "read the places of signatures", errno))?;
        let begin = (offset - first) as usize;
        let read = &room[skip..skip + got];
        Ok(read.get(begin..).map_or(Vec::new(), |rest| rest[..rest.len().min(PAGE)].to_vec()))
    }
}
