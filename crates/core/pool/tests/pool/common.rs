//! Members in virtual time, and loads on the pools and stripes over them.

use block::{Buf, DelaySpec, Extent, FaultsSpec, Ram, Request, Result, Size, Stack};
use lane::{Lane, Prices, Random, World};
use layers::{Delay, DelayShared, Faults, FaultsShared};
use pool::{Pool, PoolShared, SLOT_SECTORS};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Number of bytes that represent a sector: with 64, a slot has room for dozens of entries.
pub(crate) const GRAIN: u32 = 64;

/// A drive with four servers.
pub(crate) fn drive(write_us: u64) -> DelaySpec {
    DelaySpec { read_us: 100, write_us, flush_us: 100, servers: 4, bandwidth: Size(0) }
}

/// Returns a drive of `slots` slots on this lane.
pub(crate) fn member(lane: &Lane, slots: u64, spec: &DelaySpec) -> Stack {
    let ram = Stack::new(lane, Ram::new(slots * u64::from(SLOT_SECTORS), GRAIN));
    Stack::new(lane, Delay::attach(DelayShared::new(spec), lane, ram))
}

/// Returns a drive that begins to fail.
pub(crate) fn failing(lane: &Lane, below: Stack, faults: &FaultsSpec) -> Stack {
    Stack::new(lane, Faults::attach(FaultsShared::new(faults), below))
}

/// Runs one future until it ends.
pub(crate) fn run<T: 'static>(
    world: &mut World,
    lane: &Lane,
    work: impl Future<Output = T> + 'static,
) -> T {
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

pub(crate) fn world() -> (World, Lane) {
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    (world, lane)
}

/// Creates a pool of these members.
pub(crate) fn pool_of(
    world: &mut World,
    lane: &Lane,
    members: &[Stack],
) -> (Arc<PoolShared>, Stack) {
    let (all, on) = (members.to_vec(), lane.clone());
    run(world, lane, async move {
        pool::create(&all, 7, false).await.expect("blank members");
        open(&on, &all).await
    })
}

pub(crate) async fn open(lane: &Lane, members: &[Stack]) -> (Arc<PoolShared>, Stack) {
    let there: Vec<Option<Stack>> = members.iter().cloned().map(Some).collect();
    let shared = pool::open(&there).await.expect("a sound pool");
    let stack = Stack::new(lane, Pool::attach(&shared, lane, members.to_vec()));
    (shared, stack)
}

pub(crate) fn write(slot: u64, slots: u32, byte: u8) -> Request {
    let at = Extent::new(slot * u64::from(SLOT_SECTORS), slots * SLOT_SECTORS);
    let from = Buf::new(at.count, GRAIN);
    from.write(&vec![byte; from.bytes()]);
    Request::Write { at, from, fua: false }
}

/// Returns the byte of a slot, all of whose bytes must be the same.
pub(crate) async fn byte_of(stack: &Stack, slot: u64) -> Result<u8> {
    let at = Extent::new(slot * u64::from(SLOT_SECTORS), SLOT_SECTORS);
    let into = Buf::new(at.count, GRAIN);
    stack.run(Request::Read { at, into: into.clone() }).await?;
    let bytes = into.to_vec();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "slot {slot} is torn");
    Ok(bytes[0])
}

/// Distribution of the requests over the slots.
#[derive(Clone, Copy)]
pub(crate) enum Spread {
    /// Uniform.
    Uniform,
    /// The first quarter only.
    Quarter,
    /// The first tenth gets nine tenths of the requests.
    Hot,
}

/// Writes `total` single slots, `depth` at a time. Returns the virtual nanoseconds that it took.
pub(crate) fn load(
    world: &mut World,
    stack: &Stack,
    depth: u64,
    total: u64,
    spread: Spread,
) -> u64 {
    let slots = stack.limits().sectors / u64::from(SLOT_SECTORS);
    let begun = world.now();
    let left = Rc::new(Cell::new(total));
    let under_way = Rc::new(Cell::new(depth));
    for client in 0..depth {
        let (on, left, under_way) = (stack.clone(), left.clone(), under_way.clone());
        let mut random = Random::new(client + 1);
        let client = async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let width = match spread {
                    Spread::Quarter => slots / 4,
                    Spread::Hot if !random.one_in(10) => slots / 10,
                    _ => slots,
                };
                on.run(write(random.below(width), 1, 1)).await.expect("a sound device");
            }
            under_way.set(under_way.get() - 1);
        };
        stack.lane().spawn(client).expect("room for a task");
    }
    world.run_until(|| under_way.get() == 0);
    world.now() - begun
}
