//! NBD without a listener: one volume, over connections that this process itself makes, for the
//! kernel's client.

use super::service::Service;
use crate::front::{EndFuture, Ending, Front};
use crate::lanes::Lanes;
use export::{Budget, Export};
use host::File;
use ring::Ring;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of connections: those of a device (8 of a new one), and former ones whose end has
/// not been noticed yet.
const CONNECTIONS_MAX: usize = 64;

/// One volume, and its connections from the kernel's client.
pub(crate) struct KernelNbd {
    /// The name for users.
    device: PathBuf,
    service: Service,
}

impl KernelNbd {
    /// Creates the front for the device with this name.
    pub(crate) fn new(ring: &Ring, device: &Path, budget: &Arc<Budget>) -> Rc<KernelNbd> {
        let name = format!("nbd-device:{}", device.display());
        let service = Service::new(ring, name, CONNECTIONS_MAX, None, budget);
        Rc::new(KernelNbd { device: device.to_owned(), service })
    }

    /// Makes a connection; the caller performs the handshake.
    ///
    /// # Errors
    /// No connection can be made now.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        match self.service.serve(ours.into()) {
            true => Ok(theirs),
            false => {
                Err(io::Error::other("there are too many connections, or the daemon is ending"))
            }
        }
    }
}

impl Front for KernelNbd {
    fn address(&self, _: &str) -> String {
        self.device.display().to_string()
    }

    fn open(self: Rc<Self>, exports: Vec<Export>, lanes: &Rc<Lanes>) {
        self.service.open(exports, lanes);
    }

    fn remove(&self, export: &str) {
        self.service.remove(export);
    }

    fn close(&self, _: Ending) {
        self.service.options.stop.ask();
    }

    fn end(&self, deadline_ns: u64) -> EndFuture<'_> {
        Box::pin(self.service.end(deadline_ns))
    }

    fn handover_files(&self) -> Vec<(String, File)> {
        // The next program makes new connections.
        Vec::new()
    }
}
