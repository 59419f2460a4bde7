//! How long requests of a written export wait while its link is cut again and again, on virtual
//! time.

mod common;

use block::{Buf, Extent, Memory, Part, Ram, Request, Result, SECTOR, Stack};
use common::{negotiate, serve_disk};
use lane::{Lane, Prices, World};
use nbd::client::{Agreed, Dial, Link, LinkShared, Wish, WriteDials, Writing};
use nbd::fence::{self, Fence, SETTLE_NS, TABLE_BYTES};
use nbd::{Pipe, Wire};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const SECTORS: u64 = 64;
const SECOND_NS: u64 = 1_000_000_000;
/// Time from the arrival of an answer to its receipt.
const ANSWER_NS: u64 = SECOND_NS / 5;
/// Longest pause before an attempt to connect, and the handshake.
const RECONNECT_NS: u64 = 2 * SECOND_NS;

/// A connection whose answers take time, until it is cut.
struct Slow {
    lane: Lane,
    pipe: Rc<Pipe>,
}

impl Wire for Slow {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        self.lane.sleep_until(self.lane.now() + ANSWER_NS).await;
        self.pipe.receive(memory, offset, length).await
    }

    async fn send(&self, parts: &[Part]) -> Result {
        self.pipe.send(parts).await
    }

    async fn finish(&self) {
        self.pipe.finish().await;
    }

    fn shutdown(&self) {
        self.pipe.shutdown();
    }
}

/// The connections that are open, and the times of their making.
#[derive(Default)]
struct Links {
    open: RefCell<Vec<Rc<Pipe>>>,
    /// Begin and end of each attempt, by role.
    attempts: RefCell<Vec<(Role, u64, u64)>>,
}

impl Links {
    fn cut(&self) {
        self.open.take().iter().for_each(|pipe| pipe.shutdown());
    }

    /// Returns begin and end of the last attempt of a role.
    fn last(&self, role: Role) -> (u64, u64) {
        let attempts = self.attempts.borrow();
        let last = attempts.iter().rev().find(|attempt| attempt.0 == role).expect("there is one");
        (last.1, last.2)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Reads,
    Changes,
    Anchor,
}

/// Connects to the server within a time.
#[derive(Clone)]
struct Dialler {
    lane: Lane,
    disk: Stack,
    role: Role,
    links: Rc<Links>,
    takes_ns: u64,
}

impl Dial for Dialler {
    type Wire = Slow;

    async fn dial(&self) -> Option<(Slow, Agreed)> {
        let begun_ns = self.lane.now();
        self.lane.sleep_until(begun_ns + self.takes_ns).await;
        let pipe = Rc::new(serve_disk(&self.lane, self.disk.clone(), 4096));
        let structured = self.role == Role::Reads;
        let agreed = negotiate(&pipe, Wish { sizes: true, structured, ..Wish::default() }).await;
        self.links.open.borrow_mut().push(pipe.clone());
        self.links.attempts.borrow_mut().push((self.role, begun_ns, self.lane.now()));
        Some((Slow { lane: self.lane.clone(), pipe }, agreed))
    }
}

/// An export on one lane.
struct Scene {
    world: World,
    lane: Lane,
    links: Rc<Links>,
}

impl Scene {
    fn new() -> Scene {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        Scene { world, lane, links: Rc::default() }
    }

    fn dialler(&self, role: Role, takes_ns: u64) -> Dialler {
        let disk = Stack::new(&self.lane, Ram::new(SECTORS, SECTOR as u32));
        let (lane, links) = (self.lane.clone(), self.links.clone());
        Dialler { lane, disk, role, links, takes_ns }
    }

    /// Attaches the export.
    async fn attach(lane: Lane, reads: Dialler, dials: WriteDials<Dialler>) -> Stack {
        let (_, agreed) = reads.dial().await.expect("the server is there");
        let (_, simple) = dials.changes.dial().await.expect("the server is there");
        let memory = Arc::new(Memory::heap(TABLE_BYTES));
        let export = fence::Export { sectors: SECTORS, abilities: [0; 2] };
        let writing = Writing::new(Fence::new(&memory, export), simple);
        let shared = LinkShared::written(agreed, writing);
        Stack::new(&lane, Link::attach(&lane, reads, Some(dials), &shared))
    }
}

fn write(first: u64, count: u32) -> Request {
    let from = Buf::new(count, SECTOR as u32);
    Request::Write { at: Extent::new(first, count), from, fua: false }
}

/// Cuts all connections each `period_ns`, for a minute and ten times at least, while three clients
/// write to ranges of their own. Returns the longest time of a request.
fn longest_wait(period_ns: u64) -> u64 {
    const CLIENTS: u64 = 3;
    let mut scene = Scene::new();
    let (reads, changes) = (scene.dialler(Role::Reads, 0), scene.dialler(Role::Changes, 0));
    let anchor = scene.dialler(Role::Anchor, 0);
    let (lane, links) = (scene.lane.clone(), scene.links.clone());
    let (longest, ended, over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::default());
    let over: Rc<Cell<bool>> = over;
    let (worst, left, last) = (longest.clone(), ended.clone(), over.clone());
    let work = async move {
        let stack = Scene::attach(lane.clone(), reads, WriteDials { changes, anchor }).await;
        for client in 0..CLIENTS {
            let (acting, stack, worst) = (lane.clone(), stack.clone(), worst.clone());
            let (left, last) = (left.clone(), last.clone());
            let writes = async move {
                let mut number = 0;
                while !last.get() {
                    let begun = acting.now();
                    // Each request shares sectors with the one before.
                    number += 1;
                    let request = match number % 4 {
                        0 => Request::Flush,
                        half => write(16 * client + half, 2 + half as u32),
                    };
                    // A flush fails if a session has ended with unflushed changes.
                    let is_flush = matches!(request, Request::Flush);
                    let result = stack.run(request).await;
                    assert!(result.is_ok() || is_flush, "{result:?}");
                    worst.set(worst.get().max(acting.now() - begun));
                }
                left.set(left.get() + 1);
            };
            lane.spawn(writes).expect("room");
        }
        for _ in 0..(60 * SECOND_NS / period_ns).max(10) {
            lane.sleep_until(lane.now() + period_ns).await;
            links.cut();
        }
        last.set(true);
    };
    scene.lane.spawn(work).expect("room");
    assert!(scene.world.run_until(|| ended.get() == CLIENTS), "{period_ns}: a request hangs");
    scene.world.abandon();
    longest.get()
}

/// A request is sent again on each connection without a wait, so it is answered on the first one
/// that lasts for long enough. One that shares sectors with an earlier request is held once.
#[test]
fn a_request_waits_for_one_hold_and_a_connection_that_lasts() {
    for period_ns in [SECOND_NS / 2, SECOND_NS, 3 * SECOND_NS, 7 * SECOND_NS, 40 * SECOND_NS] {
        let longest_ns = longest_wait(period_ns);
        // One connection may end before the answer, after the hold.
        let most_ns = SETTLE_NS + 2 * (RECONNECT_NS + ANSWER_NS);
        println!("cut each {} ms: {} ms", period_ns / 1_000_000, longest_ns / 1_000_000);
        assert!(longest_ns <= most_ns, "{period_ns}: {longest_ns} > {most_ns}");
    }
}

/// A flush on the anchor shows that the server was not restarted since the anchor was made: a
/// connection of changes that is older may be one to a server before that.
#[test]
fn changes_are_sent_on_connections_that_are_newer_than_the_anchor() {
    let mut scene = Scene::new();
    let (reads, changes) = (scene.dialler(Role::Reads, 0), scene.dialler(Role::Changes, SECOND_NS));
    let anchor = scene.dialler(Role::Anchor, 4 * SECOND_NS);
    let (lane, links) = (scene.lane.clone(), scene.links.clone());
    let done = Rc::new(Cell::new(0));
    let mark = done.clone();
    let work = async move {
        let stack = Scene::attach(lane.clone(), reads, WriteDials { changes, anchor }).await;
        let start_ns = lane.now();
        let (writer, flusher) = (stack.clone(), stack);
        let (wrote, flushed, acting) = (mark.clone(), mark, lane.clone());
        let writes = async move {
            assert_eq!(writer.run(write(0, 1)).await, Ok(()));
            wrote.set(wrote.get() + 1);
        };
        lane.spawn(writes).expect("room");
        // While the connection of changes is being made, the anchor ends, and a flush sees it.
        acting.sleep_until(start_ns + 4 * SECOND_NS + SECOND_NS / 2).await;
        links.cut();
        assert_eq!(flusher.run(Request::Flush).await, Ok(()));
        flushed.set(flushed.get() + 1);
    };
    scene.lane.spawn(work).expect("room");
    assert!(scene.world.run_until(|| done.get() == 2), "a request hangs");
    let (changes, anchor) = (scene.links.last(Role::Changes), scene.links.last(Role::Anchor));
    assert!(changes.0 >= anchor.1, "changes {changes:?}, anchor {anchor:?}");
    scene.world.abandon();
}
