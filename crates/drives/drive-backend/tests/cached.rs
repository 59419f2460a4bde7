//! The cache in front of a drive that loses its power repeatedly: within the retry time no client
//! sees an error, and nothing is lost, because the data that the drive lost is still in the cache.

use block::{Buf, Durability, Extent, Memory, Request, Result, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Settings};
use drive_backend::{Keep, Modelled, Shared};
use drives::{Model, Options, Random};
use lane::{Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const SLOTS: u64 = 8192;
const CLIENTS: u64 = 3;
const REQUESTS: u64 = 3000;
const MS: u64 = 1_000_000;

fn drive() -> Arc<Shared> {
    // Without the fast area a program takes long, and more is under way at a power cut.
    let text = "like = \"samsung-840-evo-120\"\ntitle = \"t\"\n[slc]\nstatic_bytes = [0, \"test\"]";
    let model = Model::parse("slow", text).expect("a sound model");
    let options = Options { user_bytes: Some(SLOTS * 4096), ..Options::default() };
    Shared::new(&model, &options, Keep::Data).expect("a sound drive")
}

/// Returns settings with which no write is too large or too old to be buffered, so that none
/// bypasses the cache.
fn settings(geometry: &Geometry) -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        dirty_blocks_max: geometry.slots / 2,
        dirty_age_ns: 60_000 * MS,
        flush_target_ns: 0,
        retry_time_ns: 60_000 * MS,
        workers: 2,
        absorb_blocks_max: 8,
        ..Settings::default()
    }
}

fn buffer(stamp: u64) -> Buf {
    let buf = Buf::new(8, 512);
    buf.write(&stamp.to_le_bytes().repeat(512));
    buf
}

fn stamp(buf: &Buf) -> u64 {
    let bytes = buf.to_vec();
    let first = bytes[..8].try_into().expect("eight bytes");
    assert!(bytes.chunks_exact(8).all(|word| word == first), "a torn slot");
    u64::from_le_bytes(first)
}

async fn ask(stack: &Stack, request: Request) -> Result {
    match stack.try_now(&request) {
        Some(result) => result,
        None => stack.run(request).await,
    }
}

/// The clients' expected contents of every slot.
type Known = Rc<RefCell<Vec<u64>>>;

/// Writes, flushes and reads its own slots. Only reads may fail: nothing else could answer those
/// while the drive has no power.
async fn client(stack: Stack, known: Known, number: u64, seed: u64, ended: Rc<Cell<u64>>) {
    let mut random = Random::new(seed);
    let lane = stack.lane().clone();
    for count in 1..=REQUESTS {
        let slot = u64::from(random.below((SLOTS / CLIENTS) as u32)) * CLIENTS + number;
        let at = Extent::new(slot * 8, 8);
        match random.below(32) {
            0 => ask(&stack, Request::Flush).await.expect("flushed in the end"),
            1..26 => {
                let written = count << 32 | slot << 8 | number;
                let write = Request::Write { at, from: buffer(written), fua: false };
                ask(&stack, write).await.expect("absorbed");
                known.borrow_mut()[slot as usize] = written;
            }
            _ => {
                let into = Buf::new(8, 512);
                if ask(&stack, Request::Read { at, into: into.clone() }).await.is_ok() {
                    assert_eq!(stamp(&into), known.borrow()[slot as usize], "slot {slot}");
                }
            }
        }
        lane.sleep_until(lane.now() + u64::from(random.below(1_000_000))).await;
    }
    ended.set(ended.get() + 1);
}

/// Cuts the power at intervals, until `stop` is set. Not faster than the cache retries: half a
/// second after a few failures.
async fn cutter(stack: Stack, drive: Arc<Shared>, seed: u64, stop: Rc<Cell<bool>>) {
    let (lane, mut random) = (stack.lane().clone(), Random::new(seed));
    while !stop.get() {
        lane.sleep_until(lane.now() + u64::from(random.below(16_000_000) + 1)).await;
        drive.power_cut(lane.now(), random.bits());
        lane.sleep_until(lane.now() + u64::from(random.below(8_000_000) + 1)).await;
        drive.power_on(lane.now());
        lane.sleep_until(lane.now() + 600 * MS).await;
    }
}

/// Returns the total number of slots that the drive lost.
fn run(seed: u64) -> u64 {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let drive = drive();
    let below = Stack::new(&lane, Modelled::attach(&drive, &lane));
    let geometry = Geometry::for_memory(8 << 20);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 512)));
    let shared = cache::Shared::new(below.limits(), geometry, settings(&geometry), 0, memory);
    let cache = Cache::attach(&shared.expect("fresh"), &lane, below.clone());
    let stack = Stack::new(&lane, cache.clone());
    let known: Known = Rc::new(RefCell::new(vec![0; SLOTS as usize]));
    // Before its first successful flush a cache must not ignore a failed one (C8).
    let (first, flushed) = (stack.clone(), Rc::new(Cell::new(false)));
    let flag = flushed.clone();
    lane.spawn(async move {
        let at = Extent::new(0, 8);
        let write = Request::Write { at, from: buffer(0), fua: false };
        ask(&first, write).await.expect("absorbed");
        ask(&first, Request::Flush).await.expect("a sound drive");
        flag.set(true);
    })
    .expect("a slot is free");
    assert!(world.run_until(|| flushed.get()));
    let (ended, stop) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    for number in 0..CLIENTS {
        let dice = seed << 8 | number;
        let client = client(stack.clone(), known.clone(), number, dice, ended.clone());
        lane.spawn(client).expect("a slot is free");
    }
    lane.spawn(cutter(stack.clone(), drive.clone(), seed, stop.clone())).expect("a slot is free");
    assert!(world.run_until(|| ended.get() == CLIENTS));
    stop.set(true);
    let lost = drive.report().slots_lost;
    let done = Rc::new(Cell::new(false));
    let flag = done.clone();
    lane.spawn(async move {
        cache.drain().await.expect("the power stays on");
        // From the drive itself, after one more power cut.
        let lane = below.lane().clone();
        lane.sleep_until(lane.now() + 200 * MS).await;
        assert_eq!(drive.power_cut(lane.now(), seed).slots, 0, "all was flushed");
        lane.turn().await;
        drive.power_on(lane.now());
        for slot in 0..SLOTS {
            let (at, into) = (Extent::new(slot * 8, 8), Buf::new(8, 512));
            below.run(Request::Read { at, into: into.clone() }).await.expect("it has power");
            assert_eq!(stamp(&into), known.borrow()[slot as usize], "slot {slot}");
        }
        flag.set(true);
    })
    .expect("a slot is free");
    assert!(world.run_until(|| done.get()));
    lost
}

#[test]
fn nothing_is_lost_behind_a_cache_that_keeps_what_was_not_flushed() {
    let mut lost = 0;
    for seed in 0..8 {
        lost += run(seed);
    }
    assert!(lost > 20, "only {lost} slots were ever lost below");
}
