//! The engine compared with a plain array: for every sequence of requests, modes and sizes, reads
//! return the last written data, and a drained volume has the same bytes without the cache.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Random, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const SECTORS: u64 = 40 * 8;
const GRAIN: u32 = 16;

/// Slow RAM, so that requests, fills and writeback overlap.
struct Slow {
    ram: Ram,
    lane: Lane,
    random: RefCell<Random>,
    limits: Limits,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        let delay = self.random.borrow_mut().below(1000);
        self.lane.sleep_until(self.lane.now() + delay).await;
        let result = self.ram.run(request).await;
        let delay = self.random.borrow_mut().below(1000);
        self.lane.sleep_until(self.lane.now() + delay).await;
        result
    }
}

fn geometry(random: &mut Random) -> Geometry {
    let shards = 1 << random.below(3) as u32;
    Geometry {
        slots: shards * (4 + random.below(20) as u32),
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
    let modes = [WriteMode::Back, WriteMode::BackNow, WriteMode::Through, WriteMode::None];
    let durabilities = [Durability::Flush, Durability::Ordered, Durability::Scratch];
    Settings {
        write: modes[random.below(4) as usize],
        durability: durabilities[random.below(3) as usize],
        dirty_blocks_max: 2 + random.below(u64::from(geometry.slots)) as u32,
        dirty_age_ns: 1_000 + random.below(100_000),
        flush_target_ns: random.below(2) * 500_000_000,
        retry_time_ns: 1_000_000,
        workers: 1 + random.below(3) as u32,
        absorb_blocks_max: 1 + random.below(8) as u32,
        fill_cost_ns: random.below(2) * 400,
        ..Settings::default()
    }
}

/// One client, one request at a time: a read must return the newest write.
async fn client(stack: Stack, cache: Cache, mut random: Random, model: Rc<RefCell<Vec<u8>>>) {
    let grain = GRAIN as usize;
    for step in 0..120u64 {
        stack.lane().turn().await;
        let most = if random.one_in(4) { 60 } else { 12 };
        let count = 1 + random.below(most) as u32;
        let first = random.below(SECTORS - u64::from(count));
        let at = Extent::new(first, count);
        let span = first as usize * grain..at.end() as usize * grain;
        match random.below(10) {
            0..4 => {
                let into = Buf::new(count, GRAIN);
                let request = Request::Read { at, into: into.clone() };
                if stack.try_now(&request).is_none() {
                    stack.lane().turn().await;
                    stack.run(request).await.expect("RAM does not fail");
                }
                assert_eq!(into.to_vec(), model.borrow()[span], "step {step}, read {at:?}");
            }
            4..7 => {
                let bytes: Vec<u8> =
                    (0..count as usize * grain).map(|_| random.next_u64() as u8).collect();
                let from = Buf::new(count, GRAIN);
                from.write(&bytes);
                let request = Request::Write { at, from, fua: random.one_in(4) };
                if stack.try_now(&request).is_none() {
                    stack.lane().turn().await;
                    stack.run(request).await.expect("RAM does not fail");
                }
                model.borrow_mut()[span].copy_from_slice(&bytes);
            }
            7 => {
                let (fua, may_unmap) = (random.one_in(4), random.one_in(2));
                let zero = Request::Zero { at, fua, may_unmap };
                stack.run(zero).await.expect("RAM does not fail");
                model.borrow_mut()[span].fill(0);
            }
            8 => {
                stack.run(Request::Discard { at }).await.expect("RAM does not fail");
                model.borrow_mut()[span].fill(0);
            }
            _ if random.one_in(3) => {
                let modes = [WriteMode::Back, WriteMode::BackNow, WriteMode::Through];
                cache.shared().set_write_mode(modes[random.below(3) as usize]);
            }
            _ => stack.run(Request::Flush).await.expect("RAM does not fail"),
        }
    }
    cache.drain().await.expect("RAM does not fail");
    assert_eq!(cache.shared().dirty_blocks(), 0);
}

#[test]
fn reads_return_what_was_written_last_and_a_drained_volume_is_the_same_without_the_cache() {
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let mut world = World::chosen(random.next_u64());
        let ram = Ram::new(SECTORS, GRAIN);
        let geometry = geometry(&mut random);
        let settings = settings(&mut random, &geometry);
        let limits = Limits { flush_needed: true, ..ram.limits().clone() };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
        let shared = Shared::new(&limits, geometry, settings, 7, memory).expect("a fresh arena");
        let client_of = shared.client(0);
        if random.one_in(2) {
            client_of.flushed();
        }
        let lane = world.lane();
        let other = world.lane();
        let slow = |lane: &Lane, random: &mut Random| Slow {
            ram: ram.clone(),
            lane: lane.clone(),
            random: RefCell::new(random.fork()),
            limits: limits.clone(),
        };
        let below = Stack::new(&lane, slow(&lane, &mut random));
        let cache = Cache::attach(&shared, &lane, below);
        let below = Stack::new(&other, slow(&other, &mut random));
        let _other = Cache::attach(&shared, &other, below);
        let stack = Stack::new(&lane, cache.clone());
        let model = Rc::new(RefCell::new(vec![0; SECTORS as usize * GRAIN as usize]));
        let done = Rc::new(Cell::new(false));
        let task = client(stack, cache, random.fork(), model.clone());
        let finished = done.clone();
        lane.spawn(async move {
            task.await;
            finished.set(true);
        })
        .expect("a slot is free");
        let mut steps = 0u64;
        let ended = world.run_until(|| {
            steps += 1;
            if steps.is_multiple_of(64) {
                shared.check();
            }
            done.get() || steps > 1_000_000
        });
        assert!(ended && done.get(), "seed {seed}: the client hangs");
        shared.check();
        let all = Buf::new(SECTORS as u32, GRAIN);
        let read = Request::Read { at: Extent::new(0, SECTORS as u32), into: all.clone() };
        assert_eq!(ram.try_now(&read), Some(Ok(())));
        assert_eq!(all.to_vec(), *model.borrow(), "seed {seed}: the drained volume differs");
    }
}
