//! Reads: from memory, from the backing, or both.

use crate::backing::in_flight::RequestKind;
use crate::blocks::{SLICE, blocks_of, slices};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::shards::ShardEntry;
use crate::shard::{Fetch, Fetched, Look, Reader, Shard};
use block::{Buf, Error, Extent, Kind, Request, Result};
use lane::{Cost, Lane, SleepWatch};
use policy::Hash;

/// The time that admitting the blocks of a fetch takes, where that is measured.
struct Keeping {
    is_timed: bool,
    took_ns: u64,
    kept: u64,
}

impl Keeping {
    fn new(is_timed: bool) -> Keeping {
        Keeping { is_timed, took_ns: 0, kept: 0 }
    }

    /// Runs `keep`, which admits some of the blocks and returns their number, and measures its
    /// time.
    fn time(&mut self, lane: &Lane, keep: impl FnOnce() -> u64) {
        if !self.is_timed {
            keep();
            return;
        }
        let begun = lane.stopwatch_ns();
        self.kept += keep();
        self.took_ns += lane.stopwatch_ns().saturating_sub(begun);
    }
}

/// The beginning of a timed read of the backing.
struct Begun {
    at_ns: u64,
    sleep: SleepWatch,
}

impl Handle {
    /// Serves a read that lies in one region and is not longer than a run.
    pub(super) async fn read_part(&self, at: Extent, into: &Buf, reader: Reader) -> Result {
        let (first, blocks) = blocks_of(&at);
        let entry = self.shared.shards.of(first);
        let rests = self.rest_rules(&at);
        if reader.is_client() {
            self.note_first_read(&at);
        }
        loop {
            self.lane.turn().await;
            let seen = entry.changed.seen();
            let rules = self.rules_of_read(&at);
            let look =
                entry.shard.with(|shard| shard.look(rules, reader, rests.as_ref(), &at, into));
            if reader != Reader::Observer {
                self.wake_reader();
            }
            match look {
                Look::Hit => {
                    self.lane.charge(Cost::Hit, blocks);
                    return Ok(());
                }
                Look::Wait if self.shared.backing.stall.is_on() => {
                    return Err(self.shared.backing.stall.error());
                }
                Look::Wait => {
                    entry.changed.after(seen).await;
                    let failed = self.shared.streams.was_failed(first);
                    if planted(Bug::AnswerReadaheadError) && failed {
                        return Err(Error::new(Kind::Io, "read: planted"));
                    }
                }
                Look::Fetch(fetch) => {
                    self.lane.charge(Cost::Miss, 1);
                    if self.fetch(entry, &fetch, into).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reads the missing part, with the rest of its blocks if that is to be fetched. If the backing
    /// cannot read them, reads the missing part alone: no client has requested the rest. Returns
    /// the buffer that has whole blocks, if there is one.
    async fn read_missing(&self, fetch: &Fetch, part: &Buf) -> Result<Option<(Extent, Buf)>> {
        let block = blocks_of(&fetch.at).0;
        let mut whole = self.rest_buffer(fetch.whole);
        loop {
            let (at, data) = match &whole {
                Some((at, buffer)) => (*at, buffer.part(0, at.count)),
                None => (fetch.at, part.clone()),
            };
            let result = match fetch.is_observed {
                true => self.read_unmeasured(at, data).await,
                false => self.read_below(at, data, block).await,
            };
            match (result, whole.take()) {
                (Ok(()), None) => return Ok(self.plant_failed_rest(fetch, part)),
                (Ok(()), Some((at, buffer))) => {
                    part.copy_from_buf(&fetch.part_of(at, &buffer));
                    return Ok(Some((at, buffer)));
                }
                (Err(_), Some((_, buffer))) if !planted(Bug::FailByRest) => {
                    self.rests.give(buffer);
                }
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Planted bug: after a failed read of whole blocks, returns its buffer as if it had succeeded.
    fn plant_failed_rest(&self, fetch: &Fetch, part: &Buf) -> Option<(Extent, Buf)> {
        if !planted(Bug::KeepFailedRest) {
            return None;
        }
        let (at, buffer) = self.rest_buffer(fetch.whole)?;
        fetch.part_of(at, &buffer).copy_from_buf(part);
        Some((at, buffer))
    }

    /// Fetches the missing part. Returns true if the read is complete.
    async fn fetch(&self, entry: &ShardEntry, fetch: &Fetch, into: &Buf) -> Result<bool> {
        let (first, blocks) = blocks_of(&fetch.at);
        let gauges = &self.shared.gauges;
        let result = match fetch.is_compressed && self.read_compressed(entry, fetch, into).await {
            true => Ok(None),
            false => self.read_missing(fetch, &into.part(fetch.skip, fetch.at.count)).await,
        };
        let whole = result.as_ref().ok().and_then(Option::as_ref);
        let fetched = match whole {
            Some((at, from)) => Fetched { at: *at, from, skip: 0 },
            None => fetch.needed(into),
        };
        let mut complete = result.is_ok();
        let all = first..first + u64::from(blocks);
        if result.is_err() {
            self.lane.turn().await;
            entry.shard.with(|shard| shard.end_fetch(gauges, fetch));
        } else {
            // A sixteenth is timed, as for misses.
            let mut keeping = Keeping::new(Hash::of(first).is_sampled());
            if blocks <= SLICE {
                self.lane.turn().await;
                keeping.time(&self.lane, || {
                    entry.shard.with(|shard| {
                        complete = shard.overlay(fetch, into, all.clone());
                        let kept = shard.keep(gauges, fetch, &fetched, all);
                        shard.end_fetch(gauges, fetch);
                        kept
                    })
                });
            } else {
                for slice in slices(all.clone()) {
                    self.lane.turn().await;
                    complete &= entry.shard.with(|shard| shard.overlay(fetch, into, slice));
                }
                for slice in slices(all) {
                    self.lane.turn().await;
                    let keep = |shard: &mut Shard| shard.keep(gauges, fetch, &fetched, slice);
                    keeping.time(&self.lane, || entry.shard.with(keep));
                }
                self.lane.turn().await;
                entry.shard.with(|shard| shard.end_fetch(gauges, fetch));
            }
            self.shared.bypass.admission_took(keeping.took_ns, keeping.kept);
        }
        self.lane.charge(Cost::Fill, blocks);
        entry.changed.notify();
        if !fetch.is_observed {
            self.wake_compressor(entry);
        }
        if let Some((_, buffer)) = result? {
            self.rests.give(buffer);
        }
        Ok(complete)
    }

    /// Reads from the backing for an observer. Other reads may wait for it, so the watchdog sees
    /// it, and errors of the backing are counted.
    async fn read_unmeasured(&self, at: Extent, into: Buf) -> Result {
        if self.shared.backing.stall.is_on() {
            return Err(self.shared.backing.stall.error());
        }
        let sent = self.shared.backing.in_flight.note_sent(RequestKind::Read);
        let result = self.below.run(Request::Read { at, into }).await;
        self.shared.backing.in_flight.note_answered(sent);
        if result.is_err() {
            self.shared.backing.health.count_read_error();
        }
        result
    }

    async fn read_below(&self, at: Extent, into: Buf, block: u64) -> Result {
        // A sixteenth of the misses is timed, which is enough for the estimate.
        let timed = Hash::of(block).is_sampled().then(|| self.begin_timing());
        let start = self.lane.now();
        let request = Request::Read { at, into };
        self.lane.turn().await;
        let now = self.below.try_now(&request);
        self.answers_immediately.set(now.is_some());
        let result = match now {
            Some(result) => result,
            None if self.shared.backing.stall.is_on() => {
                return Err(self.shared.backing.stall.error());
            }
            None => {
                let sent = self.shared.backing.in_flight.note_sent(RequestKind::Read);
                if self.shared.warming.is_reading() {
                    self.shared.warming.note_read(start);
                }
                let result = self.below.run(request).await;
                self.shared.backing.in_flight.note_answered(sent);
                if self.shared.warming.is_reading() {
                    // This read may have been the last that the list waited for.
                    self.wake_reader();
                }
                let now = self.lane.now();
                self.shared.writeback.estimator.foreground_read(now);
                self.shared.stats.latencies.miss_ns.record(now - start);
                result
            }
        };
        if let Some(begun) = timed
            && result.is_ok()
        {
            self.backing_read_took(begun);
        }
        if result.is_err() {
            self.shared.backing.health.count_read_error();
        }
        result
    }

    /// Sends a read that bypasses the cache to the backing, if the backing answers immediately.
    pub(super) fn bypass_now(&self, request: &Request, block: u64) -> Option<Result> {
        let timed = Hash::of(block).is_sampled().then(|| self.begin_timing());
        let answer = self.below.try_now(request);
        self.answers_immediately.set(answer.is_some());
        if let (Some(begun), Some(Ok(()))) = (timed, &answer) {
            self.backing_read_took(begun);
        }
        if let Some(Err(_)) = answer {
            self.shared.backing.health.count_read_error();
        }
        answer
    }

    fn begin_timing(&self) -> Begun {
        Begun { at_ns: self.lane.stopwatch_ns(), sleep: self.lane.watch_sleep() }
    }

    /// Records the latency of a read of the backing.
    fn backing_read_took(&self, begun: Begun) {
        // 0 stands for "not measured".
        let took_ns = self.lane.stopwatch_ns().saturating_sub(begun.at_ns).max(1);
        self.shared.gauges.backing_read_took(took_ns);
        self.shared.bypass.backing_read_took(took_ns, begun.sleep.slept_ns());
    }
}
