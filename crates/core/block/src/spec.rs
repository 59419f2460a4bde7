//! A stack as data: the form that the command line, the config file and bug reports share.

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
    /// Time of a flush once earlier writes are done, in microseconds.
    pub flush_us: u64,
    /// Number of requests served at a time.
    pub servers: u32,
    /// Bytes per second over the link; 0: no limit.
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
    /// Number of the first read that fails.
    pub read_from: u64,
    /// Number of the first write (or zero, or discard) that fails.
    pub write_from: u64,
    /// Number of the first flush that fails.
    pub flush_from: u64,
    /// Number of failures of each kind; 0: no limit.
    pub count: u64,
    /// The errno of the failures; 0: EIO.
    pub errno: i32,
    /// If not 0, the operations do not fail: they are delayed by this time, in milliseconds, and
    /// then served.
    pub hang_ms: u64,
}

/// A rate limit as data: two buckets of tokens, which start full. A rate of 0 is no limit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitSpec {
    /// Requests per second.
    pub iops: u64,
    /// Bytes per second.
    pub bandwidth: Size,
    /// Time in which an empty bucket fills, in microseconds.
    pub burst_us: u64,
}

/// How a modelled drive was used before. Each state starts with a new drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveState {
    /// Not at all: new, or erased.
    #[default]
    Purged,
    /// Written completely once, in order.
    Filled,
    /// Filled, then its capacity written once more in random 4 KiB blocks.
    Used,
    /// Filled, then four times its capacity written in random 4 KiB blocks: write amplification has
    /// settled.
    Steady,
    /// Used, then trimmed completely.
    Trimmed,
}

impl DriveState {
    /// All states.
    pub const ALL: [DriveState; 5] = [
        DriveState::Purged,
        DriveState::Filled,
        DriveState::Used,
        DriveState::Steady,
        DriveState::Trimmed,
    ];

    /// The state as users write it.
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
    /// Name of a preset, or path of a drive's file: with a `/`, or ending in `.toml`.
    pub drive: String,
    /// Size that the host sees, if not the model's full size; the rest of the flash is spare.
    #[serde(default)]
    pub size: Option<Size>,
    /// Seed of the drive's random choices.
    #[serde(default = "ModelSpec::first_seed")]
    pub seed: u64,
    /// How the drive was used before.
    #[serde(default)]
    pub state: DriveState,
    /// Size after compression, in percent, on a drive that compresses.
    #[serde(default = "ModelSpec::incompressible")]
    pub data_percent: u32,
    /// Percentage of blocks that are copies of other blocks, which a deduplicating drive stores
    /// once.
    #[serde(default)]
    pub dedupe_percent: u32,
}

impl ModelSpec {
    /// The default seed.
    pub const SEED: u64 = 1;

    /// A new drive with this name.
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
        /// Whether changes are refused.
        #[serde(default)]
        read_only: bool,
        /// Whether to use the host's page cache instead of direct I/O.
        #[serde(default)]
        buffered: bool,
    },
    /// An export of an NBD server.
    Nbd {
        /// Its URI.
        uri: String,
        /// Whether changes are refused.
        #[serde(default)]
        read_only: bool,
    },
    /// A volume in memory.
    Ram {
        /// Its size.
        size: Size,
    },
    /// A device that stores nothing.
    Null {
        /// Its size.
        size: Size,
    },
    /// A modelled drive, in the memory of the process.
    Model {
        /// The drive and its state.
        model: ModelSpec,
    },
    /// Several devices as one: each write goes to the member that suits it best.
    Pool {
        /// Members in their order; None for a missing member.
        members: Vec<Option<Spec>>,
    },
    /// Several devices striped as in RAID-0.
    Stripe {
        /// Members in their order.
        members: Vec<Spec>,
        /// Bytes on one member before the next member follows.
        chunk: Size,
    },
    /// A slower device.
    Delay {
        /// Its delays.
        delay: DelaySpec,
        /// The device below it.
        below: Box<Spec>,
    },
    /// A failing device.
    Faults {
        /// Its faults.
        faults: FaultsSpec,
        /// The device below it.
        below: Box<Spec>,
    },
    /// A device with a limited rate.
    Limit {
        /// Its limit.
        limit: RateLimitSpec,
        /// The device below it.
        below: Box<Spec>,
    },
    /// A cache.
    Cache {
        /// Its settings.
        cache: CacheSpec,
        /// The device below it.
        below: Box<Spec>,
    },
}

impl Spec {
    /// The devices directly below this one, in order. Missing members are left out.
    pub fn children(&self) -> Vec<&Spec> {
        match self {
            Spec::File { .. }
            | Spec::Nbd { .. }
            | Spec::Ram { .. }
            | Spec::Null { .. }
            | Spec::Model { .. } => Vec::new(),
            Spec::Pool { members } => members.iter().flatten().collect(),
            Spec::Stripe { members, .. } => members.iter().collect(),
            Spec::Delay { below, .. }
            | Spec::Faults { below, .. }
            | Spec::Limit { below, .. }
            | Spec::Cache { below, .. } => vec![below],
        }
    }

    /// This device and all devices below it, top first.
    pub fn walk(&self) -> impl Iterator<Item = &Spec> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let next = left.pop()?;
            left.extend(next.children().into_iter().rev());
            Some(next)
        })
    }

    /// This device and those below it down to the backing. A pool or a stripe counts as one
    /// backing.
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
