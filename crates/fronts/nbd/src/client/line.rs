//! A place for one connection to an export at a time: it is made when it is needed, and again after
//! it has ended.

use super::remote::NONSENSE;
use super::shared::{Damage, Dial, LinkShared};
use super::{Agreed, Remote};
use block::{Error, Kind, LinkDown, Result};
use lane::{Event, Lane, first};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Time from one attempt to connect to the next one. It doubles with each further attempt. Another
/// line that connects ends it, so a link that returns is used within the longest pause.
const PAUSE_MIN_NS: u64 = 20_000_000;
const PAUSE_MAX_NS: u64 = 500_000_000;
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
    is_needed: bool,
    current: RefCell<Option<Rc<Remote<D::Wire>>>>,
    /// Whether a request is dialling. The others wait.
    is_dialling: Cell<bool>,
    dialled: Event,
    /// Number of connections that were dropped: one that was begun before a drop is not used.
    drops: Cell<u64>,
    /// Time at which the present connection was made.
    since_ns: Cell<u64>,
    /// Time from the last attempt to the next one.
    pause_ns: Cell<u64>,
    /// Time of the last attempt. None: the line has not been used.
    attempted_ns: Cell<Option<u64>>,
    /// Whether it is connected before the first request.
    is_wanted: Cell<bool>,
    /// Whether it is only connected for requests.
    is_closed: Cell<bool>,
}

impl<D: Dial> Line<D> {
    /// `is_needed`: no connection of another line can take its place.
    pub(super) fn new(
        lane: &Lane,
        dial: D,
        shared: &Arc<LinkShared>,
        agreed: Agreed,
        is_needed: bool,
    ) -> Line<D> {
        Line {
            lane: lane.clone(),
            dial,
            shared: shared.clone(),
            agreed,
            is_needed,
            current: RefCell::default(),
            is_dialling: Cell::new(false),
            dialled: Event::new(),
            drops: Cell::new(0),
            since_ns: Cell::new(0),
            pause_ns: Cell::new(0),
            attempted_ns: Cell::new(None),
            is_wanted: Cell::new(false),
            is_closed: Cell::new(false),
        }
    }

    /// Connects without a request.
    pub(super) fn want(&self) {
        self.is_wanted.set(true);
        self.dialled.notify();
    }

    /// Keeps the line connected once it has been used or is wanted, until
    /// [`Line::leave_for_good`]. So the end of the link is noticed, and its return, although no
    /// request needs it.
    pub(super) async fn keep_connected(&self) {
        while !self.is_closed.get() && self.shared.error().is_none() {
            let seen = self.dialled.seen();
            let current = self.current.borrow().clone();
            match current {
                Some(remote) => {
                    first(remote.after_end(), self.dialled.after(seen)).await;
                    if remote.ended().is_some() && self.is_current(&remote) {
                        self.drop_current();
                    }
                }
                None if self.is_dialling.get() || !self.is_used() => {
                    self.dialled.after(seen).await;
                }
                None => self.attempt().await,
            }
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
            if self.lane.now() >= until_ns && !self.waits() {
                return Err(UNREACHABLE);
            }
            if self.is_dialling.get() {
                self.dialled.after(seen).await;
            } else {
                self.attempt().await;
            }
        }
    }

    fn is_used(&self) -> bool {
        self.is_wanted.get() || self.attempted_ns.get().is_some()
    }

    /// Whether requests wait for the link as long as it takes.
    fn waits(&self) -> bool {
        self.shared.state().policy() == LinkDown::Wait
    }

    /// Makes one attempt to connect, while others wait for it.
    async fn attempt(&self) {
        self.is_dialling.set(true);
        self.dial_once().await;
        self.is_dialling.set(false);
        self.dialled.notify();
    }

    /// Makes one attempt to connect, after the pause that is due.
    async fn dial_once(&self) {
        let (pause_ns, state) = (self.pause_ns.get(), self.shared.state());
        if let Some(attempted_ns) = self.attempted_ns.get() {
            let seen = state.changed().seen();
            let due_ns = attempted_ns.saturating_add(pause_ns);
            first(self.lane.sleep_until(due_ns), state.changed().after(seen)).await;
            // Lines whose connections end immediately would wake each other without a pause.
            let least_ns = attempted_ns.saturating_add(pause_ns.min(PAUSE_MIN_NS));
            self.lane.sleep_until(least_ns).await;
        }
        self.attempted_ns.set(Some(self.lane.now()));
        self.pause_ns.set((pause_ns * 2).clamp(PAUSE_MIN_NS, PAUSE_MAX_NS));
        let drops = self.drops.get();
        let Some((wire, agreed)) = self.dial.dial().await else {
            return self.shared.note_failed_attempt(self.is_needed, self.lane.now());
        };
        let connected = self.shared.count_connection(self.lane.now());
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
            remote.hold_until_end(connected);
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
        self.shared.state().note_lost(self.lane.now());
        if self.lane.now() >= self.since_ns.get() + STEADY_NS {
            self.pause_ns.set(0);
        }
        if remote.ended() == Some(NONSENSE) {
            self.shared.damage_by(Damage::Nonsense);
        }
        remote.abort();
    }

    /// Says farewell to the server, for good.
    pub(super) fn leave_for_good(&self) {
        self.is_closed.set(true);
        self.leave();
        self.dialled.notify();
    }

    /// Says farewell to the server.
    pub(super) fn leave(&self) {
        if let Some(remote) = self.current.take() {
            remote.leave();
        }
    }
}
