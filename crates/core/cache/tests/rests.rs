//! Reads of parts of blocks fetch whole blocks where that pays, without harm to other requests.
//! Reads that are split fetch their parts beside one another.

use block::{
    Block, Buf, Error, Extent, Kind, Limits, Memory, Ram, Request, Result, Stack, WriteMode,
};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::{Lane, Prices, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const GRAIN: u32 = 16;
/// The device ends inside a block.
const SECTORS: u64 = 64 * 8 + 3;
const READ_NS: u64 = 20_000;

/// The requests that the backing has received.
#[derive(Default)]
struct Seen {
    /// The sectors of each read.
    reads: RefCell<Vec<(u64, u32)>>,
    /// A sector that cannot be read.
    bad: Cell<Option<u64>>,
}

/// RAM that takes [`READ_NS`] for a read.
struct Slow {
    ram: Ram,
    lane: Lane,
    seen: Rc<Seen>,
}

impl Block for Slow {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }

    async fn run(&self, request: Request) -> Result {
        let Request::Read { at, .. } = &request else { return self.ram.run(request).await };
        self.seen.reads.borrow_mut().push((at.first, at.count));
        let is_bad = self.seen.bad.get().is_some_and(|bad| (at.first..at.end()).contains(&bad));
        // The data is read first, and arrives later.
        let result = self.ram.run(request).await;
        self.lane.sleep_until(self.lane.now() + READ_NS).await;
        if is_bad { Err(Error::new(Kind::Io, "test")) } else { result }
    }
}

struct Scene {
    world: World,
    stack: Stack,
    seen: Rc<Seen>,
    shared: Arc<Shared>,
}

fn scene(settings: Settings) -> Scene {
    let geometry = Geometry { slots: 64, fills: 8, run_blocks: 16, ..Geometry::SMALLEST };
    let settings = Settings { absorb_blocks_max: 4, readers: 0, ..settings };
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let ram = Ram::new(SECTORS, GRAIN);
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
    let shared = Shared::new(ram.limits(), geometry, settings, 7, memory).expect("a fresh arena");
    let seen = Rc::new(Seen::default());
    let below = Stack::new(&lane, Slow { ram, lane: lane.clone(), seen: seen.clone() });
    let stack = Stack::new(&lane, Cache::attach(&shared, &lane, below));
    Scene { world, stack, seen, shared }
}

fn through() -> Settings {
    Settings { write: WriteMode::Through, ..Settings::default() }
}

fn filled(byte: u8, sectors: u32) -> Buf {
    let buf = Buf::new(sectors, GRAIN);
    buf.write(&vec![byte; buf.bytes()]);
    buf
}

impl Scene {
    /// Sends requests together, each this long after the start, and returns the answers.
    fn ask(&mut self, requests: Vec<(u64, Request)>) -> Vec<Result> {
        let answers = Rc::new(RefCell::new(vec![None; requests.len()]));
        let start = self.stack.lane().now();
        for (number, (after_ns, request)) in requests.into_iter().enumerate() {
            let (stack, answers) = (self.stack.clone(), answers.clone());
            let task = async move {
                stack.lane().sleep_until(start + after_ns).await;
                let answer = stack.run(request).await;
                answers.borrow_mut()[number] = Some(answer);
            };
            self.stack.lane().spawn(task).expect("a lane has room");
        }
        assert!(self.world.run_until(|| answers.borrow().iter().all(Option::is_some)), "no answer");
        answers.take().into_iter().map(|answer| answer.expect("all are there")).collect()
    }

    fn write(&mut self, first: u64, sectors: u32, byte: u8) {
        let (at, from) = (Extent::new(first, sectors), filled(byte, sectors));
        assert_eq!(self.ask(vec![(0, Request::Write { at, from, fua: false })]), [Ok(())]);
    }

    /// Reads sectors, and returns the first byte of each.
    fn read(&mut self, first: u64, sectors: u32) -> Result<Vec<u8>> {
        let into = Buf::new(sectors, GRAIN);
        let request = Request::Read { at: Extent::new(first, sectors), into: into.clone() };
        self.ask(vec![(0, request)]).remove(0)?;
        Ok(into.to_vec().chunks(GRAIN as usize).map(|sector| sector[0]).collect())
    }

    /// Whether memory has these sectors.
    fn has(&self, first: u64, sectors: u32) -> bool {
        let into = Buf::new(sectors, GRAIN);
        self.stack.try_now(&Request::Read { at: Extent::new(first, sectors), into }).is_some()
    }

    /// Returns the reads of the backing since the last call.
    fn reads(&self) -> Vec<(u64, u32)> {
        self.seen.reads.take()
    }

    fn completed(&self) -> u64 {
        self.shared.counters(0).blocks_completed
    }
}

#[test]
fn a_read_of_a_part_fetches_the_whole_block() {
    let mut scene = scene(through());
    scene.read(19, 2).expect("RAM does not fail");
    assert_eq!((scene.reads(), scene.completed()), (vec![(16, 8)], 1));
    assert!(scene.has(16, 8));
    // Both ends.
    scene.read(42, 12).expect("RAM does not fail");
    assert_eq!((scene.reads(), scene.completed()), (vec![(40, 16)], 3));
    // One block is whole already, the other one ends the read.
    scene.read(22, 4).expect("RAM does not fail");
    assert_eq!((scene.reads(), scene.completed()), (vec![(24, 8)], 4));
    scene.read(64, 8).expect("RAM does not fail");
    assert_eq!((scene.reads(), scene.completed()), (vec![(64, 8)], 4), "nothing was to be added");
}

#[test]
fn the_client_receives_its_own_part() {
    let mut scene = scene(Settings { write: WriteMode::None, ..Settings::default() });
    (0..6).for_each(|number| scene.write(80 + number * 4, 4, number as u8 + 1));
    scene.shared.set_write_mode(WriteMode::Through);
    assert_eq!(scene.read(82, 12), Ok([[1, 1, 2, 2], [2, 2, 3, 3], [3, 3, 4, 4]].concat()));
    assert_eq!(scene.reads(), [(80, 16)]);
    assert_eq!(scene.read(80, 4), Ok(vec![1; 4]));
    assert_eq!(scene.read(94, 2), Ok(vec![4; 2]));
    assert_eq!(scene.reads(), [], "the rest is cached");
}

#[test]
fn only_sectors_that_are_not_held_are_added() {
    let mut scene = scene(through());
    // A write-through leaves a copy of what it has written.
    scene.write(18, 2, 1);
    scene.write(22, 2, 2);
    assert_eq!(scene.read(20, 2), Ok(vec![0; 2]));
    assert_eq!(scene.reads(), [(16, 6)], "the last sectors were held");
    assert_eq!(scene.read(16, 8), Ok(vec![0, 0, 1, 1, 0, 0, 2, 2]));
    assert_eq!(scene.reads(), []);
}

#[test]
fn nothing_is_added_beyond_the_end_of_the_device() {
    let mut scene = scene(through());
    scene.read(SECTORS - 2, 1).expect("RAM does not fail");
    assert_eq!(scene.reads(), [(SECTORS - 3, 3)]);
    assert!(scene.has(SECTORS - 3, 3));
}

#[test]
fn a_bad_sector_beside_a_read_does_not_fail_it_and_is_not_cached() {
    let mut scene = scene(through());
    scene.seen.bad.set(Some(21));
    assert_eq!(scene.read(17, 2), Ok(vec![0; 2]));
    assert_eq!(scene.reads(), [(16, 8), (17, 2)]);
    assert!(scene.has(17, 2) && !scene.has(16, 1) && !scene.has(21, 1));
    assert_eq!(scene.shared.counters(0).errors_read, 1);
    assert!(scene.read(21, 1).is_err(), "the client has requested it");
    assert_eq!(scene.reads(), [(16, 8), (21, 1)]);
}

#[test]
fn a_change_during_the_fetch_is_newer_than_the_rest() {
    for write in [WriteMode::Through, WriteMode::BackNow] {
        let mut scene = scene(Settings { write, ..Settings::default() });
        let read = Request::Read { at: Extent::new(17, 2), into: Buf::new(2, GRAIN) };
        let write = Request::Write { at: Extent::new(21, 2), from: filled(7, 2), fua: false };
        let answers = scene.ask(vec![(0, read), (READ_NS / 2, write)]);
        assert_eq!(answers, [Ok(()), Ok(())]);
        assert_eq!(scene.reads()[0], (16, 8));
        assert_eq!(scene.read(16, 8), Ok(vec![0, 0, 0, 0, 0, 7, 7, 0]));
    }
}

#[test]
fn nothing_is_added_to_reads_that_are_not_admitted_and_to_long_ones() {
    let mut bypassed = scene(through());
    bypassed.shared.force_bypass(true, true, 0);
    bypassed.read(17, 2).expect("RAM does not fail");
    assert_eq!((bypassed.reads(), bypassed.completed()), (vec![(17, 2)], 0));
    // It is longer than any buffer for it.
    let mut long = scene(through());
    long.read(17, 32).expect("RAM does not fail");
    assert_eq!((long.reads(), long.completed()), (vec![(17, 32)], 0));
}

#[test]
fn nothing_is_added_where_it_does_not_pay() {
    // A copy costs as much as a read of the backing.
    let mut scene = scene(Settings { fill_cost_ns: READ_NS, ..through() });
    // A sixteenth of the misses is timed.
    (0..40).for_each(|block| drop(scene.read(block * 8, 8)));
    scene.reads();
    scene.read(41 * 8 + 1, 2).expect("RAM does not fail");
    assert_eq!((scene.reads(), scene.completed()), (vec![(41 * 8 + 1, 2)], 0));
}

/// Returns the answer of a read of all whole blocks, its time, and the backing's reads.
fn read_all(scene: &mut Scene) -> (Result<Vec<u8>>, u64, Vec<(u64, u32)>) {
    let begun = scene.stack.lane().now();
    let answer = scene.read(0, 512);
    (answer, scene.stack.lane().now() - begun, scene.reads())
}

#[test]
fn the_parts_of_a_long_read_wait_beside_one_another() {
    let mut scene = scene(Settings { write: WriteMode::None, ..Settings::default() });
    let expected: Vec<u8> = (0..16).flat_map(|run| [run as u8 + 1; 32]).collect();
    (0..16u32).for_each(|run| scene.write(u64::from(run) * 32, 32, run as u8 + 1));
    scene.shared.set_write_mode(WriteMode::Through);
    assert_eq!(scene.read(96, 8), Ok(vec![4; 8]), "a hit among the misses");
    scene.reads();
    let (answer, took_ns, reads) = read_all(&mut scene);
    assert_eq!(answer, Ok(expected.clone()));
    let missed: u32 = reads.iter().map(|(_, count)| count).sum();
    assert!(reads.len() >= 4 && missed > 256, "{reads:?}");
    assert!(took_ns < 2 * READ_NS, "{took_ns} ns for {reads:?}");
    let (answer, _, reads) = read_all(&mut scene);
    assert_eq!((answer, reads), (Ok(expected), vec![]));
}

#[test]
fn an_error_of_one_part_fails_a_long_read_once_the_others_have_ended() {
    let mut scene = scene(through());
    scene.seen.bad.set(Some(200));
    let (answer, took_ns, reads) = read_all(&mut scene);
    assert!(answer.is_err() && took_ns >= READ_NS, "{answer:?} after {took_ns} ns");
    assert!(!reads.is_empty());
    scene.seen.bad.set(None);
    assert_eq!(read_all(&mut scene).0, Ok(vec![0; 512]));
}
