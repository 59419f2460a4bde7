//! Limits of the work on one volume.

/// Limits of a map's making. Where one is reached, the map is incomplete, and says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of bytes that are read from the volume.
    pub read_bytes: u64,
    /// Number of failed reads after which no others are tried.
    pub failed_reads: u32,
    /// Maximum number of records that are read: directory entries, extents, tree nodes, inodes. A
    /// file takes about six.
    pub steps: u64,
    /// Maximum number of files whose first bytes are read, for their class.
    pub peeks: u32,
    /// Maximum depth of directories below the root of a file system.
    pub depth: u32,
    /// Maximum number of bytes of the map and of the list of extents from which it is made. The
    /// readers need a cache of 4 MiB in addition, and lists of a few MiB for large directories.
    pub memory_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            read_bytes: 16 << 30,
            failed_reads: 64,
            steps: 1 << 26,
            peeks: 1 << 14,
            depth: 512,
            memory_bytes: 56 << 20,
        }
    }
}
