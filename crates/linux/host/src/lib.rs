//! The machine below a backing: its files, devices, users, locks and memory. No lane and no
//! io_uring: calls block their thread, so use them during set-up or on a separate thread.
//!
//! - [`FileVolume`]: a regular file or a block device, opened and locked once for all lanes.
//! - [`claim`]: opens one to serve, overwrite or read it, or for a pool, after a check of its users
//!   and contents.
//! - [`note_backings`]: records of the devices of Overdrive and the files below them, valid even
//!   while no daemon serves them.
//! - [`signatures`] and [`detect`]: formats by their marks; [`reason`]: images that are not raw
//!   disks.
//! - [`device_users`], [`Finding`]: users of a file or device, below it and above it.
//! - [`Erasable`]: a whole device that is not in use; [`discard`], [`zero`], [`trim_mounted`].
//! - [`LoopDevice`]: a file as a block device; [`NbdDevice`]: a device of the kernel's NBD client.
//! - [`disks`]: the machine's block devices; [`smartctl`], [`nvme`]: their health; [`nvme`],
//!   [`scsi`]: erasing by their own commands.
//! - [`lock_process`]: keeps the process's memory in RAM.
//! - [`RealTime`]: a priority above all ordinary threads.
//! - [`HugeAllocator`]: the system's allocator, with huge pages for large allocations.
//! - [`file_extents`]: the positions of a file's blocks on its device.
//! - [`limit_retransmission_pauses`]: how soon a TCP connection goes on after a cut.
//! - [`resident_bytes`]: the amount of a file that is in the page cache.
#![deny(unsafe_code)]

mod available;
mod backings;
mod claim;
mod claimed;
mod clock;
mod discard;
pub mod disks;
mod drives_below;
mod erasable;
mod erasing;
mod file;
mod file_extents;
mod groups;
mod huge_allocator;
mod identity;
mod image;
mod in_use;
mod inherit;
mod lease;
mod locks;
mod log;
mod loop_device;
mod lower_devices;
mod mounts;
mod nbd_device;
mod netlink;
mod network_locks;
pub mod nvme;
mod open_error;
mod other_names;
mod pages;
mod partition_scan;
mod probe;
mod real_time;
mod refusal;
mod resident;
mod retransmission;
pub mod scsi;
pub mod shrink_guard;
mod signals;
mod signatures;
pub mod smartctl;
mod stretches;
mod sysfs;
mod usage;

pub use available::{
    HUGE, check_memory_available, enough_memory, huge_pages_free, memory_left_in_groups,
    memory_of_machine,
};
pub use backings::{
    DEVICES, OURS, device_owner, forget_backings, is_of_device, note_backings, sweep_backings,
};
pub use claim::{Claim, Claimed, Intent, claim};
pub use claimed::ClaimedDevice;
pub use clock::{Patience, now_ns};
pub use discard::{discard, trim_mounted, zero};
pub use drives_below::{DriveTraffic, drives_below, is_drive_suspended};
pub use erasable::Erasable;
pub use erasing::{Erasing, erasing};
pub use file::{FileVolume, Lock, OpenOptions};
pub use file_extents::{FileExtent, file_extents};
pub use groups::{Generation, Group, own_groups, own_groups_in};
pub use huge_allocator::{HugeAllocator, want_huge_allocations};
pub use image::{ImageFormat, reason};
pub use in_use::{
    Finding, Relation, Usage, device_number, device_users, device_users_except, mount_points,
};
pub use inherit::{close_inherited, inherited, set_inherited};
pub use lease::is_opened_once;
pub use log::{
    Severity, begin_daemon, begin_journal, begin_log, has_stamps, is_logged, log_level,
    set_log_level, stamped, without_stamp, write_log,
};
pub use loop_device::{LoopDevice, LoopOptions};
pub use lower_devices::{keys_below, keys_below_backing};
pub use mounts::{Mount, mount_around, mounts, mounts_in};
pub use nbd_device::{NbdDevice, NbdOptions};
pub use open_error::{OpenError, OpenErrorKind};
pub use pages::{cannot_lock, lock_process, may_lock_all};
pub use probe::{Alignment, Direct};
pub use real_time::RealTime;
pub use resident::resident_bytes;
pub use retransmission::limit_retransmission_pauses;
pub use shrink_guard::ShrinkGuard;
pub use signals::{ignore_file_size_signal, is_stopped_within, make_ordinary, signals};
pub use signatures::{Found, Kind, Mark, Signature, detect, signatures};
pub use usage::{Faults, faults, voluntary_switches};

/// An open file for operations: reference-counted, because operations in flight keep it open.
pub type File = std::sync::Arc<std::os::fd::OwnedFd>;
