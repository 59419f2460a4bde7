//! One run of a history: clients, subject and disk in a separate world, step by step. `laboratory/`
//! decides where it crashes.

use crate::book::{Book, Doubt};
use crate::client::{Client, Scratch};
use crate::cold_starts::Moment;
use crate::device::Disk;
use crate::disk::State;
use crate::finding::Finding;
use crate::life::{Life, Watched};
use crate::link_events::Events;
use crate::midway;
use crate::oracle::{Oracle, Version};
use crate::pending::Pending;
use crate::plan;
use crate::setup::Setup;
use crate::stamp::{self, GRAIN, Operation};
use crate::subject::Subject;
use block::Memory;
use lane::{Random, World};
use layers::ArrivalOrder;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The start of a run: fresh, or from the state after a crash.
pub(crate) struct Beginning {
    pub(crate) disk: State,
    pub(crate) arena: Arc<Memory>,
    /// The table of the fence, if the disk is a server's.
    pub(crate) table: Option<Arc<Memory>>,
    pub(crate) oracle: Oracle,
    pub(crate) next: Operation,
    /// Requests that were not answered, which clients send again.
    pub(crate) again: Vec<Pending>,
    /// Number of crashes before this run.
    pub(crate) depth: usize,
    /// Doubt about a flush that was in progress at the crash.
    pub(crate) doubt: Doubt,
    /// Whether the volume may have failed because of its link before the crash.
    pub(crate) may_have_failed: bool,
}

/// A run in progress.
pub(crate) struct Run {
    pub(crate) setup: Setup,
    pub(crate) disk: Disk,
    pub(crate) arena: Arc<Memory>,
    pub(crate) table: Option<Arc<Memory>>,
    pub(crate) book: Rc<RefCell<Book>>,
    pub(crate) random: Random,
    pub(crate) depth: usize,
    /// Operations whose changes were admitted in the last step.
    pub(crate) admitted: Vec<Operation>,
    pub(crate) world: World,
    pub(crate) life: Life,
    /// An earlier owner that was not waited for, and its remaining steps.
    pub(crate) owner_before: Option<(Life, u64)>,
    pub(crate) takeovers: u32,
    /// Number of changes admitted in all steps.
    admissions: u64,
    changes: u64,
    answers: u64,
}

impl Run {
    /// Starts a process; its clients follow with [`Run::send_clients`].
    ///
    /// # Errors
    /// The subject refuses the contents of the arena.
    pub(crate) fn new(
        subject: &dyn Subject,
        setup: Setup,
        from: Beginning,
    ) -> Result<Run, Finding> {
        let mut random = Random::new(setup.seed ^ 0x5eed);
        let mut world = World::chosen(random.next_u64());
        let disk = Disk::of(from.disk);
        disk.with(|disk| disk.notes_sent = true);
        disk.with(|disk| (disk.errors_delivered, disk.flushed) = ([0; 3], false));
        let one_of = setup.limits.midway_one_of;
        let table = from.table.as_ref();
        let watched = Watched { memory: &from.arena, table, one_of, random: &mut random };
        let life = Life::start(subject, &setup, &disk, &mut world, watched)?;
        let mut book = Book::new(from.oracle, disk.clone(), from.next, &setup.engine);
        book.doubt = from.doubt;
        if let Some(plan) = setup.link {
            book.watch_link(life.watch(plan.policy, from.may_have_failed));
        }
        disk.with(|disk| disk.exclusive = life.process.orders_changes());
        if life.process.buffers() {
            book.expect_buffer();
        }
        book.begin_process(life.process.as_ref());
        let run = Run {
            book: Rc::new(RefCell::new(book)),
            disk,
            arena: from.arena,
            table: from.table,
            depth: from.depth,
            admitted: Vec::new(),
            world,
            life,
            owner_before: None,
            takeovers: setup.takeovers,
            admissions: 0,
            changes: 0,
            answers: 0,
            random,
            setup,
        };
        run.begin_events();
        Ok(run)
    }

    /// Begins the events of the process's link, if it has one.
    pub(crate) fn begin_events(&self) {
        let (Some(link), Some(plan)) = (&self.life.link, self.setup.link) else { return };
        let events = Events {
            link: link.clone(),
            book: self.book.clone(),
            plan,
            random: self.random.clone(),
            latency_ns: self.setup.model.latency_ns,
        };
        let lane = &self.life.lanes[0].0;
        lane.spawn(events.happen(lane.clone())).expect("a lane has room for some tasks");
    }

    /// Starts clients, with their unanswered requests and with new plans.
    pub(crate) fn send_clients(&mut self, again: &[Pending]) {
        let plans = plan::draw(&self.setup, again, &mut self.random);
        let operations = plans.iter().flatten().map(|step| step.act.operations()).sum();
        let model = &self.setup.model;
        let longest = self.setup.sectors_max.max(model.block_sectors());
        // With the blocks around it.
        let longest = longest + if self.setup.bytes { 2 * model.logical_sectors } else { 0 };
        let scratch = Rc::new(Scratch::new(operations, longest, model.grain()));
        self.book.borrow_mut().clients = plans.len() as u32;
        for plan in plans {
            let lanes = &self.life.lanes;
            let (lane, stack) = &lanes[self.random.below(lanes.len() as u64) as usize];
            let client = Client {
                lane: lane.clone(),
                stack: stack.clone(),
                process: self.life.process.clone(),
                book: self.book.clone(),
                scratch: scratch.clone(),
                observed_one_in: self.setup.observed_one_in,
                order: ArrivalOrder::new(2),
                alive: self.life.alive.clone(),
            };
            lane.spawn(client.run(plan)).expect("a lane has room for some clients");
        }
    }

    /// Runs one step. False: nothing moves.
    pub(crate) fn step(&mut self, subject: &dyn Subject) -> bool {
        let stores = midway::watch(&self.arena, self.setup.limits.midway_one_of, &mut self.random);
        subject.watch_stores(stores);
        let moved = self.world.step();
        subject.watch_stores(0);
        let now_ns = self.world.now();
        self.disk.with(|disk| disk.land_due(now_ns));
        self.leave_owner_before();
        self.book.borrow_mut().note_admissions(&mut self.admitted);
        self.admissions += self.admitted.len() as u64;
        moved
    }

    /// Returns this moment.
    pub(crate) fn moment(&self) -> Moment {
        let clock = self.book.borrow().oracle.clock;
        Moment { run: self.setup.seed, clock, admissions: self.admissions }
    }

    /// Ends the earlier process that nothing waited for, once its steps are used up.
    fn leave_owner_before(&mut self) {
        let is_over = |(_, until): &mut (Life, u64)| self.world.steps() >= *until;
        if let Some((life, _)) = self.owner_before.take_if(is_over) {
            life.end();
        }
    }

    /// Whether the disk has changed, or a client was answered, since the last call.
    pub(crate) fn has_changed(&mut self) -> bool {
        let changes = self.disk.with(|disk| disk.changes);
        let answers = self.book.borrow().answers;
        let changed = changes != self.changes || answers != self.answers;
        (self.changes, self.answers) = (changes, answers);
        changed
    }

    /// Checks C8: the process has counted every error of the disk that it has received.
    ///
    /// # Errors
    /// Its count differs.
    pub(crate) fn check_errors(&self) -> Result<(), Finding> {
        let Some(counted) = self.life.process.errors() else { return Ok(()) };
        let delivered = self.disk.with(|disk| disk.errors_delivered).map(u64::from);
        if counted == delivered {
            return Ok(());
        }
        let text = format!(
            "of the disk's errors (reads, changes, flushes) {delivered:?} were answered, and {counted:?} \
             are counted"
        );
        Err(Finding::new("C8", text))
    }

    /// Notes the changes that were sent to a server in this step.
    fn note_resending(&self) {
        let mut book = self.book.borrow_mut();
        self.disk.with(|disk| {
            for write in disk.sent.iter().filter(|_| disk.server.is_some()) {
                let stamps = &disk.sent_stamps[write.at..][..write.count as usize * GRAIN];
                for (sector, bytes) in (write.first..).zip(stamps.chunks_exact(GRAIN)) {
                    if let Ok(operation) = stamp::decode(bytes, sector) {
                        book.oracle.record_resending(sector, operation);
                    }
                }
            }
        });
    }

    /// Checks the promises that hold at every moment.
    pub(crate) fn check_step(&mut self) -> Result<(), Finding> {
        if let Some(finding) = self.book.borrow_mut().finding.take() {
            return Err(finding);
        }
        self.life.process.check_step();
        if self.life.process.buffers() {
            let dirty = self.life.process.dirty_blocks();
            let most = self.book.borrow().operator.dirty_blocks_max();
            self.book.borrow_mut().dirty_blocks = dirty;
            if dirty > most {
                let text = format!("{dirty} blocks are dirty where at most {most} may be");
                return Err(Finding::new("C6", text));
            }
        }
        self.note_resending();
        let book = self.book.borrow();
        self.disk.with(|disk| {
            if disk.overtaken {
                let text = "a process uses the disk while the one before it has I/O under way";
                return Err(Finding::new("C15", text));
            }
            if let Some(first) = disk.server.as_ref().and_then(|server| server.unfenced) {
                let text = format!(
                    "a change is sent while an earlier one of sector {first} may still be executed"
                );
                return Err(Finding::new("C15", text));
            }
            if let Some(first) = disk.crowded {
                let text = format!("two changes of the block of sector {first} are in flight");
                return Err(Finding::new("C10", text));
            }
            if let Some(first) = disk.overwritten {
                let text = format!("the buffer of a write to sector {first} changed in flight");
                return Err(Finding::new("C4", text));
            }
            check_sent(&book.oracle, disk, self.life.process.buffers())
        })
    }
}

/// Checks C2 and C7 at each request: a change sent to the disk belongs to the oldest epoch that is
/// not durable, and recovered data is sent only after a flush. `buffers`: data that an earlier
/// process absorbed is sent from a write buffer.
fn check_sent(oracle: &Oracle, disk: &mut State, buffers: bool) -> Result<(), Finding> {
    let sent = std::mem::take(&mut disk.sent);
    let mut newest = 0;
    let mut recovered = None;
    for write in &sent {
        let stamps = &disk.sent_stamps[write.at..][..write.count as usize * GRAIN];
        for (sector, bytes) in (write.first..).zip(stamps.chunks_exact(GRAIN)) {
            // Garbage is judged where it is read.
            let Ok(operation) = stamp::decode(bytes, sector) else {
                continue;
            };
            let versions = &oracle.sectors[sector as usize];
            // A change that was sent twice may be from either time.
            let own = versions.iter().filter(|version| version.operation == operation);
            if own.clone().next().is_some() && own.clone().all(Version::is_recovered) {
                recovered = recovered.or(Some(sector));
            }
            newest = newest.max(own.map(Version::proves).min().unwrap_or(0));
        }
    }
    disk.sent = sent;
    disk.sent.clear();
    disk.sent_stamps.clear();
    if buffers
        && !disk.flushed
        && let Some(sector) = recovered
    {
        let text = format!(
            "what an earlier process has left for sector {sector} is sent to the disk before the \
             disk was flushed"
        );
        return Err(Finding::new("C7", text));
    }
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

fn is_of_epoch_before(version: &Version, epoch: u32) -> bool {
    version.epoch > 0 && version.epoch < epoch
}
