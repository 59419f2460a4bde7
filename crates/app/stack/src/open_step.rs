//! Steps of opening a volume that may take long.

/// A step of opening a volume, for a report to the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenStep {
    /// Memory is prepared.
    Memory {
        /// The prepared part.
        done_bytes: usize,
        /// All of it.
        all_bytes: usize,
    },
    /// The last requests of an earlier process have to end.
    Fence,
    /// The memory of an earlier process is taken over.
    TakeOver,
    /// Data in the memory of an earlier process is written to the backing, because this process
    /// cannot take the memory over. Reported every second.
    WriteBack {
        /// The data that is left.
        left_bytes: u64,
    },
}
