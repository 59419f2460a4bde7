//! The sizes of a demo.

/// Bytes in a MiB.
pub(super) const MIB: u64 = 1 << 20;

/// Rounds of the copy that are made in any case: fewer have no median worth the name.
pub(super) const ROUNDS_MIN: usize = 3;
/// No further round is begun later than this after the start, in nanoseconds: the demo is to end
/// within a minute also where others use the machine.
pub(super) const ROUNDS_END_NS: u64 = 50_000_000_000;

/// How large everything is, and how often it is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// The file system, at the start of the disk.
    pub(super) files_bytes: u64,
    /// The database's space, behind it.
    pub(super) database_bytes: u64,
    /// Memory to cache with: a quarter of the database's space.
    pub(super) memory_bytes: u64,
    /// Reads and writes of the database workload.
    pub(super) operations: u64,
    /// Rounds of the copy, if there is time.
    pub(super) rounds: usize,
}

impl Scale {
    /// What the demo does: within a minute on two cores.
    pub(super) const FULL: Scale = Scale {
        files_bytes: 128 * MIB,
        database_bytes: 64 * MIB,
        memory_bytes: 16 * MIB,
        operations: 16_000,
        rounds: 11,
    };
    /// A look at whether it works: some seconds.
    pub(super) const QUICK: Scale = Scale {
        files_bytes: 48 * MIB,
        database_bytes: 16 * MIB,
        memory_bytes: 4 * MIB,
        operations: 2_000,
        rounds: 3,
    };

    /// The whole disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.files_bytes + self.database_bytes
    }

    /// Space that the demo takes while it runs: the disk, the reference, a copy that is worked on,
    /// and what is copied out of it.
    pub(super) fn space_bytes(&self) -> u64 {
        4 * self.disk_bytes() + 32 * MIB
    }
}
