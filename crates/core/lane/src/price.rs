//! What the engine's work costs in virtual time.

/// A kind of work that is charged to the lane's own clock in a timed world. Live it costs what it
/// costs, and `charge` does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// A block read from memory, copy included.
    Hit,
    /// A request that goes to the backing for reading: lookup, bookkeeping, hand-over.
    Miss,
    /// A block kept after a miss, copy included.
    Fill,
    /// A block absorbed into the write buffer, copy included.
    Absorb,
    /// A request handed straight to the backing.
    Pass,
    /// A block written out: gathered, issued, marked clean.
    WriteOut,
    /// A flush, without the device's part.
    Flush,
}

impl Cost {
    /// Every kind, in the order of [`Prices::ns`].
    pub const ALL: [Cost; 7] =
        [Cost::Hit, Cost::Miss, Cost::Fill, Cost::Absorb, Cost::Pass, Cost::WriteOut, Cost::Flush];
}

/// The price list of one machine, in nanoseconds, in the order of [`Cost::ALL`]. Measured, stored
/// with each run that uses it, and printed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Prices {
    /// Nanoseconds for one piece of each kind of work.
    pub ns: [u64; 7],
}

impl Prices {
    /// What `times` pieces of this work cost, in nanoseconds.
    pub fn of(&self, cost: Cost, times: u32) -> u64 {
        self.ns[cost as usize] * u64::from(times)
    }
}
