//! A volume as a device of the kernel's driver ublk: its queues are distributed over the lanes.

mod begun;
mod driver;

use super::task_count::TaskCount;
use super::{EndFuture, Ending, Front};
use crate::lanes::Lanes;
use ::ublk::{Queue, QueuePlan};
use begun::{Begun, Part};
use driver::Driver;
use export::{Budget, Export, Stop};
use host::File;
use ring::Ring;
use stack::{Exit, Failure};
use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// A device, as the driver has made it.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// The open `/dev/ublkcN`.
    pub(crate) file: File,
    pub(crate) queues: u16,
    /// Maximum number of requests in a queue.
    pub(crate) tags: u16,
    pub(crate) io_bytes_max: u32,
}

/// A volume, and the queues of its device.
pub(crate) struct Ublk {
    ring: Ring,
    /// The name for users.
    device: PathBuf,
    budget: Arc<Budget>,
    stop: Arc<Stop>,
    /// The volume's export on the home lane, once it is open.
    export: RefCell<Option<Export>>,
    lanes: OnceCell<Rc<Lanes>>,
    tasks: TaskCount,
}

impl Ublk {
    /// Creates the front for the device with this name. Its clients share the budget with those of
    /// other fronts.
    pub(crate) fn new(ring: &Ring, device: &Path, budget: &Arc<Budget>) -> Rc<Ublk> {
        Rc::new(Ublk {
            ring: ring.clone(),
            device: device.to_owned(),
            budget: budget.clone(),
            stop: Arc::default(),
            export: RefCell::default(),
            lanes: OnceCell::new(),
            tasks: TaskCount::default(),
        })
    }

    /// Returns the number of queues for a device: one per lane.
    pub(crate) fn queues(&self) -> u16 {
        let lanes = self.lanes.get().map_or(1, |lanes| lanes.threads());
        u16::try_from(lanes).unwrap_or(u16::MAX)
    }

    /// Serves all queues of a device. When this returns, each of them fetches requests, or will in
    /// a moment.
    ///
    /// # Errors
    /// A queue cannot be opened, or a lane is full.
    pub(crate) async fn serve(&self, opened: &Opened) -> Result<(), Failure> {
        let failed = || {
            let message = format!("{}: its queues cannot be served", self.device.display());
            Failure::new(Exit::Io, message)
        };
        // None: the volume has been removed.
        let export = self.export.borrow().clone().ok_or_else(failed)?;
        let lanes = self.lanes.get().expect("it is open");
        let elsewhere: Vec<_> = lanes.elsewhere().collect();
        let begun = Begun::default();
        for number in 0..opened.queues {
            let plan = Plan {
                opened: opened.clone(),
                number,
                budget: self.budget.clone(),
                stop: self.stop.clone(),
                tasks: self.tasks.clone(),
                part: begun.part(),
            };
            match usize::from(number) % (elsewhere.len() + 1) {
                0 => plan.serve(&self.ring, &export),
                lane => {
                    let names = [export.name.clone()];
                    elsewhere[lane - 1].post(Box::new(move |local| {
                        // A lane that does not have this volume any more drops the plan, which
                        // counts as a failure.
                        if let Some(export) = local.exports(&names).first() {
                            plan.serve(&local.ring, export);
                        }
                    }));
                }
            }
        }
        begun.all().await.then_some(()).ok_or_else(failed)
    }
}

/// A queue to be served, on any lane.
struct Plan {
    opened: Opened,
    number: u16,
    budget: Arc<Budget>,
    stop: Arc<Stop>,
    tasks: TaskCount,
    part: Part,
}

impl Plan {
    /// Serves the queue on the lane of this ring.
    fn serve(self, ring: &Ring, export: &Export) {
        let Plan { opened, number, budget, stop, tasks, part } = self;
        let Opened { file, tags, io_bytes_max, .. } = opened;
        let Ok(driver) = Driver::open(ring, &file, number, tags) else { return };
        let (budget, stop) = (&budget, &stop);
        let queue = Queue::new(driver, &QueuePlan { export, io_bytes_max, tags, budget, stop });
        let own = TaskCount::default();
        for tag in 0..tags {
            let (queue, counted) = (queue.clone(), (tasks.add(), own.add()));
            let serve = async move {
                queue.serve(tag).await;
                drop(counted);
            };
            if ring.lane().spawn(serve).is_err() {
                return ring.leave(&file);
            }
        }
        let (lane, leaving) = (ring.lane().clone(), ring.clone());
        let watch = async move {
            // No handle of the queue may stay once its tags have ended: the device waits for that.
            lane::first(queue.stopping(), own.none()).await;
            leaving.leave(&file);
        };
        if lane.spawn(watch).is_ok() {
            part.note_begun();
        }
    }
}

impl Front for Ublk {
    fn address(&self, _: &str) -> String {
        self.device.display().to_string()
    }

    fn open(self: Rc<Self>, exports: Vec<Export>, lanes: &Rc<Lanes>) {
        let _ = self.lanes.set(lanes.clone());
        *self.export.borrow_mut() = exports.into_iter().next();
    }

    fn remove(&self, _: &str) {
        self.stop.ask();
        let export = self.export.take();
        // Outside the borrow, because this may drop the last handle of a stack.
        drop(export);
    }

    fn close(&self, _: Ending) {
        self.stop.ask();
    }

    fn end(&self, deadline_ns: u64) -> EndFuture<'_> {
        Box::pin(self.tasks.none_until(self.ring.lane(), deadline_ns))
    }

    fn inherit(&self) -> Vec<(String, File)> {
        // The driver stores the device; the next program takes its queues over.
        Vec::new()
    }
}
