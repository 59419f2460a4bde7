//! The sizes of a demo.

/// Bytes in a MiB.
pub(super) const MIB: u64 = 1 << 20;

/// Minimum number of rounds of the copy: fewer give no reliable median.
pub(super) const ROUNDS_MIN: usize = 3;
/// No further round begins later than this after the start, in nanoseconds: the demo should end
/// within a minute even on a machine with other load.
pub(super) const ROUNDS_END_NS: u64 = 50_000_000_000;

/// Sizes and counts of a demo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// The file system, at the start of the disk.
    pub(super) files_bytes: u64,
    /// The database's space, after the file system.
    pub(super) database_bytes: u64,
    /// Memory of the cache: a quarter of the database's space.
    pub(super) memory_bytes: u64,
    /// Reads and writes of the database workload.
    pub(super) operations: u64,
    /// Rounds of the copy, if there is time.
    pub(super) rounds: usize,
}

impl Scale {
    /// The full demo: within a minute on two cores.
    pub(super) const FULL: Scale = Scale {
        files_bytes: 128 * MIB,
        database_bytes: 64 * MIB,
        memory_bytes: 16 * MIB,
        operations: 16_000,
        rounds: 11,
    };
    /// A short test whether it works: some seconds.
    pub(super) const QUICK: Scale = Scale {
        files_bytes: 48 * MIB,
        database_bytes: 16 * MIB,
        memory_bytes: 4 * MIB,
        operations: 2_000,
        rounds: 3,
    };

    /// Returns the size of the whole disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.files_bytes + self.database_bytes
    }

    /// Returns the space that the demo takes while it runs: the disk, the reference, a working
    /// copy, and the copied output.
    pub(super) fn space_bytes(&self) -> u64 {
        4 * self.disk_bytes() + 32 * MIB
    }
}
