//! Pages of this process: kept in memory, and how often one was missing.
//!
//! The write-back path must not wait for a page to come back from a disk: that disk may be the very
//! one it writes to.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{Advice, MlockAllFlags};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::io;
use std::mem::MaybeUninit;

/// CAP_IPC_LOCK: no limit counts for a process that has it. (include/uapi/linux/capability.h)
const CAP_IPC_LOCK: u32 = 14;

/// Page faults of this process since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Answered from memory.
    pub minor: u64,
    /// Answered by reading from a file or from swap.
    pub major: u64,
}

/// How many page faults this process has had.
pub fn faults() -> Faults {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure in, which is valid as zeros in any case.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    Faults { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64 }
}

fn limit() -> String {
    match getrlimit(Resource::Memlock).current {
        Some(bytes) => format!("{} KiB", bytes / 1024),
        None => "unlimited".to_owned(),
    }
}

/// The sentence for memory that could not be locked.
pub(crate) fn cannot_lock(what: &str, errno: Errno) -> io::Error {
    let message = format!(
        "{what} cannot be locked in RAM ({errno}); this process may lock {} (RLIMIT_MEMLOCK): allow \
         more with LimitMEMLOCK=infinity in its systemd unit, or ulimit -l unlimited in its shell",
        limit()
    );
    io::Error::new(io::Error::from(errno).kind(), message)
}

/// Whether the process may lock as much as it likes: a limit that is only just kept now would make
/// some later growth of the heap fail, and that would end the process.
pub fn may_lock_all() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capable = status.lines().find_map(|line| {
        let bits = u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok()?;
        Some(bits >> CAP_IPC_LOCK & 1 == 1)
    });
    capable == Some(true) || getrlimit(Resource::Memlock).current.is_none()
}

/// A mapping that is code, constants, data, heap or stack: its range, and whether it is written.
fn needed(line: &str) -> Option<(usize, usize, bool)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let path = words.nth(3)?;
    let is_ours = path.starts_with('/') || path == "[heap]" || path == "[stack]";
    // What is shared with others is populated by what maps it.
    if !is_ours || !rights.starts_with('r') || !rights.ends_with('p') {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let from = usize::from_str_radix(from, 16).ok()?;
    let to = usize::from_str_radix(to, 16).ok()?;
    Some((from, to.checked_sub(from)?, rights.as_bytes().get(1) == Some(&b'w')))
}

/// Keeps every page that this process has, or will have, in memory from the moment it is first
/// used, and reads in now what there is of code, constants, data and heap. Memory that was asked
/// for and never touched is not made to exist by this.
///
/// To be called when everything has been set up. What fails to be read in is only slower at first.
///
/// # Errors
/// One sentence that explains RLIMIT_MEMLOCK. A finite limit is refused also where it would do
/// today: once it is reached the process could get no more memory, and would end.
pub fn lock_process() -> io::Result<()> {
    if !may_lock_all() {
        return Err(cannot_lock("the process", Errno::NOMEM));
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    rustix::mm::mlockall(flags).map_err(|errno| cannot_lock("the process", errno))?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    for (from, length, writable) in maps.lines().filter_map(needed) {
        let advice = if writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        let at = std::ptr::with_exposed_provenance_mut(from);
        // SAFETY: populating changes no contents, and a range that has gone meanwhile is an error.
        let _ = unsafe { rustix::mm::madvise(at, length, advice) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_found_among_the_mappings() {
        let code = "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus daemon";
        assert_eq!(needed(code), Some((0x40_0000, 0x5_2000, false)));
        let heap = "00e03000-00e24000 rw-p 00000000 00:00 0           [heap]";
        assert_eq!(needed(heap), Some((0xe0_3000, 0x2_1000, true)));
        for other in [
            "35b1a21000-35b1a22000 rw-p 00000000 00:00 0",
            "f2c6ff8c000-7f2c7078c000 rw-s 00000000 00:01 986  /memfd:arena (deleted)",
            "7fffb2d48000-7fffb2d49000 r-xp 00000000 00:00 0           [vdso]",
            "7f00-7e00 r--p 00000000 08:02 1 /bin/odd",
            "garbage",
        ] {
            assert_eq!(needed(other), None, "{other}");
        }
    }

    #[test]
    fn first_touches_are_counted() {
        let before = faults();
        let memory = block::Memory::heap(8 << 20);
        for page in 0..2048 {
            memory.write(page * 4096, &[1]);
        }
        let after = faults();
        assert!(after.minor >= before.minor + 4, "{before:?} {after:?}");
        assert!(after.major >= before.major);
    }
}
