//! The connections of a small server on a lane: bounded in number, and in the time that each may
//! wait for its client.

use super::record::VolumeRecording;
use block::Kind;
use host::File;
use ring::Ring;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Pause after accepting has failed, in nanoseconds.
const PAUSE_NS: u64 = 200_000_000;
/// Time between two searches for connections beyond their limits, in nanoseconds.
const SWEEP_NS: u64 = 2_000_000_000;

/// The state of a connection's task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Waits for a request.
    Quiet,
    /// Waits for the rest of a request.
    Receiving,
    /// Carries out a request, which may take as long as the backing does.
    Working,
    /// Waits for the client to read an answer.
    Sending,
}

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of connections. A further one replaces the one that has waited longest.
    pub(super) connections: usize,
    /// Maximum time between two requests of a connection, in nanoseconds.
    pub(super) quiet_ns: u64,
    /// Maximum time for the rest of a request, and for the client to read an answer, in
    /// nanoseconds.
    pub(super) stalled_ns: u64,
}

impl Limits {
    /// Returns the longest time that a connection may stay in this phase; None: no limit.
    fn of(&self, phase: Phase) -> Option<u64> {
        match phase {
            Phase::Quiet => Some(self.quiet_ns),
            Phase::Receiving | Phase::Sending => Some(self.stalled_ns),
            Phase::Working => None,
        }
    }
}

/// A connection of a client.
pub(super) struct Connection {
    pub(super) socket: File,
    phase: Cell<Phase>,
    since_ns: Cell<u64>,
    /// The only volume that it may read, and nothing else. Empty: it is not limited.
    pub(super) observed: RefCell<String>,
    /// The recording for its client, which ends with it.
    pub(super) recording: RefCell<Option<VolumeRecording>>,
}

impl Connection {
    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(super) fn enter(&self, phase: Phase, now_ns: u64) {
        self.phase.set(phase);
        self.since_ns.set(now_ns);
    }

    /// Ends the connection: the task that waits for the client is woken and ends.
    fn end(&self) {
        let _ = ring::shutdown(&self.socket);
    }
}

/// The open connections of a server.
pub(super) struct Connections {
    ring: Ring,
    limits: Limits,
    open: RefCell<Vec<Rc<Connection>>>,
    is_sweeping: Cell<bool>,
}

impl Connections {
    pub(super) fn new(ring: &Ring, limits: Limits) -> Rc<Connections> {
        let open = RefCell::new(Vec::with_capacity(limits.connections));
        Rc::new(Connections { ring: ring.clone(), limits, open, is_sweeping: Cell::new(false) })
    }

    /// Accepts clients until the listener is shut down, and has `serve` take each of them.
    pub(super) async fn accept(&self, listener: &File, serve: impl Fn(File)) {
        let lane = self.ring.lane();
        loop {
            match self.ring.accept(listener).await {
                Ok(socket) => {
                    serve(Arc::new(socket));
                    // Handles a request that came with the connection before further connections
                    // can close it, and lets this lane serve its volumes in between.
                    lane.rest().await;
                }
                Err(error) if error.kind == Kind::Stopping => return,
                Err(_) => lane.sleep_until(lane.now() + PAUSE_NS).await,
            }
        }
    }

    /// Starts the task of a new connection, or closes it if there is no room.
    pub(super) fn serve<Task: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        socket: File,
        task: impl FnOnce(Rc<Connection>) -> Task,
    ) {
        let Some(connection) = self.add(socket) else { return };
        let (connections, served) = (self.clone(), connection.clone());
        let task = task(connection.clone());
        let serving = async move {
            task.await;
            connections.forget(&served);
        };
        if self.ring.lane().spawn(serving).is_err() {
            self.forget(&connection);
        }
    }

    /// Adds a connection, in the place of the one that has waited longest if the maximum is
    /// reached. None: all connections are carrying out requests; this one is to be closed.
    fn add(self: &Rc<Self>, socket: File) -> Option<Rc<Connection>> {
        if !self.make_room() {
            return None;
        }
        let since_ns = Cell::new(self.ring.lane().now());
        let connection = Rc::new(Connection {
            socket,
            phase: Cell::new(Phase::Quiet),
            since_ns,
            observed: RefCell::default(),
            recording: RefCell::default(),
        });
        self.open.borrow_mut().push(connection.clone());
        self.sweep();
        Some(connection)
    }

    fn forget(&self, connection: &Rc<Connection>) {
        self.open.borrow_mut().retain(|open| !Rc::ptr_eq(open, connection));
    }

    /// Ends all connections.
    pub(super) fn end(&self) {
        self.open.borrow().iter().for_each(|one| one.end());
    }

    fn make_room(&self) -> bool {
        let mut open = self.open.borrow_mut();
        if open.len() < self.limits.connections {
            return true;
        }
        let waiting = open.iter().enumerate().filter(|(_, one)| one.phase.get() != Phase::Working);
        let oldest = waiting.min_by_key(|(_, one)| one.since_ns.get()).map(|(index, _)| index);
        oldest.map(|index| open.remove(index).end()).is_some()
    }

    fn is_overdue(&self, connection: &Connection, now_ns: u64) -> bool {
        let limit_ns = self.limits.of(connection.phase.get());
        let waited_ns = now_ns.saturating_sub(connection.since_ns.get());
        limit_ns.is_some_and(|limit_ns| waited_ns >= limit_ns)
    }

    /// Starts a task that closes connections beyond their limits while there are connections.
    fn sweep(self: &Rc<Self>) {
        if self.is_sweeping.replace(true) {
            return;
        }
        let connections = self.clone();
        let sweeping = async move {
            let lane = connections.ring.lane();
            while !connections.open.borrow().is_empty() {
                lane.sleep_until(lane.now() + SWEEP_NS).await;
                let now_ns = lane.now();
                let open = connections.open.borrow();
                let overdue = open.iter().filter(|one| connections.is_overdue(one, now_ns));
                overdue.for_each(|one| one.end());
            }
            connections.is_sweeping.set(false);
        };
        if self.ring.lane().spawn(sweeping).is_err() {
            self.is_sweeping.set(false);
        }
    }
}
