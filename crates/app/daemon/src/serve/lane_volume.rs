//! A volume as clients see it, on any lane and over any front.

use super::clients::Clients;
use super::pressure::Threads;
use super::sensor::{self, Sensor};
use cache::Shared;
use export::{Export, Session, Stop};
use lane::Lane;
use ring::Ring;
use stack::{Attached, Failure, Loss, SharedHalves, Volume};
use std::rc::Rc;
use std::sync::Arc;

/// A volume's state that every lane uses to serve it.
#[derive(Clone)]
pub(crate) struct LaneVolume {
    name: String,
    halves: Arc<SharedHalves>,
    read_only: bool,
    /// Set if the volume is served as a disk that was pulled out.
    loss: Option<Loss>,
    /// Ends the clients of this volume.
    pub(crate) stop: Arc<Stop>,
    pub(crate) clients: Arc<Clients>,
    /// Runs the guard of its cache, if there is one.
    pub(crate) sensor: Option<Arc<Sensor>>,
    /// The threads that serve it.
    pub(crate) threads: Threads,
}

impl LaneVolume {
    /// Returns a volume that these threads serve.
    pub(crate) fn new(name: &str, volume: &Volume, threads: &Threads, quiet: bool) -> LaneVolume {
        let clients = Arc::default();
        let sensor = |shared| Arc::new(Sensor::new(name, shared, &clients, threads, quiet));
        LaneVolume {
            name: name.to_owned(),
            halves: volume.halves().clone(),
            read_only: volume.is_read_only(),
            loss: volume.loss(),
            stop: Arc::default(),
            sensor: volume.cache().map(sensor),
            clients,
            threads: threads.clone(),
        }
    }

    pub(crate) fn cache(&self) -> Option<&Arc<Shared>> {
        self.halves.cache()
    }

    /// Attaches its stack to the lane of this ring.
    ///
    /// # Errors
    /// Those of [`SharedHalves::attach`].
    pub(crate) fn attach(&self, ring: &Ring) -> Result<Attached, Failure> {
        self.halves.attach(ring)
    }

    /// Returns the export for fronts on the lane to which the volume was attached.
    pub(crate) fn export(&self, lane: &Lane, attached: &Attached) -> Export {
        let stack = match self.loss {
            Some(loss) => loss.stack(lane, attached.stack.limits()),
            None => attached.stack.clone(),
        };
        let mut export = Export::new(&self.name, stack);
        export.read_only = self.read_only;
        export.stop = Some(self.stop.clone());
        let (clients, shared) = (self.clients.clone(), self.cache().cloned());
        let lane = attached.stack.lane().clone();
        export.session =
            Rc::new(move || Box::new(CountedClient::new(&clients, shared.as_ref(), lane.now())));
        export
    }
}

/// Starting the volume on a lane.
impl LaneVolume {
    /// Attaches the volume to the lane of this ring, starts its sensor there, and returns the
    /// export for fronts.
    ///
    /// # Errors
    /// Those of [`SharedHalves::attach`].
    pub(crate) fn start_on(&self, ring: &Ring) -> Result<Export, Failure> {
        let attached = self.attach(ring)?;
        self.start_sensor(ring.lane());
        Ok(self.export(ring.lane(), &attached))
    }

    /// Starts its sensor on this lane, too.
    pub(crate) fn start_sensor(&self, lane: &Lane) {
        if let Some(sensor) = &self.sensor {
            sensor::start(lane, sensor);
        }
    }
}

/// A client of a volume: counts it, and keeps its state for C1 and C11.
struct CountedClient {
    clients: Arc<Clients>,
    client: Option<cache::Client>,
}

impl CountedClient {
    fn new(clients: &Arc<Clients>, shared: Option<&Arc<Shared>>, now_ns: u64) -> CountedClient {
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
