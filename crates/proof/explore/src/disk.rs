//! A disk in memory with a volatile cache, shared by all lanes.

use block::{Block, Limits, Memory, Ram, Request, Result};
use lane::Lane;
use std::sync::Arc;

/// The disk. Unflushed data is not durable.
#[derive(Clone)]
pub struct Disk {
    ram: Ram,
    /// The contents that would survive a power cut.
    durable: Arc<Memory>,
    now: Arc<Memory>,
    limits: Limits,
}

/// The disk as one lane sees it. A request takes effect atomically, at some time between its
/// sending and its answer.
struct OnLane {
    disk: Disk,
    lane: Lane,
    answers_now: bool,
}

impl Disk {
    /// A disk of zeros.
    pub fn new(sectors: u64, grain: u32) -> Disk {
        let bytes = sectors as usize * grain as usize;
        let (now, durable) = (Arc::new(Memory::heap(bytes)), Arc::new(Memory::heap(bytes)));
        let ram = Ram::from_memory(now.clone(), sectors, grain);
        let limits = Limits { flush_needed: true, ..ram.limits().clone() };
        Disk { ram, durable, now, limits }
    }

    /// Returns the same disk for requests of this lane. `answers_now`: reads, and writes without
    /// FUA, are answered immediately.
    pub fn on(&self, lane: &Lane, answers_now: bool) -> impl Block {
        OnLane { disk: self.clone(), lane: lane.clone(), answers_now }
    }

    /// Abilities of the disk.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The contents that would survive a power cut.
    pub fn durable(&self) -> &Memory {
        &self.durable
    }

    /// The contents that reads return.
    pub fn now(&self) -> &Memory {
        &self.now
    }

    fn settle(&self, request: &Request) {
        let grain = self.limits.grain as usize;
        let (offset, bytes) = match request {
            Request::Flush => (0, self.now.bytes()),
            Request::Write { at, fua: true, .. } | Request::Zero { at, fua: true, .. } => {
                (at.first as usize * grain, at.count as usize * grain)
            }
            _ => return,
        };
        let mut copied = vec![0; bytes];
        self.now.read(offset, &mut copied);
        self.durable.write(offset, &copied);
    }
}

impl Block for OnLane {
    fn limits(&self) -> &Limits {
        &self.disk.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        let is_plain = matches!(request, Request::Read { .. } | Request::Write { fua: false, .. });
        if self.answers_now && is_plain { self.disk.ram.try_now(request) } else { None }
    }

    async fn run(&self, request: Request) -> Result {
        self.lane.rest().await;
        let result = self.disk.ram.run(request.clone()).await;
        self.disk.settle(&request);
        self.lane.rest().await;
        result
    }
}
