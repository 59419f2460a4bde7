//! The durations of all operations: inputs of the timed driver in addition to the FTL's settings.

use super::spread::Spread;

/// Times in nanoseconds, rates as nanoseconds per slot of 4 KiB (0: unlimited).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Channels; die `d` is on channel `d % channels`.
    pub channels: u32,
    /// Read of pages of a die, one in each plane, into its register.
    pub read_ns: u64,
    /// Program of a unit.
    pub program_ns: u64,
    /// Erase of a block in each plane of a die.
    pub erase_ns: u64,
    /// The same three with one bit a cell.
    pub slc_read_ns: u64,
    /// See `slc_read_ns`.
    pub slc_program_ns: u64,
    /// See `slc_read_ns`.
    pub slc_erase_ns: u64,
    /// Transfer of a slot on a channel.
    pub channel_slot_ns: u64,
    /// Slots of one read of a die: a page's, or a page's in each plane.
    pub read_slots: u32,
    /// Longest wait of a host read for a program or erase that is running on its die.
    pub suspend_ns: u64,
    /// Transfer of a slot on the link to the host.
    pub link_slot_ns: u64,
    /// Whether reads and writes share the link.
    pub half_duplex: bool,
    /// Cost of each command on the link.
    pub command_ns: u64,
    /// The firmware's serial time for a read command.
    pub firmware_read_ns: u64,
    /// The same for a write command.
    pub firmware_write_ns: u64,
    /// The same for each slot of a command except the first, and for each slot that is folded or
    /// merged together with the one before it.
    pub firmware_slot_ns: u64,
    /// The same for each slot that cleaning relocates, and for the first slot of each run when an
    /// SLC superblock is folded or a block merged. The slots of a run are adjacent on the flash and
    /// for the host.
    pub firmware_relocate_ns: u64,
    /// The same for a trim command.
    pub firmware_trim_ns: u64,
    /// The firmware's time for a trimmed slot, after the command was answered: to find and free its
    /// flash.
    pub trim_slot_ns: u64,
    /// Number of such slots that the firmware frees for each slot that the host reads or writes.
    pub trim_slots_at_once: u32,
    /// Duration of a flush when all programs are done.
    pub flush_ns: u64,
    /// Additional latency of a read that occupies no resource.
    pub read_latency_ns: u64,
    /// The firmware's serial time to begin a round of writes. Writes that wait when a round begins
    /// share it, so a single write pays all of it and a deep queue almost nothing.
    pub write_latency_ns: u64,
    /// The controller's own limit on host reads.
    pub read_slot_ns: u64,
    /// The controller's own limit on host writes.
    pub write_slot_ns: u64,
    /// Its limit on host writes that go to full-density flash.
    pub native_slot_ns: u64,
    /// Lookup in a map in the host's memory.
    pub map_hit_ns: u64,
    /// The firmware's time to merge gathered changes into a page of the map.
    pub map_merge_ns: u64,
    /// Whether the firmware does no other work while it waits for a page of the map.
    pub map_blocks: bool,
    /// Whether the buffer stores single sectors: a write of a part of a slot is then answered
    /// before the rest has been read.
    pub sectors_buffered: bool,
    /// Whether the next part of a sequential stream is read in advance.
    pub read_ahead: bool,
    /// Idle time after which background work begins.
    pub idle_ns: u64,
    /// The share of that time in which background work runs, in 1/256.
    pub idle_share_256: u32,
    /// Whether the buffer survives a power cut; then a flush waits for nothing.
    pub protected: bool,
    /// Variation between requests of one kind.
    pub spread: Spread,
    /// The part by which programs are faster and erases slower at the end of a block's life, in
    /// 1/256.
    pub wear_256: u32,
    /// Erases of a block's life.
    pub endurance: u32,
    /// Data needs one more read retry for each such span of its age; 0: never.
    pub retry_age_ns: u64,
    /// Maximum number of read retries.
    pub retries: u32,
}

/// Returns the nanoseconds per slot at a rate in bytes per second; 0 for 0, which means unlimited.
pub fn slot_ns(bytes_per_second: u64) -> u64 {
    (4_096_000_000_000 + bytes_per_second / 2).checked_div(bytes_per_second).unwrap_or(0)
}
