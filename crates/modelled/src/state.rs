//! States in which a drive is measured: what was done to it before.

use core::fmt;
use core::str::FromStr;
use drives::{Fast, Random};

/// What was done to a drive before it is used. Each begins with a new drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// Nothing: new, or erased.
    #[default]
    Purged,
    /// All of it written once, in order.
    Filled,
    /// Filled, then as much again written in random 4 KiB.
    Used,
    /// Filled, then four times as much written in random 4 KiB: write amplification has settled.
    Steady,
    /// Used, then all of it trimmed.
    Trimmed,
}

impl State {
    /// Every state.
    pub const ALL: [State; 5] =
        [State::Purged, State::Filled, State::Used, State::Steady, State::Trimmed];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            State::Purged => "purged",
            State::Filled => "filled",
            State::Used => "used",
            State::Steady => "steady",
            State::Trimmed => "trimmed",
        }
    }

    /// Brings a new drive into this state, by really writing to it.
    pub fn reach(self, fast: &mut Fast, seed: u64) {
        let slots = fast.ftl().shape().logical_slots;
        let all = u64::from(slots);
        let random = match self {
            State::Purged => return,
            State::Filled => 0,
            State::Used | State::Trimmed => all,
            State::Steady => 4 * all,
        };
        fast.write_sequential(0, all);
        fast.write_random(slots, random, &mut Random::new(seed));
        fast.flush();
        if self == State::Trimmed {
            for slot in 0..slots {
                fast.trim(slot);
            }
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for State {
    type Err = ();

    fn from_str(text: &str) -> Result<State, ()> {
        State::ALL.into_iter().find(|state| state.name() == text).ok_or(())
    }
}
