//! Pages of this process: keeps them in memory.
//!
//! The writeback path must not wait for a page to be read from a disk: that may be the same disk
//! that it writes to.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{Advice, MlockAllFlags, MlockFlags};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::io;

/// Capability with which no limit applies to locked memory (include/uapi/linux/capability.h).
const CAP_IPC_LOCK: u32 = 14;

fn limit() -> String {
    match getrlimit(Resource::Memlock).current {
        Some(bytes) => format!("{} KiB", bytes / 1024),
        None => "unlimited".to_owned(),
    }
}

/// Returns the sentence for memory that could not be locked.
pub fn cannot_lock(what: &str, errno: Errno) -> io::Error {
    let message = format!(
        "{what} cannot be locked in RAM ({errno}); this process may lock {} (RLIMIT_MEMLOCK): allow \
         more with LimitMEMLOCK=infinity in its systemd unit, or ulimit -l unlimited in its shell",
        limit()
    );
    io::Error::new(io::Error::from(errno).kind(), message)
}

/// Whether the process may lock any amount of memory. With a limit, even one that is sufficient
/// now, a later growth of the heap could fail and end the process.
pub fn may_lock_all() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capable = status.lines().find_map(|line| {
        let bits = u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok()?;
        Some(bits >> CAP_IPC_LOCK & 1 == 1)
    });
    capable == Some(true) || getrlimit(Resource::Memlock).current.is_none()
}

/// A mapping of this process, from /proc/self/smaps.
#[derive(PartialEq, Debug)]
struct Mapping {
    from: usize,
    bytes: usize,
    is_writable: bool,
    /// Whether it is code, constants, data, heap or stack.
    is_ours: bool,
    /// Whether it consists of huge pages of the system's pool.
    is_huge: bool,
}

impl Mapping {
    /// Whether it needs a lock and can be locked: one page of the kernel is mapped in every process
    /// (vsyscall, in the upper half of the addresses).
    fn is_lockable(&self) -> bool {
        !self.is_huge && isize::try_from(self.from).is_ok()
    }
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let path = words.nth(3).unwrap_or_default();
    let from = usize::from_str_radix(from, 16).ok()?;
    let to = usize::from_str_radix(to, 16).ok()?;
    let is_named = path.starts_with('/') || path == "[heap]" || path == "[stack]";
    Some(Mapping {
        from,
        bytes: to.checked_sub(from)?,
        is_writable: rights.as_bytes().get(1) == Some(&b'w'),
        // Shared mappings are populated by their owner.
        is_ours: is_named && rights.starts_with('r') && rights.ends_with('p'),
        is_huge: false,
    })
}

fn mappings(smaps: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in smaps.lines() {
        match (line.strip_prefix("VmFlags:"), found.last_mut()) {
            (Some(flags), Some(last)) => {
                last.is_huge = flags.split_ascii_whitespace().any(|flag| flag == "ht");
            }
            _ => found.extend(mapping(line)),
        }
    }
    found
}

/// Keeps all present and future pages of this process in memory from their first use on, and loads
/// the pages of code, constants, data and heap now. Does not allocate pages of memory that was
/// reserved and never accessed.
///
/// Call it when set-up is complete. Pages that cannot be loaded are only slower at first use.
///
/// # Errors
/// A sentence that explains RLIMIT_MEMLOCK. A finite limit is refused even if it is sufficient now:
/// when it is reached, the process gets no more memory, and ends.
pub fn lock_process() -> io::Result<()> {
    if !may_lock_all() {
        return Err(cannot_lock("the process", Errno::NOMEM));
    }
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    let mappings = mappings(&smaps);
    let (now, later) = (MlockAllFlags::CURRENT, MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    let locked = match mappings.iter().any(|mapping| mapping.is_huge) {
        false => rustix::mm::mlockall(now | later),
        // mlockall would allocate all huge pages, including those of unused parts, until the
        // system's pool is empty. Huge pages are never swapped out: they need no lock.
        true => lock_small(&mappings).and_then(|()| rustix::mm::mlockall(later)),
    };
    locked.map_err(|errno| cannot_lock("the process", errno))?;
    mappings.iter().filter(|mapping| mapping.is_ours).for_each(populate);
    Ok(())
}

/// Locks all mappings except those of huge pages.
fn lock_small(mappings: &[Mapping]) -> Result<(), Errno> {
    // In a user namespace, a process may have the capability, but the limit still applies.
    let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    let mut bytes = 0;
    for mapping in mappings.iter().filter(|mapping| mapping.is_lockable()) {
        bytes += mapping.bytes as u64;
        let at = std::ptr::with_exposed_provenance_mut(mapping.from);
        // SAFETY: locking changes no contents, and a range that is unmapped in the meantime is an
        // error.
        let locked = unsafe { rustix::mm::mlock_with(at, mapping.bytes, MlockFlags::ONFAULT) };
        match locked {
            Err(errno) if bytes > limit => return Err(errno),
            _ => {}
        }
    }
    Ok(())
}

fn populate(mapping: &Mapping) {
    let advice = match mapping.is_writable {
        true => Advice::LinuxPopulateWrite,
        false => Advice::LinuxPopulateRead,
    };
    let at = std::ptr::with_exposed_provenance_mut(mapping.from);
    // SAFETY: populating changes no contents, and a range that is unmapped in the meantime is an
    // error.
    let _ = unsafe { rustix::mm::madvise(at, mapping.bytes, advice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_this_program_are_recognized() {
        let found = |line: &str| {
            let found = mapping(line).expect("a mapping");
            (found.from, found.bytes, found.is_writable, found.is_ours)
        };
        let code = "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus daemon";
        assert_eq!(found(code), (0x40_0000, 0x5_2000, false, true));
        let kernel = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]";
        assert!(mapping(code).is_some_and(|mapping| mapping.is_lockable()));
        assert!(mapping(kernel).is_some_and(|mapping| !mapping.is_lockable()));
        let heap = "00e03000-00e24000 rw-p 00000000 00:00 0           [heap]";
        assert_eq!(found(heap), (0xe0_3000, 0x2_1000, true, true));
        for other in [
            "35b1a21000-35b1a22000 rw-p 00000000 00:00 0",
            "f2c6ff8c000-ff2c7078c000 rw-s 00000000 00:01 986  /memfd:arena (deleted)",
            "7fffb2d48000-7fffb2d49000 r-xp 00000000 00:00 0           [vdso]",
        ] {
            assert!(!found(other).3, "{other}");
        }
        for none in ["7f00-7e00 r--p 00000000 08:02 1 /bin/odd", "Rss:  4 kB", "garbage", ""] {
            assert_eq!(mapping(none), None, "{none}");
        }
    }

    #[test]
    fn mappings_of_huge_pages_are_recognized() {
        let smaps = "1000-2000 rw-s 00000000 00:11 7   /memfd:arena (deleted)\n\
                     Size:  4 kB\nVmFlags: rd wr sh nr ht \n\
                     3000-5000 rw-s 00000000 00:01 8   /memfd:arena (deleted)\n\
                     Size:  8 kB\nVmFlags: rd wr sh nr \n";
        let found = mappings(smaps);
        let ranges: Vec<_> = found.iter().map(|one| (one.from, one.bytes, one.is_huge)).collect();
        assert_eq!(ranges, [(0x1000, 0x1000, true), (0x3000, 0x2000, false)]);
    }
}
