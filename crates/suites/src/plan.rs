//! What is to be done, as plain data.

use crate::target::Target;
use block::{CacheSpec, Size, WriteMode};
use lane::Prices;
use modelled::State;

/// The suites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suite {
    /// Sequential and random, reads and writes, shallow and deep.
    Corners,
    /// Random writes over the whole drive after a fill: requests answered in each second.
    Consistency,
    /// Sequential writes to a drive that is clean, tortured, and trimmed.
    Trim,
    /// Sequential writes from the first byte to the last: the rate by position.
    Seqfill,
    /// Small random requests one at a time, and as many as the drive takes.
    Qd1,
}

impl Suite {
    /// Every suite.
    pub const ALL: [Suite; 5] =
        [Suite::Corners, Suite::Consistency, Suite::Trim, Suite::Seqfill, Suite::Qd1];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Corners => "corners",
            Suite::Consistency => "consistency",
            Suite::Trim => "trim",
            Suite::Seqfill => "seqfill",
            Suite::Qd1 => "qd1",
        }
    }

    /// Whether the state of the drive before it may be chosen: the others bring it about themselves.
    pub fn takes_state(self) -> bool {
        matches!(self, Suite::Corners | Suite::Seqfill | Suite::Qd1)
    }

    /// How long its timed parts take if nothing else is asked for, in nanoseconds of virtual time.
    pub fn time_ns(self) -> u64 {
        let seconds = match self {
            Suite::Corners => 5,
            Suite::Consistency => 2000,
            Suite::Trim => 1200,
            Suite::Seqfill => 0,
            Suite::Qd1 => 60,
        };
        seconds * 1_000_000_000
    }

    /// The part of the drive that it works on if nothing else is asked for; None: all of it.
    pub fn span_bytes(self) -> Option<u64> {
        match self {
            Suite::Corners | Suite::Qd1 => Some(8 << 30),
            _ => None,
        }
    }

    /// The cache of so much memory that it puts in front if nothing else is asked for.
    ///
    /// A load of our own needs no proof that it flushes, so writes are absorbed from the first on.
    /// `qd1` asks what absorbing can give at most: nothing is written out for its age or for the
    /// sake of a flush that is never sent, and as much may be dirty as the engine allows.
    pub fn cache(self, memory: Size) -> CacheSpec {
        let spec = CacheSpec { memory, write: WriteMode::BackNow, ..CacheSpec::default() };
        match self {
            Suite::Qd1 => CacheSpec {
                dirty_bytes: Some(Size(memory.0 / 16 * 15)),
                dirty_age_ms: AGE_OFF_MS,
                flush_target_ms: 0,
                ..spec
            },
            _ => spec,
        }
    }
}

/// A `dirty_age` that no run reaches: a year.
pub const AGE_OFF_MS: u64 = 365 * 86_400_000;

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Which suite.
    pub suite: Suite,
    /// On what.
    pub target: Target,
    /// With which cache in front; None: bare.
    pub cache: Option<CacheSpec>,
    /// What the cache's work costs. Without a cache nothing is charged.
    pub prices: Prices,
    /// What was done to the drive before.
    pub state: State,
    /// The part of the drive that is left unused, in percent of what the host sees.
    pub spare_percent: u32,
    /// The first bytes of the drive, which the suite works on; None: all.
    pub span_bytes: Option<u64>,
    /// How long the timed parts take, in nanoseconds of virtual time.
    pub time_ns: u64,
}

impl Plan {
    /// The suite as it is usually run.
    pub fn new(suite: Suite, target: Target) -> Plan {
        Plan {
            suite,
            target,
            cache: None,
            prices: Prices::default(),
            state: State::Purged,
            spare_percent: 0,
            span_bytes: suite.span_bytes(),
            time_ns: suite.time_ns(),
        }
    }

    /// Whether the parts go together.
    ///
    /// # Errors
    /// What does not, and what to write instead.
    pub fn check(&self) -> Result<(), String> {
        let name = self.suite.name();
        if self.state != State::Purged && !self.suite.takes_state() {
            return Err(format!("--state {}: {name} brings its states about itself", self.state));
        }
        if self.spare_percent > 90 {
            return Err(format!("--spare {}: 0 to 90 percent", self.spare_percent));
        }
        let span = self.span();
        if span < SPAN_MIN {
            let what = format!("only {} to work on; give {name} at least 64 MiB", Size(span));
            return Err(format!("{}: {what}", self.target.text));
        }
        if self.suite != Suite::Seqfill && self.time_ns == 0 {
            return Err("--time 0: nothing would be measured".to_owned());
        }
        if let Some(cache) = &self.cache
            && cache.memory.0 < 1 << 20
        {
            return Err(format!("--cache {}: a cache needs at least 1 MiB", cache.memory));
        }
        Ok(())
    }

    /// Bytes that the suite works on: what was asked for, as far as the drive and the spare part that
    /// is left unused go, in whole MiB.
    pub fn span(&self) -> u64 {
        let all = self.target.bytes();
        let usable = (u128::from(all) * u128::from(100 - self.spare_percent.min(100)) / 100) as u64;
        self.span_bytes.unwrap_or(all).min(usable) >> 20 << 20
    }

    /// The same plan for the bare drive.
    pub fn bare(&self) -> Plan {
        Plan { cache: None, ..self.clone() }
    }
}

/// The least span: below that, a superblock of most drives is not full.
const SPAN_MIN: u64 = 64 << 20;
