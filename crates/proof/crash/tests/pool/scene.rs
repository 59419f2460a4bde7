//! Simulated members, and a pool on them.

use crate::book::{Book, Seen, seen_in};
use block::{Buf, Discard, Extent, Fua, Request, Stack};
use crash::{Disk, Fault, Faults, GRAIN, Model, State};
use lane::{Lane, Random, World};
use pool::{Layout, MissingDevice, Pool, PoolShared, SLOT_SECTORS};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Contents of each member.
pub(crate) type Images = Vec<Vec<u8>>;

/// The members as hardware.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    pub(crate) models: Vec<Model>,
    pub(crate) layout: Layout,
}

impl Hardware {
    /// Returns members with two kinds of torn units, with and without FUA and discards.
    pub(crate) fn random(members: usize, random: &mut Random) -> Hardware {
        let pick = |random: &mut Random| Model {
            sectors: (85 + 8 * members as u32 + random.below(12) as u32) * SLOT_SECTORS,
            absent: 0,
            unit_sectors: if random.one_in(2) { 1 } else { 8 },
            logical_sectors: 1,
            stamps: 1,
            latency_ns: 1000,
            discard: if random.one_in(3) { Discard::Ignored } else { Discard::Zeroes },
            fua: [Fua::None, Fua::Emulated, Fua::Native][random.below(3) as usize],
            over_link: false,
            instant: false,
            answers_now: false,
        };
        let models: Vec<Model> = (0..members).map(|_| pick(random)).collect();
        let sizes: Vec<u32> = models.iter().map(|model| model.sectors / SLOT_SECTORS).collect();
        let layout = Layout::for_sizes(&sizes, GRAIN as u32).expect("large enough");
        Hardware { models, layout }
    }

    pub(crate) fn slots(&self) -> u32 {
        (self.layout.sectors() / u64::from(SLOT_SECTORS)) as u32
    }

    /// Returns disks with these contents; with `instant` they take no time.
    pub(crate) fn disks(&self, images: &Images, instant: bool, seed: u64) -> Vec<Disk> {
        let each = self.models.iter().zip(images).enumerate();
        each.map(|(number, (model, image))| {
            let model = Model { instant, ..model.clone() };
            let mut state = State::new(model, Faults::default(), seed ^ number as u64);
            state.load(image);
            Disk::of(state)
        })
        .collect()
    }

    /// Returns the members of a new pool.
    pub(crate) fn made(&self, seed: u64) -> Images {
        let blank: Images =
            self.models.iter().map(|model| vec![0; model.sectors as usize * GRAIN]).collect();
        let disks = self.disks(&blank, true, seed);
        let mut world = World::chosen(seed);
        let lane = world.lane();
        let members: Vec<Stack> = stacks(&disks, &lane);
        let made = run(&mut world, &lane, async move {
            pool::create(&members, u128::from(seed) << 3 | 1, false).await
        });
        assert_eq!(made, Some(Ok(self.layout.clone())));
        after_power_cut(&disks, &mut Random::new(seed))
    }
}

/// Returns the same disk with faults.
fn with_faults(disk: &Disk, model: &Model, faults: Faults, random: &mut Random) -> Disk {
    let image = disk.with(|state| state.after_power_cut(&mut Random::new(0)));
    let mut state = State::new(model.clone(), faults, random.next_u64());
    state.load(&image);
    Disk::of(state)
}

/// Returns a disk of which a few reads take much longer than anything else.
pub(crate) fn hesitating((disk, model): (&Disk, &Model), random: &mut Random) -> Disk {
    let count = 1 + random.below(3) as u32;
    let reads = Fault { from: 5 + random.below(60) as u32, count };
    let hang = [reads, Fault::default(), Fault::default()];
    let hang_ns = 10_000 + random.below(80_000);
    with_faults(disk, model, Faults { hang, hang_ns, ..Faults::default() }, random)
}

/// Returns a disk on which writes, or flushes, fail from some time on.
pub(crate) fn failing(
    disk: &Disk,
    hardware: &Hardware,
    number: usize,
    random: &mut Random,
) -> Disk {
    let fault = Fault { from: 3 + random.below(24) as u32, count: 0 };
    let faults = match random.one_in(2) {
        true => Faults { write: fault, ..Faults::default() },
        false => Faults { flush: Fault { from: 3 + fault.from / 3, ..fault }, ..Faults::default() },
    };
    with_faults(disk, &hardware.models[number], faults, random)
}

pub(crate) fn stacks(disks: &[Disk], lane: &Lane) -> Vec<Stack> {
    disks.iter().map(|disk| Stack::new(lane, disk.on(lane))).collect()
}

pub(crate) fn after_power_cut(disks: &[Disk], random: &mut Random) -> Images {
    disks.iter().map(|disk| disk.with(|state| state.after_power_cut(random))).collect()
}

pub(crate) fn changes(disks: &[Disk]) -> u64 {
    disks.iter().map(|disk| disk.with(|state| state.changes())).sum()
}

/// Runs one future to its end; None: nothing happens any more.
pub(crate) fn run<T: 'static>(
    world: &mut World,
    lane: &Lane,
    work: impl Future<Output = T> + 'static,
) -> Option<T> {
    let done = Rc::new(RefCell::new(None));
    let result = done.clone();
    lane.spawn(async move {
        let value = work.await;
        *result.borrow_mut() = Some(value);
    })
    .expect("room for a task");
    world.run_until(|| done.borrow().is_some());
    done.take()
}

/// Opens a pool on a lane.
pub(crate) async fn open(members: Vec<Stack>) -> Result<Arc<PoolShared>, String> {
    open_without(members, None).await
}

/// Opens a pool of which one member may be missing.
async fn open_without(members: Vec<Stack>, gone: Option<usize>) -> Result<Arc<PoolShared>, String> {
    let each = members.into_iter().enumerate();
    let members: Vec<Option<Stack>> =
        each.map(|(number, member)| Some(member).filter(|_| gone != Some(number))).collect();
    pool::open(&members).await.map_err(|refusal| refusal.to_string())
}

/// Reads every slot.
pub(crate) async fn read_all(stack: Stack, slots: u32) -> Result<Vec<Seen>, String> {
    let mut all = Vec::new();
    for slot in 0..slots {
        all.push(read_slot(&stack, slot).await?);
    }
    Ok(all)
}

async fn read_slot(stack: &Stack, slot: u32) -> Result<Seen, String> {
    let into = Buf::new(SLOT_SECTORS, GRAIN as u32);
    let at = Extent::new(u64::from(slot * SLOT_SECTORS), SLOT_SECTORS);
    match stack.run(Request::Read { at, into: into.clone() }).await {
        Ok(()) => seen_in(&into.to_vec(), slot).map(Some),
        Err(_) => Ok(None),
    }
}

/// Restores power: opens the pool, reads every slot, and cuts the power again.
pub(crate) fn recover(
    hardware: &Hardware,
    images: &Images,
    seed: u64,
) -> Result<(Vec<Seen>, Images), String> {
    recover_without(hardware, images, None, seed)
}

/// Recovers while a member may be missing, and leaves it unchanged.
pub(crate) fn recover_without(
    hardware: &Hardware,
    images: &Images,
    gone: Option<usize>,
    seed: u64,
) -> Result<(Vec<Seen>, Images), String> {
    let disks = hardware.disks(images, true, seed);
    let mut world = World::chosen(seed);
    let lane = world.lane();
    let (slots, on) = (hardware.slots(), lane.clone());
    let mut members = stacks(&disks, &lane);
    let work = async move {
        let shared = open_without(members.clone(), gone).await?;
        if let Some(gone) = gone {
            let limits = members[gone].limits().clone();
            members[gone] = Stack::new(&on, MissingDevice::new(limits));
        }
        let stack = Stack::new(&on, Pool::attach(&shared, &on, members));
        read_all(stack, slots).await
    };
    let seen = run(&mut world, &lane, work).unwrap_or(Err("opening hangs".to_owned()))?;
    Ok((seen, after_power_cut(&disks, &mut Random::new(seed))))
}

/// Cuts the power again while the pool is being opened.
pub(crate) fn cut_in_recovery(hardware: &Hardware, images: &Images, random: &mut Random) -> Images {
    let disks = hardware.disks(images, false, random.next_u64());
    let mut world = World::chosen(random.next_u64());
    let lane = world.lane();
    let members = stacks(&disks, &lane);
    lane.spawn(async move { _ = open(members).await }).expect("room for a task");
    let until = 1 + random.below(60);
    let begun = changes(&disks);
    world.run_until(|| changes(&disks) - begun >= until);
    after_power_cut(&disks, random)
}

/// Checks that every slot is as the book allows after a power cut.
pub(crate) fn judge(book: &Book, seen: &[Seen]) -> Result<(), String> {
    let mut each = seen.iter().enumerate();
    each.try_for_each(|(slot, seen)| book.judge_crash(slot as u32, *seen))
}
