//! The life of a process: it starts on a memory and a disk, and serves on some lanes until it is
//! killed.

use crate::device::Disk;
use crate::finding::Finding;
use crate::link::{Link, LinkLane, Watch};
use crate::midway;
use crate::setup::Setup;
use crate::subject::{Process, Subject};
use block::{LinkDown, Memory, Stack};
use lane::{Lane, Random, World};
use layers::{Sampler, Top, TopShared};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The memory on which a process starts, observed during the start.
pub(crate) struct Watched<'a> {
    pub(crate) memory: &'a Arc<Memory>,
    /// The table of the fence, which is not observed.
    pub(crate) table: Option<&'a Arc<Memory>>,
    pub(crate) one_of: u32,
    pub(crate) random: &'a mut Random,
}

/// A running process and its lanes.
pub(crate) struct Life {
    pub(crate) process: Rc<dyn Process>,
    pub(crate) lanes: Vec<(Lane, Stack)>,
    /// Whether it serves its clients.
    pub(crate) alive: Rc<Cell<bool>>,
    /// Its link, if the disk is a server's.
    pub(crate) link: Option<Rc<Link>>,
}

impl Life {
    /// Starts a process on a memory and a disk.
    ///
    /// # Errors
    /// The subject refuses the contents of the memory.
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
        let link = on.table.map(|table| Link::begin(disk, table, world.now()));
        let top = TopShared::new(disk.limits());
        let attach = |ring| {
            let lane = world.lane();
            let below = match &link {
                Some(link) => Stack::new(&lane, LinkLane::new(link, &lane)),
                None => Stack::new(&lane, disk.on_ring(&lane, ring)),
            };
            let below = process.attach(&lane, below);
            let clock = lane.clone();
            let sampler = Sampler::new(move || clock.now(), |_| ());
            let stack = Stack::new(&lane, Top::attach(&top, Some(sampler), below));
            (lane, stack)
        };
        let lanes = (0..setup.lanes).map(attach).collect();
        Ok(Life { process, lanes, alive: Rc::new(Cell::new(true)), link })
    }

    /// Returns its link for the book, if it has one. `may_have_failed`: whether the volume may have
    /// failed before, because of its link.
    pub(crate) fn watch(&self, policy: LinkDown, may_have_failed: bool) -> Option<Watch> {
        let stall = self.lanes.first().and_then(|(_, stack)| stack.stall());
        let link = self.link.as_ref()?;
        Some(Watch::new(policy, link, &self.process, stall, may_have_failed))
    }

    /// Kills it: its pending work is lost.
    pub(crate) fn end(&self) {
        self.alive.set(false);
        self.lanes.iter().for_each(|(lane, _)| lane.abandon());
    }
}
