//! What an FTL is told: policies and reserves, apart from the geometry.

use super::table::MapKind;

/// Which superblock is cleaned next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victims {
    /// The one with the fewest valid slots.
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// The emptiest of so many random ones.
    Choices(u32),
    /// The best by space won, age and cost: `age * (1 - u) / 2u` (Rosenblum and Ousterhout, 1991).
    CostBenefit,
}

/// When cleaning is done while the host writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pacing {
    /// A little with every host write, so that about this many superblocks stay free.
    Paced {
        /// Superblocks that stay free, 2 at least.
        free_superblocks: u32,
    },
    /// Nothing until `low` superblocks are free, then until `high` are: all at once, or so much with each
    /// host write that some space is gained.
    Burst {
        /// Cleaning begins when no more than this many superblocks are free.
        low: u32,
        /// Cleaning ends when this many are.
        high: u32,
        /// Slots that are gained meanwhile for each that the host writes; 0: the host waits until
        /// cleaning has ended.
        gain: u32,
    },
}

/// What happens to host writes when the SLC area is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlcFull {
    /// They go to full-density flash directly.
    Direct,
    /// They wait until SLC superblocks have been folded.
    FoldFirst,
}

/// Flash used with one bit a cell, in front of the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlcSettings {
    /// Superblocks that are always used so; they are taken from the spare area.
    pub static_superblocks: u32,
    /// Free superblocks that may be used so besides, until they are needed at full density.
    pub dynamic_superblocks: u32,
    /// What happens when there is no room.
    pub full: SlcFull,
    /// Whether idle time is used to fold; otherwise data stay until the space is needed.
    pub fold_when_idle: bool,
    /// Whether a superblock in which something was trimmed is used again in idle time only. One that
    /// was overwritten whole is used again at once in any case.
    pub trimmed_when_idle: bool,
}

/// An FTL's policies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Which superblock is cleaned.
    pub victims: Victims,
    /// When it is.
    pub pacing: Pacing,
    /// Whether relocated slots go where the host writes, as in the simplest drives, rather than to a
    /// frontier of their own, which keeps what is seldom written apart.
    pub one_frontier: bool,
    /// The area with one bit a cell.
    pub slc: SlcSettings,
    /// Superblocks that idle time keeps free; 0: no cleaning in idle time.
    pub idle_free_superblocks: u32,
    /// The mapping table.
    pub map: MapKind,
    /// Log blocks of a hybrid mapping, once all flash was used; 0: every slot may lie anywhere. Victims,
    /// pacing and an SLC area are of no account then.
    pub log_blocks: u32,
    /// The share of the trimmed slots whose flash is known to be free at once, in 1/256. The others
    /// are relocated like valid ones until they are written again.
    pub trim_256: u32,
    /// The least part that data can be compressed to, in 1/256; 256 where nothing is compressed.
    pub compression_256: u32,
    /// Slots of the volatile write buffer.
    pub buffer_slots: u32,
    /// Where random choices begin.
    pub seed: u64,
}

impl Settings {
    /// The least part that data can be compressed to; 1 where nothing is compressed.
    pub fn compression_floor(&self) -> f64 {
        f64::from(self.compression_256) / 256.0
    }
}

impl Default for Settings {
    /// Greedy, paced, no SLC area, a flat map, honest TRIM, a buffer of one mebibyte.
    fn default() -> Settings {
        Settings {
            victims: Victims::Greedy,
            pacing: Pacing::Paced { free_superblocks: 3 },
            one_frontier: false,
            slc: SlcSettings::NONE,
            idle_free_superblocks: 0,
            map: MapKind::Flat { journal_updates: 1024 },
            log_blocks: 0,
            trim_256: 256,
            compression_256: 256,
            buffer_slots: 256,
            seed: 1,
        }
    }
}

impl SlcSettings {
    /// No such area.
    pub const NONE: SlcSettings = SlcSettings {
        static_superblocks: 0,
        dynamic_superblocks: 0,
        full: SlcFull::Direct,
        fold_when_idle: false,
        trimmed_when_idle: false,
    };
}
