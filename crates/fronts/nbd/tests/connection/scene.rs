//! A server, a client, and the world around them.

use crate::client::Client;
use crate::stack::{Device, Log};
use block::{Memory, Part, Result, Stack};
use export::{Export, Load, Session};
use lane::{Lane, Lock, Prices, World};
use layers::{Top, TopShared};
use nbd::{End, Exports, Options, Pipe, Wire, pipe, serve};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// A session that logs its calls.
struct Watched(Log, Arc<Lock<()>>);

impl Session for Watched {
    fn flushed(&self) {
        self.1.with(|()| ());
        self.0.borrow().push("flushed".to_owned());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.borrow().push("gone".to_owned());
    }
}

/// Counts of calls to the server's wire.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) receives: Cell<usize>,
    pub(crate) sends: Cell<usize>,
    pub(crate) parts_max: Cell<usize>,
    /// The largest memory that data was received into, in bytes.
    pub(crate) memory_max: Cell<usize>,
    /// Whether sends take a moment.
    pub(crate) slow: Cell<bool>,
    /// Number of sends during which a receive began.
    pub(crate) together: Cell<usize>,
}

struct Counted(Pipe, Rc<Counts>);

/// Lets all other tasks run once.
async fn moment() {
    let mut over = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut over, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Wire for Counted {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        self.1.receives.set(self.1.receives.get() + 1);
        self.1.memory_max.set(self.1.memory_max.get().max(memory.bytes()));
        self.0.receive(memory, offset, length).await
    }

    async fn send(&self, parts: &[Part]) -> Result {
        self.1.sends.set(self.1.sends.get() + 1);
        let most = self.1.parts_max.get().max(parts.len());
        self.1.parts_max.set(most);
        assert!(parts.iter().all(|part| part.length > 0) && !parts.is_empty());
        let receives = self.1.receives.get();
        if self.1.slow.get() {
            moment().await;
        }
        let began = self.1.receives.get() > receives;
        self.1.together.set(self.1.together.get() + usize::from(began));
        self.0.send(parts).await
    }

    async fn finish(&self) {
        self.0.finish().await;
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
    /// Capacity of the pipe in each direction.
    pub(crate) capacity: usize,
    pub(crate) change_export: fn(&mut Export),
    unaligned: Option<Arc<TopShared>>,
}

impl Scene {
    /// Adds a layer that supports parts of blocks, on top of the device.
    pub(crate) fn unaligned(&mut self) {
        self.unaligned = Some(TopShared::new(&self.device.limits));
    }

    fn with_world(mut world: World, seed: u64, sectors: u64) -> Scene {
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
            unaligned: None,
        }
    }

    /// A scene in which time passes normally.
    pub(crate) fn timed() -> Scene {
        Scene::with_world(World::timed(Prices::default()), 1, 80 << 11)
    }

    /// A scene whose seed decides every step. Time may pass at any moment, so there are no time
    /// limits.
    pub(crate) fn chosen(seed: u64) -> Scene {
        let mut scene = Scene::with_world(World::chosen(seed), seed, 4 << 11);
        scene.options.handshake_ms = None;
        scene.options.drain_ms = None;
        scene.options.linger_ms = None;
        scene.options.rest_ms = None;
        scene
    }

    pub(crate) fn log(&self) -> Log {
        self.device.log.clone()
    }

    /// Runs until nothing more happens. The connection must have ended by then.
    pub(crate) fn play<F, T>(self, act: impl FnOnce(Client) -> F + 'static) -> (End, T)
    where
        F: Future<Output = T> + 'static,
        T: 'static,
    {
        self.play_all([act]).remove(0)
    }

    /// Same as `play`, with several connections at a time.
    pub(crate) fn play_all<F, T>(
        mut self,
        acts: impl IntoIterator<Item = impl FnOnce(Client) -> F + 'static>,
    ) -> Vec<(End, T)>
    where
        F: Future<Output = T> + 'static,
        T: 'static,
    {
        let playing: Vec<_> = acts.into_iter().map(|act| self.begin(act)).collect();
        self.watch_stall(playing.iter().map(|play| play.end.clone()).collect());
        while self.world.step() {
            assert!(self.world.steps() < 50_000_000, "the scene never ends");
        }
        assert_eq!(self.lane.tasks(), 0, "a task was left behind");
        assert_eq!(self.options.budget.used(), Load::default(), "something was not given back");
        assert_eq!(self.options.budget.running(), Load::default());
        let ended = playing.into_iter().map(|play| {
            let said = play.said.take().expect("the client hangs");
            (play.end.get().expect("the server hangs"), said)
        });
        ended.collect()
    }

    /// Starts a connection: a task for the server, one for the client.
    fn begin<F, T>(&mut self, act: impl FnOnce(Client) -> F + 'static) -> Playing<T>
    where
        F: Future<Output = T> + 'static,
        T: 'static,
    {
        let (server_end, client_end) = pipe(self.capacity);
        let playing = Playing { end: Rc::default(), said: Rc::new(RefCell::new(None)) };
        let (log, shard) = (self.log(), self.device.shard.clone());
        let mut stack = Stack::new(&self.lane, self.device.clone());
        if let Some(shared) = &self.unaligned {
            stack = Stack::new(&self.lane, Top::attach(shared, None, stack));
        }
        let mut export = Export::new("disk", stack);
        export.description = "a disk of the test".to_owned();
        export.session = Rc::new(move || Box::new(Watched(log.clone(), shard.clone())));
        (self.change_export)(&mut export);
        let other = Export::new("other", Stack::new(&self.lane, block::Null::new(64, 512)));
        let exports = Rc::new(Exports::new([export, other]));
        let wire = Counted(server_end, self.counts.clone());
        let (lane, options) = (self.lane.clone(), self.options.clone());
        let (end, stall) = (playing.end.clone(), self.device.stall.clone());
        let serving = async move {
            end.set(Some(serve(lane, wire, exports, options).await));
            stall.iter().for_each(|stall| stall.nudge());
        };
        self.lane.spawn(serving).expect("a slot is free");
        let client = Client::new(client_end, self.structured);
        let said = playing.said.clone();
        let acting = async move { *said.borrow_mut() = Some(act(client).await) };
        self.lane.spawn(acting).expect("a slot is free");
        playing
    }

    /// Wakes the lane's tasks when the backing stalls, until the connections have ended.
    fn watch_stall(&self, ends: Vec<Rc<Cell<Option<End>>>>) {
        let Some(stall) = self.device.stall.clone() else { return };
        let lane = self.lane.clone();
        let relaying = async move {
            stall.relay(&lane, || ends.iter().all(|end| end.get().is_some())).await;
        };
        self.lane.spawn(relaying).expect("a slot is free");
    }
}

/// A running connection: how it ended, and the client's result.
struct Playing<T> {
    end: Rc<Cell<Option<End>>>,
    said: Rc<RefCell<Option<T>>>,
}
