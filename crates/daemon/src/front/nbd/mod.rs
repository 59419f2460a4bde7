//! NBD over a socket: a listener, and its connections: accepted, counted, awaited.

mod place;
mod wire;

use super::{Ending, Front, Gone, Inherited};
use crate::lanes::{Lanes, Seat};
use ::nbd::{Exports, Options, Places};
use block::Kind;
use export::{Budget, Export};
use lane::first;
use stack::Failure;
use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use uring::{File, Listener, Ring};
use wire::Socket;

pub use place::Place;

/// Connections of a listener at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 128;
/// After accepting has failed, in nanoseconds.
const ACCEPT_PAUSE_NS: u64 = 200_000_000;
/// Between two words about refused connections, in nanoseconds.
const REFUSED_PAUSE_NS: u64 = 1_000_000_000;

/// A listener, and all connections of it.
pub(crate) struct Nbd {
    ring: Ring,
    place: Place,
    listener: Listener,
    exports: RefCell<Rc<Exports>>,
    /// Once it is open.
    lanes: OnceCell<Rc<Lanes>>,
    options: Options,
    refused: Cell<u64>,
    refused_said_ns: Cell<Option<u64>>,
}

impl Nbd {
    /// Listens at this place, or goes on with the listener that an earlier program of this process had.
    /// Its clients share the budget with those of other fronts.
    ///
    /// # Errors
    /// The place cannot be had.
    pub(crate) fn bind(
        ring: &Ring,
        place: &Place,
        runtime: &Path,
        inherited: &mut Inherited,
        budget: &Arc<Budget>,
    ) -> Result<Rc<Nbd>, Failure> {
        let (places, budget) = (Arc::new(Places::new(CONNECTIONS_MAX)), budget.clone());
        Ok(Rc::new(Nbd {
            ring: ring.clone(),
            place: place.clone(),
            listener: place.listen(runtime, inherited)?,
            exports: RefCell::default(),
            lanes: OnceCell::new(),
            options: Options { places, budget, ..Options::default() },
            refused: Cell::new(0),
            refused_said_ns: Cell::new(None),
        }))
    }

    /// Accepts connections until the listener is shut down or the front closes.
    async fn accept(&self) {
        let lane = self.ring.lane();
        loop {
            let mut accepted = None;
            let accepting = async { accepted = Some(self.ring.accept(self.listener.file()).await) };
            first(self.options.stop.wait(), accepting).await;
            let Some(accepted) = accepted else { return };
            match accepted {
                Ok(socket) => self.serve(socket),
                Err(error) if error.kind == Kind::Stopping => return,
                // Out of descriptors or memory: others may give some back.
                Err(error) => {
                    crate::tell!("overdrive: {error}; trying again");
                    lane.sleep_until(lane.now() + ACCEPT_PAUSE_NS).await;
                }
            }
        }
    }

    /// Serves a connection on the lane that serves the fewest.
    fn serve(&self, socket: OwnedFd) {
        let place = self.options.places.take();
        let Some(place) = place.filter(|_| !self.options.stop.is_asked()) else {
            return self.refuse();
        };
        let seat = self.lanes.get().expect("it is open").seat();
        let (elsewhere, options) = (seat.elsewhere(), self.options.clone());
        let connection = Connection { socket, options, place, seat };
        let exports = self.exports.borrow().clone();
        let Some(lane) = elsewhere else { return connection.serve(&self.ring, exports) };
        let names: Vec<String> = exports.all().iter().map(|export| export.name.clone()).collect();
        let front = self.place.to_string();
        lane.post(Box::new(move |local| {
            let make = || Exports::new(local.exports(&names));
            let exports = local.part(&front, make, Exports::remove);
            connection.serve(&local.ring, exports);
        }));
    }

    /// Says so, but not a thousand times a second.
    fn refuse(&self) {
        self.refused.set(self.refused.get() + 1);
        let now_ns = self.ring.lane().now();
        let due = self.refused_said_ns.get().is_none_or(|said| now_ns > said + REFUSED_PAUSE_NS);
        if due && !self.options.stop.is_asked() {
            self.refused_said_ns.set(Some(now_ns));
            crate::tell!(
                "overdrive: {CONNECTIONS_MAX} connections are open; refused so far: {}",
                self.refused.get()
            );
        }
    }
}

/// A connection that is to be served, on whatever lane.
struct Connection {
    socket: OwnedFd,
    options: Options,
    place: ::nbd::Place,
    seat: Seat,
}

impl Connection {
    /// Serves it on the lane of this ring.
    fn serve(self, ring: &Ring, exports: Rc<Exports>) {
        let Connection { socket, options, place, seat } = self;
        let wire = Socket::new(ring, Arc::new(socket));
        let serving = ::nbd::serve(ring.lane().clone(), wire, exports, options);
        let served = async move {
            serving.await;
            drop((place, seat));
        };
        // On a full lane it is dropped, which closes the connection.
        let _ = ring.lane().spawn(served);
    }
}

impl Front for Nbd {
    fn address(&self, export: &str) -> String {
        self.place.uri(export, &self.listener)
    }

    fn open(self: Rc<Self>, exports: Vec<Export>, lanes: &Rc<Lanes>) {
        let _ = self.lanes.set(lanes.clone());
        *self.exports.borrow_mut() = Rc::new(Exports::new(exports));
        let lane = self.ring.lane().clone();
        lane.spawn(async move { self.accept().await }).expect("a fresh lane has room");
    }

    fn remove(&self, export: &str) {
        self.exports.borrow().remove(export);
    }

    fn close(&self, ending: Ending) {
        // Before an upgrade, a client that comes waits in the listener's queue.
        if ending == Ending::Stop {
            let _ = uring::shutdown(self.listener.file());
        }
        self.options.stop.ask();
    }

    fn end(&self, deadline_ns: u64) -> Gone<'_> {
        Box::pin(async move {
            let (lane, places) = (self.ring.lane(), &self.options.places);
            loop {
                let seen = places.left().seen();
                if places.taken() == 0 || lane.now() >= deadline_ns {
                    return;
                }
                first(places.left().after(seen), lane.sleep_until(deadline_ns)).await;
            }
        })
    }

    fn inherit(&self) -> Vec<(String, File)> {
        vec![(self.place.to_string(), self.listener.file().clone())]
    }
}
