//! Suites on the files of a mounted file system, in real time: copies of file sets, and loads of
//! existing files.
//!
//! ```text
//!   FileBench   its own folder in the directory: sets are created, dropped from the page cache,
//!               copied, removed
//!   LoadTime    the directory's files: dropped from the page cache, read, and read again
//! ```

mod bench_folder;
mod cold;
mod file_bench;
mod folder;
mod left;
mod load_time;
mod look;
mod quiet;
mod set;
mod site;
mod walk;

pub use cold::Coldness;
pub use file_bench::{FileBench, Wanted};
pub use folder::Folder;
pub use load_time::{LoadTime, Loaded, load};
pub use look::Look;
pub use set::{Copied, Set};
pub use site::size_of_file_system;
pub use walk::{Found, found};
