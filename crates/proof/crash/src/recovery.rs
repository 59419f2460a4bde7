//! A process that starts after a crash, reads everything back, and flushes.
//!
//! One of these serves all states of a history: world, lane, memory and buffers are kept, only the
//! process is new. The disk below is instant, because here only contents matter; runs that follow a
//! crash in real (virtual) time are in `run.rs`.

use crate::device::Disk;
use crate::disk::State;
use crate::finding::Finding;
use crate::midway;
use crate::model::{Faults, Model};
use crate::setup::Setup;
use crate::stamp::GRAIN;
use crate::subject::{Process, Subject};
use block::{Buf, Durability, Extent, Memory, Request, Result, Stack};
use lane::{Lane, Prices, Random, World};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Steps after which a recovery is taken to run for ever.
const STEPS_MAX: u64 = 100_000;

/// One in so many recoveries runs in the world where a seed chooses.
const CHOSEN_ONE_IN: u64 = 8;

/// How far the reading task has come.
#[derive(Clone, Copy, Default)]
struct Progress {
    ended: bool,
    read: Option<Result>,
    flushed: Option<Result>,
}

/// Requests to a recovered process, and the answers that it may give.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// It is asked for a flush.
    pub(crate) flushes: bool,
    /// The flush may fail: see [`crate::book::Doubt`].
    pub(crate) may_fail: bool,
}

/// A world with one lane, used again and again.
struct Place {
    world: World,
    lane: Lane,
}

impl Place {
    fn new(mut world: World) -> Place {
        Place { lane: world.lane(), world }
    }
}

/// A reusable place for recoveries.
pub(crate) struct Recovery {
    /// Tasks take turns: fast.
    plain: Place,
    /// The seed chooses: for a part of the states. (The runs that follow a crash all do so.)
    chosen: Place,
    disk: Disk,
    pub(crate) arena: Arc<Memory>,
    buffer: Buf,
    progress: Rc<Cell<Progress>>,
    /// What was read back.
    pub(crate) stamps: Vec<u8>,
    /// The process lets the first flush of every client fail.
    doubts: bool,
}

impl Recovery {
    pub(crate) fn new(setup: &Setup, arena_bytes: usize) -> Recovery {
        // By then the disk has grown, where it does.
        let model = Model { instant: true, absent: 0, ..setup.model.clone() };
        let (sectors, grain) = (model.sectors, model.grain());
        let buffer = Buf::new(sectors / model.stamps, grain);
        Recovery {
            plain: Place::new(World::timed(Prices::default())),
            chosen: Place::new(World::chosen(setup.seed)),
            disk: Disk::new(model, Faults::default(), setup.seed),
            arena: Arc::new(Memory::heap(arena_bytes)),
            buffer,
            progress: Rc::default(),
            stamps: vec![0; sectors as usize * GRAIN],
            doubts: false,
        }
    }

    /// The disk that the process will find.
    pub(crate) fn disk<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.disk.with(change)
    }

    /// A process starts on the arena, and is killed in the middle of that: the next one finds what it
    /// has left. (A process that is refused leaves what it found.)
    pub(crate) fn die(&mut self, subject: &dyn Subject, setup: &Setup, random: &mut Random) {
        let one_of = setup.engine.slots * 2;
        subject.watch_stores(midway::watch(&self.arena, one_of, random));
        let process = subject.start(setup, self.disk.limits(), &self.arena);
        subject.watch_stores(0);
        drop(process);
        for memory in midway::take() {
            self.arena.write(0, &memory);
            midway::give_back(memory);
        }
    }

    /// Starts the subject on arena and disk as they are, reads all blocks, lets it write back what it
    /// recovered, and flushes: whatever the killed process promised, this one makes durable. (Where nothing can be recovered, not every state is flushed.) What was
    /// read is in `stamps`.
    pub(crate) fn run(
        &mut self,
        subject: &dyn Subject,
        setup: &Setup,
        seed: u64,
        expected: Expected,
    ) -> std::result::Result<(), Finding> {
        let setup = &flushing(setup);
        let chosen = is_chosen(seed);
        let place = if chosen { &mut self.chosen } else { &mut self.plain };
        if chosen {
            place.world.restart(seed);
        } else {
            place.world.abandon();
        }
        let lane = place.lane.clone();
        let process = match subject.start(setup, self.disk.limits(), &self.arena) {
            Ok(process) => process,
            Err(error) => return Err(Finding::new("refused", error)),
        };
        let below = Stack::new(&lane, self.disk.on(&lane));
        let stack = process.attach(&lane, below);
        self.progress.set(Progress::default());
        self.spawn_reader(&lane, stack, process.as_ref(), expected.flushes || chosen);
        let world = if chosen { &mut self.chosen.world } else { &mut self.plain.world };
        let steps = world.steps();
        while !self.progress.get().ended {
            if !world.step() || world.steps() > steps + STEPS_MAX {
                let text = format!("a recovered process does not answer:{}", process.describe());
                return Err(Finding::new("hang", text));
            }
        }
        if chosen {
            process.check();
        }
        self.doubts = process.connect().take_doubt().is_err();
        self.judge_answers(self.progress.get(), expected.may_fail)?;
        self.buffer.read(&mut self.stamps);
        Ok(())
    }

    fn spawn_reader(&self, on: &Lane, stack: Stack, process: &dyn Process, flushes: bool) {
        let lane = on.clone();
        let progress = self.progress.clone();
        let buffer = self.buffer.clone();
        let cut = process.cut_sectors();
        let most = match cut {
            0 => stack.limits().io_max_bytes / 512,
            cut => cut,
        };
        let reader = async move {
            let mut first = 0;
            let mut result = Ok(());
            while first < buffer.sectors() && result.is_ok() {
                let count = most.min(buffer.sectors() - first);
                let at = Extent::new(u64::from(first), count);
                let into = buffer.part(first, count);
                result = serve(&lane, &stack, Request::Read { at, into }).await;
                first += count;
            }
            let read = Some(result);
            progress.set(Progress { read, ..progress.get() });
            let flushed = match flushes {
                true => Some(serve(&lane, &stack, Request::Flush).await),
                false => None,
            };
            progress.set(Progress { flushed, ended: true, read });
        };
        on.spawn(reader).expect("an empty lane has room");
    }

    /// Whether everything could be read. (A disk may have failed for good.)
    pub(crate) fn has_read(&self) -> bool {
        matches!(self.progress.get().read, Some(Ok(())))
    }

    /// C8: a recovered process answers well, unless the disk had failed before the crash.
    fn judge_answers(
        &self,
        progress: Progress,
        may_fail: bool,
    ) -> std::result::Result<(), Finding> {
        let [reads, writes, flushes] = self.disk.with(|disk| disk.errors);
        if let Some(Err(error)) = progress.read
            && reads + writes + flushes == 0
        {
            let text = format!("a recovered process answers a read with: {error}");
            return Err(Finding::new("C8", text));
        }
        if let Some(Err(error)) = progress.flushed
            && writes + flushes == 0
            && !may_fail
        {
            let text = format!("a recovered process answers a flush with: {error}");
            return Err(Finding::new("C8", text));
        }
        Ok(())
    }

    /// C8: a volume that had failed is still failed in the next process.
    pub(crate) fn judge_failed(&self, subject: &dyn Subject) -> std::result::Result<(), Finding> {
        match self.progress.get().flushed {
            Some(Ok(())) if subject.failure_outlives_kill() => {
                let text = "the volume had failed, but the process that follows answers a flush";
                Err(Finding::new("C8", text))
            }
            _ => Ok(()),
        }
    }

    /// After the flush all that was read is durable, unless clients are answered that it may not be.
    /// (A disk that had given errors before the crash can not be held to this: it may have lost what
    /// it still shows. One that has failed a flush in the kill can.)
    pub(crate) fn judge_flushed(&self, before: [u32; 3]) -> std::result::Result<(), Finding> {
        let progress = self.progress.get();
        self.disk.with(|disk| {
            let [reads, writes, _] = disk.errors;
            let honest = before == [0; 3] && reads + writes == 0 && !self.doubts;
            let honest = honest && matches!(progress.flushed, Some(Ok(())));
            if !honest || disk.durable == self.stamps {
                return Ok(());
            }
            let differs = |sector: &u32| {
                let at = *sector as usize * GRAIN;
                disk.durable[at..at + GRAIN] != self.stamps[at..at + GRAIN]
            };
            let sector = (0..disk.model.sectors).find(differs);
            let text = format!(
                "a recovered process answered a flush, but what it had shown in sector {} is not \
                 durable",
                sector.unwrap_or_default()
            );
            Err(Finding::new("C7", text))
        })
    }
}

/// Whether a recovery with this seed runs in the world where the seed chooses.
pub(crate) fn is_chosen(seed: u64) -> bool {
    seed.is_multiple_of(CHOSEN_ONE_IN)
}

/// The same setup, where a flush makes durable, with no more slots than there must be.
pub(crate) fn flushing(setup: &Setup) -> Setup {
    let mut setup = setup.clone();
    setup.engine.durability = Durability::Flush;
    setup.engine.slots = setup.engine.slots_least;
    setup
}

async fn serve(lane: &Lane, stack: &Stack, request: Request) -> Result {
    let now = stack.try_now(&request);
    lane.turn().await;
    match now {
        Some(result) => result,
        None => {
            let result = stack.run(request).await;
            lane.turn().await;
            result
        }
    }
}
