//! Cost of the engine's work in virtual time.

/// A kind of work that is charged to the lane's own clock in a timed world. Live, `charge` does
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// A block read from memory, copy included.
    Hit,
    /// A read request to the backing: lookup, bookkeeping, submission.
    Miss,
    /// A block admitted after a miss, copy included.
    Fill,
    /// A block absorbed into the write buffer, copy included.
    Absorb,
    /// A request passed directly to the backing.
    WriteThrough,
    /// A block written back: gathered, issued, marked clean.
    WriteOut,
    /// A flush, without the time of the device.
    Flush,
}

impl Cost {
    /// All kinds, in the order of [`Prices::ns`].
    pub const ALL: [Cost; 7] = [
        Cost::Hit,
        Cost::Miss,
        Cost::Fill,
        Cost::Absorb,
        Cost::WriteThrough,
        Cost::WriteOut,
        Cost::Flush,
    ];
}

/// The prices of one machine, in nanoseconds, in the order of [`Cost::ALL`]. Measured, stored with
/// each run that uses it, and printed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Prices {
    /// Nanoseconds per unit of each kind of work.
    pub ns: [u64; 7],
}

impl Prices {
    /// Returns the price of `times` units of this work, in nanoseconds.
    pub fn of(&self, cost: Cost, times: u32) -> u64 {
        self.ns[cost as usize] * u64::from(times)
    }
}
