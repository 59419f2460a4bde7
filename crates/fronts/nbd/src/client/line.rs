//! A place for one connection to an export at a time: it is made when it is needed, and again after
//! it has ended.

use super::remote::NONSENSE;
use super::shared::{Damage, Dial, LinkShared};
use super::{Agreed, Remote};
use block::{Error, Kind, Result};
use lane::{Event, Lane};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Pause before a second attempt to connect. It doubles with each further attempt.
const PAUSE_MIN_NS: u64 = 20_000_000;
const PAUSE_MAX_NS: u64 = 1_000_000_000;
/// A connection that has lasted for this long is followed by another one without a pause.
const STEADY_NS: u64 = 5_000_000_000;

const UNREACHABLE: Error = Error::new(Kind::Io, "reach the NBD server");

/// One lane's connection to an export.
pub(super) struct Line<D: Dial> {
    lane: Lane,
    dial: D,
    shared: Arc<LinkShared>,
    /// The result of each handshake.
    agreed: Agreed,
    current: RefCell<Option<Rc<Remote<D::Wire>>>>,
    /// Whether a request is dialling. The others wait.
    is_dialling: Cell<bool>,
    dialled: Event,
    /// Number of connections that were dropped: one that was begun before a drop is not used.
    drops: Cell<u64>,
    /// Time at which the present connection was made.
    since_ns: Cell<u64>,
    /// Pause before the next attempt.
    pause_ns: Cell<u64>,
}

impl<D: Dial> Line<D> {
    pub(super) fn new(lane: &Lane, dial: D, shared: &Arc<LinkShared>, agreed: Agreed) -> Line<D> {
        Line {
            lane: lane.clone(),
            dial,
            shared: shared.clone(),
            agreed,
            current: RefCell::default(),
            is_dialling: Cell::new(false),
            dialled: Event::new(),
            drops: Cell::new(0),
            since_ns: Cell::new(0),
            pause_ns: Cell::new(0),
        }
    }

    /// Returns the present connection, which may have ended. `until_ns`: the time at which the
    /// request gives up.
    pub(super) async fn connection(&self, until_ns: u64) -> Result<Rc<Remote<D::Wire>>> {
        loop {
            if let Some(error) = self.shared.error() {
                return Err(error);
            }
            let seen = self.dialled.seen();
            let current = self.current.borrow().clone();
            if let Some(remote) = current {
                return Ok(remote);
            }
            if self.is_dialling.get() {
                self.dialled.after(seen).await;
            } else if self.lane.now() >= until_ns {
                return Err(UNREACHABLE);
            } else {
                self.is_dialling.set(true);
                self.dial_once().await;
                self.is_dialling.set(false);
                self.dialled.notify();
            }
        }
    }

    /// Makes one attempt to connect, after the pause that is due.
    async fn dial_once(&self) {
        let pause_ns = self.pause_ns.get();
        if pause_ns > 0 {
            self.lane.sleep_until(self.lane.now() + pause_ns).await;
        }
        self.pause_ns.set((pause_ns * 2).clamp(PAUSE_MIN_NS, PAUSE_MAX_NS));
        let drops = self.drops.get();
        let Some((wire, agreed)) = self.dial.dial().await else { return };
        if !self.agreed.is_alike(&agreed) {
            self.shared.damage_by(Damage::Changed { before: self.agreed.clone(), now: agreed });
            block::Wire::shutdown(&wire);
            return;
        }
        if self.drops.get() != drops {
            block::Wire::shutdown(&wire);
            return;
        }
        // Without room for its tasks, the next attempt may succeed.
        if let Ok(remote) = Remote::try_from_wire(&self.lane, wire, &agreed) {
            self.since_ns.set(self.lane.now());
            *self.current.borrow_mut() = Some(Rc::new(remote));
        }
    }

    /// Whether this is the present connection.
    pub(super) fn is_current(&self, remote: &Rc<Remote<D::Wire>>) -> bool {
        self.current.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, remote))
    }

    /// Drops the present connection, so that a new one is made, and ends it if it has not ended.
    /// Notes if the server has violated the protocol.
    pub(super) fn drop_current(&self) {
        self.drops.set(self.drops.get() + 1);
        let Some(remote) = self.current.take() else { return };
        if self.lane.now() >= self.since_ns.get() + STEADY_NS {
            self.pause_ns.set(0);
        }
        if remote.ended() == Some(NONSENSE) {
            self.shared.damage_by(Damage::Nonsense);
        }
        remote.abort();
    }

    /// Says farewell to the server.
    pub(super) fn leave(&self) {
        if let Some(remote) = self.current.take() {
            remote.leave();
        }
    }
}
