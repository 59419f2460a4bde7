//! The flash translation layer: a pure state machine over flat arrays.
//!
//! Host writes are [staged](Ftl::stage) in a volatile buffer and leave it a unit at a time
//! ([`Ftl::program`]). Until then a slot's older version stays valid. Cleaning relocates into a frontier
//! of its own. A superblock is erased when it is opened, not when it becomes free: so what a victim held
//! is still on the flash while its relocated slots wait for their unit to fill.
//!
//! Each operation on the flash is told to a [`Nand`], which counts it or times it.

mod audit;
mod blocks;
mod clean;
mod entries;
mod frontier;
mod hybrid;
mod map;
mod map_area;
mod map_pages;
mod page_cache;
mod settings;
mod slc;
mod state;
mod table;
mod write;

pub use settings::{Pacing, Settings, SlcFull, SlcSettings, Victims};
pub use slc::Idle;
pub use state::{Found, Ftl};
pub use table::{MapCost, MapKind};

/// A unit of flash, by its superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The superblock.
    pub superblock: u32,
    /// The unit in it; its die is `unit % dies`.
    pub unit: u32,
    /// Whether it is used with one bit a cell.
    pub slc: bool,
}

/// Why a unit is programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The host's data.
    Host,
    /// Cleaning or folding.
    Relocation,
    /// Pages of a map that lies on the flash.
    Map,
}

/// What hears of each operation on the flash, in order.
pub trait Nand {
    /// Whether reads are wanted; where not, relocation does without finding out which they are.
    const TIMED: bool;

    /// So many slots of a unit are read to be relocated, in so many runs: the firmware looks up and changes
    /// the map once for each. Cleaning asks of each slot whether it is valid, and so each is a run; where
    /// a superblock is folded or a block merged, slots that follow one another on the flash and for the
    /// host are one.
    fn read(&mut self, place: Place, slots: u32, runs: u32);

    /// A page of the map is read for a slot that is moved.
    fn look_up(&mut self);

    /// A unit is programmed.
    fn program(&mut self, place: Place, purpose: Purpose);

    /// A superblock is erased, and will be used in this mode.
    fn erase(&mut self, superblock: u32, slc: bool);
}

/// What has happened since the drive was made. All in slots unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Written by the host.
    pub host_writes: u64,
    /// Of these, absorbed by a version that was still in the buffer.
    pub absorbed: u64,
    /// Trimmed while mapped.
    pub trimmed: u64,
    /// Programmed for the host.
    pub host_programs: u64,
    /// Of these, with one bit a cell.
    pub slc_programs: u64,
    /// Programmed to clean full-density superblocks.
    pub relocations: u64,
    /// Programmed to fold SLC superblocks.
    pub folds: u64,
    /// Programmed empty, because a flush or idle time closed a unit.
    pub padding: u64,
    /// Map pages read.
    pub map_reads: u64,
    /// Map pages programmed.
    pub map_programs: u64,
    /// Superblocks erased that had been or are used with all bits.
    pub erases: u64,
    /// Superblocks erased to be used with one bit a cell.
    pub slc_erases: u64,
}

impl Counters {
    /// Slots and map pages programmed, for whatever reason.
    pub fn programs(&self) -> u64 {
        self.host_programs + self.relocations + self.folds + self.padding + self.map_programs
    }

    /// Programs since `before` over the host's programs since then, without those of the map; 1 if
    /// there were none. This is what theory calls write amplification.
    pub fn amplification_since(&self, before: &Counters) -> f64 {
        let host = self.host_programs - before.host_programs;
        let moved = (self.relocations + self.folds) - (before.relocations + before.folds);
        if host == 0 { 1.0 } else { (host + moved) as f64 / host as f64 }
    }
}
