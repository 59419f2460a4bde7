//! The live world: the loop that drives a lane on io_uring, and what needs the kernel.
//!
//! - [`Ring`]: one lane's ring; [`Ring::run`] is the live counterpart of the simulated `World`.
//! - [`FileVolume`] and [`FileBackend`]: a regular file or a block device as a backing.
//! - [`claim`]: the same for serving, overwriting or a pool, after a look at its users and
//!   contents.
//! - [`note_backings`]: devices of Overdrive, and the files below them, also while no daemon serves
//!   those.
//! - [`signatures`] and [`detect`]: formats by their marks; [`reason`]: images that are no raw
//!   disks.
//! - [`shared_memory`]: the arena's memory; [`lock_process`], so that nothing of it faults.
//! - [`HugeAllocator`]: the system's allocator, with huge pages behind what is large where that is wanted.
//! - [`Fence`]: to know that the I/O of a daemon that died is over.
//! - [`LoopDevice`]: a file as a block device; [`NbdDevice`]: one of the kernel's NBD client.
//! - [`device_users`], [`Finding`]: what uses a file or device, below it and above it.
//! - [`UblkControl`], [`UblkQueue`]: the kernel's driver ublk.
//! - [`resident_bytes`]: how much of a file is in the page cache.
//! - [`Listener`]: unix and TCP sockets; [`peer`]: the process at the other end of a unix one.
//!
//! All system calls and all kernel `unsafe` of the project live here. The rule that makes it sound:
//! whatever an operation in flight points to (buffers, scatter lists, the open file) is held by the
//! ring until its completion has come, not by the future that waits for it.
#![deny(unsafe_code)]

mod arena;
mod available;
mod backend;
mod backings;
mod bell;
mod below;
mod claim;
mod claimed;
mod clock;
mod contention;
mod fence;
mod file;
mod flight;
mod groups;
mod halt_poll;
mod huge_allocator;
mod identity;
mod idle;
mod image;
mod in_use;
mod inherit;
mod locks;
mod log;
mod loop_device;
mod messages;
mod mounts;
mod nbd_device;
mod netlink;
mod network_locks;
mod open_error;
mod operations;
mod pages;
mod polling;
mod probe;
mod punctual;
mod refusal;
mod resident;
mod ring;
mod signals;
mod signatures;
mod size;
mod socket;
mod sockets;
mod spare;
mod stretches;
mod sysfs;
mod ublk;

pub use arena::{HugePages, SharedMemory, shared_memory, shared_memory_of};
pub use available::{check_memory_available, memory_left_in_groups, memory_of_machine};
pub use backend::FileBackend;
pub use backings::{DEVICES, OURS, device_owner, forget_backings, is_of_device, note_backings};
pub use below::{keys_below, keys_below_backing};
pub use claim::{Claimed, Intent, claim, examine, refuse_backing};
pub use claimed::ClaimedDevice;
pub use fence::Fence;
pub use file::{FileVolume, Lock, OpenOptions};
pub use huge_allocator::{HugeAllocator, want_huge_allocations};
pub use image::{ImageFormat, reason};
pub use in_use::{Finding, Relation, Usage, device_number, device_users, mount_points};
pub use inherit::{close_inherited, inherited, set_inherited};
pub use log::{Severity, begin_log, stamped, without_stamp};
pub use loop_device::{LoopDevice, LoopOptions};
pub use messages::{send_message, take_message};
pub use nbd_device::{NbdDevice, NbdOptions};
pub use open_error::{OpenError, OpenErrorKind};
pub use pages::{Faults, faults, lock_process, may_lock_all};
pub use polling::{Polled, Polling};
pub use probe::Direct;
pub use resident::resident_bytes;
pub use ring::Ring;
pub use signals::{ignore_file_size_signal, make_ordinary, signals};
pub use signatures::{Found, Kind, Mark, Signature, detect, signatures};
pub use socket::{Listener, Peer, peer, sweep};
pub use sockets::{finish, shutdown};
pub use ublk::{UblkControl, UblkQueue};

/// An open file as operations take it: counted, because what is in flight keeps it open.
pub type File = std::sync::Arc<std::os::fd::OwnedFd>;
