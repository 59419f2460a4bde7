//! A lane's handle on a link.

use super::{Attempt, LOST, Link};
use crate::disk::{Flight, Role};
use block::{Block, Error, Extent, Kind, Limits, LinkDown, LinkState, Request, Result, Stretch};
use lane::{Lane, first};
use nbd::client::RECONNECT_NS;
use nbd::fence::SETTLE_NS;
use std::rc::Rc;
use std::sync::Arc;

const UNREACHABLE: Error = Error::new(Kind::Io, "read: the server cannot be reached");

/// A disk behind a link, as a lane sees it.
pub(crate) struct LinkLane {
    link: Rc<Link>,
    lane: Lane,
    limits: Limits,
}

impl LinkLane {
    pub(crate) fn new(link: &Rc<Link>, lane: &Lane) -> LinkLane {
        LinkLane { link: link.clone(), lane: lane.clone(), limits: link.disk.limits().clone() }
    }

    fn now(&self) -> u64 {
        self.lane.now()
    }

    async fn read(&self, request: &Request) -> Result {
        let mut until_ns = None;
        loop {
            let connection = self.connection(Role::Reads, &mut until_ns).await?;
            let now_ns = self.now();
            let flight = self
                .link
                .disk
                .with(|state| state.send_on(request, (Role::Reads, connection), None, now_ns));
            if self.answer(request, flight, (Role::Reads, connection)).await {
                return Ok(());
            }
        }
    }

    /// Waits for a connection for reads.
    ///
    /// # Errors
    /// There is none within the time of a read, and requests do not wait for the link.
    async fn connection(&self, role: Role, until_ns: &mut Option<u64>) -> Result<u32> {
        loop {
            self.lane.turn().await;
            let seen = self.link.changed.seen();
            if let Some(connection) = self.link.connect(role, self.now()) {
                return Ok(connection);
            }
            let until_ns = *until_ns.get_or_insert(self.now() + RECONNECT_NS);
            if self.link.state.policy() == LinkDown::Wait {
                self.link.changed.after(seen).await;
            } else if self.now() < until_ns {
                first(self.link.changed.after(seen), self.lane.sleep_until(until_ns)).await;
            } else {
                return Err(UNREACHABLE);
            }
        }
    }

    async fn change(&self, request: &Request) -> Result {
        let number = self.link.fence.borrow_mut().request();
        loop {
            self.lane.turn().await;
            let seen = self.link.changed.seen();
            match self.link.try_send(request, number, self.now()) {
                Attempt::Waits => self.link.changed.after(seen).await,
                Attempt::Held(until_ns) => {
                    self.link.held.update(|held| held + 1);
                    let answer = self.link.changed.after(seen);
                    first(answer, self.lane.sleep_until(until_ns)).await;
                    self.link.held.update(|held| held - 1);
                    self.link.state.note_hold(self.now());
                }
                Attempt::Sent { flight, connection, copy } => {
                    if self.answer(request, flight, (Role::Changes, connection)).await
                        && self.link.disk.with(|state| state.server().take_answer(copy.slot()))
                    {
                        self.link.fence.borrow_mut().answered(copy);
                        self.link.changed.notify();
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn flush(&self) -> Result {
        loop {
            // A loss is reported without a connection.
            self.lane.turn().await;
            let _ = self.link.flush_begins(self.now())?;
            let connection = self.connection(Role::Anchor, &mut None).await?;
            let mark = self.link.flush_begins(self.now())?;
            let now_ns = self.now();
            let (request, on) = (Request::Flush, (Role::Anchor, connection));
            let flight = self.link.disk.with(|state| state.send_on(&request, on, None, now_ns));
            if self.answer(&request, flight, on).await {
                return self.link.flush_ends(mark);
            }
        }
    }

    /// Waits for the answer to a request that was sent. False: its connection has ended.
    async fn answer(&self, request: &Request, flight: Flight, on: (Role, u32)) -> bool {
        let disk = &self.link.disk;
        for second in [false, true] {
            if !self.until(flight.instants[usize::from(second)], on).await {
                return false;
            }
            disk.with(|state| {
                state.serve_read(request, flight.fails, Some(second));
                state.apply(flight, request, second);
            });
        }
        if !self.until(flight.instants[2], on).await {
            return false;
        }
        disk.with(|state| {
            let slot = state.slot_of(flight);
            state.complete(flight, request);
            slot.into_iter().for_each(|slot| state.answer_on_link(slot));
        });
        self.lane.turn().await;
        disk.with(|state| state.server().is_present(on.0, on.1))
    }

    async fn ask_status(&self, at: Extent) -> Result<Vec<Stretch>> {
        let mut until_ns = None;
        loop {
            let connection = self.connection(Role::Reads, &mut until_ns).await?;
            let now_ns = self.now();
            let on = (Role::Reads, connection);
            let [asked, _, answered] = self.link.disk.with(|state| state.plan_instants(now_ns));
            if !self.until(asked, on).await {
                continue;
            }
            let stretches = self.link.disk.with(|state| state.status(at));
            if self.until(answered, on).await {
                return Ok(stretches);
            }
        }
    }

    /// Waits until this time on a connection. False: it has ended, and the client has noticed.
    async fn until(&self, instant_ns: u64, (role, connection): (Role, u32)) -> bool {
        loop {
            let seen = self.link.changed.seen();
            let (is_present, is_cut) = self.link.disk.with(|state| {
                let server = state.server();
                (server.is_present(role, connection), server.is_cut(role, connection))
            });
            if !is_present {
                return false;
            }
            let now_ns = self.now();
            let changes = self.link.changed.after(seen);
            match is_cut {
                true => changes.await,
                false if now_ns >= instant_ns => {
                    self.link.disk.with(|state| state.land_due(now_ns));
                    return true;
                }
                false => first(changes, self.lane.sleep_until(instant_ns)).await,
            }
        }
    }
}

impl Block for LinkLane {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        if let Request::Advise { .. } = request {
            return Some(Ok(()));
        }
        let now_ns = self.now();
        let is_instant = self.link.disk.with(|state| {
            state.land_due(now_ns);
            state.model.instant
        });
        if !is_instant || request.is_change() && !self.link.is_free(now_ns) {
            return None;
        }
        // No connection ends in a recovery.
        self.link.disk.answer_now(request, now_ns)
    }

    async fn run(&self, request: Request) -> Result {
        assert_eq!(self.limits.check(&request), Ok(()), "{request:?}");
        if let Some(result) = self.try_now(&request) {
            return result;
        }
        let disk = &self.link.disk;
        let asks = u32::from(matches!(request, Request::Flush));
        disk.with(|state| state.flushes_asked += asks);
        // As in `device.rs`: any event can happen before the request departs.
        self.lane.rest().await;
        let result = match &request {
            Request::Read { .. } => self.read(&request).await,
            Request::Flush => self.flush().await,
            _ => self.change(&request).await,
        };
        disk.with(|state| {
            let kind = match request {
                Request::Read { .. } => 0,
                Request::Flush => 2,
                _ => 1,
            };
            state.errors_delivered[kind] += u32::from(result.is_err());
            // Flushes that fail by a loss are counted apart.
            if result.is_err() && result != Err(LOST) {
                state.note_unreachable(&request, kind);
            }
            state.flushes_asked -= asks;
        });
        result
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        let result = self.ask_status(at).await;
        if result.is_err() {
            self.link.disk.with(|state| {
                state.errors_delivered[0] += 1;
                state.errors[0] += 1;
            });
        }
        result
    }

    fn held_ns(&self) -> u64 {
        let held_ns = if self.link.held.get() > 0 { SETTLE_NS } else { 0 };
        held_ns.saturating_add(self.link.state.held_ns())
    }

    fn may_keep(&self, at: Extent) -> bool {
        self.link.fence.borrow().may_keep(at)
    }

    fn link(&self) -> Option<&Arc<LinkState>> {
        Some(&self.link.state)
    }
}
