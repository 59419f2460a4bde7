//! Requests as the blocks that they touch.

use crate::outcome::Counts;
use trace::{Access, Devices, Direction};

/// The bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;
const BLOCK_SHIFT: u32 = BLOCK_BYTES.trailing_zeros();
/// Bits of a block's number: `trace::END_MAX` in blocks. The device is in the bits above.
pub const NUMBER_BITS: u32 = 48;

const _: () = assert!(trace::END_MAX >> BLOCK_SHIFT == 1 << NUMBER_BITS);
const _: () = assert!(trace::DEVICES_MAX as u64 <= 1 << (64 - NUMBER_BITS));

/// Selects requests, expands them into blocks, and counts them.
pub(crate) struct Blocks<'a> {
    /// The names of the devices that count; empty: all.
    selected: &'a [String],
    reads_only: bool,
    /// Whether each device seen so far counts.
    is_selected: Vec<bool>,
    pub(crate) counts: Counts,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(selected: &'a [String], reads_only: bool) -> Blocks<'a> {
        Blocks { selected, reads_only, is_selected: Vec::new(), counts: Counts::default() }
    }

    /// Appends the blocks that these requests touch, each request's in ascending order, until there
    /// are `enough`: one request may touch hundreds of thousands. Returns the number of requests
    /// taken.
    pub(crate) fn expand(
        &mut self,
        accesses: &[Access],
        devices: &Devices,
        enough: usize,
        into: &mut Vec<u64>,
    ) -> usize {
        for name in &devices.names()[self.is_selected.len()..] {
            self.is_selected.push(self.selected.is_empty() || self.selected.contains(name));
        }
        let mut taken = 0;
        for access in accesses {
            if into.len() >= enough {
                break;
            }
            taken += 1;
            if self.is_selected[access.device as usize] && self.count(access) && access.bytes > 0 {
                let first = access.first_byte >> BLOCK_SHIFT;
                let last = (access.first_byte + access.bytes - 1) >> BLOCK_SHIFT;
                let device = u64::from(access.device) << NUMBER_BITS;
                self.counts.block_accesses += last - first + 1;
                into.extend((first..=last).map(|block| device | block));
            }
        }
        taken
    }

    /// Counts a request. Returns whether its blocks count.
    fn count(&mut self, access: &Access) -> bool {
        let counts = &mut self.counts;
        let (of_its_kind, is_counted) = match access.direction {
            Direction::Read => (&mut counts.reads, true),
            Direction::Write => (&mut counts.writes, !self.reads_only),
            Direction::Other => (&mut counts.others, false),
        };
        *of_its_kind += 1;
        counts.requests += u64::from(is_counted);
        is_counted
    }

    /// Returns a selected device that does not occur in the trace.
    pub(crate) fn missing(&self, devices: &Devices) -> Option<&'a String> {
        self.selected.iter().find(|name| !devices.names().contains(name))
    }
}
