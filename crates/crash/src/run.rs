//! One run of a history: clients, subject and disk in a world of their own, with a crash wherever
//! something has changed.

use crate::book::Book;
use crate::client::{Client, Scratch};
use crate::device::Disk;
use crate::disk::State;
use crate::finding::Finding;
use crate::laboratory::Laboratory;
use crate::oracle::Oracle;
use crate::plan;
use crate::setup::Setup;
use crate::stamp::{self, GRAIN, Operation};
use crate::subject::Process;
use block::{Memory, Stack};
use lane::{Lane, Random, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Steps after which a run is taken to go on for ever.
const STEPS_MAX: u64 = 400_000;

/// How a run begins: fresh, or where a crash has left things.
pub(crate) struct Beginning {
    pub(crate) disk: State,
    pub(crate) arena: Arc<Memory>,
    pub(crate) oracle: Oracle,
    pub(crate) next: Operation,
    /// Crashes before this run.
    pub(crate) depth: usize,
}

/// A run under way.
pub(crate) struct Run {
    pub(crate) setup: Setup,
    pub(crate) disk: Disk,
    pub(crate) arena: Arc<Memory>,
    pub(crate) book: Rc<RefCell<Book>>,
    pub(crate) random: Random,
    pub(crate) depth: usize,
    process: Rc<dyn Process>,
    world: World,
    buffers: bool,
    changes: u64,
    answers: u64,
}

impl Run {
    /// # Errors
    /// The subject refuses what the arena holds.
    pub(crate) fn new(
        laboratory: &Laboratory<'_>,
        setup: Setup,
        from: Beginning,
    ) -> Result<Run, Finding> {
        let mut random = Random::new(setup.seed ^ 0x5eed);
        let mut world = World::chosen(random.next_u64());
        let disk = Disk::of(from.disk);
        disk.with(|disk| disk.notes_sent = true);
        let subject = laboratory.subject;
        let process = subject.start(&setup, disk.limits(), &from.arena);
        let process = process.map_err(|error| Finding::new("refused", error))?;
        let process: Rc<dyn Process> = Rc::from(process);
        let mut book = Book::new(from.oracle, disk.clone(), from.next, setup.engine.mode);
        let buffers = process.buffers();
        if buffers {
            book.expect_buffer();
        }
        let lanes: Vec<(Lane, Stack)> = (0..setup.lanes)
            .map(|_| {
                let lane = world.lane();
                let below = Stack::new(&lane, disk.on(&lane));
                let stack = process.attach(&lane, below);
                (lane, stack)
            })
            .collect();
        let run = Run {
            book: Rc::new(RefCell::new(book)),
            disk,
            arena: from.arena,
            depth: from.depth,
            process,
            world,
            buffers,
            changes: 0,
            answers: 0,
            random,
            setup,
        };
        Ok(run.with_clients(&lanes))
    }

    fn with_clients(mut self, lanes: &[(Lane, Stack)]) -> Run {
        let plans = plan::draw(&self.setup, &mut self.random);
        let longest = self.setup.sectors_max.max(8);
        let scratch = Rc::new(Scratch::new(self.setup.operations + 1, longest));
        self.book.borrow_mut().clients = plans.len() as u32;
        for plan in plans {
            let (lane, stack) = &lanes[self.random.below(lanes.len() as u64) as usize];
            let client = Client {
                lane: lane.clone(),
                stack: stack.clone(),
                process: self.process.clone(),
                book: self.book.clone(),
                scratch: scratch.clone(),
            };
            lane.spawn(client.run(plan)).expect("a lane has room for some clients");
        }
        self
    }

    /// Runs to the end, with every crash on the way.
    pub(crate) fn go(&mut self, laboratory: &mut Laboratory<'_>) -> Result<(), Finding> {
        while self.book.borrow().clients > 0 {
            if !self.world.step() {
                let state = self.process.describe();
                let text = format!("nothing moves, and a client has no answer:{state}");
                return Err(Finding::new("hang", text));
            }
            if self.world.steps() > STEPS_MAX {
                let state = self.process.describe();
                let text = format!("clients have no answer after {STEPS_MAX} steps:{state}");
                return Err(Finding::new("hang", text));
            }
            self.after_step(laboratory)?;
        }
        self.quieten(laboratory)
    }

    /// C6: once nobody asks for anything, dirty data is written out by its age.
    fn quieten(&mut self, laboratory: &mut Laboratory<'_>) -> Result<(), Finding> {
        if !self.buffers {
            return Ok(());
        }
        let model = &self.setup.model;
        let patience = 4 * self.setup.engine.dirty_age_ns + 200 * model.latency_ns + 10_000_000;
        let deadline = self.world.now() + patience;
        let steps = self.world.steps() + STEPS_MAX;
        while self.process.dirty_blocks() > 0 && self.world.now() < deadline {
            if !self.world.step() || self.world.steps() > steps {
                break;
            }
            self.after_step(laboratory)?;
        }
        self.process.check();
        let dirty = self.process.dirty_blocks();
        if dirty > 0 && self.disk.with(|disk| disk.errors) == [0; 3] {
            let text = format!(
                "{dirty} blocks are dirty {patience} ns after the last answer, with an age limit \
                 of {} ns",
                self.setup.engine.dirty_age_ns
            );
            return Err(Finding::new("C6", text));
        }
        Ok(())
    }

    fn after_step(&mut self, laboratory: &mut Laboratory<'_>) -> Result<(), Finding> {
        let admitted = self.book.borrow_mut().note_admissions();
        self.check_step()?;
        let changes = self.disk.with(|disk| disk.changes);
        let answers = self.book.borrow().answers;
        let changed = changes != self.changes || answers != self.answers;
        (self.changes, self.answers) = (changes, answers);
        if changed || admitted > 0 {
            laboratory.crash(self, changed)?;
        }
        Ok(())
    }

    fn check_step(&mut self) -> Result<(), Finding> {
        if let Some(finding) = self.book.borrow_mut().finding.take() {
            return Err(finding);
        }
        if self.buffers {
            let dirty = self.process.dirty_blocks();
            let most = self.setup.engine.dirty_blocks_max;
            self.book.borrow_mut().dirty_blocks = dirty;
            if dirty > most {
                let text = format!("{dirty} blocks are dirty where at most {most} may be");
                return Err(Finding::new("C6", text));
            }
        }
        let book = self.book.borrow();
        self.disk.with(|disk| {
            if let Some(first) = disk.overwritten {
                let text = format!("the buffer of a write to sector {first} changed in flight");
                return Err(Finding::new("C4", text));
            }
            check_sent(&book.oracle, disk)
        })
    }
}

/// C2 as it happens: what is sent to the disk belongs to the oldest epoch that is not durable.
fn check_sent(oracle: &Oracle, disk: &mut State) -> Result<(), Finding> {
    let sent = std::mem::take(&mut disk.sent);
    let mut newest = 0;
    for write in &sent {
        let stamps = &disk.sent_stamps[write.at..][..write.count as usize * GRAIN];
        for (sector, bytes) in (write.first..).zip(stamps.chunks_exact(GRAIN)) {
            // Rubbish is judged where somebody reads it.
            let Ok(operation) = stamp::decode(bytes, sector) else {
                continue;
            };
            let versions = &oracle.sectors[sector as usize];
            let own = versions.iter().filter(|version| version.operation == operation);
            newest = own.map(|version| version.epoch).fold(newest, u32::max);
        }
    }
    disk.sent = sent;
    disk.sent.clear();
    disk.sent_stamps.clear();
    if newest <= 1 {
        return Ok(());
    }
    check_durable_before(oracle, disk, newest)
}

fn check_durable_before(oracle: &Oracle, disk: &State, epoch: u32) -> Result<(), Finding> {
    for (sector, versions) in (0..).zip(&oracle.sectors) {
        let older = |version: &&_| is_of_epoch_before(version, epoch);
        if versions.iter().filter(older).count() == 0 {
            continue;
        }
        let Ok(durable) = stamp::decode(disk.sector(sector).1, sector) else {
            continue;
        };
        let Ok(epochs) = oracle.judge_sector(sector, durable) else {
            continue; // a crash here is judged anyway
        };
        if epochs.misses < epoch {
            let text = format!(
                "data of epoch {epoch} is sent to the disk while data of epoch {} for sector \
                 {sector} is not durable",
                epochs.misses
            );
            return Err(Finding::new("C2", text));
        }
    }
    Ok(())
}

fn is_of_epoch_before(version: &crate::oracle::Version, epoch: u32) -> bool {
    version.epoch > 0 && version.epoch < epoch
}
