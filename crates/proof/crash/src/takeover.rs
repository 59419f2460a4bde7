//! A process is killed, and the next one takes over its memory, its disk and its clients.
//!
//! Unlike the crashes that `laboratory/` tests at every moment, on copies, this continues the
//! history itself: requests in flight arrive late or never, the next process waits until that is
//! over (C15), recovers, and clients send all unanswered requests again (C10).

use crate::finding::Finding;
use crate::life::{Life, Watched};
use crate::link::settle_former;
use crate::model::Model;
use crate::pending::Pending;
use crate::run::Run;
use crate::subject::{Fence, Subject};
use crate::trace;
use std::cell::Cell;
use std::rc::Rc;

/// Number of further steps of a process that nothing waited for.
const STEPS_BESIDE: u64 = 400;

impl Run {
    /// Kills the process, and another one takes over; returns the unanswered requests of clients.
    ///
    /// # Errors
    /// The subject refuses the contents of the memory.
    pub(crate) fn take_over(&mut self, subject: &dyn Subject) -> Result<Vec<Pending>, Finding> {
        let again = self.book.borrow().open().to_vec();
        trace::event(
            [again.len() as u64, 6, 0],
            format_args!("--- killed, {} operations are not answered", again.len()),
        );
        self.life.alive.set(false);
        let in_flush = self.disk.with(|disk| disk.flushes_asked > 0);
        if subject.waits_for_owner() {
            self.life.end();
            let now_ns = self.world.now();
            self.disk.with(|disk| match disk.server {
                Some(_) => disk.end_process_on_link(now_ns, |random| random.one_in(2)),
                None => disk.orphan(),
            });
        }
        let over = self.land_late();
        let fence = subject.fence();
        while !over.get() && (fence == Fence::EveryRing || self.is_awaited(fence)) {
            self.world.step();
        }
        self.disk.with(|disk| (disk.errors_delivered, disk.flushed) = ([0; 3], false));
        self.start_on_cut(subject)?;
        self.setup.vary_restart(&mut self.random);
        self.disk = self.disk.with_size_of(&self.setup.model);
        let may_have_failed = self.book.borrow().may_fail_after_kill();
        let is_lost = self.settle_former(subject);
        self.book.borrow_mut().record_takeover(&self.setup.engine, in_flush || is_lost);
        let one_of = self.setup.limits.midway_one_of;
        let table = self.table.as_ref();
        let watched = Watched { memory: &self.arena, table, one_of, random: &mut self.random };
        let life = Life::start(subject, &self.setup, &self.disk, &mut self.world, watched)?;
        if let Some(plan) = self.setup.link {
            self.book.borrow_mut().watch_link(life.watch(plan.policy, may_have_failed));
        }
        self.book.borrow_mut().begin_process(life.process.as_ref());
        let before = std::mem::replace(&mut self.life, life);
        if !subject.waits_for_owner() {
            self.owner_before = Some((before, self.world.steps() + STEPS_BESIDE));
        }
        let faults = self.setup.faults_afterwards(&mut self.random);
        self.disk.with(|disk| disk.set_faults(faults));
        self.admitted.clear();
        self.begin_events();
        Ok(again)
    }

    /// Reads the answers that the killed process has left on its connections to a server. Returns
    /// whether changes may be lost.
    fn settle_former(&mut self, subject: &dyn Subject) -> bool {
        let (Some(table), Some(plan)) = (&self.table, self.setup.link) else { return false };
        let (now_ns, random) = (self.world.now(), &mut self.random);
        let is_lost =
            self.disk.with(|disk| settle_former(disk, table, plan.is_encrypted, now_ns, random));
        if is_lost {
            subject.note_changes_lost(&self.arena);
        }
        is_lost
    }

    /// Starts a process while the disk is truncated.
    ///
    /// # Errors
    /// It takes the memory over, or changes it: dirty data beyond the end would be lost.
    fn start_on_cut(&self, subject: &dyn Subject) -> Result<(), Finding> {
        let model = &self.setup.model;
        if !subject.refuses_cut() || model.absent >= self.setup.cut {
            return Ok(());
        }
        let cut = Model { absent: self.setup.cut, ..model.clone() };
        let memory = || {
            let mut bytes = vec![0; self.arena.bytes()];
            self.arena.read(0, &mut bytes);
            bytes
        };
        let before = memory();
        let is_refused = subject.start(&self.setup, &cut.limits(), &self.arena).is_err();
        if is_refused && memory() == before {
            return Ok(());
        }
        let text = "a process that finds a smaller disk does not leave the memory of a larger one";
        Err(Finding::new("C5", text))
    }

    /// Continues the history with the process that has taken over: clients send their unanswered
    /// requests again.
    pub(crate) fn go_on(&mut self, again: &[Pending]) {
        self.setup.operations = (self.setup.operations / 2).max(4);
        self.send_clients(again);
    }

    /// Whether a request of the killed process has not arrived for which this fence waits.
    fn is_awaited(&self, fence: Fence) -> bool {
        self.disk.with(|disk| disk.late.iter().any(|moving| fence.holds(moving.ring)))
    }

    /// Lets the killed process's requests in flight arrive bit by bit; true: all of them have.
    fn land_late(&mut self) -> Rc<Cell<bool>> {
        let over = Rc::new(Cell::new(false));
        let (lane, disk, done) = (self.world.lane(), self.disk.clone(), over.clone());
        let latency_ns = self.setup.model.latency_ns;
        let mut random = self.random.fork();
        let lander = lane.clone();
        let landing = async move {
            loop {
                lander.sleep_until(lander.now() + random.below(4 * latency_ns)).await;
                lander.turn().await;
                if !disk.with(|disk| disk.land_next()) {
                    break;
                }
            }
            done.set(true);
        };
        lane.spawn(landing).expect("an empty lane has room");
        over
    }
}
