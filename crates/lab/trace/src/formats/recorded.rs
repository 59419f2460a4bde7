//! The project's own recordings, block by block; `recording.rs` has their layout.

use crate::access::{Access, Details, Direction, Extent};
use crate::devices::Devices;
use crate::event::Operation;
use crate::malformed::Malformed;
use crate::processes::Processes;
use crate::recording::{self, Block, Entry, HEADER_BYTES, Name, Named, Version};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// Pieces are processed in portions of this size, which bounds the buffer of an incomplete block.
const PORTION: usize = 1 << 16;
/// Maximum number of names of each kind that are remembered.
const NAMES_MAX: usize = 1 << 16;

/// A recording that arrives in pieces.
#[derive(Default, Debug)]
pub(crate) struct Recorded {
    /// The received part of an incomplete block.
    partial: Vec<u8>,
    version: Option<Version>,
    /// Whole blocks so far.
    blocks: u64,
    /// Events that were lost during the recording.
    pub(crate) dropped: u64,
    /// Indexes of devices and processes by their numbers in the file.
    devices: BTreeMap<u32, u32>,
    processes: BTreeMap<u32, u32>,
    /// The start of the recording, in nanoseconds since 1970; 0: unknown.
    pub(crate) begin_ns: u64,
}

impl Recorded {
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        devices: &mut Devices,
        processes: &mut Processes,
        into: &mut Vec<Access>,
    ) -> Result<(), Malformed> {
        for portion in bytes.chunks(PORTION) {
            self.partial.extend_from_slice(portion);
            let Some(version) = self.version()? else { continue };
            let bytes = core::mem::take(&mut self.partial);
            let mut left = &bytes[..];
            while let Some((block, rest)) = Block::split(left, version, self.blocks)? {
                self.dropped = self.dropped.saturating_add(block.dropped());
                self.name(&block, devices, processes)?;
                for entry in block.entries() {
                    into.push(self.access(&entry?, devices, processes).map_err(|what| {
                        Malformed::new(format!("block {}: {what}", self.blocks))
                    })?);
                }
                (left, self.blocks) = (rest, self.blocks + 1);
            }
            let done = bytes.len() - left.len();
            self.partial = bytes;
            self.partial.drain(..done);
        }
        Ok(())
    }

    /// Returns the version, and removes the header, once it is complete.
    fn version(&mut self) -> Result<Option<Version>, Malformed> {
        if self.version.is_some() {
            return Ok(self.version);
        }
        let Some(header) = self.partial.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let version = Version::of(header)?;
        if self.partial.len() < version.header_bytes() {
            return Ok(None);
        }
        self.begin_ns = version.begin_ns(&self.partial)?;
        self.partial.drain(..version.header_bytes());
        self.version = Some(version);
        Ok(self.version)
    }

    fn name(
        &mut self,
        block: &Block<'_>,
        devices: &mut Devices,
        processes: &mut Processes,
    ) -> Result<(), Malformed> {
        for name in block.names() {
            let Name { named, number, letters } = name?;
            let (known, index) = match named {
                Named::Device => {
                    let index = devices.named(letters);
                    let index = index
                        .map_err(|what| Malformed::new(format!("block {}: {what}", self.blocks)))?;
                    (&mut self.devices, index)
                }
                Named::Process => (&mut self.processes, processes.named(letters)),
            };
            if known.len() >= NAMES_MAX {
                return Err(recording::damaged(self.blocks, "has more than 65,536 names"));
            }
            known.insert(number, index);
        }
        Ok(())
    }

    fn access(
        &self,
        entry: &Entry,
        devices: &mut Devices,
        processes: &mut Processes,
    ) -> Result<Access, &'static str> {
        let event = &entry.event;
        let direction = match event.operation {
            Operation::Read => Direction::Read,
            Operation::Write { .. } => Direction::Write,
            _ => Direction::Other,
        };
        let device = match self.devices.get(&event.device) {
            Some(device) => *device,
            None => devices.numbered(event.device.into())?,
        };
        let process = |number| match self.processes.get(&number) {
            Some(process) => *process,
            None => processes.named(format!("process {number}").as_bytes()),
        };
        let details = Details {
            operation: Some(event.operation),
            took_ns: event.took_ns,
            sent_ns: entry.sent_ns,
            process: entry.process.map(process),
            marks: entry.marks,
        };
        let extent = Extent::of_sectors(event.first, event.sectors.into())?;
        let access = extent.access(event.time_ns, device, direction)?;
        Ok(Access { details, ..access })
    }

    /// Whether it was cut off inside a block.
    ///
    /// # Errors
    /// It ends inside its header.
    pub(crate) fn finish(&self) -> Result<bool, Malformed> {
        if self.version.is_none() {
            return Err(recording::short());
        }
        Ok(!self.partial.is_empty())
    }
}
