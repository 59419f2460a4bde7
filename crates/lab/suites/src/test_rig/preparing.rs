//! Brings the device into a state before it is measured: writes, trims and waits.

use super::TestRig;
use crate::halt::Halt;
use crate::preparation::{Preparation, Step};
use block::{Discard, Extent, Request, SECTOR, Size, Stack};
use drives::{Fast, Random, SLOT_BYTES};
use lane::Event;
use load::{Content, Data, Limit, Load, Order, Record};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// Slots written in no time between two calls of the watch.
const AGED: u64 = 1 << 20;

impl TestRig<'_> {
    /// Runs the steps of a preparation on the first bytes of the device. Steps that take no time
    /// bypass the cache, which is emptied before. If the rig cannot do them in no time, they are
    /// really written. Returns the record of each torture.
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
            if self.reads_only && !matches!(step, Step::Idle { .. }) {
                continue;
            }
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

    /// Returns the preparation of the device so far.
    pub fn prepared(&self) -> &Preparation {
        &self.done
    }

    /// Writes slots in no time; `work` receives the first slot and the number of slots of each
    /// part. False: the rig does not support it, and nothing was done.
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

    /// Returns data that a compressing drive stores in this part of its size: the loads' own data
    /// if it compresses as far or further.
    fn data_of(&mut self, data_percent: u32) -> Option<Data> {
        let data = self.data.clone()?;
        let content = data.content();
        if content.data_percent <= data_percent {
            return Some(data);
        }
        data.forget();
        if data.verifies() {
            let what = "Reads of this data are not verified, because it is not the data of the \
                        loads.";
            self.remark(format!(
                "Everything was filled with data compressible to {data_percent} %. {what}"
            ));
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

    /// Makes a pause of the suite between two tests, shortened by the plan; makes none after a test
    /// that was left out.
    ///
    /// # Errors
    /// The drive failed, or the suite was interrupted.
    pub fn rest(&mut self, ns: u64) -> Result<(), Halt> {
        let ns = (ns as f64 * self.rest_share) as u64;
        if self.skipped || ns == 0 { self.go_on() } else { self.idle(ns) }
    }

    /// Flushes the drive, and then leaves it idle for this time: a drive's clock starts with its
    /// first command, so that a drive that was only aged would not notice the pause.
    ///
    /// # Errors
    /// The drive failed, or the suite was interrupted.
    pub fn idle(&mut self, ns: u64) -> Result<(), Halt> {
        self.go_on()?;
        if !self.reads_only {
            let below = self.below.clone();
            self.task("idle", async move { below.run(Request::Flush).await })?;
        }
        let (from_ns, woken) = (self.lane.now(), Rc::new(Event::new()));
        let lane = self.lane.clone();
        let (until_ns, wakes) = (from_ns.saturating_add(ns), woken.clone());
        let sleep = async move {
            // An interrupt ends the sleep.
            let mut sleep = pin!(lane.sleep_until(until_ns));
            let mut wake = pin!(wakes.after(0));
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

    /// Trims the first bytes of a stack, by commands of at most `command_bytes`, and flushes.
    fn trim(&mut self, stack: Stack, bytes: u64, command_bytes: u64) -> Result<(), Halt> {
        assert!(!self.reads_only, "what is there is kept");
        if stack.limits().discard == Discard::Ignored {
            self.remark("The target does not support TRIM: nothing was trimmed.".to_owned());
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

    /// Writes the part of the first bytes that is not written yet: a drive answers reads of
    /// unwritten addresses without its medium.
    pub(super) fn write_first(&mut self, bytes: u64) -> Result<(), Halt> {
        if self.reads_only || self.data.is_none() || bytes <= self.written {
            return Ok(());
        }
        self.remark(format!(
            "The part that is read was written first: the first {} in order, 64 KiB at a time.",
            Size(bytes)
        ));
        self.empty_cache()?;
        self.write_out(self.written, bytes, self.data.clone())
    }

    /// Writes a part of the device in order, bypassing the cache.
    fn write_out(&mut self, first: u64, end: u64, data: Option<Data>) -> Result<(), Halt> {
        let below = self.below.clone();
        let block = (64 << 10).min(below.limits().io_max_bytes);
        let load = Load::new(Order::Sequential, block, end - first).depth(32);
        let limit = Limit::requests(load.blocks());
        // The flush keeps the drive's own writeback out of the next measurement.
        let load = Load { first: first / SECTOR, limit, flush: true, ..load };
        self.run(&below, "filling", load, data.as_ref(), None)?;
        self.go_on()?;
        self.written = self.written.max(end);
        Ok(())
    }
}
