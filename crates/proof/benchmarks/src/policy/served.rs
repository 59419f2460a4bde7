//! Compares the misses of the cache and of the simulation: a trace through both, one request at a
//! time, in virtual time.

use super::traces::{Request, Trace};
use crate::sides::verdict;
use crate::virtual_time::Slow;
use ::policy::{REGION_BLOCKS, Simulation};
use anyhow::Result;
use block::{Buf, Extent, Limits, Memory, Null, Request as Asked, Stack, WriteMode};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Prices, World};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const PERCENT: u32 = 10;
const SHARDS: [u32; 2] = [1, 4];
const SECTOR: u64 = 512;
/// A cache never admits larger writes, whatever its settings: larger requests are left out on both
/// sides.
const BLOCKS_MAX: u64 = 128;

/// Returns the sectors of a request: its own, or those of whole blocks.
fn sectors(request: &Request, whole: bool) -> Extent {
    let blocks = request.blocks();
    let (first, end) = match whole {
        true => (blocks.start * 8, blocks.end * 8),
        false => {
            let end = (request.first_byte + request.bytes).div_ceil(SECTOR);
            (request.first_byte / SECTOR, end)
        }
    };
    Extent::new(first, (end - first) as u32)
}

/// Returns the counters of the cache after these requests.
fn served(
    trace: &Trace,
    slots: u32,
    shards: u32,
    write: WriteMode,
    whole: bool,
    streams: bool,
) -> Result<Counters> {
    let geometry = Geometry { slots, shards, fills: 64, ..Geometry::SMALLEST };
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 0)));
    let bytes = trace.bytes.next_multiple_of(REGION_BLOCKS * 4096 * u64::from(shards));
    let limits = Limits::plain(bytes / SECTOR, 0);
    let settings = Settings {
        write,
        absorb_blocks_max: BLOCKS_MAX as u32,
        dirty_blocks_max: slots / 4,
        // The simulation has no streams.
        readahead: false,
        stream_blocks_max: if streams { (slots / 16).max(256) } else { u32::MAX },
        ..Settings::default()
    };
    let shared = Shared::new(&limits, geometry, settings, 0, memory)?;
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let null = Slow { null: Null::new(bytes / SECTOR, 0), lane: lane.clone() };
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, Stack::new(&lane, null)));
    let requests: Vec<(bool, Extent)> =
        trace.requests.iter().map(|request| (request.is_write, sectors(request, whole))).collect();
    let done = Rc::new(Cell::new(false));
    let finished = done.clone();
    lane.spawn(async move {
        for (is_write, at) in requests {
            let buf = Buf::new(at.count, 0);
            let asked = match is_write {
                true => Asked::Write { at, from: buf, fua: false },
                false => Asked::Read { at, into: buf },
            };
            if stack.try_now(&asked).is_none() {
                stack.lane().turn().await;
                stack.run(asked).await.expect("a null device does not fail");
            }
        }
        finished.set(true);
    })
    .expect("a slot is free");
    world.run_until(|| done.get());
    Ok(shared.counters(lane.now()))
}

/// Returns the trace without requests that are too large, and the number of those.
fn without_large(trace: &Trace) -> (Trace, usize) {
    let is_kept = |request: &&Request| request.blocks().end - request.blocks().start <= BLOCKS_MAX;
    let requests: Vec<Request> = trace.requests.iter().filter(is_kept).copied().collect();
    let left_out = trace.requests.len() - requests.len();
    (Trace { name: trace.name.clone(), file: None, requests, ..*trace }, left_out)
}

/// Compares the misses.
///
/// # Errors
/// A cache cannot be made.
pub(crate) fn run(traces: &[Trace]) -> Result<()> {
    println!("misses of the cache and of its simulation, memory {PERCENT} % of the footprint");
    for trace in traces {
        let (trace, left_out) = without_large(trace);
        let trace = &trace;
        for shards in SHARDS {
            let of_each = trace.slots(PERCENT) / shards;
            let slots = of_each * shards;
            let mut simulation = Simulation::with_shards(simulator::DEFAULT, of_each, shards);
            let missed = trace.blocks().filter(|block| !simulation.read(*block)).count() as f64;
            let off = |counted: &Counters| (counted.block_misses as f64 / missed - 1.0) * 100.0;
            let whole = off(&served(trace, slots, shards, WriteMode::Through, true, false)?);
            let parts = off(&served(trace, slots, shards, WriteMode::Through, false, false)?);
            let back = off(&served(trace, slots, shards, WriteMode::BackNow, true, false)?);
            let streams = served(trace, slots, shards, WriteMode::Through, true, true)?;
            // One more on both sides: some traces have no hits.
            let hits = |counted: &Counters| (counted.blocks_hit + 1) as f64;
            let kept = served(trace, slots, shards, WriteMode::Through, true, false)?;
            let passing = (hits(&streams) / hits(&kept) - 1.0) * 100.0;
            println!(
                "  {:<9} {shards} shards: {missed} simulated; write-through {whole:+.2} %  target 0.5: {}; with \
                 requests of parts of blocks {parts:+.2} %  target 2 more: {}; write-back {back:+.2} %; hits where long streams are not kept {passing:+.2} %; left out {left_out} of {} \
                 requests",
                trace.name,
                verdict(whole.abs() <= 0.5),
                verdict(parts <= whole + 2.0),
                trace.requests.len() + left_out,
            );
        }
    }
    Ok(())
}
