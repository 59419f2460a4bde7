//! A volume in virtual time over a backing that takes a millisecond for whatever it is asked,
//! unless the test says otherwise, as many at a time as one likes.

pub(crate) use block::{
    Block, Buf, Durability, Error, Extent, Fua, Kind, Limits, Memory, Ram, Request, Result, Stack,
    WriteMode,
};
pub(crate) use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Prices, Random, World};
pub(crate) use std::cell::{Cell, RefCell};
pub(crate) use std::rc::Rc;
use std::sync::Arc;

pub(crate) const GRAIN: u32 = 16;
pub(crate) const BLOCKS: u64 = 16_384;
pub(crate) const MS: u64 = 1_000_000;
/// How long a request of [`Parallel`] takes, unless the test says otherwise.
pub(crate) const SERVICE_NS: u64 = MS;

/// Requests of one kind.
pub(crate) type Which = fn(&Request) -> bool;

/// How long requests take, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) zero: u64,
    pub(crate) flush: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { read: SERVICE_NS, write: SERVICE_NS, zero: SERVICE_NS, flush: SERVICE_NS }
    }
}

impl Times {
    fn of(self, request: &Request) -> u64 {
        match request {
            Request::Read { .. } => self.read,
            Request::Write { .. } => self.write,
            Request::Zero { .. } | Request::Discard { .. } => self.zero,
            Request::Flush => self.flush,
            Request::Advise { .. } => unreachable!("the cache answers advice itself"),
        }
    }
}

/// What the backing sees and does.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) times: Cell<Times>,
    /// Writes that are under way, all that have been, and the most at a time since the last look.
    pub(crate) writes: Cell<u32>,
    pub(crate) writes_sent: Cell<u32>,
    pub(crate) writes_most: Cell<u32>,
    pub(crate) zeros: Cell<u32>,
    pub(crate) flushes: Cell<u32>,
    /// What is of this kind is not answered as long as this is so ...
    pub(crate) hangs: Cell<Option<Which>>,
    /// ... and this fails.
    pub(crate) fails: Cell<Option<Which>>,
}

pub(crate) struct Parallel {
    ram: Ram,
    lane: Lane,
    limits: Limits,
    state: Rc<State>,
}

impl Block for Parallel {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let State { times, writes, writes_sent, writes_most, zeros, flushes, hangs, fails } =
            &*self.state;
        while hangs.get().is_some_and(|hangs| hangs(&request)) {
            self.lane.sleep_until(self.lane.now() + SERVICE_NS).await;
        }
        let counts = is_write(&request);
        if counts {
            writes.set(writes.get() + 1);
            writes_sent.set(writes_sent.get() + 1);
            writes_most.set(writes_most.get().max(writes.get()));
        }
        zeros.set(zeros.get() + u32::from(matches!(request, Request::Zero { .. })));
        flushes.set(flushes.get() + u32::from(matches!(request, Request::Flush)));
        self.lane.sleep_until(self.lane.now() + times.get().of(&request)).await;
        writes.set(writes.get() - u32::from(counts));
        if fails.get().is_some_and(|fails| fails(&request)) {
            return Err(Error::new(Kind::Io, "test"));
        }
        self.ram.run(request).await
    }
}

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) lane: Lane,
    pub(crate) shared: Arc<Shared>,
    pub(crate) cache: Cache,
    pub(crate) stack: Stack,
    pub(crate) state: Rc<State>,
}

pub(crate) fn settings() -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        dirty_blocks_max: 8192,
        dirty_age_ns: 2000 * MS,
        flush_target_ns: 0,
        retry_time_ns: 100 * MS,
        workers: 16,
        absorb_blocks_max: 32,
        ..Settings::default()
    }
}

pub(crate) fn scene(settings: Settings) -> Scene {
    scene_of(settings, 1)
}

fn geometry(shards: u32) -> Geometry {
    Geometry {
        slots: 16_384,
        shards,
        region_blocks: 64,
        extents: 4,
        fills: 8,
        run_blocks: 8,
        slice_blocks: 256,
        ..Geometry::SMALLEST
    }
}

/// Memory that was never used.
pub(crate) fn fresh() -> Arc<Memory> {
    Arc::new(Memory::heap(Arena::bytes(&geometry(8), GRAIN)))
}

pub(crate) fn scene_of(settings: Settings, shards: u32) -> Scene {
    scene_over(settings, shards, fresh())
}

/// A scene whose cache takes over this memory.
pub(crate) fn scene_over(settings: Settings, shards: u32, memory: Arc<Memory>) -> Scene {
    scene_in(World::timed(Prices::default()), settings, shards, memory, Fua::Native)
}

/// A scene in which this seed picks what happens next.
pub(crate) fn scene_by(seed: u64, settings: Settings, shards: u32) -> Scene {
    scene_over_by(seed, settings, shards, fresh())
}

/// The same, and its cache takes over this memory.
pub(crate) fn scene_over_by(
    seed: u64,
    settings: Settings,
    shards: u32,
    memory: Arc<Memory>,
) -> Scene {
    scene_in(World::chosen(seed), settings, shards, memory, Fua::Native)
}

fn scene_in(
    mut world: World,
    settings: Settings,
    shards: u32,
    memory: Arc<Memory>,
    fua: Fua,
) -> Scene {
    let lane = world.lane();
    let geometry = geometry(shards);
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let limits = Limits { flush_needed: true, fua, ..ram.limits().clone() };
    let shared = Shared::new(&limits, geometry, settings, 7, memory)
        .expect("an arena of this kind, or none");
    let state = Rc::new(State::default());
    let backing = Parallel { ram, lane: lane.clone(), limits, state: state.clone() };
    let cache = Cache::attach(&shared, &lane, Stack::new(&lane, backing));
    let stack = Stack::new(&lane, cache.clone());
    Scene { world, lane, shared, cache, stack, state }
}

pub(crate) fn is_write(request: &Request) -> bool {
    matches!(request, Request::Write { .. })
}

pub(crate) fn write(block: u64, fua: bool) -> Request {
    Request::Write { at: Extent::new(block * 8, 8), from: Buf::new(8, GRAIN), fua }
}

pub(crate) fn read(block: u64) -> Request {
    Request::Read { at: Extent::new(block * 8, 8), into: Buf::new(8, GRAIN) }
}

/// So many whole blocks, in one write.
pub(crate) fn write_blocks(first: u64, blocks: u32) -> Request {
    let (at, from) = (Extent::new(first * 8, blocks * 8), Buf::new(blocks * 8, GRAIN));
    Request::Write { at, from, fua: false }
}

/// A volume whose first flush is over, and nothing dirty or on its way: what an earlier user of the
/// backing has sent is flushed first, and that flush may not fail.
pub(crate) fn begun(settings: Settings) -> Scene {
    begin(scene(settings))
}

/// The same on a backing that has no FUA: such a write's own flush makes it durable.
pub(crate) fn begun_without_fua(settings: Settings, shards: u32) -> Scene {
    begin(scene_in(World::timed(Prices::default()), settings, shards, fresh(), Fua::None))
}

pub(crate) fn begin(mut scene: Scene) -> Scene {
    scene.fill(1);
    assert_eq!(scene.ask(Request::Flush), Ok(()));
    scene.pass_ns(50 * MS);
    scene
}

impl Scene {
    pub(crate) fn begin(&self, request: Request) -> Rc<RefCell<Option<Result>>> {
        let answer = Rc::new(RefCell::new(None));
        let (stack, into) = (self.stack.clone(), answer.clone());
        let task = async move { *into.borrow_mut() = Some(stack.run(request).await) };
        self.lane.spawn(task).expect("a lane has room");
        answer
    }

    pub(crate) fn ask(&mut self, request: Request) -> Result {
        let answer = self.begin(request);
        assert!(self.world.run_until(|| answer.borrow().is_some()), "no answer");
        answer.take().expect("it is there")
    }

    /// Lets so much virtual time pass.
    pub(crate) fn pass_ns(&mut self, ns: u64) {
        let over = Rc::new(Cell::new(false));
        let (lane, end) = (self.lane.clone(), over.clone());
        let until = lane.now() + ns;
        let task = async move {
            lane.sleep_until(until).await;
            end.set(true);
        };
        self.lane.spawn(task).expect("a lane has room");
        assert!(self.world.run_until(|| over.get()));
    }

    /// Makes so many blocks dirty, of which no two can be one run.
    pub(crate) fn fill(&mut self, blocks: u64) {
        for block in 0..blocks {
            assert_eq!(self.ask(write(2 * block, false)), Ok(()));
        }
    }

    /// So many clients write blocks among the first ones, as fast as they are answered.
    pub(crate) fn keep_writing(&self, clients: u64, blocks: u64) {
        for client in 0..clients {
            let (stack, lane) = (self.stack.clone(), self.lane.clone());
            let mut random = Random::new(client + 1);
            let task = async move {
                loop {
                    let _ = stack.run(write(random.below(blocks), false)).await;
                    // A client that is answered at once takes a while, too.
                    lane.sleep_until(lane.now() + 1000).await;
                }
            };
            self.lane.spawn(task).expect("a lane has room");
        }
    }

    /// The most writes that were under way at a time, since this was asked before.
    pub(crate) fn most(&self) -> u32 {
        self.state.writes_most.replace(self.state.writes.get())
    }

    pub(crate) fn counters(&self) -> Counters {
        self.shared.counters(self.lane.now())
    }

    /// A client reads what is not in memory, and gets no answer.
    pub(crate) fn keep_reading(&mut self) {
        self.state.hangs.set(Some(|request| matches!(request, Request::Read { .. })));
        let at = Extent::new((BLOCKS - 1) * 8, 8);
        self.begin(Request::Read { at, into: Buf::new(8, GRAIN) });
        self.pass_ns(1000);
    }

    /// A client's write goes past the cache, and gets no answer.
    pub(crate) fn keep_passing(&mut self) {
        fn is_last(request: &Request) -> bool {
            let at = request.extent().map(|at| at.first);
            request.is_change() && at == Some((BLOCKS - 1) * 8)
        }
        self.state.hangs.set(Some(is_last));
        self.begin(write(BLOCKS - 1, true));
        self.pass_ns(1000);
    }
}
