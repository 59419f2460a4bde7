//! Maps of mounted file systems: a walk over their directories, with the positions of each file's
//! blocks; and files and devices as sources of bytes.
//!
//! - [`add_mounted`]: adds the files of a mounted ext4 or XFS to a map.
//! - [`first_sector`]: the position of the file system's partition on its disk.
//! - [`FileSource`]: an image or a block device, read by the readers of `files`.
//!
//! All calls block their thread.
#![forbid(unsafe_code)]

mod partition;
mod source;
mod walk;

pub use partition::first_sector;
pub use source::FileSource;
pub use walk::{add_mounted, map_mounted};
