//! An export that is written from two lanes, over connections that end anywhere: the crate's client
//! against the crate's server.

mod common;
#[path = "common/cut.rs"]
mod cut;

use block::{Block, Buf, Extent, Memory, Ram, Request, SECTOR, Stack};
use common::{negotiate, serve_disk};
use cut::Cut;
use lane::{Lane, Random, World};
use nbd::client::{Agreed, Dial, Link, LinkShared, Wish, WriteDials, Writing};
use nbd::fence::{self, Fence, TABLE_BYTES};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const SECTORS: u64 = 64;
/// Changes of each client.
const CHANGES: u64 = 40;

/// Connects to the server; some of the first connections end early.
#[derive(Clone)]
struct Dialler {
    lane: Lane,
    disk: Stack,
    structured: bool,
    random: Rc<RefCell<Random>>,
    cuts_left: Rc<Cell<u32>>,
}

impl Dial for Dialler {
    type Wire = Cut;

    async fn dial(&self) -> Option<(Cut, Agreed)> {
        let ours = serve_disk(&self.lane, self.disk.clone(), 4096);
        let wish = Wish { sizes: true, structured: self.structured, ..Wish::default() };
        let agreed = negotiate(&ours, wish).await;
        let left = match self.cuts_left.get() {
            0 => usize::MAX,
            cuts => {
                self.cuts_left.set(cuts - 1);
                self.random.borrow_mut().below(120) as usize
            }
        };
        Some((Cut { pipe: ours, left: Cell::new(left) }, agreed))
    }
}

/// Writes to the half of the export with this number. Returns the contents that it expects, and
/// the number of flushes that failed.
async fn client(link: Stack, half: u64, mut random: Random) -> (Vec<u8>, u32) {
    let base = half * SECTORS / 2;
    let (mut expected, mut failed) = (vec![0; SECTORS as usize / 2], 0);
    for change in 0..CHANGES {
        let first = random.below(SECTORS / 2);
        let count = 1 + random.below((SECTORS / 2 - first).min(6));
        let at = Extent::new(base + first, count as u32);
        let (fua, value) = (random.one_in(3), 1 + change as u8);
        let request = match random.below(5) {
            0 => Request::Zero { at, fua, may_unmap: true },
            1 => Request::Discard { at },
            _ => {
                let from = Buf::new(at.count, SECTOR as u32);
                from.write(&vec![value; (count * SECTOR) as usize]);
                Request::Write { at, from, fua }
            }
        };
        let stored = if matches!(request, Request::Write { .. }) { value } else { 0 };
        assert_eq!(link.run(request).await, Ok(()));
        expected[first as usize..(first + count) as usize].fill(stored);
        if random.one_in(4) {
            failed += u32::from(link.run(Request::Flush).await.is_err());
        }
    }
    (expected, failed)
}

/// Runs two clients. Returns the number of failed flushes.
fn play(seed: u64, cuts: u32) -> u32 {
    let mut world = World::chosen(seed);
    let (home, other) = (world.lane(), world.lane());
    let random = Rc::new(RefCell::new(Random::new(seed)));
    let cuts_left = Rc::new(Cell::new(0));
    let shared: Rc<RefCell<Option<Arc<LinkShared>>>> = Rc::default();
    let done = Rc::new(RefCell::new(Vec::new()));
    // Each lane has its own view of the disk.
    let disk = Ram::new(SECTORS, SECTOR as u32);
    for (half, lane) in [home, other].into_iter().enumerate() {
        let dialler = |structured| Dialler {
            lane: lane.clone(),
            disk: Stack::new(&lane, disk.clone()),
            structured,
            random: random.clone(),
            cuts_left: cuts_left.clone(),
        };
        let (reads, changes) = (dialler(true), dialler(false));
        let (shared, done, cuts_left) = (shared.clone(), done.clone(), cuts_left.clone());
        let acting = lane.clone();
        let mut random = Random::new(seed + half as u64);
        let task = async move {
            let ours = shared.borrow().clone();
            let ours = match ours {
                Some(ours) => ours,
                None => {
                    let (agreed, simple) = agree(&reads, &changes).await;
                    let mut present = shared.borrow_mut();
                    present.get_or_insert_with(|| written(agreed, simple)).clone()
                }
            };
            cuts_left.set(cuts);
            let dials = WriteDials { changes: changes.clone(), anchor: changes };
            let link = Stack::new(&acting, Link::attach(&acting, reads, Some(dials), &ours));
            let found = client(link.clone(), half as u64, random.fork()).await;
            done.borrow_mut().push((half, found));
            // The lane that carries changes goes on for the other.
            let waiting = link;
            while done.borrow().len() < 2 {
                acting.sleep_until(acting.now() + 1_000_000).await;
            }
            drop(waiting);
        };
        lane.spawn(task).expect("room");
    }
    assert!(world.run_until(|| done.borrow().len() == 2), "seed {seed}: it hangs");
    let mut failed = 0;
    for (half, (expected, count)) in done.take() {
        failed += count;
        let bytes = contents(&disk, half as u64 * SECTORS / 2);
        for (sector, value) in expected.into_iter().enumerate() {
            let at = sector * SECTOR as usize;
            let is_right = bytes[at..at + SECTOR as usize].iter().all(|byte| *byte == value);
            assert!(is_right, "seed {seed}, half {half}, sector {sector}: not {value}");
        }
    }
    world.abandon();
    failed
}

async fn agree(reads: &Dialler, changes: &Dialler) -> (Agreed, Agreed) {
    let (_, agreed) = reads.dial().await.expect("the server is there");
    let (_, simple) = changes.dial().await.expect("the server is there");
    (agreed, simple)
}

fn written(agreed: Agreed, simple: Agreed) -> Arc<LinkShared> {
    let memory = Arc::new(Memory::heap(TABLE_BYTES));
    let export = fence::Export { sectors: SECTORS, abilities: [0; 2] };
    LinkShared::written(agreed, Writing::new(Fence::new(&memory, export), simple))
}

/// Returns the contents of half of the disk.
fn contents(disk: &Ram, first: u64) -> Vec<u8> {
    let count = (SECTORS / 2) as u32;
    let into = Buf::new(count, SECTOR as u32);
    let request = Request::Read { at: Extent::new(first, count), into: into.clone() };
    assert_eq!(disk.try_now(&request), Some(Ok(())), "memory answers immediately");
    let mut bytes = vec![0; (u64::from(count) * SECTOR) as usize];
    into.read(&mut bytes);
    bytes
}

#[test]
fn changes_of_two_lanes_survive_connections_that_end_anywhere() {
    let mut failed = 0;
    for seed in 0..120 {
        failed += play(seed, 1 + seed as u32 % 12);
    }
    assert!(failed > 10, "a flush fails if changes may be lost");
}

#[test]
fn without_cuts_no_flush_fails() {
    for seed in 0..20 {
        assert_eq!(play(seed, 0), 0);
    }
}
