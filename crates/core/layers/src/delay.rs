//! The layer `delay`: makes the device below it slower.

use crate::device::Device;
use alloc::sync::Arc;
use block::{DelaySpec, Extent, Fua, Layer, Padding, Request, Result, SECTOR, Stack};
use lane::{Event, Lane, Lock};

/// The part of a delay that all lanes share: one link and one set of servers.
pub struct DelayShared {
    device: Lock<Device>,
    /// Notified when writes have ended that a flush may be waiting for.
    quiet: Event,
    read_ns: u64,
    write_ns: u64,
    flush_ns: u64,
}

impl DelayShared {
    /// Creates a device with the delays of `spec`. Zero servers count as one, more than 4096 as
    /// 4096.
    pub fn new(spec: &DelaySpec) -> Arc<DelayShared> {
        let ns = |us: u64| us.saturating_mul(1000);
        Arc::new(DelayShared {
            device: Lock::new(Device::new(spec)),
            quiet: Event::new(),
            read_ns: ns(spec.read_us),
            write_ns: ns(spec.write_us),
            flush_ns: ns(spec.flush_us),
        })
    }
}

/// One lane's handle on a delayed device.
///
/// Each request crosses the link, takes the earliest free server for its service time, and is
/// answered when that time has passed and the request below has ended, whichever is later. Discards
/// and zeroes are served like writes, without bytes on the link. A flush waits for the writes that
/// arrived before it, then takes its own time; it needs no server, delays no other request, and may
/// overlap with other flushes. A FUA write takes as long as a write, plus a flush if the device
/// below emulates FUA.
pub struct Delay {
    shared: Arc<DelayShared>,
    lane: Lane,
    below: Stack,
}

impl Delay {
    /// Creates the handle of `lane` on the delayed device, in front of `below`.
    pub fn attach(shared: Arc<DelayShared>, lane: &Lane, below: Stack) -> Delay {
        Delay { shared, lane: lane.clone(), below }
    }

    /// Runs one section; the turns separate it from sections of the caller and of the device below.
    async fn section<R>(&self, decide: impl FnOnce(&mut Device) -> R) -> R {
        self.lane.turn().await;
        let decided = self.shared.device.with(decide);
        self.lane.turn().await;
        decided
    }

    async fn read(&self, at: Extent, request: Request, padding: Padding) -> Result {
        let add =
            |device: &mut Device| device.add(self.lane.now(), bytes_of(at), self.shared.read_ns);
        let end = self.section(add).await;
        let result = self.below.serve(request, padding).await;
        self.lane.sleep_until(end).await;
        result
    }

    async fn change(&self, bytes: u64, fua: bool, request: Request, padding: Padding) -> Result {
        let add = |device: &mut Device| {
            let end = device.add(self.lane.now(), bytes, self.shared.write_ns);
            (end, device.begin_write())
        };
        let (end, generation) = self.section(add).await;
        let result = self.below.serve(request, padding).await;
        self.lane.sleep_until(end).await;
        if self.section(|device| device.end_write(generation)).await {
            self.shared.quiet.notify();
        }
        if fua && self.limits().fua == Fua::Emulated {
            let flushed = self.lane.now().saturating_add(self.shared.flush_ns);
            self.lane.sleep_until(flushed).await;
        }
        result
    }

    async fn flush(&self) -> Result {
        let generation = self.section(Device::close).await;
        loop {
            let seen = self.shared.quiet.seen();
            if self.section(|device| device.is_quiet(generation)).await {
                break;
            }
            self.shared.quiet.after(seen).await;
        }
        let end = self.lane.now().saturating_add(self.shared.flush_ns);
        let result = self.below.run(Request::Flush).await;
        self.lane.sleep_until(end).await;
        result
    }
}

fn bytes_of(at: Extent) -> u64 {
    u64::from(at.count) * SECTOR
}

impl Layer for Delay {
    fn lower(&self) -> &Stack {
        &self.below
    }

    /// No request is answered immediately.
    fn try_now(&self, _request: &Request) -> Option<Result> {
        None
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        match request {
            Request::Read { at, .. } => self.read(at, request, padding).await,
            Request::Write { at, fua, .. } => {
                self.change(bytes_of(at), fua, request, padding).await
            }
            Request::Zero { fua, .. } => self.change(0, fua, request, padding).await,
            Request::Discard { .. } => self.change(0, false, request, padding).await,
            Request::Flush => self.flush().await,
            Request::Advise { .. } => self.below.serve(request, padding).await,
        }
    }
}
