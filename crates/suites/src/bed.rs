//! The bed of a suite: a rig with its device, and the cache in front of it.

use crate::halt::{Halt, Watch};
use crate::in_front::cache;
use crate::plan::Plan;
use crate::preparation::{Preparation, Step};
use crate::rig::{Modelled, Rig};
use block::{CacheSpec, Discard, Extent, Request, SECTOR, Size, Stack};
use cache::Cache;
use drives::{Fast, Random, SLOT_BYTES};
use lane::{Event, Lane};
use load::{Alone, Content, Data, End, Limit, Load, Order, Record, Running};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

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
    /// Why nothing more is done.
    halt: Option<Halt>,
    /// What was done to the device to prepare it.
    done: Preparation,
    /// Of the last load's time, the share in which the cache's own work, or the load's, kept the processor busy.
    busy: f64,
    data: Option<Data>,
    /// The first bytes of the device that are known to be written.
    written: u64,
    remarks: Vec<String>,
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
        let (below, data) = (rig.device().clone(), rig.data());
        let mut bed = Bed {
            rig,
            data,
            written: 0,
            remarks: Vec::new(),
            lane: below.lane().clone(),
            top: below.clone(),
            below,
            spec: plan.cache.clone(),
            cache: None,
            watch,
            halt: None,
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
            if self.halt.is_none() && !self.watch.look(stage, share(self.lane.now())) {
                self.halt = Some(Halt::Interrupted);
                stop();
            }
        }
    }

    /// What is to be known of how the loads ran, sentence by sentence.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What is to be known of the machine and the device: names and values.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        self.rig.facts()
    }

    fn remark(&mut self, sentence: String) {
        if !self.remarks.contains(&sentence) {
            self.remarks.push(sentence);
        }
    }

    /// What loads write from now on is stored by a drive that compresses in so many percent of its size.
    pub fn set_data_percent(&mut self, data_percent: u32) {
        if let Some(data) = &self.data {
            let content = Content { data_percent, ..data.content() };
            self.data = Some(data.with(content));
        }
    }

    /// Runs a load to its end. If it was ended by the watch or by an error of the device, the record is of what was
    /// done until then, and the next call is refused. What it reads is written first, where the device has bytes.
    ///
    /// # Errors
    /// The device cannot take the load; or the suite was interrupted, or the device failed before.
    pub fn load(&mut self, stage: &str, load: Load) -> Result<Record, Halt> {
        self.load_on(&self.top.clone(), stage, load)
    }

    fn load_on(&mut self, stack: &Stack, stage: &str, load: Load) -> Result<Record, Halt> {
        self.go_on()?;
        load.check(stack.limits())?;
        if load.reads_percent > 0 {
            self.write_first((load.first + load.sectors) * SECTOR)?;
        }
        if self.cache.is_none() && self.rig.foresees().is_some() {
            return self.load_alone(stage, &load);
        }
        let most = self.rig.calibrate(&load);
        let data = self.data.clone();
        self.run(stack, stage, load, data.as_ref(), most)
    }

    fn run(
        &mut self,
        stack: &Stack,
        stage: &str,
        load: Load,
        data: Option<&Data>,
        most: Option<f64>,
    ) -> Result<Record, Halt> {
        if self.rig.notes(stage, &load) {
            return Ok(Record::new(self.lane.now()));
        }
        let charged = self.lane.charged();
        let running = match data {
            Some(data) => Running::start_with(stack, load, data)?,
            None => Running::start(stack, load)?,
        };
        let seen = running.clone();
        self.drive_until(
            stage,
            || running.is_done(),
            |now| running.share_done(now),
            || running.stop(),
        );
        let record = seen.record();
        let charged = self.lane.charged() - charged;
        self.busy = match most {
            Some(most) => record.per_second() / most,
            None => charged as f64 / record.elapsed_ns().max(1) as f64,
        };
        self.note(record)
    }

    /// After an error of the device the record still tells what was done until then.
    fn note(&mut self, record: Record) -> Result<Record, Halt> {
        match record.end {
            End::Failed(error) => self.halt = Some(Halt::Failed(error)),
            End::Wrong(mismatch) => self.halt = Some(Halt::Wrong(mismatch)),
            End::Limit | End::Stopped | End::Timeless => {}
        }
        Ok(record)
    }

    /// Writes what of the first bytes was not written yet: what was never written is read without the device.
    fn write_first(&mut self, bytes: u64) -> Result<(), Halt> {
        if self.data.is_none() || bytes <= self.written {
            return Ok(());
        }
        self.remark(format!(
            "What is read was written first: the first {} in order, 64 KiB at a time.",
            Size(bytes)
        ));
        self.empty_cache()?;
        self.write_out(self.written, bytes, self.data.clone())
    }

    /// Writes a part of the device in order, past the cache.
    fn write_out(&mut self, first: u64, end: u64, data: Option<Data>) -> Result<(), Halt> {
        let below = self.below.clone();
        let block = (64 << 10).min(below.limits().io_max_bytes);
        let load = Load::new(Order::Sequential, block, end - first).depth(32);
        let limit = Limit::requests(load.blocks());
        // What a drive still writes would slow what is measured next.
        let load = Load { first: first / SECTOR, limit, flush: true, ..load };
        self.run(&below, "filling", load, data.as_ref(), None)?;
        self.go_on()?;
        self.written = self.written.max(end);
        Ok(())
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
            if self.halt.is_none() && !self.watch.look(stage, alone.share_done()) {
                self.halt = Some(Halt::Interrupted);
                alone.stop();
            }
        }
        let record = alone.finish(self.rig.foresees().expect("it was asked before"));
        let (lane, end_ns) = (self.lane.clone(), record.end_ns);
        let follow = async move {
            lane.sleep_until(end_ns).await;
            Ok(())
        };
        self.task_always(stage, |_| 1.0, follow)?;
        self.note(record)
    }

    /// What the last load could have reached at most, had the drive taken no time at all: its figure
    /// over the share of the time in which the cache's own work, or in real time the load's, kept the processor busy. None
    /// in virtual time without a cache: the load itself takes none.
    pub fn ceiling(&self, reached: f64) -> Option<f64> {
        (self.busy > 0.0).then(|| reached / self.busy)
    }

    /// Why the suite is not complete: it was interrupted, or the device failed.
    pub fn halt(&self) -> Option<&Halt> {
        self.halt.as_ref()
    }

    fn go_on(&self) -> Result<(), Halt> {
        self.halt.clone().map_or(Ok(()), Err)
    }

    /// Starts a task; what it ends with is found in what is returned.
    fn begin(
        &self,
        task: impl Future<Output = block::Result> + 'static,
    ) -> Rc<Cell<Option<block::Result>>> {
        let ended = Rc::new(Cell::new(None));
        let told = ended.clone();
        let task = async move { told.set(Some(task.await)) };
        self.lane.spawn(task).expect("the lane has room for a task");
        ended
    }

    /// Runs one task to its end.
    fn task(
        &mut self,
        stage: &str,
        task: impl Future<Output = block::Result> + 'static,
    ) -> Result<(), Halt> {
        self.go_on()?;
        self.task_always(stage, |_| 0.0, task)
    }

    /// The same, interrupted or not.
    fn task_always(
        &mut self,
        stage: &str,
        share: impl Fn(u64) -> f64,
        task: impl Future<Output = block::Result> + 'static,
    ) -> Result<(), Halt> {
        let ended = self.begin(task);
        self.drive_until(stage, || ended.get().is_some(), share, || ());
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
        self.go_on()?;
        let below = self.below.clone();
        self.task("idle", async move { below.run(Request::Flush).await })?;
        let (from_ns, woken) = (self.lane.now(), Rc::new(Event::new()));
        let lane = self.lane.clone();
        let (until_ns, told) = (from_ns.saturating_add(ns), woken.clone());
        let sleep = async move {
            // What is interrupted need not be slept out.
            let mut sleep = pin!(lane.sleep_until(until_ns));
            let mut wake = pin!(told.after(0));
            poll_fn(|context| {
                let over = sleep.as_mut().poll(context).is_ready();
                if over || wake.as_mut().poll(context).is_ready() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            Ok(())
        };
        let share = move |now: u64| (now - from_ns.min(now)) as f64 / ns.max(1) as f64;
        let ended = self.begin(sleep);
        self.drive_until("idle", || ended.get().is_some(), share, || woken.notify());
        self.go_on()
    }

    /// Trims the first bytes of a stack, by commands of at most so many bytes, and flushes.
    fn trim(&mut self, stack: Stack, bytes: u64, command_bytes: u64) -> Result<(), Halt> {
        if stack.limits().discard == Discard::Ignored {
            self.remark("The target takes no TRIM: nothing was trimmed.".to_owned());
            return Ok(());
        }
        self.data.iter().for_each(Data::forget);
        self.written = 0;
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
            if !self.watch.look(stage, share) {
                self.halt.get_or_insert(Halt::Interrupted);
            }
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
        let data = self.data_of(data_percent);
        self.write_out(0, bytes, data)
    }

    /// Data of which a drive that compresses stores so much: the loads' own if they are like that, or compress further.
    fn data_of(&mut self, data_percent: u32) -> Option<Data> {
        let data = self.data.clone()?;
        let content = data.content();
        if content.data_percent <= data_percent {
            return Some(data);
        }
        data.forget();
        if data.verifies() {
            let what = "Its data are not the loads' own: what reads find of them is not compared.";
            self.remark(format!("All was filled to {data_percent} %. {what}"));
        }
        Some(data.with(Content { data_percent, ..content }))
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
