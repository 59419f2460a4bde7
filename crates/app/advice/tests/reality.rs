//! Advice compared with what happens: loads are predicted from a recording, then run as
//! recommended, on the served engine in virtual time over a slow backing.

use advice::load::{Advice, Facts, Gather, Latency, Premises, access_of, access_of_event, advise};
use block::{Block, Buf, Extent, Limits, Memory, Ram, Request, Result, Stack};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Random, World};
use simulator::Rate;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use trace::{BlockEvent, Event, Marks, Operation, Step};
use traces::Matcher;

const GRAIN: u32 = 512;
/// Sectors of a block.
const SECTORS: u32 = 8;
const BLOCK_BYTES: u64 = 4096;
/// Blocks of the device.
const BLOCKS: u64 = 65_536;
/// Time of a read or write of the device.
const DEVICE_NS: u64 = 500_000;
/// Time of the way to a client and back, with and without a cache: part of each request.
const WAY_NS: u64 = 10_000;
/// Sizes of caches, in bytes; tests cannot fill those of a user.
const SIZES: [u64; 4] = [2 << 20, 8 << 20, 32 << 20, 128 << 20];
/// Names of clients that are watched.
const CLIENTS: [&str; 3] = ["postgres", "mysqld", "backup"];

/// RAM with the latency of a slow volume.
struct Slow {
    ram: Ram,
    lane: Lane,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }

    async fn run(&self, request: Request) -> Result {
        self.lane.sleep_until(self.lane.now() + DEVICE_NS).await;
        self.ram.run(request).await
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read(u64),
    Write(u64),
}

/// The requests of one or several clients, each of which sends one after the other.
struct Run {
    /// Its requests with their times and durations.
    events: Vec<Event>,
    total_ns: u64,
    /// The part that reads took.
    reads_ns: u64,
    counters: Option<Counters>,
}

/// Runs one client over the slow backing; with a cache of this size in bytes, if one is given.
fn run(steps: &[Access], memory_bytes: Option<u64>) -> Run {
    let mut runs = run_all(&[steps], memory_bytes);
    runs.remove(0)
}

/// Runs several clients at the same time. Returns a run for each.
fn run_all(clients: &[&[Access]], memory_bytes: Option<u64>) -> Vec<Run> {
    let mut world = World::timed(lane::Prices::default());
    let lane = world.lane();
    let ram = Ram::new(BLOCKS * u64::from(SECTORS), GRAIN);
    let below = Slow { ram: ram.clone(), lane: lane.clone() };
    let shared = memory_bytes.map(|bytes| {
        let slots = (bytes / BLOCK_BYTES) as u32;
        let geometry = Geometry { slots, shards: 1, fills: 8, ..Geometry::SMALLEST };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
        let settings = Settings::default();
        Shared::new(ram.limits(), geometry, settings, 7, memory).expect("a fresh arena")
    });
    let stack = match &shared {
        Some(shared) => {
            let below = Stack::new(&lane, below);
            Rc::new(Stack::new(&lane, Cache::attach(shared, &lane, below)))
        }
        None => Rc::new(Stack::new(&lane, below)),
    };
    let ended: Vec<_> = clients.iter().map(|_| Rc::new(RefCell::new(None))).collect();
    for (steps, ended) in clients.iter().zip(&ended) {
        let (stack, steps, ended) = (stack.clone(), steps.to_vec(), ended.clone());
        let client = async move {
            let events = send(&stack, steps).await;
            *ended.borrow_mut() = Some(events);
        };
        lane.spawn(client).expect("room");
    }
    let is_done = || ended.iter().all(|it| it.borrow().is_some());
    assert!(world.run_until(is_done), "a client hangs");
    let counters = shared.map(|shared| shared.counters(lane.now()));
    let run = |ended: &Rc<RefCell<Option<Vec<Event>>>>| {
        let events = ended.take().expect("done");
        let took = |event: &Event| event.took_ns.unwrap_or(0);
        Run {
            total_ns: events.iter().map(took).sum(),
            reads_ns: events.iter().filter(|event| event.is_read()).map(took).sum(),
            counters,
            events,
        }
    };
    ended.iter().map(run).collect()
}

/// Sends a client's requests. Returns them with their times.
async fn send(stack: &Stack, steps: Vec<Access>) -> Vec<Event> {
    let mut events = Vec::new();
    for step in steps {
        let begun = stack.lane().now();
        let at = |block: u64| Extent::new(block * u64::from(SECTORS), SECTORS);
        let buf = Buf::new(SECTORS, GRAIN);
        let (request, operation, block) = match step {
            Access::Read(block) => {
                (Request::Read { at: at(block), into: buf }, Operation::Read, block)
            }
            Access::Write(block) => {
                let request = Request::Write { at: at(block), from: buf, fua: false };
                (request, Operation::Write { fua: false }, block)
            }
        };
        stack.lane().sleep_until(begun + WAY_NS).await;
        if stack.try_now(&request).is_none() {
            stack.lane().turn().await;
            stack.run(request).await.expect("RAM does not fail");
        }
        events.push(Event {
            time_ns: begun,
            took_ns: Some(stack.lane().now() - begun),
            operation,
            device: 0,
            first: block * u64::from(SECTORS),
            sectors: SECTORS,
            failed: None,
        });
    }
    events
}

/// Returns the facts of a run without a cache, and the advice on it.
fn predicted(bare: &Run) -> (Facts, Advice) {
    let mut gather = Gather::new(&SIZES, Rate::ALL, 2);
    bare.events.iter().for_each(|event| gather.see(&access_of_event(event)));
    judged(gather.end(&[]))
}

fn judged(facts: Facts) -> (Facts, Advice) {
    let latency = Latency::of(&facts, None);
    let premises = Premises { latency, machine: None, refaults: None, backing: "x".to_owned() };
    let advice = advise(&facts, &premises);
    (facts, advice)
}

/// Returns the facts of runs at the same time without a cache, and the advice on them, from the
/// steps of their requests as tracepoints show them.
fn watched(bare: &[Run]) -> (Facts, Advice) {
    let mut steps: Vec<BlockEvent<'static>> = Vec::new();
    for (run, name) in bare.iter().zip(CLIENTS) {
        for event in &run.events {
            let step = |time_ns, step, process| BlockEvent {
                time_ns,
                step,
                operation: Some(event.operation),
                marks: Marks::default(),
                first: event.first,
                sectors: event.sectors,
                failed: None,
                process,
            };
            let end_ns = event.time_ns + event.took_ns.expect("answered");
            steps.push(step(event.time_ns, Step::Issue, name.as_bytes()));
            steps.push(step(end_ns, Step::Complete, b""));
        }
    }
    steps.sort_by_key(|step| step.time_ns);
    let mut matcher = Matcher::new(0..BLOCKS * u64::from(SECTORS), 0);
    let mut gather = Gather::new(&SIZES, Rate::ALL, 2);
    for step in &steps {
        if let Some(entry) = matcher.feed(step) {
            gather.see(&access_of(&entry));
        }
    }
    assert!(matcher.finish().is_empty(), "all requests were answered");
    judged(gather.end(matcher.processes()))
}

/// Zipf with exponent 1 and scrambled ranks over a part of the device.
fn zipf(random: &mut Random, blocks: u64) -> u64 {
    let part = random.below(1 << 32) as f64 / (1u64 << 32) as f64;
    (blocks as f64).powf(part) as u64 * 40_503 % blocks
}

/// Runs a load with the recommended memory, and compares hits and time with the prediction.
fn compare(name: &str, steps: &[Access]) {
    let bare = run(steps, None);
    let (facts, advice) = predicted(&bare);
    assert!(advice.recommendation.is_some(), "{name}: {}", advice.verdict);
    let gain = advice.sizes[advice.chosen.expect("a size")];
    let cached = run(steps, Some(gain.memory_bytes));
    let counters = cached.counters.expect("there is a cache");
    let read_hits = counters.read_hits as f64 / facts.reads as f64;
    let predicted_hits = gain.read_hit_ratio.expect("reads are distinguished");
    let saved = bare.reads_ns as f64 - cached.reads_ns as f64;
    let all = format!(
        "{name}: {} MiB; hit ratio of reads {:.4} predicted, {read_hits:.4} real; reads save {:.1} \
         ms predicted, {:.1} ms real; all save {:.1} ms",
        gain.memory_bytes >> 20,
        predicted_hits,
        gain.read_saved_ns / 1e6,
        saved / 1e6,
        (bare.total_ns as f64 - cached.total_ns as f64) / 1e6
    );
    eprintln!("{all}");
    assert!((predicted_hits - read_hits).abs() <= 0.02, "{all}");
    assert!((gain.read_saved_ns - saved).abs() <= 0.2 * saved, "{all}");
    let total = bare.total_ns as f64 - cached.total_ns as f64;
    assert!((gain.saved_ns - total).abs() <= 0.2 * total, "{all}");
}

#[test]
fn a_database_of_random_reads_gains_as_predicted() {
    let mut random = Random::new(1);
    let steps: Vec<Access> = (0..60_000).map(|_| Access::Read(zipf(&mut random, 16_384))).collect();
    compare("zipf reads", &steps);
}

#[test]
fn a_mix_with_writes_that_are_not_flushed_gains_as_predicted() {
    let mut random = Random::new(2);
    let steps: Vec<Access> = (0..60_000)
        .map(|number| match number % 10 {
            0 => Access::Write(random.below(4096) * 16 % BLOCKS),
            _ => Access::Read(zipf(&mut random, 8192)),
        })
        .collect();
    compare("reads and writes", &steps);
}

#[test]
fn a_load_that_reads_each_block_once_is_left_alone_and_gains_nothing() {
    // A random order: a constant stride would have streams, which readahead follows.
    let (mut random, mut blocks) = (Random::new(3), (0..BLOCKS).collect::<Vec<u64>>());
    for place in (1..blocks.len()).rev() {
        blocks.swap(place, random.below(place as u64 + 1) as usize);
    }
    let steps: Vec<Access> = blocks[..30_000].iter().map(|block| Access::Read(*block)).collect();
    let bare = run(&steps, None);
    let (_, advice) = predicted(&bare);
    assert!(advice.leaves_it && advice.recommendation.is_none(), "{}", advice.verdict);
    for bytes in SIZES {
        let cached = run(&steps, Some(bytes));
        let gained = 1.0 - cached.total_ns as f64 / bare.total_ns as f64;
        eprintln!("each block once: {} MiB gain {:.4}", bytes >> 20, gained);
        assert!(gained < 0.01, "{} MiB gain {gained}", bytes >> 20);
    }
}

/// Runs reads that follow one another, and compares the time saved with the bound of readahead.
fn compare_stream(name: &str, steps: &[Access], share_min: f64) {
    let bare = run(steps, None);
    let (_, advice) = predicted(&bare);
    assert!(!advice.leaves_it && advice.recommendation.is_none(), "{name}: {}", advice.verdict);
    assert!(advice.verdict.starts_with("perhaps: readahead"), "{name}: {}", advice.verdict);
    let cached = run(steps, Some(SIZES[2]));
    let saved = bare.total_ns as f64 - cached.total_ns as f64;
    let most = advice.readahead_ns.expect("addresses are known");
    eprintln!("{name}: readahead saves at most {:.1} ms, {:.1} ms real", most / 1e6, saved / 1e6);
    // This client waits for each read, so that readahead gains much of the bound.
    assert!(saved >= share_min * most && saved <= most * 1.01, "{name}: {saved} of {most}");
}

#[test]
fn a_copy_is_answered_by_perhaps_and_gains_no_more_than_the_bound() {
    let steps: Vec<Access> = (0..30_000u64).map(Access::Read).collect();
    compare_stream("a copy", &steps, 0.8);
}

#[test]
fn reads_in_equal_steps_are_answered_by_perhaps_and_gain_by_readahead() {
    let steps: Vec<Access> = (0..9_000u64).map(|number| Access::Read(number * 7)).collect();
    compare_stream("reads in steps", &steps, 0.7);
    let backward: Vec<Access> =
        (0..9_000u64).map(|number| Access::Read(BLOCKS - 1 - number)).collect();
    compare_stream("reads backward", &backward, 0.7);
}

#[test]
fn a_watched_load_of_several_processes_gains_as_predicted() {
    let mut random = Random::new(5);
    let half = BLOCKS / 2;
    // A database, another one that also writes, and a backup that reads each block once.
    let first: Vec<Access> = (0..40_000).map(|_| Access::Read(zipf(&mut random, 16_384))).collect();
    let second: Vec<Access> = (0..20_000)
        .map(|number| match number % 4 {
            0 => Access::Write(half + random.below(4096)),
            _ => Access::Read(half + zipf(&mut random, 4096)),
        })
        .collect();
    // No block of others: with a cache, a faster database would have read it earlier.
    let mut third: Vec<u64> = (16_384..half).collect();
    for place in (1..third.len()).rev() {
        third.swap(place, random.below(place as u64 + 1) as usize);
    }
    let third: Vec<Access> = third.into_iter().map(Access::Read).collect();
    let clients = [&first[..], &second, &third];
    let bare = run_all(&clients, None);
    let (facts, advice) = watched(&bare);
    let chosen = advice.chosen.expect("a size is recommended");
    let gain = advice.sizes[chosen];
    let cached = run_all(&clients, Some(gain.memory_bytes));
    let total = |runs: &[Run]| runs.iter().map(|run| run.total_ns as f64).sum::<f64>();
    let saved = total(&bare) - total(&cached);
    eprintln!(
        "three processes: {} MiB save {:.2} s predicted, {:.2} s real",
        gain.memory_bytes >> 20,
        gain.saved_ns / 1e9,
        saved / 1e9
    );
    assert!((gain.saved_ns - saved).abs() <= 0.2 * saved, "{} of {saved}", gain.saved_ns);
    for ((name, bare), cached) in CLIENTS.iter().zip(&bare).zip(&cached) {
        let index = facts.processes.iter().position(|it| it.name == *name).expect("listed");
        let predicted = advice.processes[index][chosen].read_saved_ns;
        let saved = bare.reads_ns as f64 - cached.reads_ns as f64;
        eprintln!("{name}: {:.2} s predicted, {:.2} s real", predicted / 1e9, saved / 1e9);
        // Of the backup, almost nothing is read again.
        let bound = (0.2 * saved).max(0.02 * bare.reads_ns as f64);
        assert!((predicted - saved).abs() <= bound, "{name}: {predicted} of {saved}");
    }
}
