//! The flash translation layer: a pure state machine over flat arrays.
//!
//! Host writes are [staged](Ftl::stage) in a volatile buffer and leave it a unit at a time
//! ([`Ftl::program`]). Until then a slot's older version stays valid. Cleaning relocates into a
//! frontier of its own. A superblock is erased when it is opened, not when it becomes free: so a
//! victim's data is still on the flash while its relocated slots wait for their unit to fill.
//!
//! Each operation on the flash is passed to a [`Nand`], which counts it or times it.

mod audit;
mod blocks;
mod clean;
mod entries;
mod frontier;
mod gather;
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
pub struct UnitAddress {
    /// The superblock.
    pub superblock: u32,
    /// The unit in it; its die is `unit % dies`.
    pub unit: u32,
    /// Whether it is used with one bit a cell.
    pub slc: bool,
}

/// The reason why a unit is programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The host's data.
    Host,
    /// Cleaning or folding.
    Relocation,
    /// Pages of a map on the flash.
    Map,
}

/// Receives each operation on the flash, in order.
pub trait Nand {
    /// Whether reads are counted; if not, relocation does not compute them.
    const TIMED: bool;

    /// Reads `slots` slots of a unit for relocation, in `runs` runs: the firmware looks up and
    /// changes the map once for each. Cleaning checks the validity of each slot, so each is a run;
    /// when a superblock is folded or a block merged, slots that are adjacent on the flash and for
    /// the host are one run.
    fn read(&mut self, address: UnitAddress, slots: u32, runs: u32);

    /// Reads a page of the map for a slot that is moved.
    fn look_up(&mut self);

    /// Merges gathered changes into a page of the map.
    fn merge(&mut self);

    /// Programs a unit.
    fn program(&mut self, address: UnitAddress, purpose: Purpose);

    /// Erases a superblock, which will be used in this mode.
    fn erase(&mut self, superblock: u32, slc: bool);
}

/// Operations since the drive was made. All in slots unless noted otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Written by the host.
    pub host_writes: u64,
    /// Of these, those that replaced a version still in the buffer.
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
    /// Map pages into which gathered changes were merged.
    pub map_merges: u64,
    /// Superblocks erased that were or are used with all bits.
    pub erases: u64,
    /// Superblocks erased for use with one bit a cell.
    pub slc_erases: u64,
}

impl Counters {
    /// Returns the slots and map pages programmed, for any reason.
    pub fn programs(&self) -> u64 {
        self.host_programs + self.relocations + self.folds + self.padding + self.map_programs
    }

    /// Returns the programs since `before` divided by the host's programs since then, without those
    /// of the map; 1 if there were none. Theory calls this write amplification.
    pub fn amplification_since(&self, before: &Counters) -> f64 {
        let host = self.host_programs - before.host_programs;
        let moved = (self.relocations + self.folds) - (before.relocations + before.folds);
        if host == 0 { 1.0 } else { (host + moved) as f64 / host as f64 }
    }
}
