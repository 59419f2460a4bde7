//! A server, a client, and the world around them.

use crate::client::Client;
use crate::stack::{Device, Log};
use block::Part;
use block::{Memory, Result, Stack};
use lane::{Lane, Lock, Prices, World};
use nbd::{End, Export, Exports, Options, Pipe, Session, Wire, pipe, serve};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// A session that writes down what it learns.
struct Watched(Log, Rc<Lock<()>>);

impl Session for Watched {
    fn flushed(&self) {
        self.1.with(|()| ());
        self.0.borrow_mut().push("flushed".to_owned());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.borrow_mut().push("gone".to_owned());
    }
}

/// Calls of the server's wire.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) receives: Cell<usize>,
    pub(crate) sends: Cell<usize>,
    pub(crate) parts_max: Cell<usize>,
}

struct Counted(Pipe, Rc<Counts>);

impl Wire for Counted {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        self.1.receives.set(self.1.receives.get() + 1);
        self.0.receive(memory, offset, length).await
    }

    async fn send(&self, parts: &[Part]) -> Result {
        self.1.sends.set(self.1.sends.get() + 1);
        let most = self.1.parts_max.get().max(parts.len());
        self.1.parts_max.set(most);
        assert!(parts.iter().all(|part| part.length > 0) && !parts.is_empty());
        self.0.send(parts).await
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) lane: Lane,
    pub(crate) device: Device,
    pub(crate) options: Options,
    pub(crate) counts: Rc<Counts>,
    pub(crate) structured: bool,
    /// What the pipe holds in each direction.
    pub(crate) capacity: usize,
    pub(crate) change_export: fn(&mut Export),
}

impl Scene {
    fn over(mut world: World, seed: u64, sectors: u64) -> Scene {
        let lane = world.lane();
        Scene {
            device: Device::new(&lane, sectors, seed),
            world,
            lane,
            options: Options::default(),
            counts: Rc::default(),
            structured: false,
            capacity: 1 << 20,
            change_export: |_| (),
        }
    }

    /// Time passes as it should.
    pub(crate) fn timed() -> Scene {
        Scene::over(World::timed(Prices::default()), 1, 80 << 11)
    }

    /// The seed decides about every step. Time may pass at any moment, so there are no limits to it.
    pub(crate) fn chosen(seed: u64) -> Scene {
        let mut scene = Scene::over(World::chosen(seed), seed, 4 << 11);
        scene.options.handshake_ms = None;
        scene.options.drain_ms = None;
        scene
    }

    pub(crate) fn log(&self) -> Log {
        self.device.log.clone()
    }

    /// Plays until nothing happens any more. The connection must have ended by then.
    pub(crate) fn play<F, T>(mut self, act: impl FnOnce(Client) -> F + 'static) -> (End, T)
    where
        F: Future<Output = T> + 'static,
        T: 'static,
    {
        let (server_end, client_end) = pipe(self.capacity);
        let ended = Rc::new(Cell::new(None));
        let said = Rc::new(RefCell::new(None));
        let (log, shard) = (self.log(), self.device.shard.clone());
        let mut export = Export::new("disk", Stack::new(&self.lane, self.device.clone()));
        export.description = "a disk of the test".to_owned();
        export.session = Rc::new(move || Box::new(Watched(log.clone(), shard.clone())));
        (self.change_export)(&mut export);
        let other = Export::new("other", Stack::new(&self.lane, block::Null::new(64, 512)));
        let exports = Rc::new(Exports::new([export, other]));
        let wire = Counted(server_end, self.counts.clone());
        let (lane, options, end) = (self.lane.clone(), self.options.clone(), ended.clone());
        let serving = async move { end.set(Some(serve(lane, wire, exports, options).await)) };
        self.lane.spawn(serving).expect("a slot is free");
        let client = Client { wire: client_end, structured: self.structured };
        let result = said.clone();
        let acting = async move { *result.borrow_mut() = Some(act(client).await) };
        self.lane.spawn(acting).expect("a slot is free");
        while self.world.step() {
            assert!(self.world.steps() < 50_000_000, "the scene never ends");
        }
        let said = said.take().expect("the client hangs");
        let end = ended.get().expect("the server hangs");
        assert_eq!(self.lane.tasks(), 0, "a task was left behind");
        (end, said)
    }
}
