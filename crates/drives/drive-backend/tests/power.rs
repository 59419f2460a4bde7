//! Power cuts compared with a simple model: flushed data is there, unflushed data is old or new in
//! whole slots of 4 KiB, and a client that did not flush gets an error.

use block::{Block, Buf, Discard, Error, Extent, Request};
use drive_backend::{Keep, Modelled, Shared};
use drives::{Model, Options, Random};
use lane::{Lane, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const SLOTS: u64 = 160;
const CLIENTS: u64 = 4;
/// Slots that only one client writes.
const REGION: u64 = SLOTS / CLIENTS;
/// The kind of request that is a FUA write.
const FUA: u32 = 1;
/// Longer than any request of these clients takes.
const SECOND: u64 = 1_000_000_000;

/// The contents of each sector of a slot: a stamp that names the slot and the write. 0: zeros.
type Version = [u64; 8];

/// The possible contents of a slot: the versions since the last one that is known to be durable.
#[derive(Clone)]
struct Slot {
    versions: Vec<Version>,
    /// The oldest that a power cut may restore.
    durable: usize,
    /// The last of them that was answered.
    answered: usize,
}

struct World_ {
    slots: Vec<Slot>,
    stamp: u64,
    /// Counts power cuts.
    life: u64,
    failed: u64,
    done: u64,
}

type Known = Rc<RefCell<World_>>;

fn small(name: &str) -> Model {
    let text = match name {
        "disk" => "like = \"wd-velociraptor-1000\"\ntitle = \"t\"".to_owned(),
        _ => format!(
            "like = \"samsung-840-evo-120\"\ntitle = \"t\"\n\
             [nand]\ndies = [2, \"test\"]\nblocks = [40, \"test\"]\npages = [6, \"test\"]\n\
             [capacity]\nuser_bytes = [1048576, \"test\"]\n\
             [map]\nblocks = [\"{}\", \"test\"]\nlog_blocks = [3, \"test\"]\n\
             kind = [\"{}\", \"test\"]\nbytes = [65536, \"test\"]\n\
             [slc]\nstatic_bytes = [{}, \"test\"]\n\
             [buffer]\nprotected = [{}, \"test\"]\n",
            if name == "hybrid" { "hybrid" } else { "pages" },
            if name == "paged" { "cached" } else { "flat" },
            if name == "slc" { 131_072 } else { 0 },
            name == "protected",
        ),
    };
    Model::parse(name, &text).expect("a sound model")
}

fn shared(name: &str) -> Arc<Shared> {
    let options = Options { user_bytes: Some(SLOTS * 4096), ..Options::default() };
    Shared::new(&small(name), &options, Keep::Data).expect("a sound drive")
}

fn buffer(stamps: &[u64]) -> Buf {
    let buf = Buf::new(stamps.len() as u32, 512);
    let bytes: Vec<u8> = stamps.iter().flat_map(|stamp| stamp.to_le_bytes().repeat(64)).collect();
    buf.write(&bytes);
    buf
}

/// Returns the stamps of a buffer; each sector must be of one piece.
fn stamps(buf: &Buf) -> Vec<u64> {
    let bytes = buf.to_vec();
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let sectors = words.chunks_exact(64);
    sectors
        .map(|sector| {
            assert!(sector.iter().all(|word| *word == sector[0]), "a torn sector");
            sector[0]
        })
        .collect()
}

fn known() -> Known {
    let slot = Slot { versions: vec![[0; 8]], durable: 0, answered: 0 };
    let slots = vec![slot; SLOTS as usize];
    Rc::new(RefCell::new(World_ { slots, stamp: 0, life: 0, failed: 0, done: 0 }))
}

impl World_ {
    /// Records a change of sectors; returns the stamps to write.
    fn change(&mut self, at: Extent, zeros: bool) -> Vec<u64> {
        let sectors = at.first..at.end();
        let mut written = Vec::new();
        for slot in at.first / 8..at.end().div_ceil(8) {
            self.stamp += 1;
            let stamp = if zeros { 0 } else { slot << 40 | self.stamp };
            let known = &mut self.slots[slot as usize];
            let mut next = *known.versions.last().expect("a version");
            for (sector, held) in (slot * 8..).zip(&mut next) {
                if sectors.contains(&sector) {
                    *held = stamp;
                    written.push(stamp);
                }
            }
            known.versions.push(next);
        }
        written
    }

    fn answered(&mut self, at: Extent) {
        for slot in &mut self.slots[at.first as usize / 8..at.end().div_ceil(8) as usize] {
            slot.answered = slot.versions.len() - 1;
        }
    }

    fn flushed(&mut self, covered: &[usize]) {
        for (slot, covered) in self.slots.iter_mut().zip(covered) {
            slot.durable = slot.durable.max(*covered);
        }
    }

    /// Records the answer to a request; `covered` are the versions that had been answered when it
    /// was sent.
    fn record_answer(&mut self, kind: u32, at: Extent, covered: &[usize]) {
        self.done += 1;
        match kind {
            0 => self.flushed(covered),
            1..12 => self.answered(at),
            _ => {}
        }
        if kind == FUA {
            self.flushed(covered);
            for slot in &mut self.slots[at.first as usize / 8..at.end().div_ceil(8) as usize] {
                slot.durable = slot.answered;
            }
        }
    }

    fn covered(&self) -> Vec<usize> {
        self.slots.iter().map(|slot| slot.answered).collect()
    }
}

/// Runs one client in its own region, until its first request fails.
async fn client(drive: Modelled, known: Known, lane: Lane, region: u64, mut random: Random) {
    let life = known.borrow().life;
    let trims = drive.limits().discard == Discard::Zeroes;
    loop {
        let first = region * REGION * 8;
        let start = first + u64::from(random.below(REGION as u32 * 8 - 32));
        let (start, count) = match random.below(4) {
            0 => (start, 1 + random.below(20)),
            _ => (start / 8 * 8, 8 * (1 + random.below(4))),
        };
        let at = Extent::new(start, count);
        let covered = known.borrow().covered();
        let kind = random.below(16);
        let fua = kind == FUA;
        let result = match kind {
            0 => drive.run(Request::Flush).await,
            1..10 => {
                let from = buffer(&known.borrow_mut().change(at, false));
                drive.run(Request::Write { at, from, fua }).await
            }
            10 if trims => {
                known.borrow_mut().change(at, true);
                drive.run(Request::Discard { at }).await
            }
            10 | 11 => {
                known.borrow_mut().change(at, true);
                drive.run(Request::Zero { at, fua: false, may_unmap: random.bits() & 1 == 0 }).await
            }
            _ => read(&drive, &known, at).await,
        };
        if result.is_err() {
            known.borrow_mut().failed += 1;
            return;
        }
        assert_eq!(known.borrow().life, life, "answered after the power was cut");
        known.borrow_mut().record_answer(kind, at, &covered);
        if random.below(8) == 0 {
            lane.sleep_until(lane.now() + u64::from(random.below(3_000_000))).await;
        }
    }
}

/// Checks that a client's own region holds its last writes.
async fn read(drive: &Modelled, known: &Known, at: Extent) -> Result<(), Error> {
    let into = Buf::new(at.count, 512);
    drive.run(Request::Read { at, into: into.clone() }).await?;
    for (sector, stamp) in (at.first..).zip(stamps(&into)) {
        let known = known.borrow();
        let newest = known.slots[sector as usize / 8].versions.last().expect("a version");
        assert_eq!(newest[sector as usize % 8], stamp, "sector {sector}");
    }
    Ok(())
}

/// Checks after a power cut that each slot shows one of its possible versions, which is the only
/// one from then on. Returns the number of answered versions that are lost.
async fn look(drive: &Modelled, known: &Known) -> u64 {
    let mut gone = 0;
    for slot in 0..SLOTS {
        let (at, into) = (Extent::new(slot * 8, 8), Buf::new(8, 512));
        drive.run(Request::Read { at, into: into.clone() }).await.expect("it has power");
        let found: Version = stamps(&into).try_into().expect("eight sectors");
        let mut known = known.borrow_mut();
        let known = &mut known.slots[slot as usize];
        let allowed = &known.versions[known.durable..];
        assert!(allowed.contains(&found), "slot {slot}: {found:x?} of {allowed:x?}");
        gone += u64::from(!known.versions[known.answered..].contains(&found));
        *known = Slot { versions: vec![found], durable: 0, answered: 0 };
    }
    gone
}

/// Runs clients, a power cut during their requests, and a check of the contents; three times.
/// Returns how many answered versions were lost, and how many requests were answered.
fn run(name: &'static str, seed: u64) -> (u64, u64) {
    let mut world = World::chosen(seed);
    let lanes = [world.lane(), world.lane()];
    let (shared, known, mut random) = (shared(name), known(), Random::new(seed));
    let mut lost = 0;
    for _ in 0..3 {
        for region in 0..CLIENTS {
            let lane = &lanes[region as usize % 2];
            let drive = Modelled::attach(&shared, lane);
            let random = Random::new(random.bits());
            lane.spawn(client(drive, known.clone(), lane.clone(), region, random))
                .expect("a slot is free");
        }
        let (lane, cut_known, cut_shared) = (lanes[0].clone(), known.clone(), shared.clone());
        let when = lane.now() + u64::from(random.below(40_000_000));
        let dice = random.bits();
        let taken = Rc::new(RefCell::new(None));
        let cell = taken.clone();
        lanes[0]
            .spawn(async move {
                // In small steps: this world's clock tends to jump to the next event.
                while lane.now() < when {
                    lane.sleep_until((lane.now() + 50_000).min(when)).await;
                }
                *cell.borrow_mut() = Some(cut_shared.power_cut(lane.now(), dice).slots);
                cut_known.borrow_mut().life += 1;
            })
            .expect("a slot is free");
        while world.step() {}
        assert_eq!(known.borrow().failed, CLIENTS, "every client was told");
        known.borrow_mut().failed = 0;
        let taken = taken.take().expect("the power was cut");
        let (lane, looks, looked) = (lanes[1].clone(), known.clone(), shared.clone());
        let gone = Rc::new(RefCell::new(None));
        let found = gone.clone();
        lanes[1]
            .spawn(async move {
                let drive = Modelled::attach(&looked, &lane);
                assert!(drive.run(Request::Flush).await.is_err(), "it has no power");
                lane.sleep_until(lane.now() + SECOND).await;
                looked.power_on(lane.now());
                lane.turn().await;
                let gone = look(&drive, &looks).await;
                let has_failed = drive.run(Request::Flush).await.is_err();
                assert_eq!(has_failed, taken > 0, "the first flush tells of what is lost");
                assert!(drive.run(Request::Flush).await.is_ok(), "once is enough");
                assert_eq!(look(&drive, &looks).await, 0, "what is there stays");
                *found.borrow_mut() = Some(gone);
            })
            .expect("a slot is free");
        while world.step() {}
        let gone = gone.take().expect("it has looked");
        assert!(gone <= taken, "{gone} answered versions of {taken} lost ones");
        lost += gone;
    }
    let done = known.borrow().done;
    (lost, done)
}

#[test]
fn a_power_cut_shows_old_or_new_and_keeps_what_was_flushed() {
    for name in ["plain", "slc", "hybrid", "paged", "disk"] {
        let runs: Vec<_> = (0..16).map(|seed| run(name, seed)).collect();
        let lost: u64 = runs.iter().map(|(lost, _)| lost).sum();
        let done: u64 = runs.iter().map(|(_, done)| done).sum();
        assert!(lost > 20, "{name}: only {lost} answered versions were ever lost");
        assert!(done > 300, "{name}: only {done} requests were answered");
    }
}

#[test]
fn a_protected_buffer_keeps_what_was_answered() {
    for seed in 0..10 {
        assert_eq!(run("protected", seed).0, 0, "seed {seed}");
    }
}

/// Runs one future on a new lane to its end.
fn alone<F: Future<Output = ()> + 'static>(make: impl FnOnce(Lane) -> F) {
    let mut world = World::chosen(1);
    let lane = world.lane();
    lane.spawn(make(lane.clone())).expect("a slot is free");
    while world.step() {}
    assert_eq!(lane.tasks(), 0, "it has ended");
}

#[test]
fn what_is_overwritten_after_a_flush_falls_back_to_what_was_flushed() {
    alone(|lane| async move {
        let shared = shared("plain");
        let drive = Modelled::attach(&shared, &lane);
        let at = Extent::new(0, 8);
        let write = |stamp: u64, fua| Request::Write { at, from: buffer(&[stamp; 8]), fua };
        drive.run(write(1, false)).await.expect("sound");
        drive.run(Request::Flush).await.expect("sound");
        drive.run(write(2, true)).await.expect("sound");
        // The newest two are in the buffer when the power fails.
        drive.run(write(3, false)).await.expect("sound");
        drive.run(write(4, false)).await.expect("sound");
        lane.turn().await;
        assert_eq!(shared.power_cut(lane.now(), 7).slots, 1);
        lane.turn().await;
        let into = Buf::new(8, 512);
        let read = Request::Read { at, into: into.clone() };
        assert!(drive.run(read.clone()).await.is_err(), "it has no power");
        shared.power_on(lane.now());
        drive.run(read).await.expect("it has power");
        assert_eq!(stamps(&into), [2; 8]);
    });
}

#[test]
fn a_power_cut_with_nothing_at_risk_takes_nothing_and_fails_no_flush() {
    alone(|lane| async move {
        let shared = shared("plain");
        let drive = Modelled::attach(&shared, &lane);
        let at = Extent::new(0, 8);
        drive.run(Request::Write { at, from: buffer(&[1; 8]), fua: true }).await.expect("sound");
        lane.turn().await;
        assert_eq!(shared.power_cut(lane.now(), 7).slots, 0);
        lane.turn().await;
        shared.power_on(lane.now());
        drive.run(Request::Flush).await.expect("nothing was lost");
        let report = {
            lane.turn().await;
            shared.report()
        };
        assert_eq!((report.power_cuts, report.slots_lost, report.is_on), (1, 0, true));
    });
}

#[test]
fn only_what_was_written_takes_memory_and_discards_give_it_back() {
    alone(|lane| async move {
        let model = Model::preset("intel-660p-1000").expect("a preset");
        let options = Options { user_bytes: Some(16 << 30), ..Options::default() };
        let shared = Shared::new(&model, &options, Keep::Data).expect("a sound drive");
        let drive = Modelled::attach(&shared, &lane);
        let sectors = drive.limits().sectors;
        assert_eq!(sectors, (16 << 30) / 512);
        let at = Extent::new(sectors - 4096, 4096);
        drive
            .run(Request::Write { at, from: Buf::new(4096, 512), fua: false })
            .await
            .expect("sound");
        assert_eq!(shared.report().data_bytes, 2 << 20);
        lane.turn().await;
        let status = drive.status(Extent::new(0, sectors as u32)).await.expect("known");
        assert!(status[0].zero && status[0].sectors == sectors - 4096);
        assert!(!status[1].zero);
        let hole = Extent::new(sectors - 4096 + 80, 8);
        drive.run(Request::Discard { at: hole }).await.expect("sound");
        let status = drive.status(Extent::new(hole.first - 1, 12)).await.expect("known");
        let found: Vec<_> = status.iter().map(|stretch| (stretch.sectors, stretch.zero)).collect();
        assert_eq!(found, [(1, false), (8, true), (3, false)]);
        drive.run(Request::Discard { at }).await.expect("sound");
        assert_eq!(shared.report().data_bytes, 0);
    });
}
