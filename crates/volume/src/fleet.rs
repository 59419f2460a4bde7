//! The connections of a server: accepted, counted, awaited.

use crate::wire::Socket;
use block::Kind;
use lane::Event;
use nbd::{Exports, Options};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use uring::{File, Ring};

/// Connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 64;
/// After accepting has failed, in nanoseconds.
const ACCEPT_PAUSE_NS: u64 = 200_000_000;

/// All connections of one listener.
pub(crate) struct Fleet {
    ring: Ring,
    exports: Rc<Exports>,
    options: Options,
    /// Connections, and the acceptor while it lives.
    open: Cell<usize>,
    changed: Event,
}

impl Fleet {
    pub(crate) fn new(ring: &Ring, exports: Exports, options: Options) -> Rc<Fleet> {
        let (ring, exports) = (ring.clone(), Rc::new(exports));
        Rc::new(Fleet { ring, exports, options, open: Cell::new(0), changed: Event::new() })
    }

    /// Begins to accept connections, until the listener is shut down.
    pub(crate) fn open(self: &Rc<Self>, listener: File) {
        let fleet = self.clone();
        self.open.set(self.open.get() + 1);
        let spawned = self.ring.lane().spawn(async move {
            fleet.accept(&listener).await;
            fleet.left();
        });
        spawned.expect("a fresh lane has room");
    }

    async fn accept(self: &Rc<Self>, listener: &File) {
        let lane = self.ring.lane();
        loop {
            match self.ring.accept(listener).await {
                Ok(socket) => self.serve(socket),
                Err(error) if error.kind == Kind::Stopping => return,
                // Out of descriptors or memory: others may give some back.
                Err(error) => {
                    eprintln!("overdrive: {error}; trying again");
                    lane.sleep_until(lane.now() + ACCEPT_PAUSE_NS).await;
                    if self.options.stop.is_asked() {
                        return;
                    }
                }
            }
        }
    }

    fn serve(self: &Rc<Self>, socket: OwnedFd) {
        // The acceptor counts, too.
        if self.open.get() > CONNECTIONS_MAX {
            eprintln!("overdrive: {CONNECTIONS_MAX} connections are open; one more refused");
            return;
        }
        self.open.set(self.open.get() + 1);
        let fleet = self.clone();
        let wire = Socket::new(&self.ring, Arc::new(socket));
        let served = self.ring.lane().spawn(async move {
            let lane = fleet.ring.lane().clone();
            nbd::serve(lane, wire, fleet.exports.clone(), fleet.options.clone()).await;
            fleet.left();
        });
        if served.is_err() {
            self.left();
        }
    }

    fn left(&self) {
        self.open.set(self.open.get() - 1);
        self.changed.notify();
    }

    /// Asks every connection to end, and waits until all have.
    pub(crate) async fn end(&self) {
        self.options.stop.ask();
        loop {
            let seen = self.changed.seen();
            if self.open.get() == 0 {
                return;
            }
            self.changed.after(seen).await;
        }
    }
}
