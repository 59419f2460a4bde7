//! The bed of a suite: a rig with its device, and the cache in front of it.

use crate::plan::Plan;
use crate::preparation::{Preparation, Step};
use crate::rig::{Modelled, Rig};
use block::{CacheSpec, Error, Extent, Request, SECTOR, Stack};
use cache::{Arena, Cache, Geometry, Settings};
use drives::{Fast, Random, SLOT_BYTES};
use lane::Lane;
use load::{Alone, End, Limit, Load, LoadError, Order, Record, Running};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Hears how far a suite has come, and may end it.
pub trait Watch {
    /// Called every few milliseconds: what is being done, and the share of it that is done. False
    /// ends the suite with what it has.
    fn look(&mut self, stage: &str, share: f64) -> bool;
}

/// Does not look.
impl Watch for () {
    fn look(&mut self, _: &str, _: f64) -> bool {
        true
    }
}

/// Why a suite ends before its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// The watch wanted it.
    Interrupted,
    /// The device answered with an error.
    Failed(Error),
    /// The device cannot take a load of the suite.
    Load(LoadError),
    /// What was asked for does not fit together.
    Plan(String),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Interrupted => write!(f, "interrupted"),
            Halt::Failed(error) => write!(f, "{error}"),
            Halt::Load(error) => write!(f, "{error}"),
            Halt::Plan(what) => write!(f, "{what}"),
        }
    }
}

impl From<LoadError> for Halt {
    fn from(error: LoadError) -> Halt {
        Halt::Load(error)
    }
}

/// Slots that are written without time between two looks.
const AGED: u64 = 1 << 20;

/// Events of a load without a lane between two looks.
const ALONE: u32 = 1 << 16;

/// A rig, with or without the cache that ships in front of its device.
pub struct Bed<'a> {
    rig: Box<dyn Rig>,
    lane: Lane,
    below: Stack,
    top: Stack,
    spec: Option<CacheSpec>,
    cache: Option<Cache>,
    watch: &'a mut dyn Watch,
    interrupted: bool,
    /// What was done to the device to prepare it.
    done: Preparation,
    /// Of the last load's time, the share in which the cache's own work kept the processor busy.
    busy: f64,
}

impl<'a> Bed<'a> {
    /// A new modelled drive in virtual time, and an empty cache where the plan wants one.
    ///
    /// # Errors
    /// The target is no modelled drive, or its options do not fit the model.
    pub fn new(plan: &Plan, watch: &'a mut dyn Watch) -> Result<Bed<'a>, Halt> {
        let rig = Modelled::new(&plan.target, plan.prices).map_err(Halt::Plan)?;
        Bed::over(Box::new(rig), plan, watch)
    }

    /// The rig's device, and an empty cache where the plan wants one.
    ///
    /// # Errors
    /// The cache's sizes do not fit together.
    pub fn over(rig: Box<dyn Rig>, plan: &Plan, watch: &'a mut dyn Watch) -> Result<Bed<'a>, Halt> {
        let below = rig.device().clone();
        let mut bed = Bed {
            rig,
            lane: below.lane().clone(),
            top: below.clone(),
            below,
            spec: plan.cache.clone(),
            cache: None,
            watch,
            interrupted: false,
            done: Preparation::default(),
            busy: 0.0,
        };
        bed.empty_cache()?;
        Ok(bed)
    }

    /// What the suite's requests go to.
    pub fn top(&self) -> &Stack {
        &self.top
    }

    /// What the device says of itself: names and values.
    pub fn health(&self) -> Vec<(&'static str, f64)> {
        self.rig.health()
    }

    /// Whose time it is: `virtual` or `real`.
    pub fn time(&self) -> &'static str {
        self.rig.time()
    }

    /// Whether there is a cache.
    pub fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    /// What the cache has counted: names and values; nothing without one.
    pub fn cache_counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        if let Some(cache) = &self.cache {
            let counters = cache.shared().counters(self.lane.now());
            counters.each(|name, value| all.push((name, value)));
        }
        all
    }

    /// The time, in nanoseconds on the rig's clock.
    pub fn now(&self) -> u64 {
        self.lane.now()
    }

    /// Drives the rig until `done`, and looks at the watch now and then. `stop` is called once if that
    /// wants the end.
    fn drive_until(
        &mut self,
        stage: &str,
        done: impl Fn() -> bool,
        share: impl Fn(u64) -> f64,
        mut stop: impl FnMut(),
    ) {
        loop {
            let goes_on = self.rig.go_on(&done);
            if done() {
                return;
            }
            assert!(goes_on, "{stage}: nothing can happen any more");
            if !self.interrupted && !self.watch.look(stage, share(self.lane.now())) {
                self.interrupted = true;
                stop();
            }
        }
    }

    /// Runs a load to its end. If that is the watch's end, the record is of what was done until then,
    /// and the next call is refused.
    ///
    /// # Errors
    /// The device cannot take the load, or failed; or the suite was interrupted before.
    pub fn load(&mut self, stage: &str, load: Load) -> Result<Record, Halt> {
        self.load_on(&self.top.clone(), stage, load)
    }

    fn load_on(&mut self, stack: &Stack, stage: &str, load: Load) -> Result<Record, Halt> {
        self.go_on()?;
        if self.cache.is_none() && self.rig.foresees().is_some() {
            return self.load_alone(stage, &load);
        }
        let charged = self.lane.charged();
        let running = Running::start(stack, load)?;
        let seen = running.clone();
        self.drive_until(
            stage,
            || running.is_done(),
            |now| running.share_done(now),
            || running.stop(),
        );
        let record = seen.record();
        let charged = self.lane.charged() - charged;
        self.busy = charged as f64 / record.elapsed_ns().max(1) as f64;
        match record.end {
            End::Failed(error) => Err(Halt::Failed(error)),
            _ => Ok(record),
        }
    }

    /// The same where nothing stands between the load and a device that foresees its answers.
    fn load_alone(&mut self, stage: &str, load: &Load) -> Result<Record, Halt> {
        self.busy = 0.0;
        let mut alone = Alone::start(self.below.limits(), load, self.lane.now())?;
        loop {
            let device = self.rig.foresees().expect("it was asked before");
            if !alone.go_on(device, ALONE) {
                break;
            }
            if !self.interrupted && !self.watch.look(stage, alone.share_done()) {
                self.interrupted = true;
                alone.stop();
            }
        }
        let record = alone.finish(self.rig.foresees().expect("it was asked before"));
        let (lane, end_ns) = (self.lane.clone(), record.end_ns);
        let follow = async move {
            lane.sleep_until(end_ns).await;
            Ok(())
        };
        self.task_always(stage, follow)?;
        match record.end {
            End::Failed(error) => Err(Halt::Failed(error)),
            _ => Ok(record),
        }
    }

    /// What the last load could have reached at most, had the drive taken no time at all: its figure
    /// over the share of the time in which the cache's own work kept the processor busy. None without
    /// a cache: the generator itself takes no virtual time.
    pub fn ceiling(&self, reached: f64) -> Option<f64> {
        (self.busy > 0.0).then(|| reached / self.busy)
    }

    /// Whether the suite was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    fn go_on(&self) -> Result<(), Halt> {
        if self.interrupted { Err(Halt::Interrupted) } else { Ok(()) }
    }

    /// Runs one task to its end.
    fn task(
        &mut self,
        stage: &str,
        task: impl Future<Output = block::Result> + 'static,
    ) -> Result<(), Halt> {
        self.go_on()?;
        self.task_always(stage, task)
    }

    /// The same, interrupted or not.
    fn task_always(
        &mut self,
        stage: &str,
        task: impl Future<Output = block::Result> + 'static,
    ) -> Result<(), Halt> {
        let ended = Rc::new(Cell::new(None));
        let told = ended.clone();
        let task = async move { told.set(Some(task.await)) };
        self.lane.spawn(task).expect("the lane has room for a task");
        self.drive_until(stage, || ended.get().is_some(), |_| 0.0, || ());
        match ended.get() {
            Some(Err(error)) => Err(Halt::Failed(error)),
            _ => Ok(()),
        }
    }

    /// Flushes the drive, and then leaves it alone for so long: a drive's time begins with its first
    /// command, so that one which was only aged would not have noticed.
    ///
    /// # Errors
    /// The drive failed; or the suite was interrupted.
    pub fn idle(&mut self, ns: u64) -> Result<(), Halt> {
        let (lane, below) = (self.lane.clone(), self.below.clone());
        let sleep = async move {
            below.run(Request::Flush).await?;
            lane.sleep_until(lane.now() + ns).await;
            Ok(())
        };
        self.task("idle", sleep)
    }

    /// Trims the first bytes of a stack, by commands of at most so many bytes, and flushes.
    fn trim(&mut self, stack: Stack, bytes: u64, command_bytes: u64) -> Result<(), Halt> {
        let trim = async move {
            let sectors = bytes / SECTOR;
            let at_once = (command_bytes / SECTOR).max(1);
            for first in (0..sectors).step_by(at_once as usize) {
                let count = (sectors - first).min(at_once) as u32;
                stack.run(Request::Discard { at: Extent::new(first, count) }).await?;
            }
            stack.run(Request::Flush).await
        };
        self.task("trim", trim)
    }

    /// Puts an empty cache in the place of the one that is there, if the plan has one.
    ///
    /// # Errors
    /// The device failed under what had to be written out; or the suite was interrupted.
    pub fn empty_cache(&mut self) -> Result<(), Halt> {
        let Some(spec) = self.spec.clone() else { return Ok(()) };
        if let Some(old) = self.cache.take() {
            let draining = old.clone();
            self.task("drain", async move { draining.drain().await })?;
            old.shared().stop();
            let lane = self.lane.clone();
            self.drive_until("drain", || lane.tasks() == 0, |_| 0.0, || ());
        }
        let cache = cache(&spec, &self.lane, self.below.clone())?;
        self.top = Stack::new(&self.lane, cache.clone());
        self.cache = Some(cache);
        Ok(())
    }

    /// Does to the first bytes of the device what a preparation says. What takes no time in it goes past
    /// an emptied cache, and takes none where the rig can do that; where it cannot, it is really written.
    /// Returns what became of each torture.
    ///
    /// # Errors
    /// The suite was interrupted, or the device failed.
    pub fn prepare(
        &mut self,
        preparation: &Preparation,
        bytes: u64,
        seed: u64,
    ) -> Result<Vec<Record>, Halt> {
        let mut tortures = Vec::new();
        for (number, step) in preparation.0.iter().enumerate() {
            let seed = seed.wrapping_add(number as u64);
            match *step {
                Step::Fill { data_percent } => self.fill(bytes, data_percent)?,
                Step::Random { percent } => self.overwrite(bytes, percent, seed)?,
                Step::Torture { block_bytes, depth, seconds } => {
                    let random = Load::new(Order::Random, block_bytes, bytes).depth(depth);
                    let limit = Limit::time(u64::from(seconds) * 1_000_000_000);
                    let load = Load { limit, seed, ..random };
                    tortures.push(self.load("torture", load)?);
                }
                Step::Trim { command_bytes } => {
                    self.trim(self.top.clone(), bytes, command_bytes)?;
                }
                Step::Idle { seconds } => self.idle(u64::from(seconds) * 1_000_000_000)?,
            }
            self.done.0.push(*step);
        }
        Ok(tortures)
    }

    /// What was done to the device so far to prepare it.
    pub fn prepared(&self) -> &Preparation {
        &self.done
    }

    /// Writes so many slots without time, from the one that is done on; `work` is told which and how
    /// many. False: the rig cannot, and nothing was done.
    fn age(
        &mut self,
        stage: &str,
        slots: u64,
        work: &mut dyn FnMut(&mut Fast, u64, u64),
    ) -> Result<bool, Halt> {
        for done in (0..slots).step_by(AGED as usize) {
            self.go_on()?;
            let count = AGED.min(slots - done);
            if !self.rig.age(&mut |fast| work(fast, done, count)) {
                return Ok(false);
            }
            let share = (done + count) as f64 / slots as f64;
            self.interrupted |= !self.watch.look(stage, share);
        }
        self.go_on().map(|()| true)
    }

    fn fill(&mut self, bytes: u64, data_percent: u32) -> Result<(), Halt> {
        self.empty_cache()?;
        let slots = bytes / SLOT_BYTES;
        let share = f64::from(data_percent) / 100.0;
        let mut write = |fast: &mut Fast, done: u64, count: u64| {
            fast.write_compressed(done as u32, count, share);
        };
        if self.age("filling", slots, &mut write)? {
            return Ok(());
        }
        let load = Load::new(Order::Sequential, 64 << 10, bytes).depth(32);
        let load = Load { limit: Limit::requests(load.blocks()), ..load };
        self.load_on(&self.below.clone(), "filling", load).map(drop)
    }

    fn overwrite(&mut self, bytes: u64, percent: u32, seed: u64) -> Result<(), Halt> {
        self.empty_cache()?;
        let slots = bytes / SLOT_BYTES;
        let writes = slots * u64::from(percent) / 100;
        let mut random = Random::new(seed);
        let mut write = |fast: &mut Fast, _: u64, count: u64| {
            fast.write_random(slots as u32, count, &mut random);
        };
        if self.age("writing the drive's state", writes, &mut write)? {
            return Ok(());
        }
        let load = Load::new(Order::Random, SLOT_BYTES as u32, bytes).depth(32);
        let load = Load { limit: Limit::requests(writes), seed, ..load };
        self.load_on(&self.below.clone(), "writing the drive's state", load).map(drop)
    }
}

/// The cache that ships, with as many bytes a sector as the device has: in virtual time none.
fn cache(spec: &CacheSpec, lane: &Lane, below: Stack) -> Result<Cache, Halt> {
    let bytes = below.limits().bytes();
    // A block may have two versions while an epoch closes; more than that would stay empty.
    let geometry = Geometry::for_memory(spec.memory.0.min(bytes + bytes / 4));
    let settings = Settings::from_spec(spec, &geometry);
    let memory = Arc::new(block::Memory::heap(Arena::bytes(&geometry, below.limits().grain)));
    let shared = cache::Shared::new(below.limits(), geometry, settings, 0, memory);
    let shared = shared.map_err(|error| Halt::Plan(error.to_string()))?;
    Ok(Cache::attach(&shared, lane, below))
}
