//! A process that starts after a crash, reads all data back, and flushes.
//!
//! One of these serves all states of a history: world, lane, memory and buffers are reused, only
//! the process is new. The disk below is instant, because only contents matter here; runs that
//! follow a crash in real (virtual) time are in `run.rs`.

use crate::device::Disk;
use crate::disk::State;
use crate::finding::Finding;
use crate::link::{Link, LinkLane, settle_former, table_memory};
use crate::midway;
use crate::model::{Faults, Model};
use crate::run::Run;
use crate::setup::Setup;
use crate::stamp::{GRAIN, Shown};
use crate::subject::{Objects, Subject};
use block::{Buf, Compress, Durability, Extent, LinkDown, Memory, Request, Result, Stack};
use lane::{Lane, Prices, Random, World};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Number of steps after which a recovery counts as endless.
const STEPS_MAX: u64 = 100_000;

/// One of this many recoveries runs in the world in which a seed chooses.
const CHOSEN_ONE_IN: u64 = 8;

/// Progress of the reading task.
#[derive(Clone, Copy, Default)]
struct Progress {
    ended: bool,
    read: Option<Result>,
    flushed: Option<Result>,
}

/// Requests to a recovered process, and its allowed answers.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// Whether it keeps clean blocks.
    pub(crate) keeps_clean: bool,
    /// Whether a flush is sent.
    pub(crate) flushes: bool,
    /// Whether the flush may fail: see [`crate::book::Doubt`].
    pub(crate) may_fail: bool,
}

/// A world with one lane, which is reused.
struct Environment {
    world: World,
    lane: Lane,
}

impl Environment {
    fn new(mut world: World) -> Environment {
        Environment { lane: world.lane(), world }
    }
}

/// A reusable place for recoveries.
pub(crate) struct Recovery {
    /// Tasks take turns: fast.
    plain: Environment,
    /// The seed chooses: for a part of the states. (The runs that follow a crash all do so.)
    chosen: Environment,
    disk: Disk,
    pub(crate) arena: Arc<Memory>,
    /// The table of the fence, if the disk is a server's.
    table: Option<Arc<Memory>>,
    /// Sectors, and contents that a change of the killed process may still write to them.
    late: Vec<(u32, [u8; GRAIN])>,
    buffer: Buf,
    progress: Rc<Cell<Progress>>,
    /// The data read back.
    pub(crate) stamps: Vec<u8>,
    /// Whether the process fails the first flush of every client.
    doubts: bool,
    /// The compressed blocks of the process.
    pub(crate) objects: Objects,
}

impl Recovery {
    pub(crate) fn new(setup: &Setup, arena_bytes: usize) -> Recovery {
        // By then the disk has grown, if it does.
        let model = Model { instant: true, absent: 0, ..setup.model.clone() };
        let (sectors, grain) = (model.sectors, model.grain());
        let buffer = Buf::new(sectors / model.stamps, grain);
        Recovery {
            plain: Environment::new(World::timed(Prices::default())),
            chosen: Environment::new(World::chosen(setup.seed)),
            disk: Disk::new(model, Faults::default(), setup.seed),
            arena: Arc::new(Memory::heap(arena_bytes)),
            table: setup.link.map(|_| table_memory()),
            late: Vec::new(),
            buffer,
            progress: Rc::default(),
            stamps: vec![0; sectors as usize * GRAIN],
            doubts: false,
            objects: Objects::default(),
        }
    }

    /// Accesses the disk that the process will find.
    pub(crate) fn disk<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.disk.with(change)
    }

    /// Reads the answers that the killed process of a run has left on its connections to a server.
    /// Returns whether changes may be lost.
    pub(crate) fn settle_former(&mut self, subject: &dyn Subject, run: &mut Run) -> bool {
        let (Some(table), Some(from), Some(plan)) = (&self.table, &run.table, run.setup.link)
        else {
            return false;
        };
        from.copy(0, table, 0, table.bytes());
        let is_lost =
            self.disk(|disk| settle_former(disk, table, plan.is_encrypted, 0, &mut run.random));
        if is_lost {
            subject.note_changes_lost(&self.arena);
        }
        let mut late = std::mem::take(&mut self.late);
        late.clear();
        self.disk(|disk| {
            for sector in 0..disk.model.sectors {
                late.extend(disk.late_stamps(sector).map(|stamp| (sector, stamp)));
            }
        });
        self.late = late;
        is_lost
    }

    /// Starts a process on the arena, and kills it during the start: the next one finds the memory
    /// it left. (A process that refuses the arena leaves it unchanged.)
    pub(crate) fn kill_during_start(
        &mut self,
        subject: &dyn Subject,
        setup: &Setup,
        random: &mut Random,
    ) {
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

    /// Starts the subject on arena and disk as they are, reads all blocks, lets it write the
    /// recovered data back, and flushes: all promises of the killed process are then durable. (If
    /// nothing can be recovered, not every state is flushed.) The data read is in `stamps`.
    pub(crate) fn run(
        &mut self,
        subject: &dyn Subject,
        setup: &Setup,
        seed: u64,
        expected: Expected,
    ) -> std::result::Result<(), Finding> {
        let mut setup = flushing(setup);
        setup.engine.keeps_clean = expected.keeps_clean;
        let setup = &setup;
        let chosen = is_chosen(seed);
        let environment = if chosen { &mut self.chosen } else { &mut self.plain };
        if chosen {
            environment.world.restart(seed);
        } else {
            environment.world.abandon();
        }
        let lane = environment.lane.clone();
        let process = match subject.start(setup, self.disk.limits(), &self.arena) {
            Ok(process) => process,
            Err(error) => return Err(Finding::new("refused", error)),
        };
        let below = self.attach(&lane);
        let stack = process.attach(&lane, below);
        self.progress.set(Progress::default());
        let cut = match setup.engine.compress {
            Compress::Off => process.cut_sectors(),
            // A read of several blocks is rarely answered from compressed ones.
            _ => cache::BLOCK_SECTORS,
        };
        self.spawn_reader(&lane, stack, cut, expected.flushes || chosen);
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
        self.objects = process.objects();
        self.judge_answers(self.progress.get(), expected.may_fail)?;
        self.buffer.read(&mut self.stamps);
        Ok(())
    }

    /// Returns the disk as the process sees it.
    fn attach(&self, lane: &Lane) -> Stack {
        let now_ns = lane.now();
        let is_served = self.disk(|disk| {
            disk.server.is_some() && {
                let server = disk.server();
                server.move_clock(server.clock_ns(0), now_ns);
                true
            }
        });
        match &self.table {
            Some(table) if is_served => {
                let link = Link::begin(&self.disk, table, now_ns);
                Stack::new(lane, LinkLane::new(&link, lane))
            }
            _ => Stack::new(lane, self.disk.on(lane)),
        }
    }

    /// Spawns the reading task. `cut`: sectors of each of its reads; 0: as many as possible.
    fn spawn_reader(&self, on: &Lane, stack: Stack, cut: u32, flushes: bool) {
        let lane = on.clone();
        let progress = self.progress.clone();
        let buffer = self.buffer.clone();
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

    /// Whether all data could be read. (A disk may have failed for good.)
    pub(crate) fn has_read(&self) -> bool {
        matches!(self.progress.get().read, Some(Ok(())))
    }

    /// Checks C8: a recovered process answers with success, unless the disk had failed before the
    /// crash.
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

    /// Checks C8: a volume that had failed is still failed in the next process.
    pub(crate) fn judge_failed(&self, subject: &dyn Subject) -> std::result::Result<(), Finding> {
        match self.progress.get().flushed {
            Some(Ok(())) if subject.failure_outlives_kill() => {
                let text = "the volume had failed, but the process that follows answers a flush";
                Err(Finding::new("C8", text))
            }
            _ => Ok(()),
        }
    }

    /// Checks C9: after another program has written to the disk between two processes, the second
    /// shows that data, or writes its own over it.
    pub(crate) fn judge_foreign(&self, before: [u32; 3]) -> std::result::Result<(), Finding> {
        self.judge_flushed(before).map_err(|finding| {
            let text = "another program wrote to the disk while no process served it";
            Finding::new("C9", format!("{text}: {}", finding.text))
        })
    }

    /// Checks that after the flush all data that was read is durable, unless clients receive a
    /// doubt. (A disk that had returned errors before the crash is exempt: it may have lost data
    /// that it still shows. One that has failed a flush in the kill is not.)
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
                let durable = &disk.durable[at..at + GRAIN];
                // "The fence holds changes, not reads. After a kill, reads may return the former
                // contents of a range whose change was not answered, until the server executes it"
                // (C15): here, between the read and the end of the flush.
                let shown = &self.stamps[at..at + GRAIN];
                let is_late = |(late, stamp): &(u32, [u8; GRAIN])| {
                    late == sector && (stamp == durable || stamp == shown)
                };
                durable != shown && !self.late.iter().any(is_late)
            };
            let sector = (0..disk.model.sectors).find(differs);
            let Some(sector) = sector else { return Ok(()) };
            let at = sector as usize * GRAIN;
            let text = format!(
                "a recovered process answered a flush, but what it had shown in sector {sector} is \
                 not durable: {} was shown, and{} is",
                Shown(sector, &self.stamps[at..at + GRAIN]),
                Shown(sector, &disk.durable[at..at + GRAIN])
            );
            Err(Finding::new("C7", text))
        })
    }
}

/// Whether a recovery with this seed runs in the world in which the seed chooses.
pub(crate) fn is_chosen(seed: u64) -> bool {
    seed.is_multiple_of(CHOSEN_ONE_IN)
}

/// Whether a recovery with this seed keeps clean blocks.
pub(crate) fn keeps_clean(seed: u64) -> bool {
    seed >> 32 & 1 == 1
}

/// Returns the same setup with the durability `flush`, and with the minimum number of slots.
pub(crate) fn flushing(setup: &Setup) -> Setup {
    let mut setup = setup.clone();
    setup.engine.durability = Durability::Flush;
    setup.engine.slots = setup.engine.slots_least;
    // No connection ends in a recovery. A watchdog could fire early there.
    setup.link.iter_mut().for_each(|plan| plan.policy = LinkDown::Wait);
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
