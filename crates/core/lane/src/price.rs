//! Cost of the engine's work in virtual time.

/// Defines [`Cost`] by a table of its kinds and their names.
macro_rules! costs {
    ($($(#[$about:meta])* $kind:ident: $name:literal,)*) => {
        /// A kind of work that is charged to the lane's own clock in a timed world. Live, `charge`
        /// does nothing.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Cost {
            $($(#[$about])* $kind,)*
        }

        impl Cost {
            /// All kinds, in the order of [`Prices::ns`].
            pub const ALL: [Cost; [$($name),*].len()] = [$(Cost::$kind),*];

            /// Returns the name in price lists.
            pub fn name(self) -> &'static str {
                match self {
                    $(Cost::$kind => $name,)*
                }
            }
        }
    };
}

// The names are part of saved results and of the command line.
costs! {
    /// A block read from memory, copy included.
    Hit: "hit",
    /// A read request to the backing: lookup, bookkeeping, submission.
    Miss: "miss",
    /// A block admitted after a miss, copy included.
    Fill: "fill",
    /// A block absorbed into the write buffer, copy included.
    Absorb: "absorb",
    /// A change sent to the backing before its answer.
    WriteThrough: "pass",
    /// A block written back: gathered, issued, marked clean.
    Writeback: "write_out",
    /// A flush, without the time of the device.
    Flush: "flush",
}

/// The prices of one machine, in nanoseconds, in the order of [`Cost::ALL`]. Measured, stored with
/// each run that uses it, and printed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Prices {
    /// Nanoseconds per unit of each kind of work.
    pub ns: [u64; Cost::ALL.len()],
}

impl Prices {
    /// Returns the price of `times` units of this work, in nanoseconds.
    pub fn of(&self, cost: Cost, times: u32) -> u64 {
        self.ns[cost as usize] * u64::from(times)
    }
}
