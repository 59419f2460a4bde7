//! A volume in virtual time over a backing that takes a millisecond for every request, unless the
//! test sets another time, with unlimited parallelism.

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
/// The time of a request of [`Parallel`], unless the test sets another one.
pub(crate) const SERVICE_NS: u64 = MS;

/// Requests of one kind.
pub(crate) type Which = fn(&Request) -> bool;

/// The times of requests, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) read: u64,
    pub(crate) write: u64,
    /// Additional time of a write for each other one in flight.
    pub(crate) beside: u64,
    pub(crate) zero: u64,
    pub(crate) flush: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            read: SERVICE_NS,
            write: SERVICE_NS,
            beside: 0,
            zero: SERVICE_NS,
            flush: SERVICE_NS,
        }
    }
}

impl Times {
    /// Returns the time of a request, with which `writes` writes are in flight.
    fn of(self, request: &Request, writes: u32) -> u64 {
        match request {
            Request::Read { .. } => self.read,
            Request::Write { .. } => self.write + self.beside * u64::from(writes - 1),
            Request::Zero { .. } | Request::Discard { .. } => self.zero,
            Request::Flush => self.flush,
            Request::Advise { .. } => unreachable!("the cache answers advice itself"),
        }
    }
}

/// The state of the backing.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) times: Cell<Times>,
    /// Writes in flight, all writes, and the maximum in flight since the last call.
    pub(crate) writes: Cell<u32>,
    pub(crate) writes_sent: Cell<u32>,
    pub(crate) writes_most: Cell<u32>,
    pub(crate) zeros: Cell<u32>,
    pub(crate) flushes: Cell<u32>,
    /// Requests of this kind are not answered while this is set ...
    pub(crate) hangs: Cell<Option<Which>>,
    /// ... and requests of this kind fail.
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
        self.lane.sleep_until(self.lane.now() + times.get().of(&request, writes.get())).await;
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

/// Returns unused memory.
pub(crate) fn fresh() -> Arc<Memory> {
    Arc::new(Memory::heap(Arena::bytes(&geometry(8), GRAIN)))
}

pub(crate) fn scene_of(settings: Settings, shards: u32) -> Scene {
    scene_over(settings, shards, fresh())
}

/// Makes a scene whose cache takes over this memory.
pub(crate) fn scene_over(settings: Settings, shards: u32, memory: Arc<Memory>) -> Scene {
    scene_in(World::timed(Prices::default()), settings, shards, memory, Fua::Native)
}

/// Makes a scene in which this seed picks the next step.
pub(crate) fn scene_by(seed: u64, settings: Settings, shards: u32) -> Scene {
    scene_over_by(seed, settings, shards, fresh())
}

/// Makes such a scene, whose cache takes over this memory.
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

/// Makes one write of whole blocks.
pub(crate) fn write_blocks(first: u64, blocks: u32) -> Request {
    let (at, from) = (Extent::new(first * 8, blocks * 8), Buf::new(blocks * 8, GRAIN));
    Request::Write { at, from, fua: false }
}

/// Makes a volume whose first flush is done, with nothing dirty or in flight: requests of an
/// earlier user of the backing are flushed first, and that flush must not fail.
pub(crate) fn begun(settings: Settings) -> Scene {
    begin(scene(settings))
}

/// Makes such a volume on a backing without FUA: a separate flush makes such a write durable.
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

    /// Lets this amount of virtual time pass.
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

    /// Makes this number of blocks dirty, of which no two can be in one run.
    pub(crate) fn fill(&mut self, blocks: u64) {
        for block in 0..blocks {
            assert_eq!(self.ask(write(2 * block, false)), Ok(()));
        }
    }

    /// Starts clients that write blocks among the first ones, as fast as they are answered.
    pub(crate) fn keep_writing(&self, clients: u64, blocks: u64) {
        for client in 0..clients {
            let (stack, lane) = (self.stack.clone(), self.lane.clone());
            let mut random = Random::new(client + 1);
            let task = async move {
                loop {
                    let _ = stack.run(write(random.below(blocks), false)).await;
                    // A client that is answered immediately also takes a while.
                    lane.sleep_until(lane.now() + 1000).await;
                }
            };
            self.lane.spawn(task).expect("a lane has room");
        }
    }

    /// Returns the maximum number of writes in flight since the last call.
    pub(crate) fn most(&self) -> u32 {
        self.state.writes_most.replace(self.state.writes.get())
    }

    pub(crate) fn counters(&self) -> Counters {
        self.shared.counters(self.lane.now())
    }

    /// Starts a client that reads a block that is not in memory, and gets no answer.
    pub(crate) fn keep_reading(&mut self) {
        self.state.hangs.set(Some(|request| matches!(request, Request::Read { .. })));
        let at = Extent::new((BLOCKS - 1) * 8, 8);
        self.begin(Request::Read { at, into: Buf::new(8, GRAIN) });
        self.pass_ns(1000);
    }

    /// Starts a client whose write-through gets no answer.
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
