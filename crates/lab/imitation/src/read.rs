//! A trace in memory, in the order of its times.

use simulator::{Error, TraceFile, Watch};
use std::path::Path;
use trace::recording::Entry;
use trace::{Access, Event, Format, Operation};

/// A trace in memory.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The requests, in the order of their times.
    pub entries: Vec<Entry>,
    /// The names of the devices.
    pub devices: Vec<String>,
    /// The names of the processes.
    pub processes: Vec<String>,
    /// Requests whose operation is unknown, or which cover nothing; they are not imitated.
    pub left_out: u64,
    /// Whether the whole trace was read, and is not cut off.
    pub is_complete: bool,
}

const SECTOR: u64 = 512;
/// Requests between two checks of the memory.
const CHECKED: usize = 1 << 20;

/// Reads a trace. `devices`: only requests of these, by their names; empty: all. `has_memory` is
/// called with the bytes that will be needed next.
///
/// # Errors
/// The file cannot be read, is damaged, has no such device, or needs too much memory.
pub fn read(
    path: &Path,
    format: Option<Format>,
    devices: &[String],
    watch: &mut dyn Watch,
    has_memory: &dyn Fn(u64) -> Result<(), String>,
) -> Result<Recorded, Error> {
    let mut file = TraceFile::open(path, format)?;
    let mut recorded = Recorded::default();
    traces::each(&mut file, devices, watch, &mut |_, access| {
        if recorded.entries.len() == recorded.entries.capacity() {
            let more = recorded.entries.len().max(CHECKED);
            // The imitation and the blocks of both need about as much again, twice.
            has_memory((3 * more * size_of::<Entry>()) as u64).map_err(Error::Usage)?;
            let refused = |_| {
                let what = "the system refuses the memory for the trace; imitate a part of it";
                Error::Usage(what.into())
            };
            recorded.entries.try_reserve_exact(more).map_err(refused)?;
        }
        recorded.add(access);
        Ok(())
    })?;
    recorded.devices = file.devices().names().to_vec();
    recorded.processes = file.processes().names().to_vec();
    let Some(notes) = file.notes else { return Err(Error::Interrupted) };
    recorded.is_complete = !notes.is_cut;
    Ok(recorded)
}

impl Recorded {
    /// Adds a request, extended to whole sectors.
    fn add(&mut self, access: &Access) {
        let Some(operation) = access.operation() else {
            self.left_out += 1;
            return;
        };
        let end = access.first_byte.saturating_add(access.bytes).div_ceil(SECTOR);
        let (first, sectors) = match operation {
            Operation::Flush => (0, Some(0)),
            _ => {
                let first = access.first_byte / SECTOR;
                (first, u32::try_from(end - first).ok().filter(|it| *it > 0 && access.bytes > 0))
            }
        };
        let Some(sectors) = sectors else {
            self.left_out += 1;
            return;
        };
        let last_ns = self.entries.last().map_or(0, |entry| entry.event.time_ns);
        self.entries.push(Entry {
            event: Event {
                time_ns: access.time_ns.max(last_ns),
                took_ns: access.details.took_ns,
                operation,
                device: access.device,
                first,
                sectors,
                failed: None,
            },
            sent_ns: access.details.sent_ns,
            process: access.details.process,
            marks: access.details.marks,
        });
    }
}
