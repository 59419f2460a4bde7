//! Numbers of the protocol. Source: include/uapi/linux/fuse.h of Linux 6.9, and errno(3).

pub(crate) const VERSION_MAJOR: u32 = 7;
/// The newest version that this server supports; it requests no messages of newer versions.
pub(crate) const VERSION_MINOR: u32 = 36;
/// The oldest supported version (Linux 4.20): the first with requests of more than 128 KiB and a
/// negotiated number of pages.
pub(crate) const VERSION_MINOR_MIN: u32 = 28;

pub(crate) const LOOKUP: u32 = 1;
pub(crate) const FORGET: u32 = 2;
pub(crate) const GETATTR: u32 = 3;
pub(crate) const SETATTR: u32 = 4;
pub(crate) const OPEN: u32 = 14;
pub(crate) const READ: u32 = 15;
pub(crate) const WRITE: u32 = 16;
pub(crate) const STATFS: u32 = 17;
pub(crate) const RELEASE: u32 = 18;
pub(crate) const FSYNC: u32 = 20;
pub(crate) const FLUSH: u32 = 25;
pub(crate) const INIT: u32 = 26;
pub(crate) const OPENDIR: u32 = 27;
pub(crate) const READDIR: u32 = 28;
pub(crate) const RELEASEDIR: u32 = 29;
pub(crate) const FSYNCDIR: u32 = 30;
pub(crate) const INTERRUPT: u32 = 36;
pub(crate) const DESTROY: u32 = 38;
pub(crate) const BATCH_FORGET: u32 = 42;
pub(crate) const FALLOCATE: u32 = 43;
pub(crate) const LSEEK: u32 = 46;
/// SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, CREATE, RENAME2, TMPFILE.
pub(crate) const NAMING: [u32; 10] = [6, 8, 9, 10, 11, 12, 13, 35, 45, 51];

/// Flags that a mount offers or requests.
pub(crate) const ASYNC_READ: u64 = 1 << 0;
pub(crate) const BIG_WRITES: u64 = 1 << 5;
pub(crate) const ASYNC_DIO: u64 = 1 << 15;
pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
pub(crate) const ABORT_ERROR: u64 = 1 << 21;
pub(crate) const MAX_PAGES: u64 = 1 << 22;

/// Flags of an open file: the kernel does not cache its data, and its writes may run in parallel.
pub(crate) const OPEN_DIRECT_IO: u32 = 1 << 0;
pub(crate) const OPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// Fields of an attribute change: the size, the fields that follow from it, and the field with the
/// handle.
pub(crate) const SET_SIZE: u32 = 1 << 3;
pub(crate) const SET_HARMLESS: u32 =
    (1 << 5) | (1 << 6) | (1 << 8) | (1 << 9) | (1 << 10) | (1 << 11);

/// A notification that the server sends to the kernel.
pub(crate) const NOTIFY_RESEND: i32 = 7;

/// fallocate(2).
pub(crate) const KEEP_SIZE: u32 = 1;
pub(crate) const PUNCH_HOLE: u32 = 2;
pub(crate) const ZERO_RANGE: u32 = 16;

/// lseek(2).
pub(crate) const SEEK_DATA: u32 = 3;
pub(crate) const SEEK_HOLE: u32 = 4;

/// open(2), as on all machines except alpha, mips, parisc and sparc.
pub(crate) const O_DSYNC: u32 = 0o10_000;

/// stat(2). A directory that only its owner may enter.
pub(crate) const ROOT_MODE: u32 = 0o040_500;
pub(crate) const S_IFREG: u32 = 0o100_000;
/// readdir(3).
pub(crate) const DT_DIR: u32 = 4;
pub(crate) const DT_REG: u32 = 8;

pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const EINTR: i32 = 4;
pub(crate) const EIO: i32 = 5;
pub(crate) const ENXIO: i32 = 6;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const ENOTDIR: i32 = 20;
pub(crate) const EISDIR: i32 = 21;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EROFS: i32 = 30;
pub(crate) const ENOSYS: i32 = 38;
pub(crate) const EPROTO: i32 = 71;
pub(crate) const EOPNOTSUPP: i32 = 95;
