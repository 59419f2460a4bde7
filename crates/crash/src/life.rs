//! The lives of a history: a process is killed, and the next one takes over its memory, its disk and
//! its clients.
//!
//! Unlike the crashes that `laboratory.rs` tries at every moment, on copies, this is where the history
//! itself goes on: what was in flight arrives late or never, the next process waits until that is over
//! (C15), recovers, and clients send again whatever they were not answered (C10).

use crate::device::Disk;
use crate::finding::Finding;
use crate::laboratory::Laboratory;
use crate::midway;
use crate::run::Run;
use crate::setup::Setup;
use crate::subject::{Process, Subject};
use crate::trace;
use block::{Memory, Stack};
use lane::{Lane, Random, World};
use layers::{Unaligned, UnalignedShared};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Steps that a process which nobody waited for goes on for.
const STEPS_BESIDE: u64 = 400;

/// The memory that a process starts on, to be looked at while it does.
pub(crate) struct Watched<'a> {
    pub(crate) memory: &'a Arc<Memory>,
    pub(crate) one_of: u32,
    pub(crate) random: &'a mut Random,
}

/// A running process and its lanes.
pub(crate) struct Life {
    pub(crate) process: Rc<dyn Process>,
    pub(crate) lanes: Vec<(Lane, Stack)>,
    /// It serves its clients.
    pub(crate) alive: Rc<Cell<bool>>,
}

impl Life {
    /// Starts a process on a memory and a disk.
    ///
    /// # Errors
    /// The subject refuses what the memory holds.
    pub(crate) fn start(
        subject: &dyn Subject,
        setup: &Setup,
        disk: &Disk,
        world: &mut World,
        on: Watched<'_>,
    ) -> Result<Life, Finding> {
        subject.watch_stores(midway::watch(on.memory, on.one_of, on.random));
        let process = subject.start(setup, disk.limits(), on.memory);
        subject.watch_stores(0);
        let process = process.map_err(|error| Finding::new("refused", error))?;
        let process: Rc<dyn Process> = Rc::from(process);
        let bytes = setup.bytes.then(|| UnalignedShared::new(disk.limits()));
        let attach = |_| {
            let lane = world.lane();
            let below = Stack::new(&lane, disk.on(&lane));
            let mut stack = process.attach(&lane, below);
            if let Some(shared) = &bytes {
                stack = Stack::new(&lane, Unaligned::attach(shared, stack));
            }
            (lane, stack)
        };
        let lanes = (0..setup.lanes).map(attach).collect();
        Ok(Life { process, lanes, alive: Rc::new(Cell::new(true)) })
    }

    fn end(&self) {
        self.alive.set(false);
        self.lanes.iter().for_each(|(lane, _)| lane.abandon());
    }
}

impl Run {
    /// The process is killed; another one takes over, and the history goes on.
    pub(crate) fn take_over(&mut self, laboratory: &mut Laboratory<'_>) -> Result<(), Finding> {
        self.takeovers -= 1;
        if self.owner_before.is_some() || laboratory.is_lost(self) {
            return Ok(());
        }
        let subject = laboratory.subject;
        let again = self.book.borrow().open().to_vec();
        trace::event(
            [again.len() as u64, 6, 0],
            format_args!("--- killed, {} operations are not answered", again.len()),
        );
        self.life.alive.set(false);
        if subject.waits_for_owner() {
            self.life.end();
            self.disk.with(crate::disk::State::orphan);
        }
        let fence = self.land_late();
        if subject.fences() {
            while !fence.get() {
                self.world.step();
            }
        }
        self.setup.restarted(&mut self.random);
        self.book.borrow_mut().taken_over(&self.setup.engine);
        let one_of = self.setup.limits.midway_one_of;
        let watched = Watched { memory: &self.arena, one_of, random: &mut self.random };
        let life = Life::start(subject, &self.setup, &self.disk, &mut self.world, watched)?;
        self.book.borrow_mut().holds(life.process.dirty_blocks());
        let before = std::mem::replace(&mut self.life, life);
        if !subject.waits_for_owner() {
            self.owner_before = Some((before, self.world.steps() + STEPS_BESIDE));
        }
        let faults = self.setup.faults_afterwards(&mut self.random);
        self.disk.with(|disk| disk.set_faults(faults));
        self.admitted.clear();
        laboratory.kills_midway(self)?;
        self.setup.operations = (self.setup.operations / 2).max(4);
        self.send_clients(&again);
        Ok(())
    }

    /// What the killed process had in flight arrives bit by bit; true: all of it has.
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

    /// The process that nobody waited for is gone at last.
    pub(crate) fn leave_owner_before(&mut self) {
        let is_over = |(_, until): &mut (Life, u64)| self.world.steps() >= *until;
        if let Some((life, _)) = self.owner_before.take_if(is_over) {
            life.end();
        }
    }
}
