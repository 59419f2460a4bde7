//! Backings with long round trips, in virtual time and without data: the part of a link's rate that
//! a stream of reads, a stream of writes, and a list of hot blocks reach, at several round trips.
//!
//! A client reads one request after the other, as a copy does. The link carries one request after
//! the other, and the server works on all requests in parallel.

use crate::sides::verdict;
use crate::warm::description;
use anyhow::{Context, Result};
use block::{Buf, DelaySpec, Extent, Limits, Memory, Null, Request, Size, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Pressure, Settings, Shared};
use hotlist::{Entry, HotList, encode};
use lane::{Lane, Prices, Random, World};
use layers::{Delay, DelayShared};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory, in MiB; the volume is 16 times as large.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// The link's rate, in bytes per second.
    #[arg(long, default_value_t = 125_000_000)]
    rate: u64,
    /// Round trips, in microseconds.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 10_000, 50_000])]
    round_trips_us: Vec<u64>,
}

/// Time from an answer to the client's next request.
const CLIENT_NS: u64 = 20_000;
const GUARD_NS: u64 = 50_000_000;
/// Requests that a server works on in parallel.
const SERVERS: u32 = 4096;
/// Minimum part of the link's rate.
const SHARE_MIN: f64 = 0.9;
const KIB: u64 = 2;
/// Longest time for reading a list, in nanoseconds.
const LIST_NS_MAX: u64 = 1_000_000_000_000;

/// A cache over a link.
struct Rig {
    world: World,
    lane: Lane,
    stack: Stack,
    shared: Arc<Shared>,
}

impl Rig {
    fn new(arguments: &Arguments, round_trip_us: u64) -> Result<Rig> {
        let Arguments { mib, rate, .. } = *arguments;
        let geometry = Geometry::for_memory(mib << 20);
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 0)));
        let sectors = mib << 15;
        let settings = Settings {
            write: WriteMode::BackNow,
            dirty_blocks_max: geometry.slots / 4,
            absorb_blocks_max: 32,
            fill_cost_ns: 400,
            stream_blocks_max: geometry.slots / 16,
            ..Settings::default()
        };
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let us = round_trip_us;
        let bandwidth = Size(rate);
        let delay =
            DelaySpec { read_us: us, write_us: us, flush_us: us, servers: SERVERS, bandwidth };
        let null = Stack::new(&lane, Null::new(sectors, 0));
        let below = Stack::new(&lane, Delay::attach(DelayShared::new(&delay), &lane, null));
        let shared = Shared::new(&Limits::plain(sectors, 0), geometry, settings, 0, memory)?;
        let stack = Stack::new(&lane, Cache::attach(&shared, &lane, below));
        let rig = Rig { world, lane, stack, shared };
        rig.start_guard();
        Ok(rig)
    }

    fn start_guard(&self) {
        let (lane, shared) = (self.lane.clone(), Arc::downgrade(&self.shared));
        let guard = async move {
            while let Some(shared) = shared.upgrade() {
                shared.guard(lane.now(), Pressure::default());
                drop(shared);
                lane.sleep_until(lane.now() + GUARD_NS).await;
            }
        };
        self.lane.spawn(guard).expect("a lane has room");
    }

    /// Sends requests one after the other. Returns their time, in nanoseconds.
    fn send(&mut self, requests: impl Iterator<Item = Request> + 'static) -> u64 {
        let (begun, done) = (self.lane.now(), Rc::new(Cell::new(false)));
        let (stack, flag) = (self.stack.clone(), done.clone());
        let client = async move {
            for request in requests {
                if stack.try_now(&request).is_none() {
                    stack.run(request).await.expect("a null device does not fail");
                }
                stack.lane().sleep_until(stack.lane().now() + CLIENT_NS).await;
            }
            flag.set(true);
        };
        self.lane.spawn(client).expect("a lane has room");
        self.world.run_until(|| done.get());
        self.lane.now() - begun
    }
}

/// Runs all comparisons.
///
/// # Errors
/// A cache cannot be made.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!(
        "a link of {} MB/s; memory {} MiB, of a volume of {} MiB",
        arguments.rate / 1_000_000,
        arguments.mib,
        arguments.mib * 16
    );
    for &round_trip_us in &arguments.round_trips_us {
        println!("round trips of {} ms", round_trip_us as f64 / 1000.0);
        reads(arguments, round_trip_us)?;
        writes(arguments, round_trip_us)?;
        list(arguments, round_trip_us)?;
    }
    Ok(())
}

/// Returns the part of the link's rate that these bytes in this time are.
fn share(arguments: &Arguments, bytes: u64, ns: u64) -> f64 {
    bytes as f64 * 1e9 / ns as f64 / arguments.rate as f64
}

/// Prints the shares of the first part of a stream, of its rest, and of the first part of the next
/// stream: by then the link is measured.
fn reads(arguments: &Arguments, round_trip_us: u64) -> Result<()> {
    for kib in [64, 4] {
        let mut rig = Rig::new(arguments, round_trip_us)?;
        let read = move |number: u64| {
            let at = Extent::new(number * kib * KIB, (kib * KIB) as u32);
            Request::Read { at, into: Buf::new(at.count, 0) }
        };
        let (first, rest) = ((16 << 10) / kib, (arguments.mib << 10) / kib);
        let first_ns = rig.send((0..first).map(read));
        let rest_ns = rig.send((first..first + rest).map(read));
        let elsewhere = (arguments.mib << 13) / kib;
        let next_ns = rig.send((elsewhere..elsewhere + first).map(read));
        let of = |requests: u64, ns| share(arguments, (requests * kib) << 10, ns);
        // A client that waits for each answer cannot take more.
        let asks = of(1, CLIENT_NS).min(1.0);
        let next = of(first, next_ns) / asks;
        let (first, rest) = (of(first, first_ns) / asks, of(rest, rest_ns) / asks);
        println!(
            "  reads of {kib} KiB: the first 16 MiB {first:.2}, the next {} MiB {rest:.2}, the first \
             16 MiB of another stream {next:.2}  target of the longest part at least {SHARE_MIN}: \
             {}",
            arguments.mib,
            verdict(rest >= SHARE_MIN)
        );
    }
    Ok(())
}

fn writes(arguments: &Arguments, round_trip_us: u64) -> Result<()> {
    let mut rig = Rig::new(arguments, round_trip_us)?;
    let kib = 64;
    let requests = (arguments.mib << 10) / kib;
    let write = move |number: u64| {
        let at = Extent::new(number * kib * KIB, (kib * KIB) as u32);
        Request::Write { at, from: Buf::new(at.count, 0), fua: false }
    };
    let ns = rig.send((0..requests).map(write).chain([Request::Flush]));
    let share = share(arguments, (requests * kib) << 10, ns);
    println!(
        "  writes of {kib} KiB, {} MiB and a flush: {share:.2}  target at least {SHARE_MIN}: {}",
        arguments.mib,
        verdict(share >= SHARE_MIN)
    );
    Ok(())
}

/// Prints how much of the link's rate a list of hot blocks gets without clients: of blocks all over
/// the volume, and of extents of 64 KiB.
fn list(arguments: &Arguments, round_trip_us: u64) -> Result<()> {
    let (slots, blocks) = ((arguments.mib << 8) * 3 / 4, arguments.mib << 12);
    for (name, length) in [("single blocks", 1), ("extents of 64 KiB", 16)] {
        let mut random = Random::new(7);
        let mut listed: Vec<u64> = (0..slots / length)
            .map(|_| random.below(blocks / length) * length)
            .flat_map(|first| first..first + length)
            .collect();
        listed.sort_unstable();
        listed.dedup();
        let entries = listed.iter().map(|&block| Entry::new(block, 0)).collect::<Vec<_>>();
        let bytes = encode(&description(blocks), entries);
        let mut rig = Rig::new(arguments, round_trip_us)?;
        rig.shared.warm(HotList::parse(&bytes).context("the list")?, rig.lane.now());
        let (lane, shared) = (rig.lane.clone(), rig.shared.clone());
        rig.world.run_until(|| !shared.is_warming() || lane.now() > LIST_NS_MAX);
        let share = share(arguments, (listed.len() as u64) << 12, lane.now());
        println!("  a list of {name}: {:.1} s, {share:.2}", lane.now() as f64 / 1e9);
    }
    Ok(())
}
