//! A read during which its slot could have been given to another block.

use crate::book::seen_in;
use crate::scene::{Hardware, open, run, stacks};
use block::{Block, Buf, Extent, Limits, Request, Result, Stack};
use crash::{GRAIN, fill};
use lane::{Lane, Random, World};
use pool::{Pool, SLOT_SECTORS};
use std::cell::Cell;
use std::rc::Rc;

/// A member whose reads can be made to wait.
struct Hesitant {
    below: Stack,
    asked: Rc<Cell<bool>>,
}

impl Block for Hesitant {
    fn limits(&self) -> &Limits {
        self.below.limits()
    }

    async fn run(&self, request: Request) -> Result {
        while matches!(request, Request::Read { .. }) && self.asked.get() {
            self.below.lane().rest().await;
        }
        self.below.run(request).await
    }
}

fn extent(slot: u32) -> Extent {
    Extent::new(u64::from(slot * SLOT_SECTORS), SLOT_SECTORS)
}

async fn write(stack: &Stack, slot: u32, operation: u32) {
    let at = extent(slot);
    let from = Buf::new(at.count, GRAIN as u32);
    let mut bytes = vec![0; from.bytes()];
    fill(&mut bytes, operation, at.first as u32);
    from.write(&bytes);
    stack.run(Request::Write { at, from, fua: false }).await.expect("a sound disk");
}

/// Overwrites a slot while a read of it is in progress, and uses all free places.
///
/// # Errors
/// The read returns data that was never in its slot.
pub(crate) fn slow_read(seed: u64) -> std::result::Result<(), String> {
    let mut random = Random::new(seed);
    let members = 2 + random.below(3) as usize;
    let hardware = Hardware::random(members, &mut random);
    let images = hardware.made(random.next_u64());
    let disks = hardware.disks(&images, false, random.next_u64());
    let mut world = World::chosen(random.next_u64());
    let lane = world.lane();
    let members = stacks(&disks, &lane);
    let (on, slots) = (lane.clone(), hardware.slots());
    let work = async move {
        let shared = open(members.clone()).await?;
        let asked = Rc::new(Cell::new(false));
        let hesitant = |below| Stack::new(&on, Hesitant { below, asked: asked.clone() });
        let members = members.into_iter().map(hesitant).collect();
        let stack = Stack::new(&on, Pool::attach(&shared, &on, members));
        write(&stack, 0, 2).await;
        stack.run(Request::Flush).await.expect("a sound disk");
        asked.set(true);
        let read = slow_reader(&on, &stack);
        on.sleep_until(on.now() + 10_000).await;
        write(&stack, 0, 3).await;
        stack.run(Request::Flush).await.expect("a sound disk");
        on.sleep_until(on.now() + 20_000).await;
        for slot in 1..slots / 2 {
            write(&stack, slot, 4).await;
        }
        asked.set(false);
        loop {
            if let Some(seen) = read.take() {
                return seen.map(|_| ()).map_err(|it| format!("a slow read: {it}"));
            }
            on.sleep_until(on.now() + 10_000).await;
        }
    };
    run(&mut world, &lane, work).unwrap_or(Err("it hangs".to_owned()))
}

/// Reads the first slot; returns the result.
fn slow_reader(lane: &Lane, stack: &Stack) -> Rc<Cell<Option<std::result::Result<u32, String>>>> {
    let (stack, found) = (stack.clone(), Rc::new(Cell::new(None)));
    let place = found.clone();
    lane.spawn(async move {
        let into = Buf::new(SLOT_SECTORS, GRAIN as u32);
        let request = Request::Read { at: extent(0), into: into.clone() };
        stack.run(request).await.expect("a sound disk");
        place.set(Some(seen_in(&into.to_vec(), 0)));
    })
    .expect("room for a task");
    found
}
