//! Blocks of a recording, with the names that its events use.

use std::collections::BTreeSet;
use trace::recording::{self, EVENTS_MAX, Entry, Name, Named};

/// Collects entries, and makes blocks of them.
#[derive(Default)]
pub struct RecordingWriter {
    entries: Vec<Entry>,
    /// Devices and processes whose names were written, or will be in this block.
    devices: BTreeSet<u32>,
    processes: BTreeSet<u32>,
    names: Vec<(Named, u32, String)>,
    has_header: bool,
    /// The start of the recording, in nanoseconds since 1970; 0: unknown.
    pub(crate) begin_ns: u64,
}

impl RecordingWriter {
    /// Returns a writer of a recording that began at this time, in nanoseconds since 1970; 0:
    /// unknown.
    pub fn new(begin_ns: u64) -> RecordingWriter {
        RecordingWriter { begin_ns, ..RecordingWriter::default() }
    }

    /// Returns a writer of the next file of the same recording.
    #[must_use]
    pub fn next_file(&self) -> RecordingWriter {
        RecordingWriter::new(self.begin_ns)
    }

    /// Adds an entry of this device and process. Names are at most 255 bytes long.
    pub fn put(&mut self, entry: Entry, device: &str, process: Option<&str>) {
        if self.devices.insert(entry.event.device) {
            self.names.push((Named::Device, entry.event.device, device.to_owned()));
        }
        if let (Some(number), Some(name)) = (entry.process, process)
            && self.processes.insert(number)
        {
            self.names.push((Named::Process, number, name.to_owned()));
        }
        self.entries.push(entry);
    }

    /// Whether the collected entries fill a block.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= EVENTS_MAX
    }

    /// Whether no entry is collected.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the bytes of the collected entries, as blocks, and clears them. `dropped` events
    /// were lost before them. The first call returns the header as well.
    pub fn bytes(&mut self, dropped: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !std::mem::replace(&mut self.has_header, true) {
            recording::header_at(&mut bytes, self.begin_ns);
        }
        let names = std::mem::take(&mut self.names);
        let names: Vec<Name<'_>> = names.iter().map(name_of).collect();
        recording::entries_with(&mut bytes, &self.entries, &names, dropped);
        self.entries.clear();
        bytes
    }
}

fn name_of((named, number, letters): &(Named, u32, String)) -> Name<'_> {
    Name { named: *named, number: *number, letters: letters.as_bytes() }
}
