//! The confinement of the process that maps files. It reads what others may have prepared, so it
//! gives up all but its connection to the daemon and its output, also if the daemon is not
//! confined.
//!
//! ```text
//!   calls   seccomp    memory, reads and writes of what is open, the clock: permitted calls
//!   files   Landlock   none
//!   limits  setrlimit  memory, time of a processor
//! ```

use super::calls;
use super::files::{confine_thread, nothing_permitted};
use crate::rights;
use files::Bounds;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Memory beside the map and its list of extents: the program's own, readers' caches and lists.
const MEMORY_BESIDE_BYTES: u64 = 32 << 20;
/// Maximum time of a processor, in seconds: far more than the bounds of the work allow.
const PROCESSOR_S: u64 = 600;

/// Confines this process, which has one thread, and limits its memory in proportion to the bounds
/// of its work. Limits that the kernel does not have are left out, as in a daemon.
pub(crate) fn confine_mapper(bounds: &Bounds) {
    // While a map is made, it and the list of its extents have this size together; then the map
    // remains beside the list of classes and its encoded form.
    let memory = 2 * bounds.memory_bytes as u64 + MEMORY_BESIDE_BYTES;
    for (resource, most) in
        [(Resource::Data, memory), (Resource::Cpu, PROCESSOR_S), (Resource::Core, 0)]
    {
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    let _ = rights::restrict_mapper();
    let _ = nothing_permitted().map(confine_thread);
    let _ = calls::confine_reader();
}
