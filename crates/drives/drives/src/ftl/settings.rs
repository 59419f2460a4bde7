//! The settings of an FTL: policies and reserves, apart from the geometry.

use super::table::MapKind;

/// The choice of the superblock that is cleaned next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victims {
    /// The one with the fewest valid slots.
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// The emptiest of this number of random ones.
    Choices(u32),
    /// The best by space gained, age and cost: `age * (1 - u) / 2u` (Rosenblum and Ousterhout,
    /// 1991).
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
    /// Nothing until `low` superblocks are free, then until `high` are: all in one burst, or with
    /// each host write enough to gain some space.
    Burst {
        /// Cleaning begins at this number of free superblocks.
        low: u32,
        /// Cleaning ends at this number.
        high: u32,
        /// Slots gained during cleaning for each slot that the host writes; 0: the host waits until
        /// cleaning has ended.
        gain: u32,
    },
}

/// How host writes are handled when the SLC area is full.
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
    /// Superblocks that are always used this way; they come from the spare area.
    pub static_superblocks: u32,
    /// Additional free superblocks that may be used this way until they are needed at full density.
    pub dynamic_superblocks: u32,
    /// How a full area is handled.
    pub full: SlcFull,
    /// Whether the area is folded in idle time; otherwise data stays until the space is needed.
    pub fold_when_idle: bool,
    /// Whether a superblock with trimmed slots is reused in idle time only. One that was
    /// overwritten completely is reused immediately in any case.
    pub trimmed_when_idle: bool,
}

/// An FTL's policies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The choice of victims.
    pub victims: Victims,
    /// When they are cleaned.
    pub pacing: Pacing,
    /// Slots of good blocks that do not make a whole superblock. The firmware has them as a
    /// reserve, so paced cleaning keeps fewer of the whole ones free, but at least three.
    pub odd_slots: u32,
    /// Whether relocated slots go to the host's frontier, as in the simplest drives, rather than to
    /// a frontier of their own, which separates rarely written data.
    pub one_frontier: bool,
    /// The area with one bit a cell.
    pub slc: SlcSettings,
    /// Number of superblocks that idle time keeps free; 0: no cleaning in idle time.
    pub idle_free_superblocks: u32,
    /// The mapping table.
    pub map: MapKind,
    /// Number of log blocks of a hybrid mapping, once all flash was used; 0: every slot may be
    /// anywhere. Victims, pacing and an SLC area have no effect on a hybrid mapping.
    pub log_blocks: u32,
    /// The share of the trimmed slots whose flash is immediately free, in 1/256. The others are
    /// relocated like valid ones until they are written again.
    pub trim_256: u32,
    /// The smallest part to which data can be compressed, in 1/256; 256 if nothing is compressed.
    pub compression_256: u32,
    /// Slots of the volatile write buffer.
    pub buffer_slots: u32,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Settings {
    /// Returns the smallest part to which data can be compressed; 1 if nothing is compressed.
    pub fn compression_floor(&self) -> f64 {
        f64::from(self.compression_256) / 256.0
    }
}

impl Default for Settings {
    /// Returns the defaults: greedy, paced, no SLC area, a flat map, honest TRIM, a buffer of one
    /// mebibyte.
    fn default() -> Settings {
        Settings {
            victims: Victims::Greedy,
            pacing: Pacing::Paced { free_superblocks: 3 },
            odd_slots: 0,
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
