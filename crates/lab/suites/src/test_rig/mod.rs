//! A suite's rig with its device, and the cache in front of it.

mod preparing;

use crate::access::Access;
use crate::driver::{self, DriverCost};
use crate::halt::{Halt, Watch};
use crate::in_front::cache;
use crate::plan::Plan;
use crate::preparation::Preparation;
use crate::rig::{Modelled, Rig};
use block::{CacheSpec, SECTOR, Stack};
use cache::Cache;
use drives::SLOT_BYTES;
use lane::Lane;
use load::{
    Alone, Content, Data, Dependent, End, Limit, Load, Record, RunOptions, Running, Source,
};
use std::cell::Cell;
use std::rc::Rc;
use trace::{Operation, Trace};

/// Events of a load without a lane between two calls of the watch.
const ALONE: u32 = 1 << 16;

/// Time after an interrupt for a real device to answer the requests under way: as long as a hard
/// disk may need to write out its own cache.
const LAST_ANSWERS_NS: u64 = 10_000_000_000;

/// Maximum number of requests of a replay under way: more than in any recording.
const REPLAY_DEPTH: u32 = 256;

/// A rig, with or without the product's cache in front of its device.
pub struct TestRig<'a> {
    rig: Box<dyn Rig>,
    lane: Lane,
    below: Stack,
    top: Stack,
    spec: Option<CacheSpec>,
    driver: Option<DriverCost>,
    /// The cache keeps its blocks where suites empty it.
    keeps_cache: bool,
    cache: Option<Cache>,
    /// Tasks of the rig itself, which never end.
    rig_tasks: usize,
    watch: &'a mut dyn Watch,
    /// Reason why the suite has ended.
    halt: Option<Halt>,
    /// The time when it was interrupted.
    interrupted_ns: Option<u64>,
    /// The preparation of the device so far.
    done: Preparation,
    /// The share of the last load's time in which the processor was busy with the cache's own work,
    /// or the load's.
    busy: f64,
    /// The share of the last load's time in which it was ready to run while the machine ran
    /// something else.
    kept_waiting: f64,
    /// The share of one processor that the last load used.
    processor: Option<f64>,
    /// Kind of the last load.
    access: Option<Access>,
    /// The device's contents must not change.
    reads_only: bool,
    /// The last load was left out because it writes.
    skipped: bool,
    /// The share of the suite's pauses that is kept.
    rest_share: f64,
    data: Option<Data>,
    /// The number of bytes at the start of the device that are known to be written.
    written: u64,
    remarks: Vec<String>,
}

/// Returns the sector after the last one that a trace uses.
fn end_of(trace: &Trace) -> u64 {
    let ends = trace.events().iter().map(|event| event.first + u64::from(event.sectors));
    ends.max().unwrap_or(0)
}

impl<'a> TestRig<'a> {
    /// Returns a new modelled drive in virtual time, and an empty cache if the plan has one.
    ///
    /// # Errors
    /// The target is not a modelled drive, or its options do not fit the model.
    pub fn new(plan: &Plan, watch: &'a mut dyn Watch) -> Result<TestRig<'a>, Halt> {
        let rig = Modelled::new(&plan.target, plan.prices).map_err(Halt::Plan)?;
        TestRig::with_rig(Box::new(rig), plan, watch)
    }

    /// Returns the rig's device, and an empty cache if the plan has one.
    ///
    /// # Errors
    /// The cache's sizes do not fit together.
    pub fn with_rig(
        rig: Box<dyn Rig>,
        plan: &Plan,
        watch: &'a mut dyn Watch,
    ) -> Result<TestRig<'a>, Halt> {
        // Data written by others is not compared.
        let data = rig.data().filter(|_| !plan.reads_only);
        let below = rig.device().clone();
        let rig_tasks = below.lane().tasks();
        let mut test_rig = TestRig {
            rig,
            data,
            written: 0,
            remarks: Vec::new(),
            lane: below.lane().clone(),
            top: below.clone(),
            below,
            rig_tasks,
            spec: plan.cache.clone(),
            driver: plan.driver,
            keeps_cache: false,
            cache: None,
            watch,
            halt: None,
            interrupted_ns: None,
            done: Preparation::default(),
            busy: 0.0,
            kept_waiting: 0.0,
            processor: None,
            access: None,
            reads_only: plan.reads_only,
            skipped: false,
            rest_share: plan.rest_share,
        };
        test_rig.empty_cache()?;
        Ok(test_rig)
    }

    /// Returns the stack that receives the suite's requests.
    pub fn top(&self) -> &Stack {
        &self.top
    }

    /// Returns the device's own statistics: names and values.
    pub fn health(&self) -> Vec<(&'static str, f64)> {
        self.rig.health()
    }

    /// Returns the time in which the device had requests or worked in the background, in
    /// nanoseconds. None: it is not known.
    pub fn active_ns(&self) -> Option<u64> {
        self.rig.active_ns()
    }

    /// Returns the kind of clock: `virtual` or `real`.
    pub fn time(&self) -> &'static str {
        self.rig.time()
    }

    /// Whether there is a cache.
    pub fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    /// Returns the counters of the cache: names and values; empty without one.
    pub fn cache_counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = Vec::new();
        if let Some(cache) = &self.cache {
            let counters = cache.shared().counters(self.lane.now());
            counters.each(|name, value| all.push((name, value)));
        }
        all
    }

    /// Returns the time, in nanoseconds on the rig's clock.
    pub fn now(&self) -> u64 {
        self.lane.now()
    }

    /// Drives the rig until `done`, and calls the watch at intervals. Calls `stop` once if the
    /// watch interrupts. False: it was given up because the target did not answer the requests
    /// under way.
    fn drive_until(
        &mut self,
        stage: &str,
        done: impl Fn() -> bool,
        share: impl Fn(u64) -> f64,
        mut stop: impl FnMut(),
    ) -> bool {
        loop {
            let goes_on = self.rig.go_on(&done);
            if done() {
                return true;
            }
            assert!(goes_on, "{stage}: nothing can happen any more");
            let now = self.lane.now();
            if self.halt.is_none() && !self.watch.look(stage, share(now)) {
                self.halt = Some(Halt::Interrupted);
                self.interrupted_ns = Some(now);
                stop();
            }
            if self.is_given_up(now) {
                self.halt = Some(Halt::Unanswered);
                return false;
            }
        }
    }

    /// Whether the time for the last answers after an interrupt is over. A model always answers.
    fn is_given_up(&self, now: u64) -> bool {
        let since = self.interrupted_ns.filter(|_| self.rig.time() == "real");
        since.is_some_and(|since| now > since + LAST_ANSWERS_NS)
    }

    /// Returns remarks on how the loads ran, sentence by sentence.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns facts about the machine and the device: names and values.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        self.rig.facts()
    }

    fn remark(&mut self, sentence: String) {
        if !self.remarks.contains(&sentence) {
            self.remarks.push(sentence);
        }
    }

    /// Sets the part to which a drive can compress the data that loads write from now on, in
    /// percent.
    pub fn set_data_percent(&mut self, data_percent: u32) {
        if let Some(content) = self.content() {
            self.set_content(Content { data_percent, ..content });
        }
    }

    /// Returns the properties of the data that loads write. None: the device stores no data.
    pub fn content(&self) -> Option<Content> {
        self.data.as_ref().map(Data::content)
    }

    /// Sets the properties of the data that loads write from now on, if the device stores data;
    /// older data is not compared any more.
    pub fn set_content(&mut self, content: Content) {
        self.data = self.data.as_ref().map(|data| data.with(content));
    }

    /// Runs a load to its end. If the watch or an error of the device ended it, the record covers
    /// the part that ran, and the next call is refused. The range that it reads is written first,
    /// if the device stores data.
    ///
    /// # Errors
    /// The device does not support the load; or the suite was interrupted, or the device failed
    /// before.
    pub fn load(&mut self, stage: &str, load: Load) -> Result<Record, Halt> {
        self.access = Some(Access::of(&load));
        self.skipped = self.reads_only && load.reads_percent < 100;
        if self.skipped {
            return self.go_on().map(|()| Record::new(self.lane.now()));
        }
        let counts_flush = self.driver.is_none_or(|driver| driver.counts_final_flush);
        let load = Load { flush: load.flush && !self.reads_only && counts_flush, ..load };
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
        assert!(!self.reads_only || load.reads_percent == 100, "what is there is kept");
        if self.rig.notes(stage, &load) {
            return Ok(Record::new(self.lane.now()));
        }
        self.rig.begins(load.depth_max());
        let running = match data {
            Some(data) => Running::start_with(stack, load, data)?,
            None => Running::start(stack, load)?,
        };
        self.follow(stage, &running, most)
    }

    /// Replays a recording in its order, as fast as the device answers: see [`Dependent`]. The
    /// range that it reads is written first, if the device stores data. If the watch or an error of
    /// the device ended it, the record covers the part that ran, and the next call is refused.
    ///
    /// # Errors
    /// The device does not support it; or the suite was interrupted, or the device failed before.
    pub fn replay(&mut self, stage: &str, trace: &Trace) -> Result<Record, Halt> {
        self.go_on()?;
        let mut operations = trace.events().iter().map(|event| event.operation);
        // A file system writes files in order.
        let access = match operations.any(|it| !matches!(it, Operation::Read)) {
            true => Access::SequentialWrites,
            false => Access::Reads,
        };
        self.access = Some(access);
        self.skipped = self.reads_only && access != Access::Reads;
        if self.skipped {
            return Ok(Record::new(self.lane.now()));
        }
        let source = Dependent::new(trace);
        source.check(self.top.limits())?;
        self.write_first_until(end_of(trace))?;
        let run_options = RunOptions {
            limit: Limit::requests(source.steps()),
            ..RunOptions::depth(REPLAY_DEPTH)
        };
        // The replay waits as the recorded program did, mostly for one answer.
        self.rig.begins(1);
        let running = Running::with(&self.top, source, run_options, self.data.as_ref())?;
        self.follow(stage, &running, None)
    }

    /// Runs the steps of a trace, given by a source, on these terms. Before, the range up to the
    /// trace's end is written, if the device stores data and may be written. If the watch or an
    /// error of the device ended it, the record covers the part that ran, and the next call is
    /// refused.
    ///
    /// # Errors
    /// The device does not support it; or the run was interrupted, or the device failed before.
    pub fn run_source(
        &mut self,
        stage: &str,
        source: impl Source + 'static,
        trace_end: u64,
        run_options: RunOptions,
    ) -> Result<Record, Halt> {
        self.go_on()?;
        source.check(self.top.limits())?;
        self.write_first_until(trace_end)?;
        if self.cache.is_none() && self.rig.foresees().is_some() {
            let now = self.lane.now();
            let alone = Alone::of(self.below.limits(), source, run_options, now)?;
            return self.drive_alone(stage, alone);
        }
        self.rig.begins(run_options.depth_max);
        // The clock of a lane that was not driven for a while is late.
        let lane = self.lane.clone();
        self.task(stage, async move {
            lane.sleep_until(lane.now() + 1).await;
            Ok(())
        })?;
        let running = Running::with(&self.top, source, run_options, self.data.as_ref())?;
        self.follow(stage, &running, None)
    }

    /// Runs a trace of this number of bytes like [`TestRig::run_source`]; a rig that only lists
    /// loads counts its bytes.
    ///
    /// # Errors
    /// As [`TestRig::run_source`].
    pub(crate) fn run_trace(
        &mut self,
        stage: &str,
        source: impl Source + 'static,
        trace_end: u64,
        run_options: RunOptions,
        bytes: u64,
    ) -> Result<Record, Halt> {
        self.go_on()?;
        source.check(self.top.limits())?;
        (self.access, self.skipped) = (Some(Access::RandomWrites), false);
        if self.rig.notes_trace(bytes) {
            return Ok(Record::new(self.lane.now()));
        }
        self.run_source(stage, source, trace_end, run_options)
    }

    /// Writes the first sectors that are not written yet, in whole blocks.
    fn write_first_until(&mut self, end: u64) -> Result<(), Halt> {
        let unit = u64::from(self.top.limits().block_logical_bytes).max(SLOT_BYTES);
        let bytes = (end * SECTOR).next_multiple_of(unit);
        self.write_first(bytes.min(self.top.limits().bytes()))
    }

    /// Drives a running load to its end.
    fn follow(
        &mut self,
        stage: &str,
        running: &Running,
        most: Option<f64>,
    ) -> Result<Record, Halt> {
        let (charged, waited) = (self.lane.charged(), self.rig.kept_waiting_ns());
        let processor = self.rig.processor_ns();
        let is_done = self.drive_until(
            stage,
            || running.is_done(),
            |now| running.share_done(now),
            || running.stop(),
        );
        if !is_done {
            running.give_up(self.lane.now());
        }
        let record = running.clone().record();
        let charged = self.lane.charged() - charged;
        let waited = self.rig.kept_waiting_ns().saturating_sub(waited);
        self.kept_waiting = waited as f64 / record.elapsed_ns().max(1) as f64;
        let used = match (processor, self.rig.processor_ns()) {
            (Some(before), Some(after)) => Some(after.saturating_sub(before)),
            _ => self.cache.is_some().then_some(charged),
        };
        self.processor = used.map(|ns| ns as f64 / record.elapsed_ns().max(1) as f64);
        self.busy = match most {
            Some(most) => record.per_second() / most,
            None => charged as f64 / record.elapsed_ns().max(1) as f64,
        };
        self.set_halt(record)
    }

    /// Sets the halt after an error of the device; the record still covers the part that ran.
    fn set_halt(&mut self, record: Record) -> Result<Record, Halt> {
        match record.end {
            End::Failed(error) => self.halt = Some(Halt::Failed(error)),
            End::Wrong(mismatch) => self.halt = Some(Halt::Wrong(mismatch)),
            End::Limit | End::Stopped | End::Timeless => {}
        }
        Ok(record)
    }

    /// Runs a load directly on a device that foresees its answers, without a lane or a cache.
    fn load_alone(&mut self, stage: &str, load: &Load) -> Result<Record, Halt> {
        let alone = Alone::start(self.below.limits(), load, self.lane.now())?;
        self.drive_alone(stage, alone)
    }

    fn drive_alone(&mut self, stage: &str, mut alone: Alone) -> Result<Record, Halt> {
        (self.busy, self.kept_waiting, self.processor) = (0.0, 0.0, None);
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
        self.set_halt(record)
    }

    /// Returns an upper limit for the last load's figure, with an infinitely fast drive: the figure
    /// divided by the share of the time in which the processor was busy with the cache's own work,
    /// or in real time with the load's. None in virtual time without a cache: the load itself takes
    /// no time there.
    pub fn ceiling(&self, reached: f64) -> Option<f64> {
        (self.busy > 0.0).then(|| reached / self.busy)
    }

    /// Returns the share of the last load's time in which it was ready to run while the machine ran
    /// something else.
    pub fn kept_waiting(&self) -> f64 {
        self.kept_waiting
    }

    /// Returns the share of one processor that the last load used. None: not measured.
    pub fn processor(&self) -> Option<f64> {
        self.processor
    }

    /// Whether the last load was left out because it writes.
    pub fn skipped(&self) -> bool {
        self.skipped
    }

    /// Returns the kind of the last load. None: there was none.
    pub fn access(&self) -> Option<Access> {
        self.access
    }

    /// Returns why the suite is not complete: it was interrupted, or the device failed.
    pub fn halt(&self) -> Option<&Halt> {
        self.halt.as_ref()
    }

    fn go_on(&self) -> Result<(), Halt> {
        self.halt.clone().map_or(Ok(()), Err)
    }

    /// Starts a task. The returned cell receives its result.
    fn begin(
        &self,
        task: impl Future<Output = block::Result> + 'static,
    ) -> Rc<Cell<Option<block::Result>>> {
        let ended = Rc::new(Cell::new(None));
        let result = ended.clone();
        let task = async move { result.set(Some(task.await)) };
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

    /// Runs one task to its end, even after an interrupt.
    fn task_always(
        &mut self,
        stage: &str,
        share: impl Fn(u64) -> f64,
        task: impl Future<Output = block::Result> + 'static,
    ) -> Result<(), Halt> {
        let ended = self.begin(task);
        if !self.drive_until(stage, || ended.get().is_some(), share, || ()) {
            return Err(Halt::Unanswered);
        }
        match ended.get() {
            Some(Err(error)) => Err(Halt::Failed(error)),
            _ => Ok(()),
        }
    }

    /// Replaces the cache, if the plan has one, by an empty one. One that keeps its blocks is only
    /// written back: a test does not pay for the writes of the test before.
    ///
    /// # Errors
    /// The device failed during the writeback, or the suite was interrupted.
    pub fn empty_cache(&mut self) -> Result<(), Halt> {
        match self.cache.clone().filter(|_| self.keeps_cache) {
            Some(cache) => self.task("drain", async move { cache.drain().await }),
            None => self.replace_cache(),
        }
    }

    /// Keeps the contents of the cache from now on where a suite empties it: the suite then finds
    /// what earlier tests have left there.
    pub(crate) fn keep_cache(&mut self, keeps: bool) {
        self.keeps_cache = keeps;
    }

    /// Puts the cache of a plan in front of the device, instead of the present one. The same cache
    /// stays as it is.
    ///
    /// # Errors
    /// As [`TestRig::empty_cache`].
    pub(crate) fn set_cache(&mut self, plan: &Plan) -> Result<(), Halt> {
        if self.spec == plan.cache {
            return Ok(());
        }
        self.spec = plan.cache.clone();
        self.driver = plan.driver;
        self.replace_cache()
    }

    /// Writes back and removes the cache, and creates an empty one if there is a plan of one.
    fn replace_cache(&mut self) -> Result<(), Halt> {
        if let Some(old) = self.cache.take() {
            let draining = old.clone();
            self.task("drain", async move { draining.drain().await })?;
            old.shared().set_guard(false, self.lane.now());
            old.shared().stop();
            let lane = self.lane.clone();
            let rig_tasks = self.rig_tasks;
            if !self.drive_until("drain", || lane.tasks() <= rig_tasks, |_| 0.0, || ()) {
                return Err(Halt::Unanswered);
            }
        }
        self.top = self.below.clone();
        let Some(spec) = &self.spec else { return Ok(()) };
        let cache = cache(spec, &self.lane, self.below.clone())?;
        self.top = Stack::new(&self.lane, cache.clone());
        if let Some(cost) = &self.driver {
            let shared = cache.shared().clone();
            self.top = driver::attach(*cost, spec.write, shared, &self.lane, self.top.clone());
        }
        self.cache = Some(cache);
        Ok(())
    }
}
