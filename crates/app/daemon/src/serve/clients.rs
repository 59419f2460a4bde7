//! The clients of a volume, on all lanes.

use cache::Shared;
use export::Session;
use lane::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of a volume's clients, on all lanes.
#[derive(Default)]
pub(crate) struct Clients {
    count: AtomicU64,
    /// Signalled when a client has connected or disconnected.
    pub(crate) changed: Event,
}

impl Clients {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.changed.notify();
    }

    fn remove(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify();
    }
}

/// A client of a volume: counts it, and keeps its state for C1 and C11.
pub(super) struct CountedClient {
    clients: Arc<Clients>,
    client: Option<cache::Client>,
}

impl CountedClient {
    pub(super) fn new(
        clients: &Arc<Clients>,
        shared: Option<&Arc<Shared>>,
        now_ns: u64,
    ) -> CountedClient {
        clients.add();
        CountedClient {
            clients: clients.clone(),
            client: shared.map(|shared| shared.client(now_ns)),
        }
    }
}

impl Session for CountedClient {
    fn flushed(&self) {
        if let Some(client) = &self.client {
            client.flushed();
        }
    }

    fn take_doubt(&self) -> block::Result {
        self.client.as_ref().map_or(Ok(()), cache::Client::take_doubt)
    }
}

impl Drop for CountedClient {
    fn drop(&mut self) {
        self.clients.remove();
    }
}
