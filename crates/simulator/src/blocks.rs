//! Requests as the blocks that they touch.

use crate::outcome::Counts;
use trace::{Access, Devices, Direction};

/// The bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;
const BLOCK_SHIFT: u32 = BLOCK_BYTES.trailing_zeros();
/// A block's number takes so many bits: `trace::END_MAX` in blocks. The device stands above.
const NUMBER_BITS: u32 = 48;

const _: () = assert!(trace::END_MAX >> BLOCK_SHIFT == 1 << NUMBER_BITS);
const _: () = assert!(trace::DEVICES_MAX as u64 <= 1 << (64 - NUMBER_BITS));

/// Which requests count, and what was counted.
pub(crate) struct Blocks<'a> {
    /// The names of the devices that count; empty: all.
    selected: &'a [String],
    reads_only: bool,
    /// Whether each device that was met so far counts.
    is_selected: Vec<bool>,
    pub(crate) counts: Counts,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(selected: &'a [String], reads_only: bool) -> Blocks<'a> {
        Blocks { selected, reads_only, is_selected: Vec::new(), counts: Counts::default() }
    }

    /// Appends the blocks that these requests touch, each request's in ascending order.
    pub(crate) fn expand(&mut self, accesses: &[Access], devices: &Devices, into: &mut Vec<u64>) {
        for name in &devices.names()[self.is_selected.len()..] {
            self.is_selected.push(self.selected.is_empty() || self.selected.contains(name));
        }
        for access in accesses {
            if !self.is_selected[access.device as usize] {
                continue;
            }
            let counts = match access.direction {
                Direction::Read => &mut self.counts.reads,
                Direction::Write => &mut self.counts.writes,
                Direction::Other => &mut self.counts.others,
            };
            *counts += 1;
            let is_counted = match access.direction {
                Direction::Read => true,
                Direction::Write => !self.reads_only,
                Direction::Other => false,
            };
            if is_counted {
                self.counts.requests += 1;
                if access.bytes > 0 {
                    let first = access.first_byte >> BLOCK_SHIFT;
                    let last = (access.first_byte + access.bytes - 1) >> BLOCK_SHIFT;
                    let device = u64::from(access.device) << NUMBER_BITS;
                    self.counts.block_accesses += last - first + 1;
                    into.extend((first..=last).map(|block| device | block));
                }
            }
        }
    }

    /// A device that was asked for and never came.
    pub(crate) fn missing(&self, devices: &Devices) -> Option<&'a String> {
        self.selected.iter().find(|name| !devices.names().contains(name))
    }
}
