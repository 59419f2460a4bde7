//! The price list of this machine: what the engine's work costs with real bytes, on one thread.

use crate::sides::{cpu_ns, median};
use anyhow::Result;
use block::{Buf, Extent, Limits, Memory, Null, Request, Stack, WriteMode};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Cost, Lane, Prices, Random};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

struct Bed {
    lane: Lane,
    stack: Stack,
    shared: Arc<Shared>,
    blocks: u64,
}

fn bed(mib: u64, write: WriteMode, fill_cost_ns: u64) -> Result<Bed> {
    let geometry = Geometry::for_memory(mib << 20, 1);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 512)));
    let blocks = u64::from(geometry.slots) * 4;
    let settings = Settings {
        durability: block::Durability::Flush,
        write,
        dirty_blocks_max: geometry.slots / 2,
        dirty_age_ns: u64::MAX / 2,
        flush_target_ns: 0,
        retry_time_ns: 0,
        stall_time_ns: 0,
        crew: 4,
        absorb_blocks_max: 32,
        fill_cost_ns,
    };
    let limits = Limits { flush_needed: true, ..Limits::plain(blocks * 8, 512) };
    let shared = Shared::new(&limits, geometry, settings, 0, memory)?;
    let lane = Lane::new();
    let null = Stack::new(&lane, Null::new(blocks * 8, 512));
    let cache = Cache::attach(&shared, &lane, null);
    Ok(Bed { stack: Stack::new(&lane, cache), lane, shared, blocks })
}

impl Bed {
    /// Runs requests one after another; nanoseconds each.
    fn time(&self, count: u64, request: impl Fn(u64) -> Request + 'static) -> f64 {
        let done = Rc::new(Cell::new(false));
        let (finished, stack) = (done.clone(), self.stack.clone());
        let start = cpu_ns();
        self.lane
            .spawn(async move {
                for number in 0..count {
                    let request = request(number);
                    if stack.try_now(&request).is_none() {
                        stack.run(request).await.expect("a null device does not fail");
                    }
                }
                finished.set(true);
            })
            .expect("a slot is free");
        while !done.get() && self.lane.step() {}
        (cpu_ns() - start) as f64 / count as f64
    }
}

fn scattered(blocks: u64, seed: u64) -> impl Fn() -> Extent {
    let random = Cell::new(Some(Random::new(seed)));
    move || {
        let mut generator = random.take().expect("put back below");
        let block = generator.below(blocks);
        random.set(Some(generator));
        Extent::new(block * 8, 8)
    }
}

/// A price list that can be read and written: `hit=100,miss=50,...`, each in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PriceList(pub(crate) Prices);

/// The names of the prices, in their order.
const NAMES: [&str; Cost::ALL.len()] =
    ["hit", "miss", "fill", "absorb", "pass", "write_out", "flush"];

impl fmt::Display for PriceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = NAMES.iter().zip(self.0.ns).map(|(name, ns)| format!("{name}={ns}"));
        f.write_str(&words.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for PriceList {
    type Err = String;

    fn from_str(text: &str) -> Result<PriceList, String> {
        let mut found = [None; NAMES.len()];
        for word in text.split(',') {
            let bad = || format!("'{word}' is no price; write it like hit=100, in nanoseconds");
            let (name, ns) = word.split_once('=').ok_or_else(bad)?;
            let at = NAMES.iter().position(|known| *known == name).ok_or_else(|| {
                format!("'{name}' has no price; these have one: {}", NAMES.join(", "))
            })?;
            found[at] = Some(ns.parse().map_err(|_| bad())?);
        }
        let mut prices = Prices::default();
        for ((price, found), name) in prices.ns.iter_mut().zip(found).zip(NAMES) {
            *price = found.ok_or_else(|| format!("the price of '{name}' is missing"))?;
        }
        Ok(PriceList(prices))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let list = measure(arguments.mib)?;
    let named = NAMES.iter().zip(list.0.ns);
    if arguments.json {
        let prices: serde_json::Map<String, serde_json::Value> =
            named.map(|(name, ns)| (format!("{name}_ns"), ns.into())).collect();
        let object = serde_json::json!({ "schema": "overdrive.prices/1", "prices": prices });
        println!("{object}");
        return Ok(());
    }
    println!("nanoseconds of this machine, {} MiB of ordinary pages:", arguments.mib);
    for (name, ns) in named {
        println!("  {name:<10} {ns:>8}");
    }
    println!("for other figures: --prices {list}");
    Ok(())
}

/// Measures what the engine's work costs, with a cache of so many MiB.
///
/// # Errors
/// If memory is refused.
pub(crate) fn measure(mib: u64) -> Result<PriceList> {
    let count = 100_000;
    let into = Buf::new(8, 512);
    let repeat = |measure: &dyn Fn(u64) -> f64| median((0..5).map(measure).collect());

    let through = bed(mib, WriteMode::Through, 0)?;
    let hot = u64::from(through.shared.geometry().slots) / 2;
    let fill = into.clone();
    through.time(hot, move |number| Request::Write {
        at: Extent::new(number * 8, 8),
        from: fill.clone(),
        fua: false,
    });
    let hit = repeat(&|seed| {
        let (next, into) = (scattered(hot, seed), into.clone());
        through.time(count, move |_| Request::Read { at: next(), into: into.clone() })
    });
    let none = bed(mib, WriteMode::None, 0)?;
    let miss = repeat(&|seed| {
        let (next, into) = (scattered(none.blocks, seed), into.clone());
        none.time(count, move |_| Request::Read { at: next(), into: into.clone() })
    });
    let pass = repeat(&|seed| {
        let (next, from) = (scattered(none.blocks, seed), into.clone());
        none.time(count, move |_| Request::Write { at: next(), from: from.clone(), fua: false })
    });
    let kept = repeat(&|seed| {
        let (next, from) = (scattered(through.blocks, seed), into.clone());
        through.time(count, move |_| Request::Write { at: next(), from: from.clone(), fua: false })
    });
    let back = bed(mib, WriteMode::BackNow, 0)?;
    let fits = u64::from(back.shared.geometry().slots) / 8;
    let mut absorb = Vec::new();
    let mut write_out = Vec::new();
    for seed in 0..5 {
        let (next, from) = (scattered(back.blocks, seed), into.clone());
        absorb.push(back.time(fits, move |_| Request::Write {
            at: next(),
            from: from.clone(),
            fua: false,
        }));
        write_out.push(back.time(1, |_| Request::Flush) / fits as f64);
    }
    let flush = repeat(&|_| back.time(1000, |_| Request::Flush));
    let measured =
        [hit, miss, (kept - pass).max(0.0), median(absorb), pass, median(write_out), flush];
    Ok(PriceList(Prices { ns: measured.map(|ns| ns.round() as u64) }))
}

#[cfg(test)]
mod tests {
    use super::PriceList;

    #[test]
    fn a_price_list_survives_being_written() {
        let text = "hit=1,miss=2,fill=3,absorb=4,pass=5,write_out=6,flush=7";
        let list: PriceList = text.parse().expect("what is written so");
        assert_eq!((list.to_string().as_str(), list.0.ns), (text, [1, 2, 3, 4, 5, 6, 7]));
        for bad in ["", "hit", "hit=1", "hit=x,miss=2", "hat=1", &format!("{text},hit=-1")] {
            assert!(bad.parse::<PriceList>().is_err(), "{bad}");
        }
    }
}
