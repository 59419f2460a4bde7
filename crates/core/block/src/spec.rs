//! A stack as data: what the command line, the config file and bug reports share.

use crate::settings::CacheSpec;
use crate::size::Size;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A delay as data: a device of `servers` parallel servers behind one link.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DelaySpec {
    /// Time to serve one read, in microseconds.
    pub read_us: u64,
    /// Time to serve one write, in microseconds.
    pub write_us: u64,
    /// Time a flush takes once earlier writes are done, in microseconds.
    pub flush_us: u64,
    /// Requests served at a time.
    pub servers: u32,
    /// Bytes a second over the link; 0: no limit.
    pub bandwidth: Size,
}

impl Default for DelaySpec {
    fn default() -> DelaySpec {
        DelaySpec { read_us: 500, write_us: 500, flush_us: 500, servers: 4, bandwidth: Size(0) }
    }
}

/// Faults as data: which operations fail. Counting starts at 1; 0 means never.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultsSpec {
    /// The first read that fails.
    pub read_from: u64,
    /// The first write (or zero, or discard) that fails.
    pub write_from: u64,
    /// The first flush that fails.
    pub flush_from: u64,
    /// How many of each fail; 0: all from then on.
    pub count: u64,
    /// The errno they fail with; 0: EIO.
    pub errno: i32,
    /// If not 0, they do not fail: they hang for so long, in milliseconds, and are served then.
    pub hang_ms: u64,
}

/// What was done to a modelled drive before it is used. Each begins with a new drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveState {
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

impl DriveState {
    /// Every state.
    pub const ALL: [DriveState; 5] = [
        DriveState::Purged,
        DriveState::Filled,
        DriveState::Used,
        DriveState::Steady,
        DriveState::Trimmed,
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            DriveState::Purged => "purged",
            DriveState::Filled => "filled",
            DriveState::Used => "used",
            DriveState::Steady => "steady",
            DriveState::Trimmed => "trimmed",
        }
    }
}

impl fmt::Display for DriveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DriveState {
    type Err = String;

    fn from_str(text: &str) -> Result<DriveState, String> {
        DriveState::ALL
            .into_iter()
            .find(|state| state.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                let all = DriveState::ALL.map(DriveState::name).join(", ");
                format!("'{text}' is not a state of a drive; write one of {all}")
            })
    }
}

/// A modelled drive as data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// A preset's name, or the path of a drive's file: with a `/`, or ending in `.toml`.
    pub drive: String,
    /// What the host sees, if not all that the model has: the rest of the flash is spare.
    #[serde(default)]
    pub size: Option<Size>,
    /// Where the drive's random choices begin.
    #[serde(default = "ModelSpec::first_seed")]
    pub seed: u64,
    /// What was done to it before.
    #[serde(default)]
    pub state: DriveState,
    /// What data are compressed to by a drive that compresses, in percent of their size.
    #[serde(default = "ModelSpec::incompressible")]
    pub data_percent: u32,
    /// How many percent of the blocks are copies of others, which such a drive stores once.
    #[serde(default)]
    pub dedupe_percent: u32,
}

impl ModelSpec {
    /// The seed where none is given.
    pub const SEED: u64 = 1;

    /// A new drive of this name.
    pub fn new(drive: impl Into<String>) -> ModelSpec {
        let (size, seed, state) = (None, ModelSpec::SEED, DriveState::Purged);
        let (data_percent, dedupe_percent) = (ModelSpec::incompressible(), 0);
        ModelSpec { drive: drive.into(), size, seed, state, data_percent, dedupe_percent }
    }

    fn incompressible() -> u32 {
        100
    }

    fn first_seed() -> u64 {
        ModelSpec::SEED
    }
}

/// A stack as data, top first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Spec {
    /// A regular file or a block device.
    File {
        /// Its path.
        path: PathBuf,
        /// Refuse changes.
        #[serde(default)]
        read_only: bool,
        /// Use the host's page cache instead of direct I/O.
        #[serde(default)]
        buffered: bool,
    },
    /// Memory.
    Ram {
        /// Its size.
        size: Size,
    },
    /// Nothing.
    Null {
        /// Its size.
        size: Size,
    },
    /// A modelled drive, in the memory of the process.
    Model {
        /// Which, and in what state.
        model: ModelSpec,
    },
    /// Several devices as one: each write goes to the one that suits it best.
    Pool {
        /// In their order; None for one that is gone.
        members: Vec<Option<Spec>>,
    },
    /// Several devices side by side, as RAID-0 has them.
    Stripe {
        /// In their order.
        members: Vec<Spec>,
        /// Bytes on one before the next one's turn.
        chunk: Size,
    },
    /// A slower device.
    Delay {
        /// How slow.
        delay: DelaySpec,
        /// Of what.
        below: Box<Spec>,
    },
    /// A failing device.
    Faults {
        /// How it fails.
        faults: FaultsSpec,
        /// Of what.
        below: Box<Spec>,
    },
    /// The cache.
    Cache {
        /// How large, and how it treats writes.
        cache: CacheSpec,
        /// In front of what.
        below: Box<Spec>,
    },
}

impl Spec {
    /// What it stands on, in order. Members that are gone are left out.
    pub fn children(&self) -> Vec<&Spec> {
        match self {
            Spec::File { .. } | Spec::Ram { .. } | Spec::Null { .. } | Spec::Model { .. } => {
                Vec::new()
            }
            Spec::Pool { members } => members.iter().flatten().collect(),
            Spec::Stripe { members, .. } => members.iter().collect(),
            Spec::Delay { below, .. } | Spec::Faults { below, .. } | Spec::Cache { below, .. } => {
                vec![below]
            }
        }
    }

    /// This one and all below it, top first.
    pub fn walk(&self) -> impl Iterator<Item = &Spec> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let next = left.pop()?;
            left.extend(next.children().into_iter().rev());
            Some(next)
        })
    }

    /// This one and those below it down to the backing: a pool or a stripe is one, whatever its members
    /// are.
    pub fn chain(&self) -> impl Iterator<Item = &Spec> {
        std::iter::successors(Some(self), |spec| match spec {
            Spec::Pool { .. } | Spec::Stripe { .. } => None,
            spec => spec.children().into_iter().next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_survives_the_trip_through_json() {
        let below = Box::new(Spec::Ram { size: Size(1 << 20) });
        let delay = Box::new(Spec::Delay { delay: DelaySpec::default(), below });
        let spec = Spec::Cache { cache: CacheSpec::default(), below: delay };
        let text = serde_json::to_string(&spec).expect("plain data");
        assert_eq!(serde_json::from_str::<Spec>(&text).expect("what was written"), spec);
        let model = Spec::Model { model: ModelSpec::new("samsung-840-evo-250") };
        let text_of_model = serde_json::to_string(&model).expect("plain data");
        assert_eq!(serde_json::from_str::<Spec>(&text_of_model).expect("what was written"), model);
        let typo = text.replace("dirty_age_ms", "dirty_age");
        assert!(serde_json::from_str::<Spec>(&typo).is_err(), "an unknown key is an error");
    }

    #[test]
    fn a_stack_is_walked_from_its_top() {
        let ram = |mib: u64| Spec::Ram { size: Size(mib << 20) };
        let delayed = |below| Spec::Delay { delay: DelaySpec::default(), below: Box::new(below) };
        let pool = Spec::Pool { members: vec![None, Some(delayed(ram(1))), Some(ram(2))] };
        let spec = delayed(pool.clone());
        assert_eq!(spec.chain().collect::<Vec<_>>(), [&spec, &pool], "a pool is one backing");
        let all: Vec<Spec> = spec.walk().cloned().collect();
        assert_eq!(all, [spec.clone(), pool, delayed(ram(1)), ram(1), ram(2)]);
    }
}
