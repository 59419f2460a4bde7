//! One history: clients on some lanes, power cuts at every moment, and lives that follow.

use crate::book::{Book, seen_in};
use crate::scene::{
    Hardware, Images, after_power_cut, changes, cut_in_recovery, failing, hesitating, judge, open,
    read_all, recover, recover_without, run, stacks,
};
use block::{Buf, Extent, Request, Stack};
use crash::{Disk, GRAIN, fill};
use lane::{Lane, Random, World};
use pool::{Pool, SLOT_SECTORS};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Size of a history.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) lives: u32,
    pub(crate) operations: u32,
    /// One of this many moments is tested.
    pub(crate) one_of: u64,
    /// Whether there are two members, of which the second fails, and hardly any flushes: commits
    /// are of several blocks, and only one member has them.
    pub(crate) lean: bool,
}

/// The amount of work.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) cuts: u64,
    pub(crate) cuts_in_recovery: u64,
    pub(crate) losses: u64,
    pub(crate) lives: u64,
    pub(crate) faulty_lives: u64,
}

/// State that clients share.
struct Stage {
    book: RefCell<Book>,
    finding: RefCell<Option<String>>,
    left: Cell<u32>,
    operations: Cell<u64>,
    slots: u32,
    /// Most requests go to this many first slots.
    hot: u32,
    /// Whether a member may fail in this life.
    faulty: bool,
    lean: bool,
}

/// Runs the history of a seed.
///
/// # Errors
/// The broken promise.
pub(crate) fn history(seed: u64, scale: Scale, tally: &mut Tally) -> Result<(), String> {
    let mut random = Random::new(seed);
    let members = if scale.lean { 2 } else { 2 + random.below(3) as usize };
    let hardware = Hardware::random(members, &mut random);
    let mut images = hardware.made(random.next_u64());
    let mut book = Book::new(hardware.slots());
    for _ in 0..scale.lives {
        tally.lives += 1;
        images = life(&hardware, &images, &mut book, scale, &mut random, tally)?;
    }
    Ok(())
}

fn life(
    hardware: &Hardware,
    images: &Images,
    book: &mut Book,
    scale: Scale,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<Images, String> {
    let mut disks = hardware.disks(images, false, random.next_u64());
    let faulty = scale.lean || random.one_in(3);
    if faulty {
        tally.faulty_lives += 1;
        let number = if scale.lean { 1 } else { random.below(disks.len() as u64) as usize };
        disks[number] = failing(&disks[number], hardware, number, random);
    } else if random.one_in(2) {
        disks = disks.iter().zip(&hardware.models).map(|it| hesitating(it, random)).collect();
    }
    let mut world = World::chosen(random.next_u64());
    let first = world.lane();
    let members = stacks(&disks, &first);
    let (on, slots) = (first.clone(), hardware.slots());
    let opened = run(&mut world, &first, async move {
        let shared = open(members.clone()).await?;
        let stack = Stack::new(&on, Pool::attach(&shared, &on, members));
        let seen = read_all(stack.clone(), slots).await?;
        Ok::<_, String>((shared, stack, seen))
    });
    let opened = opened.ok_or("opening hangs")?;
    if faulty && opened.is_err() {
        return Ok(after_power_cut(&disks, random));
    }
    let (shared, stack, seen) = opened?;
    judge(book, &seen)?;
    book.begin(&seen);
    book.faulty |= faulty;
    let mut lanes = vec![(first, stack)];
    for _ in 0..random.below(3) {
        let lane = world.lane();
        let pool = Pool::attach(&shared, &lane, stacks(&disks, &lane));
        let stack = Stack::new(&lane, pool);
        lanes.push((lane, stack));
    }
    let stage = Rc::new(Stage {
        faulty,
        lean: scale.lean,
        book: RefCell::new(book.clone()),
        finding: RefCell::default(),
        left: Cell::new(scale.operations),
        operations: Cell::new(0),
        slots,
        hot: 4 + random.below(u64::from(slots) - 4) as u32,
    });
    for (lane, stack) in &lanes {
        for _ in 0..1 + random.below(3) {
            let client = client(stage.clone(), lane.clone(), stack.clone(), random.fork());
            lane.spawn(client).expect("room for a task");
        }
    }
    let cut_at = 1 + random.below(u64::from(scale.operations));
    let images = cuts(hardware, &disks, &mut world, &stage, scale, cut_at, random, tally)?;
    *book = stage.book.borrow().clone();
    tally.operations += stage.operations.get();
    Ok(images)
}

/// Runs the world, and cuts the power wherever the state has changed. Ends with a cut that counts.
#[allow(clippy::too_many_arguments, reason = "a history has many parts")]
fn cuts(
    hardware: &Hardware,
    disks: &[Disk],
    world: &mut World,
    stage: &Rc<Stage>,
    scale: Scale,
    cut_at: u64,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<Images, String> {
    let mut before = changes(disks);
    // Sometimes until everything has ended.
    let to_the_end = random.one_in(3);
    while world.step() {
        if let Some(finding) = stage.finding.take() {
            return Err(finding);
        }
        let now = changes(disks);
        if now == before {
            continue;
        }
        before = now;
        if random.one_in(scale.one_of) {
            cut(hardware, disks, stage, random, tally)?;
        }
        if !to_the_end && stage.operations.get() >= cut_at {
            break;
        }
    }
    if to_the_end && stage.left.get() > 0 {
        return Err("requests hang".to_owned());
    }
    Ok(after_power_cut(disks, random))
}

/// Cuts the power now; returns the contents when power returns, and when it is cut once more.
fn cut(
    hardware: &Hardware,
    disks: &[Disk],
    stage: &Stage,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    tally.cuts += 1;
    let mut images = after_power_cut(disks, random);
    if random.one_in(4) {
        tally.cuts_in_recovery += 1;
        images = cut_in_recovery(hardware, &images, random);
    }
    let book = stage.book.borrow();
    // A member that continued without the failed one must not be missing.
    if !stage.faulty && random.one_in(4) {
        tally.losses += 1;
        return lose(hardware, &images, &book, random).map_err(|it| format!("after a loss: {it}"));
    }
    let (seen, images) = recover(hardware, &images, random.next_u64())?;
    judge(&book, &seen).map_err(|it| format!("after a power cut: {it}"))?;
    if stage.lean || random.one_in(3) {
        let (again, _) = recover(hardware, &images, random.next_u64())?;
        if again != seen {
            return Err("what was there after a power cut is not there after two".into());
        }
    }
    Ok(())
}

/// Removes a member, then another, and then restores them all. Readable data is valid, and stays
/// the same from then on.
fn lose(
    hardware: &Hardware,
    images: &Images,
    book: &Book,
    random: &mut Random,
) -> Result<(), String> {
    let members = hardware.models.len() as u64;
    let first = random.below(members) as usize;
    let mut gone = vec![Some(first)];
    if members > 2 && random.one_in(2) {
        gone.push(Some((first + 1) % members as usize));
    }
    gone.push(None);
    let (mut images, mut known) = (images.clone(), vec![None; hardware.slots() as usize]);
    for gone in gone {
        let (seen, after) = recover_without(hardware, &images, gone, random.next_u64())?;
        for (slot, (seen, known)) in (0..).zip(seen.iter().zip(&mut known)) {
            if seen.is_none() && gone.is_some() {
                continue;
            }
            book.judge_crash(slot, *seen).map_err(|it| format!("without {gone:?}: {it}"))?;
            if known.replace(*seen).is_some_and(|known| known != *seen) {
                return Err(format!("without {gone:?}: slot {slot} has changed"));
            }
        }
        images = after;
    }
    Ok(())
}

async fn client(stage: Rc<Stage>, lane: Lane, stack: Stack, mut random: Random) {
    while stage.left.get() > 0 {
        stage.left.set(stage.left.get() - 1);
        if random.one_in(8) {
            lane.sleep_until(lane.now() + random.below(4000)).await;
        }
        if let Err(finding) = operation(&stage, &stack, &mut random).await {
            stage.finding.borrow_mut().get_or_insert(finding);
        }
        stage.operations.set(stage.operations.get() + 1);
    }
}

async fn operation(stage: &Stage, stack: &Stack, random: &mut Random) -> Result<(), String> {
    let width = if random.one_in(8) { stage.slots } else { stage.hot };
    let slot = random.below(u64::from(width)) as u32;
    let longest = if random.one_in(8) { 24 } else { 4 };
    let count = 1 + random.below(longest.min(u64::from(stage.slots - slot))) as u32;
    let kind = random.below(20);
    match kind {
        17.. if stage.lean && !random.one_in(8) => change(stage, stack, slot, 1, Some(false)).await,
        0..10 => change(stage, stack, slot, count.min(8), Some(random.one_in(10))).await,
        10..12 => change(stage, stack, slot, count, None).await,
        12..17 => read(stage, stack, slot, count.min(8)).await,
        _ => flush(stage, stack).await,
    }
}

fn extent(slot: u32, count: u32) -> Extent {
    Extent::new(u64::from(slot * SLOT_SECTORS), count * SLOT_SECTORS)
}

/// Sends a write, with or without FUA; without that, a discard or zeroes.
async fn change(
    stage: &Stage,
    stack: &Stack,
    slot: u32,
    count: u32,
    write: Option<bool>,
) -> Result<(), String> {
    let operation = stage.book.borrow_mut().sent(slot, count, write.is_none());
    let at = extent(slot, count);
    let fua = write == Some(true);
    let request = match write {
        Some(fua) => {
            let from = Buf::new(at.count, GRAIN as u32);
            let mut bytes = vec![0; from.bytes()];
            fill(&mut bytes, operation, at.first as u32);
            from.write(&bytes);
            Request::Write { at, from, fua }
        }
        None if operation.is_multiple_of(2) => Request::Discard { at },
        None => Request::Zero { at, fua: false, may_unmap: true },
    };
    match stack.run(request).await {
        Ok(()) => stage.book.borrow_mut().answered(operation, fua),
        Err(error) if !stage.book.borrow().faulty => return Err(format!("a change: {error}")),
        // It received the answer that a flush would have received.
        Err(_) => {
            let now = stage.book.borrow_mut().tick();
            stage.book.borrow_mut().flushed(now, false);
        }
    }
    Ok(())
}

async fn read(stage: &Stage, stack: &Stack, slot: u32, count: u32) -> Result<(), String> {
    let sent = stage.book.borrow_mut().tick();
    let at = extent(slot, count);
    let into = Buf::new(at.count, GRAIN as u32);
    let result = stack.run(Request::Read { at, into: into.clone() }).await;
    let book = stage.book.borrow();
    if let Err(error) = result {
        return if book.faulty { Ok(()) } else { Err(format!("a read: {error}")) };
    }
    let bytes = into.to_vec();
    for (slot, bytes) in (slot..).zip(bytes.chunks_exact(GRAIN * SLOT_SECTORS as usize)) {
        let seen = seen_in(bytes, slot).map_err(|it| format!("a read: {it}"))?;
        book.judge_read(slot, Some(seen), sent).map_err(|it| format!("a read: {it}"))?;
    }
    Ok(())
}

async fn flush(stage: &Stage, stack: &Stack) -> Result<(), String> {
    let sent = stage.book.borrow_mut().tick();
    let result = stack.run(Request::Flush).await;
    let mut book = stage.book.borrow_mut();
    book.flushed(sent, result.is_ok());
    match result {
        Err(error) if !book.faulty => Err(format!("a flush: {error}")),
        _ => Ok(()),
    }
}
