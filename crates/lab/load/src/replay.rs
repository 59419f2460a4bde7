//! A recorded trace as a source.

use crate::plan::LoadError;
use crate::source::{Source, Step};
use block::{Extent, Limits, SECTOR};
use std::rc::Rc;
use trace::{Event, Trace};

/// A trace as a source, repeated, on a device of any size.
///
/// Every device of the trace gets an equal slice of the device, and every repetition an equal part
/// of the slice, so that no repetition reads or overwrites the data of an earlier one. Addresses
/// are taken modulo that part; a request that would reach beyond its end starts earlier. With one
/// device, one repetition and the recorded size, addresses do not change.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Rc<Trace>,
    /// The trace's devices, in order.
    devices: Rc<[u32]>,
    repetitions: u64,
    /// Sectors of a part.
    part: u64,
    /// Times are divided by this.
    faster: u64,
    /// The due time of the first step.
    lead_ns: u64,
    /// Steps have no due times.
    is_untimed: bool,
    repetition: u64,
    next: usize,
}

impl Replay {
    /// Repeats the trace this number of times on a device of `bytes` bytes.
    ///
    /// # Errors
    /// The device is too small for the trace's longest request.
    pub fn new(trace: Trace, bytes: u64, repetitions: u64) -> Result<Replay, LoadError> {
        let mut devices: Vec<u32> = trace.events().iter().map(|event| event.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let repetitions = repetitions.max(1);
        let parts = (devices.len() as u64).saturating_mul(repetitions).max(1);
        let part = bytes / SECTOR / parts / 8 * 8;
        let longest = trace.events().iter().map(|event| event.sectors).max().unwrap_or(0);
        if part < u64::from(longest).max(1) {
            return Err(LoadError::Span { sectors: bytes / SECTOR });
        }
        let (trace, devices) = (Rc::new(trace), devices.into());
        Ok(Replay {
            trace,
            devices,
            repetitions,
            part,
            faster: 1,
            lead_ns: 0,
            is_untimed: false,
            repetition: 0,
            next: 0,
        })
    }

    /// Returns the same replay, this number of times faster than recorded.
    pub fn faster(self, times: u64) -> Replay {
        Replay { faster: times.max(1), ..self }
    }

    /// Returns the same replay, whose first step is due this much after the start.
    pub fn after(self, lead_ns: u64) -> Replay {
        Replay { lead_ns, ..self }
    }

    /// Returns the same replay without times: as fast as possible at the depth of the run.
    pub fn untimed(self) -> Replay {
        Replay { is_untimed: true, ..self }
    }

    /// Returns the number of steps of all repetitions.
    pub fn steps(&self) -> u64 {
        (self.trace.events().len() as u64).saturating_mul(self.repetitions)
    }

    /// Returns the due time of the last step, in nanoseconds from the load's start.
    pub fn last_due_ns(&self) -> u64 {
        self.due_ns(self.repetitions - 1, self.trace.duration_ns())
    }

    /// Returns the due time of an event. The gap between two repetitions is the average gap between
    /// two events.
    fn due_ns(&self, repetition: u64, from_first_ns: u64) -> u64 {
        let all_ns = self.trace.duration_ns();
        let apart_ns = all_ns / (self.trace.events().len() as u64).max(1);
        let period_ns = all_ns.saturating_add(apart_ns);
        let due_ns = from_first_ns.saturating_add(period_ns.saturating_mul(repetition));
        (due_ns / self.faster).saturating_add(self.lead_ns)
    }

    fn place(&self, event: &Event) -> Extent {
        let device = self.devices.partition_point(|device| *device < event.device) as u64;
        let within = (event.first % self.part).min(self.part - u64::from(event.sectors));
        let part = device * self.repetitions + self.repetition;
        Extent::new(part * self.part + within, event.sectors)
    }
}

impl Source for Replay {
    fn check(&self, limits: &Limits) -> Result<(), LoadError> {
        let parts = self.devices.len() as u64 * self.repetitions;
        if parts * self.part > limits.sectors {
            return Err(LoadError::Span { sectors: limits.sectors });
        }
        let step = |event: &Event| {
            let at = self.place(event);
            Step { due_ns: None, operation: event.operation, at }.check(limits)
        };
        self.trace.events().iter().try_for_each(step)
    }

    fn next(&mut self) -> Option<Step> {
        if self.next == self.trace.events().len() {
            (self.repetition, self.next) = (self.repetition + 1, 0);
        }
        if self.repetition >= self.repetitions {
            return None;
        }
        let event = self.trace.events().get(self.next)?;
        self.next += 1;
        let first_ns = self.trace.events()[0].time_ns;
        let due_ns = Some(self.due_ns(self.repetition, event.time_ns - first_ns));
        Some(Step {
            due_ns: due_ns.filter(|_| !self.is_untimed),
            operation: event.operation,
            at: self.place(event),
        })
    }
}
