//! The requests of a device, as the kernel's tracepoints show them.

use super::device::Device;
use super::output::Output;
use super::recorder::{Source, SourceCounts};
use super::tracefs::Instance;
use stack::{Exit, Failure};
use trace::BlockEvent;
use trace::recording::Entry;
use traces::Matcher;

/// Maximum bytes that are read between two looks at signals and clocks.
const ROUND_BYTES_MAX: usize = 4 << 20;
/// Maximum length of a line of the kernel.
const LINE_MAX: usize = 1 << 12;

/// The events of a device.
pub(super) struct DeviceSource {
    device: Device,
    instance: Instance,
    matcher: Matcher,
    /// The beginning of a line.
    line: Vec<u8>,
    counts: SourceCounts,
}

impl DeviceSource {
    pub(super) fn new(device: Device, instance: Instance) -> DeviceSource {
        let matcher = Matcher::new(device.sectors.clone(), host::now_ns());
        DeviceSource {
            device,
            instance,
            matcher,
            line: Vec::new(),
            counts: SourceCounts::default(),
        }
    }

    /// Takes the complete lines.
    fn feed(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut lines = std::mem::take(&mut self.line);
        let end = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in lines[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match BlockEvent::of(line) {
                Some(event) => {
                    if let Some(entry) = self.matcher.feed(&event) {
                        self.put(entry, output)?;
                    }
                }
                // The kernel reports lost events; its statistics count them.
                None if line.starts_with(b"CPU:") => {}
                None => self.counts.unreadable += 1,
            }
        }
        lines.drain(..end);
        if lines.len() > LINE_MAX {
            self.counts.unreadable += 1;
            lines.clear();
        }
        self.line = lines;
        Ok(())
    }

    fn put(&self, entry: Entry, output: &mut Output) -> Result<(), Failure> {
        let names = self.matcher.processes();
        let process = entry.process.and_then(|number| names.get(number as usize));
        output.put(entry, &self.device.name, process.map(String::as_str))
    }

    fn count_lost(&mut self) -> Result<(), Failure> {
        self.counts.dropped = self.instance.lost().map_err(|error| unreadable(&error))?;
        Ok(())
    }
}

impl Source for DeviceSource {
    fn take(&mut self, output: &mut Output) -> Result<bool, Failure> {
        let mut taken = 0;
        while taken < ROUND_BYTES_MAX {
            let piece = self.instance.read().map_err(|error| unreadable(&error))?;
            if piece.is_empty() {
                return Ok(false);
            }
            taken += piece.len();
            self.line.extend_from_slice(piece);
            self.feed(output)?;
        }
        Ok(true)
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.count_lost()?;
        if !self.device.is_gone() {
            return Ok(());
        }
        let message = format!("{}: has gone; the recording ends there", self.device.path.display());
        Err(Failure::new(Exit::Negative, message))
    }

    fn finish(&mut self, output: &mut Output) -> Result<(), Failure> {
        self.instance.stop().map_err(|error| unreadable(&error))?;
        while self.take(output)? {}
        for entry in self.matcher.finish() {
            self.put(entry, output)?;
        }
        self.count_lost()
    }

    fn counts(&self) -> SourceCounts {
        SourceCounts { matched: self.matcher.matched(), ..self.counts }
    }
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("tracefs: {error}; the recording ends there"))
}
