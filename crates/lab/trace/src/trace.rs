//! A trace in memory.

use crate::event::Event;
use alloc::vec::Vec;

/// A trace in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// The events, in the order of their times.
    events: Vec<Event>,
    dropped: u64,
    is_cut: bool,
}

impl Trace {
    /// Returns a trace of these events. `dropped` more were lost during the recording.
    pub(crate) fn new(mut events: Vec<Event>, dropped: u64, is_cut: bool) -> Trace {
        events.sort_by_key(|event| event.time_ns);
        Trace { events, dropped, is_cut }
    }

    /// Returns a complete trace of these events, which are sorted by their times.
    pub fn of(events: Vec<Event>) -> Trace {
        Trace::new(events, 0, false)
    }

    /// Returns the events, in the order of their times.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the number of events that were lost during the recording.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether the recording was cut off: the trace has its complete blocks.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the share of reads among the events.
    pub fn share_of_reads(&self) -> f64 {
        let reads = self.events.iter().filter(|event| event.is_read()).count();
        reads as f64 / self.events.len().max(1) as f64
    }

    /// Returns the time from the first event to the last, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        match (self.events.first(), self.events.last()) {
            (Some(first), Some(last)) => last.time_ns - first.time_ns,
            _ => 0,
        }
    }
}
