//! The machine's memory: how much of it no active file uses.

use std::fs;
use std::path::Path;

/// The machine's memory, as the kernel reports it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Machine {
    /// All memory, in bytes.
    pub memory_bytes: u64,
    /// Memory that nothing uses, in bytes.
    pub free_bytes: u64,
    /// Memory that programs can have without swapping, in bytes. Cached files count as available.
    pub available_bytes: u64,
    /// Cached parts of files that were used more than once, in bytes.
    pub active_file_bytes: u64,
    /// Cached parts of files that were used once, in bytes.
    pub inactive_file_bytes: u64,
    /// Pages of files that were evicted and read again soon, since the start of the machine.
    pub refaults: u64,
}

/// Cached parts of files that would have to leave the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Displaced {
    /// Bytes that were used more than once: programs would read them from the device again.
    pub active_bytes: u64,
    /// Bytes that were used once.
    pub inactive_bytes: u64,
}

impl Machine {
    /// Reads the memory's state from this directory, usually /proc. None: it is not readable.
    pub fn read(proc: &Path) -> Option<Machine> {
        let text = fs::read_to_string(proc.join("meminfo")).ok()?;
        let vmstat = fs::read_to_string(proc.join("vmstat")).unwrap_or_default();
        let kib = |name| number(&text, name).unwrap_or(0) << 10;
        let (file, all) =
            (number(&vmstat, "workingset_refault_file"), number(&vmstat, "workingset_refault"));
        Some(Machine {
            memory_bytes: number(&text, "MemTotal:")? << 10,
            free_bytes: kib("MemFree:"),
            available_bytes: kib("MemAvailable:"),
            active_file_bytes: kib("Active(file):"),
            inactive_file_bytes: kib("Inactive(file):"),
            refaults: file.or(all).unwrap_or(0),
        })
    }

    /// Returns the memory that can be given to a cache without taking it from active files.
    pub fn spare_bytes(&self) -> u64 {
        self.available_bytes.saturating_sub(self.active_file_bytes)
    }

    /// Returns the part of the page cache that a cache of this size displaces: free memory is taken
    /// first, then files that were used once, then files that were used again.
    pub fn displaced(&self, memory_bytes: u64) -> Displaced {
        let beyond = |left: u64, most: u64| memory_bytes.saturating_sub(left).min(most);
        Displaced {
            active_bytes: beyond(self.spare_bytes(), self.active_file_bytes),
            inactive_bytes: beyond(self.free_bytes, self.inactive_file_bytes),
        }
    }
}

/// Returns the number of a line that begins with this word.
fn number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_active_files_is_not_spare() {
        let home = tempfile::tempdir().expect("a directory");
        assert_eq!(Machine::read(home.path()), None);
        let text = "MemTotal: 8192 kB\nMemFree: 3072 kB\nMemAvailable: 6144 kB\n\
                    Active(file): 2048 kB\nInactive(file): 1024 kB\n";
        fs::write(home.path().join("meminfo"), text).expect("written");
        let vmstat = "workingset_refault_anon 3\nworkingset_refault_file 7\n";
        fs::write(home.path().join("vmstat"), vmstat).expect("written");
        let machine = Machine::read(home.path()).expect("readable");
        assert_eq!((machine.memory_bytes, machine.refaults), (8 << 20, 7));
        assert_eq!(machine.spare_bytes(), 4 << 20);
        let displaced = |mib: u64| {
            let Displaced { active_bytes, inactive_bytes } = machine.displaced(mib << 20);
            (active_bytes >> 20, inactive_bytes >> 20)
        };
        assert_eq!([2, 3, 4, 5, 9].map(displaced), [(0, 0), (0, 0), (0, 1), (1, 1), (2, 1)]);
        let full = Machine { active_file_bytes: 1 << 40, ..machine };
        assert_eq!(full.spare_bytes(), 0);
    }
}
