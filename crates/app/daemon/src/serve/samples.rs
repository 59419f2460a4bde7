//! Samples of the volumes for the history, each second: on the home lane, by differences of
//! counters. A thread writes them to the file (`history::Recorder`), so that no request waits for
//! it. Without requests there are no samples: the timer is deferrable, and an idle daemon sleeps.

use super::captive::either;
use super::volume_service::{BLOCK, VolumeService};
use super::volume_services::VolumeServices;
use super::warmth::now_s;
use crate::control::errors::BackingErrors;
use cache::{Counters, Histograms};
use histogram::Snapshot;
use history::{Figures, Recorder, VolumeSample};
use lane::Event;
use ring::Ring;
use stack::{Counts, Kind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time between two samples, in nanoseconds.
const PERIOD_NS: u64 = 1_000_000_000;
/// Longest time that the end of the daemon waits for the last samples.
const LAST: Duration = Duration::from_secs(2);

/// The task that samples the volumes.
pub(crate) struct Sampler {
    ring: Ring,
    services: Rc<VolumeServices>,
    file: PathBuf,
    quiet: bool,
    recorder: RefCell<Option<Recorder>>,
    /// The totals at the last sample, by volume.
    earlier: RefCell<BTreeMap<String, Totals>>,
    has_ended: Cell<bool>,
    ended: Event,
}

impl Sampler {
    /// Makes the sampler of these volumes, which records in this file. None: there is no file, or
    /// the contents of all volumes end with this process.
    pub(crate) fn new(
        ring: &Ring,
        services: &Rc<VolumeServices>,
        file: Option<&Path>,
        quiet: bool,
    ) -> Option<Rc<Sampler>> {
        let lasts = |service: &Rc<VolumeService>| service.volume.lasting_identity().is_some();
        let file = file.filter(|_| services.all().iter().any(lasts))?;
        Some(Rc::new(Sampler {
            ring: ring.clone(),
            services: services.clone(),
            file: file.to_owned(),
            quiet,
            recorder: RefCell::new(None),
            earlier: RefCell::default(),
            has_ended: Cell::new(false),
            ended: Event::new(),
        }))
    }

    /// Starts the thread and the task. The thread inherits the confinement of this one.
    pub(crate) fn start(self: &Rc<Sampler>) {
        let quiet = self.quiet;
        let report = move |words: &str| {
            if !quiet {
                crate::tell!("overdrive: {words}");
            }
        };
        match Recorder::start(self.file.clone(), report) {
            Ok(recorder) => *self.recorder.borrow_mut() = Some(recorder),
            Err(error) => {
                crate::complain!("overdrive: the history is not recorded: no thread ({error})");
                return;
            }
        }
        let sampler = self.clone();
        let sampling = async move { sampler.run().await };
        // Without room on the lane there are no samples.
        let _ = self.ring.lane().spawn(sampling);
    }

    /// Takes the last sample, waits for a short time until it is recorded, and ends the task.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.ended.notify();
        let Some(recorder) = self.recorder.borrow_mut().take() else { return };
        recorder.record(self.sample());
        let lost = recorder.lost();
        if lost > 0 {
            crate::detail!("overdrive: {lost} samples of the history were lost");
        }
        recorder.finish(LAST);
    }

    async fn run(&self) {
        let lane = self.ring.lane().clone();
        loop {
            let seen = self.ended.seen();
            if self.has_ended.get() {
                return;
            }
            let next = lane.sleep_deferrable_until(lane.now() + PERIOD_NS);
            either(self.ended.after(seen), next).await;
            if let Some(recorder) = &*self.recorder.borrow() {
                recorder.record(self.sample());
            }
        }
    }

    /// Returns the samples of the volumes since the last ones.
    fn sample(&self) -> Vec<VolumeSample> {
        let (now_ns, at_s) = (self.ring.lane().now(), now_s() as i64);
        let mut earlier = self.earlier.borrow_mut();
        let mut samples = Vec::new();
        for service in self.services.all() {
            let is_known = earlier.contains_key(&service.name);
            if !is_known && service.volume.lasting_identity().is_none() {
                continue;
            }
            let before = earlier.entry(service.name.clone()).or_default();
            let totals = Totals::of(&service, now_ns);
            let mut figures = totals.since(before);
            *before = Totals { latencies: std::mem::take(&mut before.latencies), ..totals };
            if let Some(shared) = service.shared().filter(|_| may_have_waited(&figures)) {
                before.add_latencies(&mut figures, shared.histograms());
            }
            samples.push(VolumeSample { volume: service.name.clone(), at_s, figures });
        }
        samples
    }
}

/// The totals of a volume since its service began.
#[derive(Default)]
struct Totals {
    counters: Counters,
    /// As of the last sample with requests that may have waited.
    latencies: Histograms,
    /// Reads, changes, flushes and written bytes of a volume without a cache.
    uncached: [u64; 4],
    errors: u64,
    busy_ns: u64,
    clients: u64,
}

impl Totals {
    fn of(service: &VolumeService, now_ns: u64) -> Totals {
        let shared = service.shared();
        let uncached = match shared {
            Some(_) => [0; 4],
            None => service.volume.counts().map(uncached).unwrap_or_default(),
        };
        let counters = shared.map(|shared| shared.observe(now_ns)).unwrap_or_default();
        let errors: BackingErrors = match service.volume.counts() {
            Some(counts) => counts.into(),
            None => (&counters).into(),
        };
        Totals {
            counters,
            latencies: Histograms::default(),
            uncached,
            errors: errors.sum(),
            busy_ns: service.lane_volume.busy.total_ns(now_ns),
            clients: service.clients(),
        }
    }

    /// Returns the figures of the time since earlier totals.
    fn since(&self, earlier: &Totals) -> Figures {
        let (now, before) = (&self.counters, &earlier.counters);
        let reads = |it: &Counters| it.read_hits + it.read_misses + it.read_joins;
        let grown = |now: u64, before: u64| now.saturating_sub(before);
        let uncached = |index: usize| grown(self.uncached[index], earlier.uncached[index]);
        Figures {
            reads: grown(reads(now), reads(before)) + uncached(0),
            read_hits: grown(now.read_hits, before.read_hits),
            changes: grown(now.changes, before.changes) + uncached(1),
            written_bytes: grown(now.asked_write_bytes, before.asked_write_bytes) + uncached(3),
            written_back_bytes: grown(now.blocks_written, before.blocks_written) * BLOCK,
            saved_bytes: grown(now.blocks_saved, before.blocks_saved) * BLOCK,
            flushes: grown(now.flushes, before.flushes) + uncached(2),
            errors: grown(self.errors, earlier.errors),
            time_saved_ns: grown(now.time_saved_ns, before.time_saved_ns),
            bypass_ns: grown(now.bypass_ns, before.bypass_ns),
            busy_ns: grown(self.busy_ns, earlier.busy_ns),
            miss_p99_ns: 0,
            flush_p99_ns: 0,
            dirty_bytes: now.blocks_dirty * BLOCK,
            dirty_age_ns: now.dirty_age_ns,
            held_bytes: now.blocks_held * BLOCK,
            clients: self.clients,
        }
    }

    /// Adds the latencies since the last call to figures.
    fn add_latencies(&mut self, figures: &mut Figures, latencies: Histograms) {
        let p99 = |now: &Snapshot, before: &Snapshot| now.since(before).quantile(0.99);
        figures.miss_p99_ns = p99(&latencies.miss_ns, &self.latencies.miss_ns);
        figures.flush_p99_ns = p99(&latencies.flush_ns, &self.latencies.flush_ns);
        self.latencies = latencies;
    }
}

/// Whether a read or a flush of these figures may have waited for the backing.
fn may_have_waited(figures: &Figures) -> bool {
    figures.reads > figures.read_hits || figures.flushes > 0
}

/// Returns the reads, changes, flushes and written bytes of a volume without a cache.
fn uncached(counts: &Counts) -> [u64; 4] {
    let requests = |kind: &Kind| kind.requests.load(Ordering::Relaxed);
    let changes = [&counts.writes, &counts.zeroes, &counts.discards];
    let changes = changes.into_iter().map(requests).sum();
    let written_bytes = counts.writes.bytes.load(Ordering::Relaxed);
    [requests(&counts.reads), changes, requests(&counts.flushes), written_bytes]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_what_was_added_and_what_is_there() {
        let counters = |hits, dirty| Counters {
            read_hits: hits,
            read_misses: 10,
            blocks_written: 2 * hits,
            blocks_dirty: dirty,
            ..Counters::default()
        };
        let before = Totals { counters: counters(5, 100), ..Totals::default() };
        let now = Totals { counters: counters(9, 3), busy_ns: 7, clients: 2, ..Totals::default() };
        let figures = now.since(&before);
        assert_eq!((figures.reads, figures.read_hits), (4, 4));
        assert_eq!((figures.written_back_bytes, figures.dirty_bytes), (8 * 4096, 3 * 4096));
        assert_eq!((figures.busy_ns, figures.clients, figures.miss_p99_ns), (7, 2, 0));
        // A volume that was detached and served again begins at zero.
        assert_eq!(before.since(&now).reads, 0);
    }
}
