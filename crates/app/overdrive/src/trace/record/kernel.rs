//! The requests of a device, as the kernel's tracepoints show them.

use super::device::Device;
use super::events::Events;
use super::output::Output;
use super::recorder::{Source, SourceCounts};
use stack::{Exit, Failure};
use std::io::Error;
use trace::RingRecord;
use trace::recording::Entry;
use traces::Matcher;

/// The events of a device.
pub(super) struct DeviceSource {
    events: Events,
    requests: Requests,
    counts: SourceCounts,
}

/// The requests of a device that are in flight.
struct Requests {
    device: Device,
    matcher: Matcher,
    /// The first failure of the output. Nothing is written after it.
    failed: Option<Failure>,
}

impl DeviceSource {
    pub(super) fn new(device: Device, events: Events) -> DeviceSource {
        let matcher = Matcher::new(device.sectors.clone(), host::now_ns());
        let requests = Requests { device, matcher, failed: None };
        DeviceSource { events, requests, counts: SourceCounts::default() }
    }

    fn count(&mut self) -> Result<(), Failure> {
        self.counts.dropped = self.events.lost().map_err(|error| unreadable(&error))?;
        self.counts.unreadable = self.events.unreadable();
        Ok(())
    }
}

impl Requests {
    fn feed(&mut self, record: &RingRecord, output: &mut Output) {
        let RingRecord::Block(event) = record else { return };
        if let Some(entry) = self.matcher.feed(&event.event(event.process()))
            && let Err(failure) = self.put(entry, output)
        {
            self.failed.get_or_insert(failure);
        }
    }

    fn put(&self, entry: Entry, output: &mut Output) -> Result<(), Failure> {
        let names = self.matcher.processes();
        let process = entry.process.and_then(|number| names.get(number as usize));
        output.put(entry, &self.device.name, process.map(String::as_str))
    }
}

impl Source for DeviceSource {
    fn take(&mut self, output: &mut Output) -> Result<bool, Failure> {
        let requests = &mut self.requests;
        let taken = self.events.take(|record| requests.feed(record, output));
        let is_more = taken.map_err(|error| unreadable(&error))?;
        requests.failed.take().map_or(Ok(is_more), Err)
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.count()?;
        if !self.requests.device.is_gone() {
            return Ok(());
        }
        let message =
            format!("{}: has gone; the recording ends there", self.requests.device.path.display());
        Err(Failure::new(Exit::Negative, message))
    }

    fn finish(&mut self, output: &mut Output) -> Result<(), Failure> {
        let requests = &mut self.requests;
        let finished = self.events.finish(|record| requests.feed(record, output));
        finished.map_err(|error| unreadable(&error))?;
        for entry in requests.matcher.finish() {
            requests.put(entry, output)?;
        }
        let failed = requests.failed.take();
        self.count()?;
        failed.map_or(Ok(()), Err)
    }

    fn counts(&self) -> SourceCounts {
        SourceCounts { matched: self.requests.matcher.matched(), ..self.counts }
    }
}

fn unreadable(error: &Error) -> Failure {
    Failure::new(Exit::Io, format!("tracefs: {error}; the recording ends there"))
}
