//! NBD over sockets: those that clients connect to a listener, and those that are passed to the
//! kernel's client.

mod address;
mod direct;
mod refusals;
mod service;

use super::{EndFuture, Ending, Front, Inherited};
use crate::lanes::Lanes;
use crate::plan::NbdAddress;
use block::Kind;
use export::{Budget, Export};
use host::File;
use lane::first;
use ring::{Listener, Ring};
use service::Service;
use stack::Failure;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use tls::ServerTls;

pub(crate) use direct::KernelNbd;
pub(crate) use refusals::tls_refused;

/// Maximum number of connections of a listener; a further one is closed immediately.
const CONNECTIONS_MAX: usize = 128;
/// Pause after accepting has failed, in nanoseconds.
const ACCEPT_PAUSE_NS: u64 = 200_000_000;
/// Time between two messages about refused connections, in nanoseconds.
const REFUSED_PAUSE_NS: u64 = 1_000_000_000;

/// A listener, and all its connections.
pub(crate) struct Nbd {
    address: NbdAddress,
    listener: Listener,
    service: Service,
    refused: Cell<u64>,
    refused_reported_ns: Cell<Option<u64>>,
}

impl Nbd {
    /// Listens at this address, or continues with the listener of an earlier program of this
    /// process. Its clients share the budget with those of other fronts, and are protected by `tls`
    /// if there is some.
    ///
    /// # Errors
    /// Listening at the address fails.
    pub(crate) fn bind(
        ring: &Ring,
        address: &NbdAddress,
        tls: Option<Arc<ServerTls>>,
        runtime: &Path,
        inherited: &mut Inherited,
        budget: &Arc<Budget>,
    ) -> Result<Rc<Nbd>, Failure> {
        Ok(Rc::new(Nbd {
            address: address.clone(),
            listener: address.listen(runtime, inherited)?,
            service: Service::new(ring, address.to_string(), CONNECTIONS_MAX, tls, budget),
            refused: Cell::new(0),
            refused_reported_ns: Cell::new(None),
        }))
    }

    /// Accepts connections until the listener is shut down or the front closes.
    async fn accept(&self) {
        let (ring, stop) = (&self.service.ring, &self.service.options.stop);
        let lane = ring.lane();
        loop {
            let mut accepted = None;
            let accepting = async { accepted = Some(ring.accept(self.listener.file()).await) };
            first(stop.wait(), accepting).await;
            let Some(accepted) = accepted else { return };
            match accepted {
                Ok(socket) => self.serve(socket),
                Err(error) if error.kind == Kind::Stopping => return,
                // No descriptors or memory are left: others may release some.
                Err(error) => {
                    crate::complain!("overdrive: {error}; trying again");
                    lane.sleep_until(lane.now() + ACCEPT_PAUSE_NS).await;
                }
            }
        }
    }

    fn serve(&self, socket: OwnedFd) {
        self.renew_certificates();
        if !self.service.serve(socket) {
            return self.count_refused();
        }
        crate::detail!(
            "overdrive: {}: a client has connected; {} connections are open",
            self.address,
            self.service.options.places.taken()
        );
    }

    /// Reads the certificates again if they were renewed.
    fn renew_certificates(&self) {
        let Some(tls) = &self.service.options.tls else { return };
        match tls.renew() {
            Ok(false) => {}
            Ok(true) => crate::tell!("overdrive: {}: new certificates are in use", self.address),
            Err(why) => crate::complain!(
                "overdrive: {}: {why}; the certificates that were read before are still in use",
                self.address
            ),
        }
    }

    /// Counts a refused connection, and prints a message at most once per second.
    fn count_refused(&self) {
        self.refused.set(self.refused.get() + 1);
        let now_ns = self.service.ring.lane().now();
        let due = self
            .refused_reported_ns
            .get()
            .is_none_or(|reported_ns| now_ns > reported_ns + REFUSED_PAUSE_NS);
        if due && !self.service.options.stop.is_asked() {
            self.refused_reported_ns.set(Some(now_ns));
            crate::tell!(
                "overdrive: {CONNECTIONS_MAX} connections are open; refused so far: {}",
                self.refused.get()
            );
        }
    }
}

impl Front for Nbd {
    fn address(&self, export: &str) -> String {
        let is_encrypted = self.service.options.tls.as_ref().is_some_and(|tls| tls.is_required());
        self.address.uri(export, &self.listener, is_encrypted)
    }

    fn open(self: Rc<Self>, exports: Vec<Export>, lanes: &Rc<Lanes>) {
        self.service.open(exports, lanes);
        let lane = self.service.ring.lane().clone();
        lane.spawn(async move { self.accept().await }).expect("a fresh lane has room");
    }

    fn remove(&self, export: &str) {
        self.service.remove(export);
    }

    fn close(&self, ending: Ending) {
        // Before an upgrade, a new client waits in the listener's queue.
        if ending == Ending::Stop {
            let _ = ring::shutdown(self.listener.file());
        }
        self.service.options.stop.ask();
    }

    fn end(&self, deadline_ns: u64) -> EndFuture<'_> {
        Box::pin(self.service.end(deadline_ns))
    }

    fn handover_files(&self) -> Vec<(String, File)> {
        vec![(self.address.to_string(), self.listener.file().clone())]
    }
}
