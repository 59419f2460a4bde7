//! Serves sockets from any source, each on the lane with the fewest connections.

use super::refusals::Refusals;
use crate::lanes::{Lanes, Seat};
use ::nbd::{ConnectionLimit, Exports, Options};
use export::{Budget, Export};
use lane::first;
use ring::{Ring, Socket};
use std::cell::{OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use tls::ServerTls;

/// The exports of a front, and the connections that it serves.
pub(super) struct Service {
    pub(super) ring: Ring,
    /// The front's name, which identifies its state on the further lanes.
    name: String,
    exports: RefCell<Rc<Exports>>,
    /// Set once it is open.
    lanes: OnceCell<Rc<Lanes>>,
    refusals: Arc<Refusals>,
    pub(super) options: Options,
}

impl Service {
    /// Creates the service of a front of this name, with this maximum of connections, which are
    /// protected by `tls` if there is some. Its clients share the budget with those of other
    /// fronts.
    pub(super) fn new(
        ring: &Ring,
        name: String,
        connections_max: usize,
        tls: Option<Arc<ServerTls>>,
        budget: &Arc<Budget>,
    ) -> Service {
        let (places, budget) = (Arc::new(ConnectionLimit::new(connections_max)), budget.clone());
        Service {
            ring: ring.clone(),
            name,
            exports: RefCell::default(),
            lanes: OnceCell::new(),
            refusals: Arc::default(),
            options: Options { places, budget, tls, ..Options::default() },
        }
    }

    pub(super) fn open(&self, exports: Vec<Export>, lanes: &Rc<Lanes>) {
        let _ = self.lanes.set(lanes.clone());
        *self.exports.borrow_mut() = Rc::new(Exports::new(exports));
    }

    /// Serves a connection on the lane with the fewest connections. False: it was closed, because
    /// there are too many.
    pub(super) fn serve(&self, socket: OwnedFd) -> bool {
        let place = self.options.places.take();
        let Some(place) = place.filter(|_| !self.options.stop.is_asked()) else { return false };
        let seat = self.lanes.get().expect("it is open").seat();
        let (further, options) = (seat.further_lane(), self.options.clone());
        let (front, refusals) = (self.name.clone(), self.refusals.clone());
        let connection = Connection { socket, options, place, seat, front, refusals };
        let exports = self.exports.borrow().clone();
        let Some(lane) = further else {
            connection.serve(&self.ring, exports);
            return true;
        };
        let names: Vec<String> = exports.all().iter().map(|export| export.name.clone()).collect();
        let front = self.name.clone();
        lane.post(Box::new(move |local| {
            let make = || Exports::new(local.exports(&names));
            let exports = local.front_state(&front, make, Exports::remove);
            connection.serve(&local.ring, exports);
        }));
        true
    }

    pub(super) fn remove(&self, export: &str) {
        self.exports.borrow().remove(export);
    }

    /// Waits until all connections have ended, at most until the deadline.
    pub(super) async fn end(&self, deadline_ns: u64) {
        let (lane, places) = (self.ring.lane(), &self.options.places);
        loop {
            let seen = places.left().seen();
            if places.taken() == 0 || lane.now() >= deadline_ns {
                return;
            }
            first(places.left().after(seen), lane.sleep_until(deadline_ns)).await;
        }
    }
}

/// A connection to be served, on any lane.
struct Connection {
    socket: OwnedFd,
    options: Options,
    place: ::nbd::ConnectionPermit,
    seat: Seat,
    /// The name of its front.
    front: String,
    refusals: Arc<Refusals>,
}

impl Connection {
    /// Serves the connection on the lane of this ring.
    fn serve(self, ring: &Ring, exports: Rc<Exports>) {
        let Connection { socket, options, place, seat, front, refusals } = self;
        let wire = Socket::new(ring, Arc::new(socket));
        let serving = ::nbd::serve(ring.lane().clone(), wire, exports, options);
        let lane = ring.lane().clone();
        let served = async move {
            let end = serving.await;
            refusals.report(&front, end, lane.now());
            drop((place, seat));
        };
        // If the lane is full, the task is dropped, which closes the connection.
        let _ = ring.lane().spawn(served);
    }
}
