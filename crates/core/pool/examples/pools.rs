//! Pools and stripes over delayed devices, in virtual time: the results are the same on every
//! machine.
//!
//! `cargo run --release -p pool --example pools`

use block::{Buf, DelaySpec, Extent, Ram, Request, Size, Stack};
use lane::{Lane, Prices, Random, World};
use layers::{Delay, DelayShared};
use pool::{Pool, PoolShared, SLOT_SECTORS, Stripe};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 64;
/// 256 MiB if they were real.
const SLOTS: u64 = 65_536;
const WRITES: u64 = 200_000;
const DEPTH: u64 = 32;

/// Four servers: 20,000 writes of 200 us per second.
fn drive(lane: &Lane, write_us: u64) -> Stack {
    let bandwidth = Size(550_000_000);
    let spec = DelaySpec { read_us: 100, write_us, flush_us: 500, servers: 4, bandwidth };
    let ram = Stack::new(lane, Ram::new(SLOTS * u64::from(SLOT_SECTORS), GRAIN));
    Stack::new(lane, Delay::attach(DelayShared::new(&spec), lane, ram))
}

fn run<T: 'static>(world: &mut World, work: impl Future<Output = T> + 'static, lane: &Lane) -> T {
    let done = Rc::new(RefCell::new(None));
    let result = done.clone();
    let work = async move {
        let value = work.await;
        *result.borrow_mut() = Some(value);
    };
    lane.spawn(work).expect("room for a task");
    world.run_until(|| done.borrow().is_some());
    done.take().expect("it ended")
}

/// Bounded Zipf distribution, by the inverse of its continuous form; `theta` below 1.
fn zipf(random: &mut Random, count: u64, theta: f64) -> u64 {
    let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let rank = (count as f64) * unit.powf(1.0 / (1.0 - theta));
    // Ranks are spread over the space, so that hot slots are not adjacent.
    (rank as u64).min(count - 1).wrapping_mul(0x9e37_79b9) % count
}

#[derive(Clone, Copy, PartialEq)]
enum Load {
    Random,
    /// Within the first quarter of the space.
    Quarter,
    Zipf,
    /// One in 16 writes is followed by a flush.
    Flushes,
}

fn load(world: &mut World, stack: &Stack, load: Load) -> f64 {
    let slots = stack.limits().sectors / u64::from(SLOT_SECTORS);
    let begun = world.now();
    let (left, running) = (Rc::new(Cell::new(WRITES)), Rc::new(Cell::new(DEPTH)));
    for client in 0..DEPTH {
        let (on, left, running) = (stack.clone(), left.clone(), running.clone());
        let mut random = Random::new(client + 1);
        let from = Buf::new(SLOT_SECTORS, GRAIN);
        let work = async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let slot = match load {
                    Load::Quarter => random.below(slots / 4),
                    Load::Zipf => zipf(&mut random, slots, 0.99),
                    _ => random.below(slots),
                };
                let at = Extent::new(slot * u64::from(SLOT_SECTORS), SLOT_SECTORS);
                let write = Request::Write { at, from: from.clone(), fua: false };
                on.run(write).await.expect("a sound device");
                if load == Load::Flushes && random.one_in(16) {
                    on.run(Request::Flush).await.expect("a sound device");
                }
            }
            running.set(running.get() - 1);
        };
        stack.lane().spawn(work).expect("room for a task");
    }
    world.run_until(|| running.get() == 0);
    WRITES as f64 * 1e9 / (world.now() - begun) as f64
}

fn pool_of(world: &mut World, lane: &Lane, write_us: &[u64]) -> (Arc<PoolShared>, Stack) {
    let members: Vec<Stack> = write_us.iter().map(|us| drive(lane, *us)).collect();
    let on = lane.clone();
    let work = async move {
        pool::create(&members, 7, false).await.expect("blank members");
        let there: Vec<Option<Stack>> = members.iter().cloned().map(Some).collect();
        let shared = pool::open(&there).await.expect("a sound pool");
        let stack = Stack::new(&on, Pool::attach(&shared, &on, members));
        (shared, stack)
    };
    run(world, work, lane)
}

fn world() -> (World, Lane) {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    (world, lane)
}

fn single(write_us: u64, kind: Load) -> f64 {
    let (mut world, lane) = world();
    let stack = drive(&lane, write_us);
    load(&mut world, &stack, kind)
}

fn striped(write_us: &[u64], kind: Load) -> f64 {
    let (mut world, lane) = world();
    let members = write_us.iter().map(|us| drive(&lane, *us)).collect();
    let stripe = Stripe::attach(members, 64 << 10).expect("sound members");
    load(&mut world, &Stack::new(&lane, stripe), kind)
}

fn pooled(write_us: &[u64], kind: Load) -> (f64, String) {
    let (mut world, lane) = world();
    let (shared, stack) = pool_of(&mut world, &lane, write_us);
    let rate = load(&mut world, &stack, kind);
    let members = shared.statistics();
    let bytes: Vec<f64> = members.iter().map(|it| it.written_bytes as f64).collect();
    let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
    let most = bytes.iter().copied().fold(0.0, f64::max);
    let least = bytes.iter().copied().fold(f64::MAX, f64::min);
    let states: Vec<String> = members.iter().map(|it| format!("{:?}", it.state)).collect();
    (rate, format!("uneven by {:.2} %, {}", 100.0 * (most - least) / mean, states.join(" ")))
}

fn main() {
    println!(
        "{WRITES} writes of 4 KiB, {DEPTH} at a time; a drive: 4 servers of 200 us, 500 us a flush"
    );
    let one = single(200, Load::Random);
    println!("one drive: {one:.0} a second");
    for (name, kind) in [
        ("random", Load::Random),
        ("zipf 0.99", Load::Zipf),
        ("random, one write in 16 flushed", Load::Flushes),
    ] {
        println!("{name}: {:.2} of one drive's rate with one", single(200, kind) / one);
        compare(&[200; 2], kind, one);
        compare(&[200; 4], kind, one);
    }
    for (name, kind) in
        [("a quarter of it is used", Load::Quarter), ("all of it is used", Load::Random)]
    {
        println!("the last member 4x slower, {name}:");
        compare(&[200, 800], kind, one);
        compare(&[200, 200, 200, 800], kind, one);
    }
}

/// Compares a pool and a stripe over drives with these write times.
fn compare(write_us: &[u64], kind: Load, one: f64) {
    let members = write_us.len();
    let (rate, how) = pooled(write_us, kind);
    println!("  pool of {members}    {:.2}   {how}", rate / one);
    println!("  stripe of {members}  {:.2}", striped(write_us, kind) / one);
}
