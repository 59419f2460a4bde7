//! Sequential reads hit in memory, without evicting anything there, and without harm to other
//! requests.

use block::{Block, Buf, Durability, Error, Extent, Kind, Limits, Memory, Ram, Request, Result};
use block::{Stack, WriteMode};
use cache::{Arena, Cache, Counters, Geometry, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCKS: u64 = 1 << 16;
/// The time of a read of the backing.
const READ_NS: u64 = 1_000_000;
const SLOTS: u32 = 1 << 13;

/// RAM with several servers, each of which takes some time for a request.
struct Servers {
    ram: Ram,
    lane: Lane,
    free_at: RefCell<Vec<u64>>,
    reads: Rc<Cell<u64>>,
    /// Reads that begin with this block fail.
    fails: Rc<Cell<Option<u64>>>,
}

impl Block for Servers {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }

    async fn run(&self, request: Request) -> Result {
        let Request::Read { at, .. } = &request else { return self.ram.run(request).await };
        self.reads.set(self.reads.get() + 1);
        let until = {
            let mut free_at = self.free_at.borrow_mut();
            let server = free_at.iter_mut().min().expect("there is one");
            *server = self.lane.now().max(*server) + READ_NS;
            *server
        };
        self.lane.sleep_until(until).await;
        if self.fails.get() == Some(at.first / 8) {
            return Err(Error::new(Kind::Io, "test"));
        }
        self.ram.run(request).await
    }
}

struct Scene {
    world: World,
    lane: Lane,
    stack: Stack,
    shared: Arc<Shared>,
    reads: Rc<Cell<u64>>,
    fails: Rc<Cell<Option<u64>>>,
}

fn scene(settings: Settings) -> Scene {
    scene_of(
        settings,
        Geometry {
            slots: SLOTS,
            shards: 4,
            region_blocks: 1024,
            extents: 4,
            fills: 128,
            run_blocks: 256,
            slice_blocks: 256,
            ..Geometry::SMALLEST
        },
    )
}

/// A scene with a cache of another geometry.
fn scene_of(settings: Settings, geometry: Geometry) -> Scene {
    scene_in(World::timed(Prices::default()), settings, geometry)
}

/// A scene in another world.
fn scene_in(mut world: World, settings: Settings, geometry: Geometry) -> Scene {
    let lane = world.lane();
    let ram = Ram::new(BLOCKS * 8, GRAIN);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(ram.limits(), geometry, settings, 7, memory).expect("a fresh arena");
    let (reads, fails) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let servers = Servers {
        ram,
        lane: lane.clone(),
        free_at: RefCell::new(vec![0; 16]),
        reads: reads.clone(),
        fails: fails.clone(),
    };
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, Stack::new(&lane, servers)));
    Scene { world, lane, stack, shared, reads, fails }
}

fn settings() -> Settings {
    Settings {
        write: WriteMode::BackNow,
        durability: Durability::Flush,
        workers: 4,
        absorb_blocks_max: 32,
        fill_cost_ns: 400,
        ..Settings::default()
    }
}

fn read(first: u64, blocks: u32) -> Request {
    Request::Read { at: Extent::new(first * 8, blocks * 8), into: Buf::new(blocks * 8, GRAIN) }
}

impl Scene {
    /// Sends requests one after the other, from one client per list. Returns the total time, and
    /// the answers.
    fn send(&mut self, clients: Vec<Vec<Request>>) -> (u64, Vec<Result>) {
        let begun = self.lane.now();
        let left = Rc::new(Cell::new(clients.len()));
        let answers = Rc::new(RefCell::new(Vec::new()));
        for requests in clients {
            let (stack, left, answers) = (self.stack.clone(), left.clone(), answers.clone());
            let client = async move {
                for request in requests {
                    let answer = match stack.try_now(&request) {
                        Some(answer) => answer,
                        None => stack.run(request).await,
                    };
                    answers.borrow_mut().push(answer);
                    stack.lane().rest().await;
                }
                left.set(left.get() - 1);
            };
            self.lane.spawn(client).expect("a lane has room");
        }
        assert!(self.world.run_until(|| left.get() == 0), "no answer");
        (self.lane.now() - begun, answers.take())
    }

    /// Returns the time of each of these requests, sent one after the other, while a client sends
    /// others. In nanoseconds.
    fn latencies(&mut self, timed: Vec<Request>, others: Vec<Request>) -> Vec<u64> {
        let (took, done) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(false)));
        let (stack, answered, ended) = (self.stack.clone(), took.clone(), done.clone());
        let client = async move {
            for request in timed {
                let begun = stack.lane().now();
                stack.run(request).await.expect("RAM does not fail");
                answered.borrow_mut().push(stack.lane().now() - begun);
                stack.lane().sleep_until(stack.lane().now() + READ_NS / 50).await;
            }
            ended.set(true);
        };
        self.lane.spawn(client).expect("a lane has room");
        let stack = self.stack.clone();
        let client = async move {
            for request in others {
                stack.run(request).await.expect("RAM does not fail");
                stack.lane().sleep_until(stack.lane().now() + READ_NS / 50).await;
            }
        };
        self.lane.spawn(client).expect("a lane has room");
        assert!(self.world.run_until(|| done.get()), "no answer");
        took.take()
    }

    /// Returns the time of reads that are sent one after the other.
    fn time(&mut self, reads: impl Iterator<Item = (u64, u32)>) -> u64 {
        self.send(vec![reads.map(|(first, blocks)| read(first, blocks)).collect()]).0
    }

    fn counters(&self) -> Counters {
        self.shared.check();
        self.shared.counters(self.lane.now())
    }

    /// Waits until no request is in flight.
    fn rest(&mut self) {
        let until = self.lane.now() + 100 * READ_NS;
        let (lane, done) = (self.lane.clone(), Rc::new(Cell::new(false)));
        let rested = done.clone();
        let sleep = async move {
            lane.sleep_until(until).await;
            rested.set(true);
        };
        self.lane.spawn(sleep).expect("a lane has room");
        assert!(self.world.run_until(|| done.get()));
    }
}

/// Returns a generator of numbers below an end.
fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 1u64;
    move |end| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % end
    }
}

/// Returns the speed of a stream with readahead, relative to its speed without.
fn gain(reads: impl Iterator<Item = (u64, u32)> + Clone) -> f64 {
    let [with, without] = [true, false].map(|readahead| {
        let mut scene = scene(Settings { readahead, ..settings() });
        let took = scene.time(reads.clone());
        assert!(readahead || scene.counters().readahead_issued == 0);
        took as f64
    });
    without / with
}

#[test]
fn a_stream_of_any_order_is_read_ahead_of() {
    let forward = gain((0..1000).map(|read| (read * 16, 16)));
    assert!(forward > 8.0, "{forward}");
    let small = gain((0..4000).map(|read| (read, 1)));
    assert!(small > 8.0, "{small}");
    let backward = gain((0..1000).map(|read| (60_000 - read * 16, 16)));
    assert!(backward > 6.0, "{backward}");
    let strided = gain((0..1000).map(|read| (read * 64, 16)));
    assert!(strided > 6.0, "{strided}");
    let backward_strided = gain((0..1000).map(|read| (64_000 - read * 64, 4)));
    assert!(backward_strided > 6.0, "{backward_strided}");
    // Eight streams, in turn.
    let many = gain((0..2000).map(|read| (read % 8 * 8000 + read / 8 * 16, 16)));
    assert!(many > 6.0, "{many}");
    // The number of pieces for which a sixteenth of the cache has room.
    let large = gain((0..500).map(|read| (read * 64, 64)));
    assert!(large > 5.0, "{large}");
}

#[test]
fn requests_shorter_than_blocks_and_several_at_a_time_are_read_ahead_of() {
    let took = |readahead, clients: u64, sectors: u32| {
        let mut scene = scene(Settings { readahead, ..settings() });
        let read = |number: u64| Request::Read {
            at: Extent::new(number * u64::from(sectors), sectors),
            into: Buf::new(sectors, GRAIN),
        };
        let of = |client| (0..4000 / clients).map(|turn| read(turn * clients + client)).collect();
        scene.send((0..clients).map(of).collect()).0 as f64
    };
    // Without readahead, requests inside blocks already fetch whole blocks.
    let cases = [(1, 1, 6.0), (1, 3, 4.0), (2, 8, 8.0), (4, 8, 8.0), (4, 64, 5.0), (4, 128, 3.0)];
    for (clients, sectors, least) in cases.into_iter().chain([(8, 8, 8.0), (8, 64, 2.0)]) {
        let gain = took(false, clients, sectors) / took(true, clients, sectors);
        assert!(gain > least, "{clients} clients, {sectors} sectors: {gain}");
    }
}

#[test]
fn random_reads_are_left_alone() {
    let mut draw = random();
    let reads: Vec<_> = (0..20_000).map(|_| (draw(BLOCKS - 4), 1 + draw(4) as u32)).collect();
    let mut scene = scene(settings());
    scene.time(reads.into_iter());
    let counters = scene.counters();
    let wasted = counters.readahead_issued - counters.readahead_used;
    assert!(wasted * 100 < counters.block_accesses, "{wasted} of {}", counters.block_accesses);
}

/// Returns the hits of a hot set that fills a third of the cache, before and after a stream of four
/// times the cache, with no free slot.
fn hot_hits(scene: &mut Scene, stream: impl FnOnce(&mut Scene)) -> [u64; 2] {
    let mut random = random();
    let hot: Vec<_> = (0..SLOTS / 3).map(|_| (random(30_000), 1)).collect();
    scene.time((0..2 * SLOTS).map(|_| (random(30_000), 1)));
    (0..4).for_each(|_| _ = scene.time(hot.iter().copied()));
    let hits = |scene: &mut Scene| {
        let before = scene.counters();
        scene.time(hot.iter().copied());
        scene.counters().read_hits - before.read_hits
    };
    let before = hits(scene);
    assert!(before > u64::from(SLOTS / 4), "{before}");
    stream(scene);
    [before, hits(scene)]
}

#[test]
fn a_stream_takes_the_place_of_nothing_hotter() {
    for readahead in [true, false] {
        let mut scene = scene(Settings { readahead, ..settings() });
        let [before, after] = hot_hits(&mut scene, |scene| {
            scene.time((0..u64::from(SLOTS) / 4).map(|read| (32_000 + read * 16, 16)));
            let passed = scene.counters();
            assert!(passed.bypass_sequential + passed.readahead_used > 1000, "{passed:?}");
        });
        assert!(after * 100 >= before * 99, "readahead {readahead}: {before}, then {after}");
    }
}

/// The same for a stream of writes, absorbed or written through, whose blocks are evicted first
/// once they are durable.
#[test]
fn a_stream_of_writes_takes_the_place_of_nothing_hotter() {
    for write in [WriteMode::BackNow, WriteMode::Through] {
        let dirty_blocks_max = SLOTS / 4;
        let mut scene = scene(Settings { write, dirty_blocks_max, ..settings() });
        let [before, after] = hot_hits(&mut scene, |scene| {
            let writes = (0..u64::from(SLOTS) / 4).map(|number| Request::Write {
                at: Extent::new((32_000 + number * 16) * 8, 128),
                from: Buf::new(128, GRAIN),
                fua: false,
            });
            let (_, answers) = scene.send(vec![writes.chain([Request::Flush]).collect()]);
            assert!(answers.iter().all(Result::is_ok));
        });
        assert!(after * 100 >= before * 97, "{write:?}: {before}, then {after}");
    }
}

#[test]
fn what_is_free_is_kept_however_long_the_stream_is() {
    let mut scene = scene(Settings { stream_blocks_max: 256, ..settings() });
    let stream = || (0..256).map(|read| (read * 16, 16));
    scene.time(stream());
    scene.rest();
    let reads = scene.reads.get();
    scene.time(stream());
    assert_eq!(scene.reads.get(), reads, "the second time it comes from memory");
    assert_eq!(scene.counters().bypass_sequential, 0);
}

#[test]
fn its_errors_reach_no_read_that_can_be_answered() {
    let mut scene = scene(settings());
    // No read of a client begins there, only pieces.
    for block in (64..4096).step_by(16) {
        scene.fails.set(Some(block));
        let first = block - 48;
        let reads = (0..8).map(|number| read(first + number * 6, 6)).collect();
        let (_, answers) = scene.send(vec![reads]);
        assert_eq!(answers, vec![Ok(()); 8], "block {block}");
    }
    assert!(scene.counters().readahead_issued > 0);
}

/// Writes overtake readahead: later reads must see the writes.
#[test]
fn a_change_overtakes_what_is_fetched_ahead() {
    for write in [WriteMode::BackNow, WriteMode::Through] {
        let mut scene = scene(Settings { write, ..settings() });
        for round in 0..40 {
            let first = round * 1000;
            let data = Buf::new(8, GRAIN);
            data.write(&[round as u8 + 1; 8 * GRAIN as usize]);
            let reads = (0..4).map(|number| read(first + number * 16, 16)).collect();
            let at = Extent::new((first + 70 + round) * 8, 8);
            let writes = vec![read(first, 16), Request::Write { at, from: data, fua: false }];
            scene.send(vec![reads, writes]);
            let into = Buf::new(8, GRAIN);
            let (_, answers) = scene.send(vec![vec![Request::Read { at, into: into.clone() }]]);
            assert_eq!(answers, [Ok(())]);
            assert_eq!(into.to_vec(), [round as u8 + 1; 8 * GRAIN as usize], "round {round}");
        }
        assert!(scene.counters().readahead_issued > 0);
    }
}

/// A piece that is longer than a slice becomes unread slice by slice, or fails as a whole: the
/// volume's count of unread blocks equals the sum over its shards at every step, and the check for
/// room counts no block twice.
#[test]
fn what_is_unread_is_counted_at_every_step() {
    let small =
        Geometry { slots: 1024, shards: 1, fills: 16, run_blocks: 64, ..Geometry::SMALLEST };
    let settings = Settings { stream_blocks_max: 256, fill_cost_ns: 0, ..settings() };
    let mut scene = scene_in(World::chosen(3), settings, small);
    scene.fails.set(Some(48 * 20));
    let (stack, done) = (scene.stack.clone(), Rc::new(Cell::new(false)));
    let ended = done.clone();
    let client = async move {
        for number in 0..60 {
            stack.run(read(number * 48, 48)).await.expect("a read can be answered");
            let at = Extent::new((number + 3) * 48 * 8, 8);
            let change = Request::Write { at, from: Buf::new(8, GRAIN), fua: number % 2 == 0 };
            stack.run(change).await.expect("RAM does not fail");
        }
        ended.set(true);
    };
    scene.lane.spawn(client).expect("a lane has room");
    let shared = scene.shared.clone();
    assert!(scene.world.run_until(|| {
        shared.check();
        done.get()
    }));
    let counters = scene.counters();
    assert!(counters.readahead_used > 256, "{counters:?}");
}

/// Blocks that were fetched ahead and never read are dropped when others need their slots.
#[test]
fn what_is_not_read_does_not_stay_for_ever() {
    let mut scene = scene(settings());
    for stream in 0..8 {
        scene.time((0..6).map(|read| (stream * 2048 + read * 16, 16)));
    }
    scene.rest();
    let left = scene.counters();
    let unread = left.readahead_issued - left.readahead_used - left.readahead_wasted;
    assert!(unread > 256, "{unread}");
    let mut draw = random();
    scene.time((0..3 * SLOTS).map(|_| (20_000 + draw(40_000), 1)));
    let counters = scene.counters();
    let settled = counters.readahead_used + counters.readahead_wasted;
    assert!(counters.readahead_issued - settled < unread / 8, "{counters:?}");
}

/// Reads of clients may take most of a shard's fetches: a refused readahead lets them end.
#[test]
fn what_is_refused_lets_others_go_on() {
    let few = Geometry { slots: 4096, shards: 1, fills: 8, ..Geometry::SMALLEST };
    let mut scene = scene_of(settings(), few);
    let mut random = random();
    let mut clients: Vec<Vec<Request>> =
        (0..6).map(|_| (0..100).map(|_| read(20_000 + random(40_000), 1)).collect()).collect();
    clients.push((0..200).map(|number| read(number * 16, 16)).collect());
    let (_, answers) = scene.send(clients);
    assert_eq!(answers, vec![Ok(()); 800]);
    assert!(scene.counters().readahead_issued > 0);
}

/// Blocks fetched ahead of streams that ended early count as unread at most for the duration of one
/// long bypassed stream, although that stream evicts nothing.
#[test]
fn streams_that_end_early_are_in_the_way_of_no_later_one() {
    let mut scene = scene(settings());
    scene.time((0..2 * u64::from(SLOTS)).map(|read| (40_000 + read * 7919 % 20_000, 1)));
    for stream in 0..16 {
        scene.time((0..60).map(|read| (stream * 1024 + read * 16, 16)));
        scene.rest();
    }
    let long = |from: u64| (from..from + 512).map(|read| (16_384 + read * 16, 16));
    scene.time(long(0));
    let took = scene.time(long(512));
    assert!(took < 512 * READ_NS / 4, "{took} ns");
}

#[test]
fn a_stream_is_read_ahead_of_although_what_is_read_is_not_kept() {
    let [aside, without] = [true, false].map(|readahead| {
        let mut scene = scene(Settings { readahead, ..settings() });
        scene.shared.force_bypass(true, false, 0);
        scene.time((0..1000).map(|read| (read * 16, 16)))
    });
    assert!(without > aside * 8, "{aside} ns, {without} ns without");
    // Where a hit saves nothing, nothing is fetched ahead.
    let mut scene = scene(settings());
    scene.shared.force_bypass(true, true, 0);
    scene.time((0..1000).map(|read| (read * 16, 16)));
    assert_eq!(scene.counters().readahead_issued, 0);
}

/// While reads are bypassed nothing is evicted: useless readahead ages by the reads that continue.
#[test]
fn streams_that_end_early_are_in_the_way_of_no_later_one_while_reads_are_left_out() {
    let mut scene = scene(settings());
    let mut draw = random();
    scene.time((0..2 * SLOTS).map(|_| (40_000 + draw(20_000), 1)));
    scene.shared.force_bypass(true, false, 0);
    for stream in 0..24 {
        scene.time((0..40).map(|read| (stream * 1024 + read * 16, 16)));
        scene.rest();
    }
    scene.time((0..6 * SLOTS).map(|_| (40_000 + draw(20_000), 1)));
    let before = scene.counters();
    let took = scene.time((0..64).map(|read| (32_768 + read * 16, 16)));
    let counters = scene.counters();
    assert!(counters.readahead_used > before.readahead_used + 512, "{counters:?}");
    assert!(took < 64 * READ_NS / 2, "{took} ns");
}

/// Clients with separate streams already use a large part of the depth; the backing works on more
/// in parallel.
#[test]
fn streams_of_several_clients_are_read_ahead_of() {
    let took = |readahead, clients: u64| {
        let mut scene = scene(Settings { readahead, ..settings() });
        let of = |client: u64| (0..200).map(|turn| read(client * 8000 + turn * 16, 16)).collect();
        scene.send((0..clients).map(of).collect()).0 as f64
    };
    for (clients, least) in [(4, 3.0), (6, 2.0), (8, 1.5)] {
        let gain = took(false, clients) / took(true, clients);
        assert!(gain > least, "{clients} clients: {gain}");
    }
}

/// Streams that end early, one after the other, with and without free slots: their remains are
/// dropped in time, so that later streams are read ahead as far as the gate allows.
#[test]
fn what_ended_streams_leave_is_in_the_way_of_none_that_follow_at_once() {
    for (is_filled, gain) in [(true, 3), (false, 2)] {
        let mut scene = scene(settings());
        let mut draw = random();
        if is_filled {
            scene.time((0..3 * SLOTS).map(|_| (40_000 + draw(20_000), 1)));
        }
        let mut took = 0;
        for stream in 0..24 {
            took += scene.time((0..64).map(|read| (stream * 1536 + read * 16, 16)));
            scene.rest();
        }
        assert!(took < 24 * 64 * READ_NS / gain, "filled: {is_filled}, {took} ns");
        let counters = scene.counters();
        assert!(counters.readahead_wasted * 4 < counters.readahead_issued, "{counters:?}");
    }
}

/// Reads outside streams do not wait for the readahead of a stream, even if that stream was alone
/// before.
#[test]
fn random_reads_beside_a_stream_do_not_wait_for_it() {
    for alone in [0, 512] {
        let mut scene = scene(settings());
        scene.time((0..alone).map(|read| (read * 16, 16)));
        let mut draw = random();
        let randoms: Vec<_> = (0..400).map(|_| read(40_000 + draw(20_000), 1)).collect();
        let stream = (alone..alone + 1800).map(|number| read(number * 16, 16)).collect();
        let took = scene.latencies(randoms, stream);
        let slow = took.iter().filter(|ns| **ns > READ_NS * 11 / 10).count();
        assert!(slow <= 8, "{slow} of 400, after {alone} requests of a stream alone");
        assert!(scene.counters().readahead_used > 1000, "{:?}", scene.counters());
    }
}
