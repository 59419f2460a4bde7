//! Parts of blocks: the other bytes of the block stay, whatever is written there at the same time.

use crate::common::world;
use block::{
    Block, Buf, Discard, Error, Extent, Fua, Kind, Limits, Padding, Ram, Request, Result, Stack,
    Stall,
};
use lane::{Lane, Random, World};
use layers::{Top, TopShared};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// Bytes of a sector in these tests: few, so that changes overlap often.
const GRAIN: u32 = 16;
/// The device, in bytes.
const BYTES: usize = 64 * GRAIN as usize;

/// A slow memory that records its requests, and fails on request.
#[derive(Clone)]
struct Device {
    lane: Lane,
    below: Stack,
    limits: Rc<Limits>,
    log: Rc<RefCell<Vec<String>>>,
    reads_fail: Rc<Cell<bool>>,
    stall: Option<Arc<Stall>>,
}

impl Device {
    fn new(lane: &Lane, change: impl FnOnce(&mut Limits)) -> Device {
        let below = Stack::new(lane, Ram::new(64, GRAIN));
        let mut limits = below.limits().clone();
        change(&mut limits);
        let (log, reads_fail) = Default::default();
        let (lane, limits) = (lane.clone(), Rc::new(limits));
        Device { lane, below, limits, log, reads_fail, stall: None }
    }

    fn note(&self, request: &Request) {
        let at = request.extent().unwrap_or(Extent::new(0, 0));
        let (what, fua) = match request {
            Request::Read { .. } => ("read", false),
            Request::Write { fua, .. } => ("write", *fua),
            Request::Zero { fua, .. } => ("zero", *fua),
            Request::Discard { .. } => ("discard", false),
            Request::Flush => ("flush", false),
            Request::Advise { .. } => ("advise", false),
        };
        let fua = if fua { " fua" } else { "" };
        self.log.borrow_mut().push(format!("{what} {}+{}{fua}", at.first, at.count));
    }

    fn bytes(&self) -> Vec<u8> {
        let all = Buf::new(64, GRAIN);
        let request = Request::Read { at: Extent::new(0, 64), into: all.clone() };
        self.below.try_now(&request).expect("memory").expect("sound");
        all.to_vec()
    }
}

impl Block for Device {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        self.note(&request);
        assert_eq!(self.limits.check(&request), Ok(()), "{request:?}");
        self.lane.sleep_until(self.lane.now() + 10_000).await;
        let result = match &request {
            Request::Read { into, .. } if self.reads_fail.get() => {
                into.write(&vec![0xee; into.bytes()]);
                Err(Error::new(Kind::Io, "read"))
            }
            Request::Discard { .. } if self.limits.discard == Discard::Ignored => Ok(()),
            _ => self.below.run(request).await,
        };
        self.lane.sleep_until(self.lane.now() + 10_000).await;
        result
    }

    fn stall(&self) -> Option<&Arc<Stall>> {
        self.stall.as_ref()
    }
}

fn on_top_of(device: &Device) -> Stack {
    let below = Stack::new(&device.lane, device.clone());
    let shared = TopShared::new(below.limits());
    Stack::new(&device.lane, Top::attach(&shared, None, below))
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    Write(u8),
    Zero,
    Discard,
}

/// Changes bytes as an export does: a change of whole blocks is an ordinary request.
async fn change(stack: &Stack, what: Change, offset: u64, length: u32, fua: bool) -> Result {
    let (at, padding) = stack.limits().around(offset, length).expect("inside");
    let request = match what {
        Change::Zero => Request::Zero { at, fua, may_unmap: true },
        Change::Discard => Request::Discard { at },
        Change::Write(byte) => {
            let from = Buf::new(at.count, GRAIN);
            let mut bytes = vec![0x99; from.bytes()];
            bytes[padding.head as usize..][..length as usize].fill(byte);
            from.write(&bytes);
            Request::Write { at, from, fua }
        }
    };
    match padding {
        Padding::NONE => stack.run(request).await,
        padding => stack.run_padded_unless_stalled(request, padding).await,
    }
}

async fn read(stack: &Stack, offset: u64, length: u32) -> Result<Vec<u8>> {
    let (at, padding) = stack.limits().around(offset, length).expect("inside");
    let into = Buf::new(at.count, GRAIN);
    stack.run_padded(Request::Read { at, into: into.clone() }, padding).await?;
    Ok(into.to_vec()[padding.head as usize..][..length as usize].to_vec())
}

fn run<T: 'static>(world: &mut World, lane: &Lane, task: impl Future<Output = T> + 'static) -> T {
    let done = Rc::new(RefCell::new(None));
    let into = done.clone();
    lane.spawn(async move { *into.borrow_mut() = Some(task.await) }).expect("a slot is free");
    while world.step() {}
    let done = done.borrow_mut().take();
    done.expect("it has ended")
}

/// Blocks of one sector, and of eight.
const BLOCKS: [u32; 2] = [512, 4096];

#[test]
fn bytes_read_back_and_those_beside_them_stay() {
    for block in BLOCKS {
        let mut world = world();
        let lane = world.lane();
        let device = Device::new(&lane, |limits| limits.block_logical_bytes = block);
        let stack = on_top_of(&device);
        assert!(stack.limits().unaligned);
        run(&mut world, &lane, async move {
            let mut expected = vec![0u8; BYTES];
            let mut random = Random::new(u64::from(block));
            for number in 0..600u32 {
                let offset = random.below(BYTES as u64);
                let length = 1 + random.below((BYTES as u64 - offset).min(300));
                let part = offset as usize..(offset + length) as usize;
                let byte = (number % 251) as u8;
                let what = [Change::Write(byte), Change::Zero, Change::Discard]
                    [random.below(5).saturating_sub(2) as usize];
                let byte = if let Change::Write(byte) = what { byte } else { 0 };
                expected[part].fill(byte);
                change(&stack, what, offset, length as u32, false).await.expect("sound");
                let offset = random.below(BYTES as u64);
                let length = 1 + random.below(BYTES as u64 - offset);
                let shown = read(&stack, offset, length as u32).await.expect("sound");
                assert_eq!(shown, expected[offset as usize..(offset + length) as usize]);
            }
        });
    }
}

/// Several clients, each with its own bytes in every block: interleaved, so that they always
/// overlap. One of them changes whole blocks, which belong to it alone.
#[test]
fn clients_that_change_parts_of_one_block_lose_nothing() {
    for seed in 0..40 {
        let mut world = World::chosen(seed);
        let lane = world.lane();
        let block = BLOCKS[seed as usize % 2];
        let device = Device::new(&lane, |limits| limits.block_logical_bytes = block);
        let stack = on_top_of(&device);
        let expected = Rc::new(RefCell::new(vec![0u8; BYTES]));
        for client in 0..4u64 {
            let (stack, expected) = (stack.clone(), expected.clone());
            lane.spawn(async move {
                let mut random = Random::new(seed * 4 + client);
                for number in 0..24u64 {
                    let byte = (client * 60 + number) as u8 + 1;
                    let block_bytes = u64::from(stack.limits().block_bytes());
                    let blocks = BYTES as u64 / block_bytes;
                    // The last client zeroes whole blocks, with the bytes of all clients.
                    let (what, offset, length) = match client {
                        3 => (Change::Zero, random.below(blocks) * block_bytes, block_bytes),
                        own => {
                            let part = block_bytes / 4;
                            let first = random.below(blocks) * block_bytes;
                            (Change::Write(byte), first + own * part, 1 + random.below(part))
                        }
                    };
                    change(&stack, what, offset, length as u32, false).await.expect("sound");
                    if what == Change::Zero {
                        continue;
                    }
                    let shown = read(&stack, offset, length as u32).await.expect("sound");
                    let own = shown.iter().all(|found| *found == byte || *found == 0);
                    assert!(own, "seed {seed}: client {client} finds {shown:?} for {byte}");
                    let mut expected = expected.borrow_mut();
                    expected[offset as usize..][..length as usize].fill(byte);
                }
            })
            .expect("a slot is free");
        }
        while world.step() {}
        // A byte that is not zero is the newest of its client.
        for (at, (found, newest)) in device.bytes().iter().zip(&*expected.borrow()).enumerate() {
            assert!(found == newest || *found == 0, "seed {seed}, byte {at}: {found}, {newest}");
        }
    }
}

#[test]
fn a_change_of_a_part_and_one_of_the_whole_wait_for_each_other() {
    for part_first in [false, true] {
        let mut world = world();
        let lane = world.lane();
        let device = Device::new(&lane, |_| ());
        let stack = on_top_of(&device);
        let (whole, part) = ((Change::Write(1), 16, 16), (Change::Write(2), 20, 4));
        let (first, second) = if part_first { (part, whole) } else { (whole, part) };
        let ends = Rc::new(RefCell::new(Vec::new()));
        for (when_ns, (what, offset, length)) in
            [(0, first), (1_000, second), (2_000, (Change::Write(3), 512, 16))]
        {
            let (stack, lane, ends) = (stack.clone(), lane.clone(), ends.clone());
            lane.clone()
                .spawn(async move {
                    lane.sleep_until(when_ns).await;
                    change(&stack, what, offset, length, false).await.expect("sound");
                    ends.borrow_mut().push((offset, lane.now()));
                })
                .expect("a slot is free");
        }
        while world.step() {}
        let mut expected = [1; 16];
        if !part_first {
            expected[4..8].fill(2);
        }
        assert_eq!(device.bytes()[16..32], expected, "the second one came second");
        assert!(ends.borrow().contains(&(512, 22_000)), "what is elsewhere does not wait");
    }
}

#[test]
fn a_read_that_fails_changes_nothing() {
    for what in [Change::Write(5), Change::Zero, Change::Discard] {
        let mut world = world();
        let lane = world.lane();
        let device = Device::new(&lane, |_| ());
        let stack = on_top_of(&device);
        let failing = device.reads_fail.clone();
        let before = vec![7; BYTES];
        let shown = run(&mut world, &lane, async move {
            change(&stack, Change::Write(7), 0, BYTES as u32, false).await.expect("sound");
            failing.set(true);
            // Both ends are partial, with a whole block in between.
            let result = change(&stack, what, 10, 40, false).await;
            failing.set(false);
            assert_eq!(result.map_err(|error| error.kind), Err(Kind::Io));
            // The range is free again.
            change(&stack, Change::Write(7), 12, 2, false).await.expect("sound");
            read(&stack, 0, BYTES as u32).await.expect("sound")
        });
        assert_eq!(shown, before, "{what:?}");
    }
}

#[test]
fn only_the_ends_are_read_and_fua_is_kept() {
    let mut world = world();
    let lane = world.lane();
    let device = Device::new(&lane, |limits| limits.fua = Fua::Native);
    let stack = on_top_of(&device);
    run(&mut world, &lane, async move {
        change(&stack, Change::Write(1), 10, 70, true).await.expect("sound");
        change(&stack, Change::Zero, 10, 70, true).await.expect("sound");
        change(&stack, Change::Discard, 16, 20, false).await.expect("sound");
        change(&stack, Change::Zero, 3, 5, false).await.expect("sound");
    });
    let expected = [
        ["read 0+1", "write 0+5 fua"].as_slice(),
        &["read 0+1", "write 0+1 fua", "zero 1+4 fua"],
        &["read 2+1", "write 2+1", "discard 1+1"],
        &["read 0+1", "write 0+1"],
    ];
    assert_eq!(*device.log.borrow(), expected.concat());
}

#[test]
fn where_discards_change_nothing_their_ends_do_not_either() {
    let mut world = world();
    let lane = world.lane();
    let device = Device::new(&lane, |limits| limits.discard = Discard::Ignored);
    let stack = on_top_of(&device);
    run(&mut world, &lane, async move {
        change(&stack, Change::Discard, 10, 70, false).await.expect("nothing to do");
        change(&stack, Change::Discard, 3, 5, false).await.expect("nothing to do");
    });
    assert_eq!(*device.log.borrow(), ["discard 1+4"]);
}

#[test]
fn what_is_longer_than_the_device_takes_goes_in_pieces() {
    let mut world = world();
    let lane = world.lane();
    let device = Device::new(&lane, |limits| limits.io_max_bytes = 4 * 512);
    let stack = on_top_of(&device);
    run(&mut world, &lane, async move {
        change(&stack, Change::Write(1), 1, 160, false).await.expect("sound");
        let shown = read(&stack, 0, 165).await.expect("sound");
        assert!(shown[0] == 0 && shown[1..161] == [1; 160] && shown[161..] == [0; 4]);
    });
    let log = device.log.borrow();
    assert_eq!(log[..5], ["read 0+1", "read 10+1", "write 0+4", "write 4+4", "write 8+3"]);
}

/// Same for a change that arrives while the backing does not answer, and continues when it answers
/// again.
#[test]
fn what_came_while_the_backing_was_stalled_is_not_done_later() {
    let mut world = world();
    let lane = world.lane();
    let mut device = Device::new(&lane, |_| ());
    let stall = Arc::new(Stall::default());
    device.stall = Some(stall.clone());
    let stack = on_top_of(&device);
    let result = run(&mut world, &lane, async move {
        stall.set(true);
        let from = Buf::new(1, GRAIN);
        from.write(&[2; GRAIN as usize]);
        let at = Extent::new(0, 1);
        let padding = Padding { head: 3, tail: 0 };
        let mut running = std::pin::pin!(
            stack.run_padded_unless_stalled(Request::Write { at, from, fua: false }, padding)
        );
        // Polled once during the stall: the client then gets the error.
        let result =
            std::future::poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
        stall.set(false);
        result
    });
    assert!(matches!(result, Poll::Ready(Err(_))), "{result:?}");
    assert_eq!(device.bytes()[..16], [0; 16]);
}

/// C8: when a client got an error because the backing does not answer, its change must not take
/// effect later.
#[test]
fn what_only_waited_when_the_backing_stalled_is_not_done_later() {
    for waits_in_part in [true, false] {
        let mut world = world();
        let lane = world.lane();
        let mut device = Device::new(&lane, |_| ());
        let stall = Arc::new(Stall::default());
        device.stall = Some(stall.clone());
        let stack = on_top_of(&device);
        let (first, second) = (stack.clone(), stack.clone());
        let answers = Rc::new(RefCell::new(Vec::new()));
        let (log, later) = (answers.clone(), lane.clone());
        lane.spawn(async move { _ = change(&first, Change::Write(1), 3, 4, false).await })
            .expect("a slot is free");
        lane.spawn(async move {
            later.sleep_until(1_000).await;
            let (offset, length) = if waits_in_part { (9, 2) } else { (0, 16) };
            let (at, padding) = second.limits().around(offset, length).expect("inside");
            let from = Buf::new(at.count, GRAIN);
            from.write(&vec![2; from.bytes()]);
            let request = Request::Write { at, from, fua: false };
            let answer = match padding {
                Padding::NONE => second.run_unless_stalled(request).await,
                padding => second.run_padded_unless_stalled(request, padding).await,
            };
            log.borrow_mut().push(answer.map_err(|error| error.kind));
            stall.set(false);
        })
        .expect("a slot is free");
        let (stall, stalling) = (device.stall.clone().expect("set"), lane.clone());
        lane.spawn(async move {
            // The first change is writing, and the second one waits.
            stalling.sleep_until(25_000).await;
            stall.set(true);
            stalling.wake_all();
        })
        .expect("a slot is free");
        while world.step() {}
        assert_eq!(*answers.borrow(), [Err(Kind::Io)]);
        let mut expected = [0; 16];
        expected[3..7].fill(1);
        assert_eq!(device.bytes()[..16], expected, "the first one was on its way");
        let again = stack.clone();
        run(&mut world, &lane, async move {
            change(&again, Change::Write(3), 0, 16, false).await.expect("the range is free again");
        });
    }
}

/// C8: the same where the stall begins and ends between any two polls of a change that waits for
/// its range.
#[test]
fn a_stall_that_ends_before_the_next_poll_is_noticed() {
    let mut dropped = 0;
    for polls in 0..12 {
        // A world that chooses: each `turn` is a poll.
        let mut world = World::chosen(1);
        let lane = world.lane();
        let mut device = Device::new(&lane, |_| ());
        let stall = Arc::new(Stall::default());
        device.stall = Some(stall.clone());
        let (stack, log) = (on_top_of(&device), device.log.clone());
        let (is_sent, answer) = run(&mut world, &lane, async move {
            // While a part of a block is being changed, changes of whole blocks take ranges.
            let mut part = std::pin::pin!(change(&stack, Change::Write(1), 3, 4, false));
            let from = Buf::new(1, GRAIN);
            from.write(&[2; GRAIN as usize]);
            let request = Request::Write { at: Extent::new(8, 1), from, fua: false };
            let mut whole = std::pin::pin!(stack.run_unless_stalled(request));
            std::future::poll_fn(|context| {
                _ = part.as_mut().poll(context);
                for _ in 0..polls {
                    _ = whole.as_mut().poll(context);
                }
                let is_sent = log.borrow().iter().any(|line| line == "write 8+1");
                stall.set(true);
                let answer = whole.as_mut().poll(context);
                stall.set(false);
                Poll::Ready((is_sent, answer))
            })
            .await
        });
        assert!(matches!(answer, Poll::Ready(Err(_))), "{polls} polls: {answer:?}");
        if !is_sent {
            dropped += 1;
            assert_eq!(device.bytes()[128..144], [0; 16], "after {polls} polls");
        }
    }
    assert!(dropped > 1, "it waits for its range: {dropped}");
}
