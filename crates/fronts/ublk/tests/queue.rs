//! A queue with a minimal driver and a volume in memory.

use block::{Buf, Ram, Stack};
use export::{Budget, Export, Stop};
use lane::{Event, World};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use ublk::{Fetch, Queue, QueuePlan};

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const ZERO: u32 = 5;
const TAGS: u16 = 4;
const IO_BYTES_MAX: u32 = 8192;

/// Requests of a tag: operation, first sector, number of sectors, and for a write the byte that it
/// writes.
type Script = Vec<(u32, u64, u32, u8)>;

/// Returns the requests of a script, and records the answers with the first byte of data read.
#[derive(Default)]
struct Driver {
    scripts: RefCell<Vec<Script>>,
    asked: RefCell<Vec<[u8; 24]>>,
    answers: RefCell<Vec<(u16, i32, u8)>>,
    /// Whether the tags wait when no more requests come.
    waits: Cell<bool>,
    left: Event,
}

impl Driver {
    fn new(scripts: Vec<Script>) -> Driver {
        let asked = vec![[0; 24]; scripts.len()];
        Driver { scripts: RefCell::new(scripts), asked: RefCell::new(asked), ..Driver::default() }
    }

    /// Returns the result of the next fetch of a tag: 0, or -ENODEV if no request is left. None:
    /// wait.
    fn next(&self, tag: u16, buffer: &Buf) -> Option<i64> {
        let mut scripts = self.scripts.borrow_mut();
        let script = &mut scripts[usize::from(tag)];
        if script.is_empty() {
            return (!self.waits.get()).then_some(-19);
        }
        let (what, first, sectors, byte) = script.remove(0);
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&what.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&first.to_ne_bytes());
        self.asked.borrow_mut()[usize::from(tag)] = bytes;
        if what & 0xff == WRITE {
            buffer.write(&vec![byte; buffer.bytes()]);
        }
        Some(0)
    }

    fn note(&self, tag: u16, result: i32, buffer: &Buf) {
        let mut data = vec![0; buffer.bytes()];
        buffer.read(&mut data);
        self.answers.borrow_mut().push((tag, result, data[0]));
    }

    async fn wait(&self, next: Option<i64>) -> i64 {
        match next {
            Some(result) => result,
            None => loop {
                let seen = self.left.seen();
                if !self.waits.get() {
                    // The result of a fetch when the ring has left the device.
                    return -125;
                }
                self.left.after(seen).await;
            },
        }
    }
}

impl Fetch for Driver {
    fn fetch(&self, tag: u16, buffer: &Buf) -> impl Future<Output = i64> {
        self.wait(self.next(tag, buffer))
    }

    fn answer(&self, tag: u16, result: i32, buffer: &Buf) -> impl Future<Output = i64> {
        self.note(tag, result, buffer);
        self.wait(self.next(tag, buffer))
    }

    fn answer_last(&self, tag: u16, result: i32, buffer: &Buf) {
        self.note(tag, result, buffer);
    }

    fn descriptor(&self, tag: u16) -> [u8; 24] {
        self.asked.borrow()[usize::from(tag)]
    }
}

/// A volume of 1 MiB, in its own world.
struct Scene {
    world: World,
    queue: Rc<Queue<Driver>>,
    stop: Arc<Stop>,
    ended: Rc<Cell<u16>>,
}

impl Scene {
    fn new(scripts: Vec<Script>, waits: bool) -> Scene {
        let mut world = World::chosen(1);
        let lane = world.lane();
        let export = Export::new("disk", Stack::new(&lane, Ram::new(2048, 512)));
        let (budget, stop) = (Arc::new(Budget::default()), Arc::new(Stop::new()));
        let driver = Driver::new(scripts);
        driver.waits.set(waits);
        let plan = QueuePlan {
            export: &export,
            io_bytes_max: IO_BYTES_MAX,
            tags: TAGS,
            budget: &budget,
            stop: &stop,
        };
        let queue = Queue::new(driver, &plan);
        let ended = Rc::new(Cell::new(0));
        let tags = queue.driver().asked.borrow().len() as u16;
        for tag in 0..tags {
            let (queue, ended) = (queue.clone(), ended.clone());
            let serve = async move {
                queue.serve(tag).await;
                ended.set(ended.get() + 1);
            };
            assert!(lane.spawn(serve).is_ok(), "a fresh lane has room");
        }
        Scene { world, queue, stop, ended }
    }

    fn run_until_ended(&mut self, tags: u16) {
        let ended = self.ended.clone();
        assert!(self.world.run_until(|| ended.get() == tags), "all tags end");
    }

    fn answers(&self) -> Vec<(u16, i32, u8)> {
        self.queue.driver().answers.borrow().clone()
    }
}

#[test]
fn requests_are_carried_out_and_answered_by_their_length_or_an_error() {
    let script = vec![
        (WRITE, 8, 16, 7),
        (READ, 8, 8, 0),
        (FLUSH, 0, 0, 0),
        (ZERO, 8, 8, 0),
        (READ, 8, 8, 0),
        (READ, 16, 8, 0),
        // Beyond the end, longer than a buffer, and an unsupported operation.
        (READ, 2044, 8, 0),
        (WRITE, 2044, 8, 1),
        (READ, 0, 17, 0),
        (9, 0, 8, 0),
    ];
    let mut scene = Scene::new(vec![script], false);
    scene.run_until_ended(1);
    let answers = scene.answers();
    let results: Vec<i32> = answers.iter().map(|answer| answer.1).collect();
    assert_eq!(results, [8192, 4096, 0, 4096, 4096, 4096, -5, -28, -5, -95]);
    let read: Vec<u8> = [1, 4, 5].map(|index| answers[index].2).to_vec();
    assert_eq!(read, [7, 0, 7]);
}

#[test]
fn each_tag_has_a_buffer_of_its_own() {
    let scripts = (1..=4).map(|tag| {
        let first = u64::from(tag) * 8;
        vec![(WRITE, first, 8, tag), (READ, first, 8, 0)]
    });
    let mut scene = Scene::new(scripts.collect(), false);
    scene.run_until_ended(4);
    for (tag, result, byte) in scene.answers() {
        assert_eq!((result, byte), (4096, tag as u8 + 1));
    }
}

#[test]
fn a_stop_leaves_what_is_not_asked_yet_to_the_next_server() {
    let mut scene = Scene::new(vec![vec![(WRITE, 0, 8, 1)], vec![]], true);
    let queue = scene.queue.clone();
    assert!(scene.world.run_until(|| queue.driver().answers.borrow().len() == 1));
    scene.stop.ask();
    queue.driver().waits.set(false);
    queue.driver().left.notify();
    scene.run_until_ended(2);
    assert_eq!(scene.answers(), [(0, 4096, 1)]);
}
