//! The project's own recordings, block by block; `recording.rs` has their layout.

use crate::access::{Access, Direction, Extent};
use crate::devices::Devices;
use crate::event::{Event, Operation};
use crate::malformed::Malformed;
use crate::recording::{self, HEADER_BYTES};
use alloc::format;
use alloc::vec::Vec;

/// Pieces are processed in portions of this size, which bounds the buffer of an incomplete block.
const PORTION: usize = 1 << 16;

/// A recording that arrives in pieces.
#[derive(Default, Debug)]
pub(crate) struct Recorded {
    /// The received part of an incomplete block.
    partial: Vec<u8>,
    has_header: bool,
    /// Whole blocks so far.
    blocks: u64,
    /// Events that were lost during the recording.
    pub(crate) dropped: u64,
}

impl Recorded {
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        devices: &mut Devices,
        into: &mut Vec<Access>,
    ) -> Result<(), Malformed> {
        for portion in bytes.chunks(PORTION) {
            self.partial.extend_from_slice(portion);
            if !self.has_header {
                let Some(header) = self.partial.first_chunk::<HEADER_BYTES>() else { continue };
                recording::check_header(header)?;
                self.has_header = true;
                self.partial.drain(..HEADER_BYTES);
            }
            self.take_blocks(devices, into)?;
        }
        Ok(())
    }

    fn take_blocks(
        &mut self,
        devices: &mut Devices,
        into: &mut Vec<Access>,
    ) -> Result<(), Malformed> {
        let mut left = &self.partial[..];
        while let Some((block, rest)) = recording::split(left, self.blocks)? {
            self.dropped = self.dropped.saturating_add(recording::dropped_before(block));
            for event in recording::events_of(block, self.blocks) {
                into.push(
                    access(&event?, devices)
                        .map_err(|what| Malformed::new(format!("block {}: {what}", self.blocks)))?,
                );
            }
            (left, self.blocks) = (rest, self.blocks + 1);
        }
        let done = self.partial.len() - left.len();
        self.partial.drain(..done);
        Ok(())
    }

    /// Whether it was cut off inside a block.
    ///
    /// # Errors
    /// It ends inside its header.
    pub(crate) fn finish(&self) -> Result<bool, Malformed> {
        if !self.has_header {
            return Err(recording::short());
        }
        Ok(!self.partial.is_empty())
    }
}

fn access(event: &Event, devices: &mut Devices) -> Result<Access, &'static str> {
    let direction = match event.operation {
        Operation::Read => Direction::Read,
        Operation::Write { .. } => Direction::Write,
        _ => Direction::Other,
    };
    let extent = Extent::of_sectors(event.first, event.sectors.into())?;
    extent.access(event.time_ns, devices.numbered(event.device.into())?, direction)
}
