//! The price list of a machine: the time of each piece of the engine's work there, with real bytes,
//! on one thread. Timed worlds charge it.

use block::{
    Block, Buf, Durability, Extent, Limits, Memory, Null, Request, SECTOR, Stack, WriteMode,
};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Cost, Lane, Prices, Random};
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Sectors of a block.
const SECTORS: u64 = cache::BLOCK_SECTORS as u64;

/// Returns the name of a kind of work in a price list.
fn name(cost: Cost) -> &'static str {
    match cost {
        Cost::Hit => "hit_ns",
        Cost::Miss => "miss_ns",
        Cost::Fill => "fill_ns",
        Cost::Absorb => "absorb_ns",
        Cost::WriteThrough => "pass_ns",
        Cost::WriteOut => "write_out_ns",
        Cost::Flush => "flush_ns",
    }
}

/// Returns a price list as JSON: nanoseconds by name.
pub fn to_json(prices: &Prices) -> Value {
    let named = Cost::ALL.map(|cost| (name(cost).to_owned(), prices.of(cost, 1).into()));
    Value::Object(named.into_iter().collect::<Map<_, _>>())
}

/// Reads a price list of [`to_json`], alone or as `prices` of an object.
///
/// # Errors
/// The price that is missing or invalid.
pub fn from_json(value: &Value) -> Result<Prices, String> {
    let list = value.get("prices").unwrap_or(value);
    let mut prices = Prices::default();
    for cost in Cost::ALL {
        let name = name(cost);
        let ns = list.get(name).and_then(Value::as_u64).filter(|ns| *ns < 1_000_000_000);
        let what = || format!("'{name}' is missing, or not a number of nanoseconds below 10^9");
        prices.ns[cost as usize] = ns.ok_or_else(what)?;
    }
    Ok(prices)
}

/// Returns the price list with the name of its schema.
pub fn document(prices: &Prices) -> Value {
    json!({ "schema": "overdrive.prices/1", "prices": to_json(prices) })
}

/// Parameters of the measurement of prices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measure {
    /// Memory of the cache in bytes: larger than the processor's own caches.
    pub memory_bytes: u64,
    /// Requests in each run.
    pub requests: u64,
    /// Number of runs; the minimum counts, since other load on the machine can only make a run
    /// longer.
    pub runs: u64,
}

impl Default for Measure {
    /// Takes a second or two.
    fn default() -> Measure {
        Measure { memory_bytes: 192 << 20, requests: 30_000, runs: 5 }
    }
}

/// Measures the prices of this machine. `clock` returns the processor time of this thread in
/// nanoseconds.
///
/// # Panics
/// If the memory is less than a cache needs.
pub fn measure(how: &Measure, clock: &mut dyn FnMut() -> u64) -> Prices {
    let mut prices = Prices::default();
    let mut set = |cost: Cost, ns: f64| prices.ns[cost as usize] = ns.round().max(0.0) as u64;

    let none = Yard::new(how, WriteMode::None);
    set(Cost::Miss, none.least(how, clock, none.blocks, Kind::Read));
    let pass = none.least(how, clock, none.blocks, Kind::Write);
    set(Cost::WriteThrough, pass);
    drop(none);

    let through = Yard::new(how, WriteMode::Through);
    let hot = u64::from(through.shared.geometry().slots) / 2;
    through.time(clock, hot, in_order(Kind::Write));
    set(Cost::Hit, through.least(how, clock, hot, Kind::Read));
    // The cost of a write that is also cached is the cost of one that is not, plus the fill.
    let kept = through.least(how, clock, through.blocks, Kind::Write);
    set(Cost::Fill, kept - pass);
    drop(through);

    let back = Yard::new(how, WriteMode::BackNow);
    let fits = (u64::from(back.shared.geometry().slots) / 8).min(how.requests);
    let (mut absorb, mut write_out) = (Vec::new(), Vec::new());
    for seed in 0..how.runs {
        absorb.push(back.time(clock, fits, back.scattered(back.blocks, seed, Kind::Write)));
        write_out.push(back.time(clock, 1, |_| Request::Flush) / fits as f64);
    }
    set(Cost::Absorb, least(absorb));
    set(Cost::WriteOut, least(write_out));
    let flushes = (0..how.runs).map(|_| back.time(clock, 1000, |_| Request::Flush));
    set(Cost::Flush, least(flushes));
    prices
}

fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().reduce(f64::min).unwrap_or(0.0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

/// Returns a closure that makes requests for a block; it owns their buffer, so that only the engine
/// is timed.
fn request(kind: Kind) -> impl Fn(u64) -> Request {
    let buffer = Buf::new(SECTORS as u32, SECTOR as u32);
    move |block| {
        let at = Extent::new(block * SECTORS, SECTORS as u32);
        match kind {
            Kind::Read => Request::Read { at, into: buffer.clone() },
            Kind::Write => Request::Write { at, from: buffer.clone(), fua: false },
        }
    }
}

fn in_order(kind: Kind) -> impl Fn(u64) -> Request + 'static {
    request(kind)
}

/// A device that answers as soon as all other tasks have had a turn: a task hands a request over,
/// waits, and is woken, as with a real device.
struct Queued {
    null: Null,
    lane: Lane,
}

impl Block for Queued {
    fn limits(&self) -> &Limits {
        self.null.limits()
    }

    async fn run(&self, request: Request) -> block::Result {
        self.lane.rest().await;
        self.null.run(request).await
    }
}

/// A cache with real bytes over a device that only makes requests wait.
struct Yard {
    lane: Lane,
    stack: Stack,
    shared: Arc<Shared>,
    blocks: u64,
}

impl Yard {
    fn new(how: &Measure, write: WriteMode) -> Yard {
        let geometry = Geometry::for_memory(how.memory_bytes);
        let bytes = Arena::bytes(&geometry, SECTOR as u32);
        let memory = Arc::new(Memory::heap(bytes));
        // As when serving: no page is touched for the first time during a request.
        memory.zero(0, bytes);
        let blocks = u64::from(geometry.slots) * 4;
        let settings = Settings {
            durability: Durability::Flush,
            write,
            dirty_blocks_max: geometry.slots / 2,
            dirty_age_ns: u64::MAX / 2,
            flush_target_ns: 0,
            retry_time_ns: 0,
            workers: 4,
            absorb_blocks_max: 32,
            // Every block is admitted.
            ..Settings::default()
        };
        let limits =
            Limits { flush_needed: true, ..Limits::plain(blocks * SECTORS, SECTOR as u32) };
        let shared = Shared::new(&limits, geometry, settings, 0, memory);
        let shared = shared.expect("fresh memory holds no other cache");
        let lane = Lane::new();
        let null = Null::new(blocks * SECTORS, SECTOR as u32);
        let below = Stack::new(&lane, Queued { null, lane: lane.clone() });
        let cache = Cache::attach(&shared, &lane, below);
        Yard { stack: Stack::new(&lane, cache), lane, shared, blocks }
    }

    /// Runs requests one after another; returns nanoseconds per request.
    fn time(
        &self,
        clock: &mut dyn FnMut() -> u64,
        count: u64,
        request: impl Fn(u64) -> Request + 'static,
    ) -> f64 {
        let done = Rc::new(Cell::new(false));
        let (finished, stack) = (done.clone(), self.stack.clone());
        let run = async move {
            for number in 0..count {
                let request = request(number);
                if stack.try_now(&request).is_none() {
                    stack.run(request).await.expect("a null device does not fail");
                }
            }
            finished.set(true);
        };
        let start = clock();
        self.lane.spawn(run).expect("a slot is free");
        while !done.get() && self.lane.step() {}
        (clock() - start) as f64 / count.max(1) as f64
    }

    /// Returns requests for random blocks among the first `blocks`.
    fn scattered(&self, blocks: u64, seed: u64, kind: Kind) -> impl Fn(u64) -> Request + 'static {
        let request = request(kind);
        let random = std::cell::RefCell::new(Random::new(seed));
        move |_| request(random.borrow_mut().below(blocks))
    }

    fn least(&self, how: &Measure, clock: &mut dyn FnMut() -> u64, blocks: u64, kind: Kind) -> f64 {
        let time = |seed| self.time(clock, how.requests, self.scattered(blocks, seed, kind));
        least((0..how.runs).map(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_the_trip_through_json() {
        let prices = Prices { ns: [1, 2, 3, 4, 5, 6, 7] };
        assert_eq!(from_json(&document(&prices)), Ok(prices));
        assert_eq!(from_json(&to_json(&prices)), Ok(prices));
        let mut damaged = to_json(&prices);
        damaged["write_out_ns"] = json!(-3);
        assert!(from_json(&damaged).expect_err("negative").contains("write_out_ns"));
        assert!(from_json(&json!([])).expect_err("no object").contains("hit_ns"));
    }

    #[test]
    fn what_is_measured_follows_the_clock() {
        // A clock that ticks once per call: every run takes one tick, whatever it does.
        let mut ticks = 0;
        let how = Measure { memory_bytes: 4 << 20, requests: 64, runs: 3 };
        let prices = measure(&how, &mut || {
            ticks += 64_000;
            ticks
        });
        assert_eq!(prices.of(Cost::Hit, 1), 1000);
        assert_eq!(prices.of(Cost::Miss, 1), 1000);
        assert_eq!(prices.of(Cost::Fill, 1), 0, "the same as a pass");
        assert_eq!(prices.of(Cost::Absorb, 1), 1000);
        assert_eq!(prices.of(Cost::WriteOut, 1), 1000, "64 blocks in one flush");
        assert_eq!(prices.of(Cost::Flush, 1), 64);
    }
}
