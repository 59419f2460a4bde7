//! The connections of a listener: accepted, counted, awaited.

use crate::serve::{Site, Sites, either};
use crate::wire::Socket;
use block::Kind;
use export::{Export, Session};
use nbd::{Exports, Options, Places};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use uring::{File, Ring};

/// Connections of a listener at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 128;
/// After accepting has failed, in nanoseconds.
const ACCEPT_PAUSE_NS: u64 = 200_000_000;
/// Between two words about refused connections, in nanoseconds.
const REFUSED_PAUSE_NS: u64 = 1_000_000_000;

/// All connections of one listener.
pub(crate) struct Fleet {
    ring: Ring,
    exports: Rc<Exports>,
    options: Options,
    refused: Cell<u64>,
    refused_said_ns: Cell<Option<u64>>,
}

/// A client of a volume, for its count and for C11.
struct Watched {
    site: Rc<Site>,
    client: Option<cache::Client>,
}

impl Session for Watched {
    fn flushed(&self) {
        if let Some(client) = &self.client {
            client.flushed();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.site.count_client(-1);
    }
}

fn export(site: &Rc<Site>) -> Export {
    let mut export = Export::new(&site.name, site.attached.stack.clone());
    export.read_only = site.volume.is_read_only();
    export.stop = Some(site.stop.clone());
    let site = site.clone();
    export.session = Rc::new(move || {
        site.count_client(1);
        let client = site.shared().map(|shared| shared.client());
        Box::new(Watched { site: site.clone(), client }) as Box<dyn Session>
    });
    export
}

impl Fleet {
    /// The fleet that serves these volumes.
    pub(crate) fn new(
        ring: &Ring,
        sites: &Rc<Sites>,
        names: &[String],
        options: &Options,
    ) -> Rc<Fleet> {
        let named = names.iter().filter_map(|name| sites.find(name).ok());
        let exports = Exports::new(named.map(|site| export(&site)));
        Rc::new(Fleet {
            ring: ring.clone(),
            exports: Rc::new(exports),
            options: Options { places: Arc::new(Places::new(CONNECTIONS_MAX)), ..options.clone() },
            refused: Cell::new(0),
            refused_said_ns: Cell::new(None),
        })
    }

    /// Takes a volume off the list: new clients do not find it.
    pub(crate) fn remove(&self, name: &str) {
        self.exports.remove(name);
    }

    /// Begins to accept connections, until the listener is shut down or the service stops. A
    /// client that comes later waits in the listener's queue for the program that an upgrade executes.
    pub(crate) fn open(self: &Rc<Self>, listener: File) {
        let fleet = self.clone();
        let spawned = self.ring.lane().spawn(async move { fleet.accept(&listener).await });
        spawned.expect("a fresh lane has room");
    }

    async fn accept(self: &Rc<Self>, listener: &File) {
        let lane = self.ring.lane();
        loop {
            let mut accepted = None;
            let accepting = async { accepted = Some(self.ring.accept(listener).await) };
            either(self.options.stop.wait(), accepting).await;
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

    fn serve(self: &Rc<Self>, socket: OwnedFd) {
        let place = self.options.places.take();
        let Some(place) = place.filter(|_| !self.options.stop.is_asked()) else {
            return self.refuse();
        };
        let fleet = self.clone();
        let wire = Socket::new(&self.ring, Arc::new(socket));
        let served = async move {
            let lane = fleet.ring.lane().clone();
            nbd::serve(lane, wire, fleet.exports.clone(), fleet.options.clone()).await;
            drop(place);
        };
        // On a full lane it is dropped, which closes the connection.
        let _ = self.ring.lane().spawn(served);
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

    /// Waits until every connection has ended, once they were asked to; at most until the deadline
    /// on the lane's clock.
    pub(crate) async fn end(&self, deadline_ns: u64) {
        let lane = self.ring.lane();
        loop {
            let places = &self.options.places;
            let seen = places.left().seen();
            if places.taken() == 0 || lane.now() >= deadline_ns {
                return;
            }
            either(places.left().after(seen), lane.sleep_until(deadline_ns)).await;
        }
    }
}
