//! The rescue compared with a plain array: at every moment, its items written over the backing's
//! data equal the acknowledged data, and the result of a recovery from the same memory.

use block::{
    Block, Buf, Durability, Error, Extent, Kind, Limits, Memory, Ram, Request, Result, Stack,
    WriteMode,
};
#[cfg(feature = "laboratory")]
use cache::planted::{observe_stores, watch_stores};
use cache::{Arena, Cache, Geometry, Rescue, Settings, Shared, What};
use lane::{Lane, Random, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
#[cfg(not(feature = "laboratory"))]
use unseen::{observe_stores, watch_stores};

/// Not a whole number of blocks: the last one is short.
const SECTORS: u64 = 40 * 8 - 3;
const GRAIN: u32 = 16;

/// Slow RAM, which may stop accepting changes.
struct Slow {
    ram: Ram,
    lane: Lane,
    random: RefCell<Random>,
    limits: Limits,
    broken: Rc<Cell<bool>>,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        for half in 0..2 {
            let delay = self.random.borrow_mut().below(1000);
            self.lane.sleep_until(self.lane.now() + delay).await;
            if self.broken.get() && !matches!(request, Request::Read { .. }) {
                return Err(Error::new(Kind::Io, "the backing is broken"));
            }
            if half == 0 {
                self.ram.run(request.clone()).await?;
            }
        }
        Ok(())
    }
}

/// The possible contents of every sector: one, or several until a client has a reply.
struct Model(Vec<Vec<Vec<u8>>>);

impl Model {
    fn new() -> Model {
        Model(vec![vec![vec![0; GRAIN as usize]]; SECTORS as usize])
    }

    /// Adds possible contents of sectors.
    fn begin(&mut self, at: &Extent, bytes: &[u8]) {
        for (index, sector) in bytes.chunks(GRAIN as usize).enumerate() {
            self.0[at.first as usize + index].push(sector.to_vec());
        }
    }

    /// Ends a change that succeeded: its contents are the only ones.
    fn end(&mut self, at: &Extent, bytes: &[u8]) {
        for (index, sector) in bytes.chunks(GRAIN as usize).enumerate() {
            self.0[at.first as usize + index] = vec![sector.to_vec()];
        }
    }

    fn judge(&self, image: &[u8], what: &str) {
        for (number, sector) in image.chunks(GRAIN as usize).enumerate() {
            let allowed = &self.0[number];
            assert!(allowed.iter().any(|one| one == sector), "{what}: sector {number}");
        }
    }
}

fn contents(ram: &Ram) -> Vec<u8> {
    let all = Buf::new(SECTORS as u32, GRAIN);
    let read = Request::Read { at: Extent::new(0, SECTORS as u32), into: all.clone() };
    assert_eq!(ram.try_now(&read), Some(Ok(())));
    all.to_vec()
}

/// Writes the rescue over an image; checks that its items ascend, are disjoint and are inside.
fn overlay(rescue: &Rescue, image: &mut [u8]) {
    let grain = GRAIN as usize;
    let mut end = 0;
    for item in rescue.items() {
        assert!(item.first_sector >= end && item.sectors > 0, "{item:?} after {end}");
        end = item.first_sector + item.sectors;
        assert!(end <= SECTORS, "{item:?}");
        let span = item.first_sector as usize * grain..end as usize * grain;
        match item.what {
            What::Bytes { offset } => rescue.memory().read(offset, &mut image[span]),
            What::Zeros => image[span].fill(0),
        }
    }
}

/// Returns the contents of this backing after a recovery from this memory and a drain.
fn recovered(memory: &Memory, image: &[u8], geometry: Geometry, settings: Settings) -> Vec<u8> {
    let arena = Arc::new(Memory::heap(memory.bytes()));
    memory.copy(0, &arena, 0, memory.bytes());
    let ram = Ram::new(SECTORS, GRAIN);
    let from = Buf::new(SECTORS as u32, GRAIN);
    from.write(image);
    let at = Extent::new(0, SECTORS as u32);
    assert_eq!(ram.try_now(&Request::Write { at, from, fua: false }), Some(Ok(())));
    let mut world = World::chosen(1);
    let lane = world.lane();
    let shared = Shared::new(ram.limits(), geometry, settings, 7, arena).expect("the same arena");
    // The memory records that the volume had failed; this backing works.
    shared.clear_error();
    let cache = Cache::attach(&shared, &lane, Stack::new(&lane, ram.clone()));
    let done = Rc::new(Cell::new(false));
    let finished = done.clone();
    lane.spawn(async move {
        cache.drain().await.expect("RAM does not fail");
        finished.set(true);
    })
    .expect("a slot is free");
    assert!(world.run_until(|| done.get()), "the recovery hangs");
    contents(&ram)
}

fn geometry(random: &mut Random) -> Geometry {
    let shards = 1 << random.below(3) as u32;
    Geometry {
        slots: shards * (6 + random.below(20) as u32),
        shards,
        region_blocks: [4, 8, 16][random.below(3) as usize],
        extents: 1 + random.below(4) as u32,
        fills: 2 + random.below(4) as u32,
        run_blocks: 4,
        slice_blocks: 2,
        ..Geometry::SMALLEST
    }
}

fn settings(random: &mut Random, geometry: &Geometry) -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability: [Durability::Flush, Durability::Ordered][random.below(2) as usize],
        dirty_blocks_max: 4 + random.below(u64::from(geometry.slots)) as u32,
        dirty_age_ns: 10_000 + random.below(1_000_000),
        flush_target_ns: 0,
        retry_time_ns: 1_000_000,
        workers: 1 + random.below(3) as u32,
        absorb_blocks_max: 2 + random.below(8) as u32,
        ..Settings::default()
    }
}

async fn serve(stack: &Stack, request: Request) -> Result {
    stack.lane().turn().await;
    if let Some(result) = stack.try_now(&request) {
        return result;
    }
    stack.lane().turn().await;
    stack.run(request).await
}

/// One client, one request at a time; at some step the backing may break.
async fn client(
    stack: Stack,
    mut random: Random,
    model: Rc<RefCell<Model>>,
    broken: Rc<Cell<bool>>,
) {
    let breaks_at = if random.one_in(3) { 20 + random.below(60) } else { u64::MAX };
    for step in 0..100u64 {
        broken.set(step >= breaks_at);
        stack.lane().turn().await;
        if random.one_in(4) {
            stack.lane().sleep_until(stack.lane().now() + random.below(5_000)).await;
        }
        let most = if random.one_in(4) { 60 } else { 12 };
        let count = 1 + random.below(most) as u32;
        let at = Extent::new(random.below(SECTORS - u64::from(count) + 1), count);
        let bytes = count as usize * GRAIN as usize;
        match random.below(12) {
            0..7 => {
                let new: Vec<u8> = (0..bytes).map(|_| random.next_u64() as u8).collect();
                let from = Buf::new(count, GRAIN);
                from.write(&new);
                model.borrow_mut().begin(&at, &new);
                let request = Request::Write { at, from, fua: random.one_in(8) };
                if serve(&stack, request).await.is_ok() {
                    model.borrow_mut().end(&at, &new);
                }
            }
            7..9 => {
                let new = vec![0; bytes];
                model.borrow_mut().begin(&at, &new);
                let zero = Request::Zero { at, fua: random.one_in(8), may_unmap: false };
                if serve(&stack, zero).await.is_ok() {
                    model.borrow_mut().end(&at, &new);
                }
            }
            9 => {
                model.borrow_mut().begin(&at, &vec![0; bytes]);
                if serve(&stack, Request::Discard { at }).await.is_ok() {
                    let into = Buf::new(count, GRAIN);
                    let read = Request::Read { at, into: into.clone() };
                    if serve(&stack, read).await.is_ok() {
                        model.borrow_mut().end(&at, &into.to_vec());
                    }
                }
            }
            10 => {
                let into = Buf::new(count, GRAIN);
                let read = serve(&stack, Request::Read { at, into }).await;
                read.expect("reads do not fail");
            }
            // On a broken backing the flush fails.
            _ => drop(serve(&stack, Request::Flush).await),
        }
    }
}

/// Counts of the relevant situations, over all histories.
#[derive(Default, Debug)]
struct Met {
    parts: u64,
    zeros: u64,
    during: u64,
    midway: u64,
    failed: u64,
    recoveries: u64,
}

/// A history as seen from outside, at any moment of it.
struct Watch {
    seed: u64,
    memory: Arc<Memory>,
    ram: Ram,
    model: Rc<RefCell<Model>>,
    geometry: Geometry,
    settings: Settings,
    moments: RefCell<Random>,
    met: Rc<RefCell<Met>>,
}

impl Watch {
    fn look(&self) {
        // The following recovery must not be watched itself.
        watch_stores(0);
        let rescue = Rescue::from_memory(self.memory.clone()).expect("an arena");
        assert_eq!(rescue.rejected(), 0, "seed {}", self.seed);
        let before = contents(&self.ram);
        let mut image = before.clone();
        overlay(&rescue, &mut image);
        self.model.borrow().judge(&image, &format!("seed {}", self.seed));
        let mut met = self.met.borrow_mut();
        met.parts += u64::from(rescue.items().any(|item| item.sectors % 8 != 0));
        met.zeros += u64::from(rescue.items().any(|item| item.what == What::Zeros));
        if self.moments.borrow_mut().one_in(24) {
            let drained = recovered(&self.memory, &before, self.geometry, self.settings);
            assert!(image == drained, "seed {}: a recovery differs", self.seed);
            met.recoveries += 1;
        }
    }

    /// Returns after how many stores to the memory to look again, in the middle of sections.
    fn again(&self) -> u32 {
        1 + self.moments.borrow_mut().below(60) as u32
    }

    fn look_midway(self: &Rc<Self>) {
        let watch = self.clone();
        observe_stores(Some(Box::new(move || {
            watch.look();
            watch.met.borrow_mut().midway += 1;
            watch.again()
        })));
        watch_stores(1);
    }
}

/// Without the laboratory nothing can observe the middle of a section.
#[cfg(not(feature = "laboratory"))]
mod unseen {
    pub(crate) fn observe_stores(_observer: Option<Box<dyn FnMut() -> u32>>) {}
    pub(crate) fn watch_stores(_stores: u32) {}
}

/// Ends the watch even if a history has panicked.
struct Unwatched;

impl Drop for Unwatched {
    fn drop(&mut self) {
        watch_stores(0);
        observe_stores(None);
    }
}

fn history(seed: u64, met: &Rc<RefCell<Met>>) {
    let mut random = Random::new(seed);
    let mut world = World::chosen(random.next_u64());
    let ram = Ram::new(SECTORS, GRAIN);
    let geometry = geometry(&mut random);
    let settings = settings(&mut random, &geometry);
    let limits = Limits { flush_needed: true, ..ram.limits().clone() };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(&limits, geometry, settings, 7, memory.clone()).expect("fresh");
    let broken = Rc::new(Cell::new(false));
    let mut attach = || {
        let lane = world.lane();
        let slow = Slow {
            ram: ram.clone(),
            lane: lane.clone(),
            random: RefCell::new(random.fork()),
            limits: limits.clone(),
            broken: broken.clone(),
        };
        let below = Stack::new(&lane, slow);
        (Cache::attach(&shared, &lane, below), lane)
    };
    let (cache, lane) = attach();
    let _other = attach();
    let model = Rc::new(RefCell::new(Model::new()));
    let done = Rc::new(Cell::new(false));
    let finished = done.clone();
    let task = client(Stack::new(&lane, cache), random.fork(), model.clone(), broken);
    lane.spawn(async move {
        task.await;
        finished.set(true);
    })
    .expect("a slot is free");
    let moments = RefCell::new(random.fork());
    let met = met.clone();
    let watch = Rc::new(Watch { seed, memory, ram, model, geometry, settings, moments, met });
    let _unwatched = Unwatched;
    watch.look_midway();
    let mut steps = 0u64;
    let ended = world.run_until(|| {
        steps += 1;
        if done.get() || watch.moments.borrow_mut().one_in(24) {
            watch.look();
            watch_stores(watch.again());
            watch.met.borrow_mut().during += u64::from(!done.get());
        }
        done.get() || steps > 1_000_000
    });
    assert!(ended && done.get(), "seed {seed}: the client hangs");
    watch.met.borrow_mut().failed += u64::from(shared.has_failed());
}

#[test]
fn laid_over_the_backing_the_rescue_is_what_clients_have_read_and_what_a_recovery_would_write() {
    let met = Rc::default();
    for seed in 0..400 {
        history(seed, &met);
    }
    // All situations that the test covers must have occurred often.
    let met = met.take();
    let all = met.parts > 1000 && met.zeros > 1000 && met.during > 10_000;
    assert!(all && met.failed > 50 && met.recoveries > 400, "{met:?}");
    assert!(met.midway > 10_000 || !cfg!(feature = "laboratory"), "{met:?}");
}
