//! The connections of a server: accepted, counted, awaited.

use crate::wire::Socket;
use lane::Event;
use nbd::{Exports, Options};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use uring::{Listener, Ring};

/// Connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 64;

/// All connections of one listener.
pub(crate) struct Fleet {
    ring: Ring,
    exports: Rc<Exports>,
    options: Options,
    open: Cell<usize>,
    changed: Event,
}

impl Fleet {
    pub(crate) fn new(ring: &Ring, exports: Exports, options: Options) -> Rc<Fleet> {
        let (ring, exports) = (ring.clone(), Rc::new(exports));
        Rc::new(Fleet {
            ring,
            exports,
            options,
            open: Cell::new(0),
            changed: Event::new(),
        })
    }

    /// Accepts until the listener is shut down.
    pub(crate) async fn accept(self: Rc<Self>, listener: Rc<Listener>) {
        while let Ok(socket) = self.ring.accept(listener.file()).await {
            if self.open.get() >= CONNECTIONS_MAX {
                eprintln!("overdrive: {CONNECTIONS_MAX} connections are open; one more refused");
                continue;
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
