//! Watches disks by the kernel's tracepoints.

use super::family::Family;
use super::limit::{Ended, Limit, Until};
use crate::trace::record::device::Device;
use crate::trace::record::events::Events;
use advice::load::{Facts, Gather, access_of, sample_of};
use stack::{Exit, Failure};
use std::time::Duration;
use trace::{RingEvent, RingRecord};
use traces::Matcher;

/// Pause between two reads of the kernel's buffers.
const PAUSE: Duration = Duration::from_millis(100);
/// The same while a family is watched: its end is noticed soon, and its processes may end soon
/// after their requests.
const FAMILY_PAUSE: Duration = Duration::from_millis(10);
/// Time between two looks at the disks.
const LOOK_NS: u64 = 1_000_000_000;
/// The kernel's threads that write cached files back; a number follows.
const WRITEBACK: &[u8] = b"kworker";
/// A process that has named itself like one of the family.
const STRANGE: &[u8] = b"(another process)";

/// The load of a disk.
pub(super) struct Seen {
    /// The name of the disk or partition.
    pub(super) name: String,
    pub(super) facts: Facts,
}

/// The loads of several disks.
pub(super) struct AllSeen {
    pub(super) disks: Vec<Seen>,
    duration_ns: u64,
}

impl AllSeen {
    /// Takes the facts of a disk, or those of a disk without requests.
    pub(super) fn facts_of(&mut self, name: &str, sizes: &[u64]) -> Facts {
        match self.disks.iter().position(|seen| seen.name == name) {
            Some(index) => self.disks.remove(index).facts,
            None => {
                let facts = gather(sizes).end(&[]);
                Facts { duration_ns: Some(self.duration_ns), flushes: Some(0), ..facts }
            }
        }
    }

    /// Returns the name of the disk with the most waiting time.
    pub(super) fn busiest(&self) -> Option<String> {
        let waited = |seen: &&Seen| {
            let Facts { read_times, write_times, .. } = &seen.facts;
            read_times.sum_ns.saturating_add(write_times.sum_ns)
        };
        self.disks.iter().max_by_key(waited).map(|seen| seen.name.clone())
    }
}

/// A disk, its requests in flight, and what is known of its load.
struct Watched {
    device: Device,
    matcher: Matcher,
    /// None: no request of the load has reached it.
    gather: Option<Gather>,
    /// Whether the processes of the matcher belong to the load.
    counts: Vec<bool>,
}

impl Watched {
    fn new(device: Device) -> Watched {
        let matcher = Matcher::new(device.sectors.clone(), host::now_ns());
        Watched { device, matcher, gather: None, counts: Vec::new() }
    }

    fn put(&mut self, entry: &trace::recording::Entry, sizes: &[u64], is_of_all: bool) {
        for name in self.matcher.processes().iter().skip(self.counts.len()) {
            self.counts.push(is_of_all || Family::is_label(name.as_bytes()));
        }
        let process = entry.process.map_or(usize::MAX, |number| number as usize);
        let counts = self.counts.get(process).copied().unwrap_or(is_of_all);
        if self.gather.is_none() && !counts {
            return;
        }
        let gather = self.gather.get_or_insert_with(|| gather(sizes));
        gather.see_of(&access_of(entry), counts);
    }

    fn seen(mut self, sizes: &[u64], is_of_all: bool) -> Option<Seen> {
        for entry in self.matcher.finish() {
            self.put(&entry, sizes, is_of_all);
        }
        let names = self.matcher.processes();
        let facts = self.gather?.end(names);
        Some(Seen { name: self.device.name.clone(), facts })
    }
}

fn gather(sizes: &[u64]) -> Gather {
    Gather::new(sizes, sample_of(sizes), 1)
}

/// Watches disks until the limit. Returns those that the load has used. Of a family, only its
/// requests are the load.
///
/// # Errors
/// The kernel's events cannot be read.
pub(super) fn watch(
    mut events: Events,
    devices: Vec<Device>,
    sizes: &[u64],
    mut family: Option<&mut Family>,
    limit: &mut Limit<'_>,
) -> Result<(AllSeen, Ended), Failure> {
    let is_of_all = family.is_none();
    let mut disks: Vec<Watched> = devices.into_iter().map(Watched::new).collect();
    let begin_ns = host::now_ns();
    let (mut looked_ns, mut is_look) = (begin_ns, true);
    let until = loop {
        // Events name all threads that start later; a look also finds those of lost events.
        if let Some(family) = family.as_mut().filter(|_| is_look || !events.has_tasks()) {
            family.refresh();
        }
        let is_more = events
            .take(|record| feed(record, &mut disks, &mut family, sizes))
            .map_err(unreadable)?;
        let now_ns = host::now_ns();
        is_look = now_ns - looked_ns >= LOOK_NS;
        if is_look {
            looked_ns = now_ns;
            // Of a family's disks, others may vanish.
            let mut gone = disks.iter().filter(|disk| is_of_all || disk.gather.is_some());
            if let Some(disk) = gone.find(|disk| disk.device.is_gone()) {
                break Until::Gone(disk.device.name.clone());
            }
        }
        let pause = match (is_more, is_of_all) {
            (true, _) => Duration::ZERO,
            (false, true) => PAUSE,
            (false, false) => FAMILY_PAUSE,
        };
        if let Some(until) = limit.wait(pause, now_ns - begin_ns, family.as_deref()) {
            break until;
        }
    };
    events.finish(|record| feed(record, &mut disks, &mut family, sizes)).map_err(unreadable)?;
    let lost = events.lost().unwrap_or(0) + events.unreadable();
    let duration_ns = host::now_ns() - begin_ns;
    let of = |disk: Watched| disk.seen(sizes, is_of_all);
    let mut seen: Vec<Seen> = disks.into_iter().filter_map(of).collect();
    for it in &mut seen {
        it.facts.duration_ns = Some(duration_ns);
        it.facts.flushes.get_or_insert(0);
        it.facts.lost = lost;
    }
    Ok((AllSeen { disks: seen, duration_ns }, Ended { until, ns: duration_ns }))
}

fn feed(
    record: &RingRecord,
    disks: &mut [Watched],
    family: &mut Option<&mut Family>,
    sizes: &[u64],
) {
    match (record, family) {
        (RingRecord::Block(event), family) => feed_block(event, disks, family, sizes),
        (RingRecord::Task(event), Some(family)) => family.note(event),
        (RingRecord::Task(_), None) => {}
    }
}

fn feed_block(
    event: &RingEvent,
    disks: &mut [Watched],
    family: &mut Option<&mut Family>,
    sizes: &[u64],
) {
    let is_of_all = family.is_none();
    let number = u64::from(event.device);
    // Partitions of a disk share its events.
    for disk in disks.iter_mut().filter(|disk| disk.device.filter_number == number) {
        let name = event.process();
        let own =
            family.as_mut().filter(|_| !name.is_empty()).and_then(|it| it.label(event.thread));
        let label = match own {
            Some(label) => label.as_bytes(),
            None if name.starts_with(WRITEBACK) => WRITEBACK,
            None if !is_of_all && Family::is_label(name) => STRANGE,
            None => name,
        };
        if let Some(entry) = disk.matcher.feed(&event.event(label)) {
            disk.put(&entry, sizes, is_of_all);
        }
    }
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("tracefs: {error}"))
}
