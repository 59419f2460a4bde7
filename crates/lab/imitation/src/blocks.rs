//! The blocks that requests touch, as in a simulation.

use simulator::BLOCK_BYTES;
use trace::recording::Entry;
use trace::{Event, Operation};

/// Sectors of a block.
const BLOCK_SECTORS: u64 = BLOCK_BYTES / 512;
/// Bits of a block's number; the device is in the bits above.
const NUMBER_BITS: u32 = 48;

/// Whether a request reads or writes data.
pub(crate) fn moves_data(event: &Event) -> bool {
    matches!(event.operation, Operation::Read | Operation::Write { .. })
}

/// Returns the blocks of a request; requests that move no data have none.
pub(crate) fn of_event(event: &Event) -> impl Iterator<Item = u64> + use<> {
    let (first, end) = match moves_data(event) {
        true => (event.first / BLOCK_SECTORS, event.first + u64::from(event.sectors)),
        false => (0, 0),
    };
    let device = u64::from(event.device) << NUMBER_BITS;
    (first..end.div_ceil(BLOCK_SECTORS)).map(move |block| device | block)
}

/// Returns the number of block accesses.
pub(crate) fn count(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| of_event(&entry.event).count() as u64).sum()
}

/// Returns the blocks of all requests, in order.
pub(crate) fn of_all(entries: &[Entry]) -> Vec<u64> {
    let mut blocks = Vec::with_capacity(count(entries) as usize);
    entries.iter().for_each(|entry| blocks.extend(of_event(&entry.event)));
    blocks
}

/// Returns the number of different blocks.
pub(crate) fn footprint(blocks: &[u64]) -> u64 {
    let mut different = blocks.to_vec();
    different.sort_unstable();
    different.dedup();
    different.len() as u64
}
