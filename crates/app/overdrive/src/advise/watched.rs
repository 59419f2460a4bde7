//! Advice by watching: a device, a process, or a command.

use super::counters;
use super::family::Family;
use super::limit::Limit;
use super::target::{all_disks, device_of, disk_below};
use super::tracepoints::{self, Seen};
use crate::progress::Stages;
use crate::trace::record::device::Device;
use crate::trace::record::events::Events;
use crate::watch::Watch;
use advice::load::Facts;
use block::Size;
use report::words::grouped;
use stack::{Exit, Failure};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command};

/// Time of watching by default.
const DEFAULT_NS: u64 = 600_000_000_000;

/// A watched load.
pub(super) struct Watched {
    pub(super) facts: Facts,
    /// The source of the facts, in words.
    pub(super) source: String,
    /// The device that the answer is about, by the kernel's name.
    pub(super) device: String,
    /// Gaps of the observation beyond those of the facts.
    pub(super) unseen: Vec<String>,
    /// Whether the device vanished.
    pub(super) is_gone: bool,
}

/// Options of watching.
pub(super) struct Options<'a> {
    pub(super) time_us: Option<u64>,
    pub(super) sizes: &'a [u64],
    /// Whether the output of a command belongs to the standard error.
    pub(super) is_json: bool,
}

impl Options<'_> {
    fn limit<'b>(
        &self,
        usual_ns: Option<u64>,
        child: Option<&'b mut Child>,
        watch: &'b mut Watch,
    ) -> Limit<'b> {
        let time_ns = self.time_us.map(|us| us.saturating_mul(1000)).or(usual_ns);
        Limit { time_ns, child, watch }
    }
}

/// Watches a device by its tracepoints, or else by its counters.
///
/// # Errors
/// The device cannot be watched at all.
pub(super) fn device(name: &str, options: &Options<'_>) -> Result<Watched, Failure> {
    let mut watch = Watch::new(Stages::new_at_once())?;
    let opened = disk_below(name).and_then(|disk| Ok((open(&[&disk], false)?, disk)));
    let (events, disk) = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            let counted = {
                let mut limit = options.limit(Some(DEFAULT_NS), None, &mut watch);
                counters::watch(Path::new("/"), name, None, &mut limit)
            };
            watch.finish();
            let (facts, ended) = counted?;
            return Ok(by_counters(name, facts, ended, &failure));
        }
    };
    let below = disk.name.clone();
    let seen = {
        let mut limit = options.limit(Some(DEFAULT_NS), None, &mut watch);
        tracepoints::watch(events, vec![disk], options.sizes, None, &mut limit)
    };
    watch.finish();
    let (mut seen, ended) = seen?;
    let facts = seen.facts_of(&below, options.sizes);
    let mut unseen: Vec<String> = ended.reason().into_iter().collect();
    if below != name {
        unseen.push(format!(
            "/dev/{name} lies on /dev/{below}, whose requests were watched: others that use \
             /dev/{below} are counted, too."
        ));
    }
    let (source, is_gone) = (source(), ended.is_gone());
    Ok(Watched { facts, source, device: name.to_owned(), unseen, is_gone })
}

fn source() -> String {
    "requests to the device, by tracepoints".to_owned()
}

fn open(disks: &[&Device], with_tasks: bool) -> Result<Events, Failure> {
    let numbers: Vec<u64> = disks.iter().map(|disk| disk.filter_number).collect();
    Events::open(&numbers, with_tasks)
}

fn by_counters(name: &str, facts: Facts, ended: super::limit::Ended, failure: &Failure) -> Watched {
    let mut unseen: Vec<String> = ended.reason().into_iter().collect();
    unseen.push(format!(
        "Requests cannot be watched ({}): the counters of /proc/diskstats show their number and \
         mean times only.",
        failure.message
    ));
    Watched {
        facts,
        source: "counters of /proc/diskstats".to_owned(),
        device: name.to_owned(),
        unseen,
        is_gone: ended.is_gone(),
    }
}

/// Watches a process, its threads and its children until it ends.
///
/// # Errors
/// There is no such process, or nothing can be watched.
pub(super) fn process(pid: u32, options: &Options<'_>) -> Result<Watched, Failure> {
    let mut family = Family::of(pid);
    if !family.is_alive() {
        let message = format!("process {pid}: does not exist; 'ps -e' lists processes");
        return Err(Failure::new(Exit::Usage, message));
    }
    let directory = format!("/proc/{pid}/cwd");
    let mut watch = Watch::new(Stages::new_at_once())?;
    let disks = all_disks();
    let events = open(&disks.iter().collect::<Vec<_>>(), true);
    let mut limit = options.limit(Some(DEFAULT_NS), None, &mut watch);
    let watched = family_on(events, disks, &mut family, Path::new(&directory), options, &mut limit);
    watch.finish();
    watched
}

/// Runs a command and watches it until it ends.
///
/// # Errors
/// It cannot be started, or nothing can be watched.
pub(super) fn command(words: &[OsString], options: &Options<'_>) -> Result<Watched, Failure> {
    let mut watch = Watch::new(Stages::new())?;
    let disks = all_disks();
    // Before the command's first request.
    let events = open(&disks.iter().collect::<Vec<_>>(), true);
    let mut child = start(words, options.is_json)?;
    let mut family = Family::of(child.id());
    let mut limit = options.limit(None, Some(&mut child), &mut watch);
    let watched = family_on(events, disks, &mut family, Path::new("."), options, &mut limit);
    watch.finish();
    let status = child.wait();
    let mut watched = watched?;
    if let Some(status) = status.ok().filter(|status| !status.success()) {
        let name = words[0].to_string_lossy();
        watched
            .unseen
            .insert(0, format!("{name} failed ({status}): this may not be its usual load."));
    }
    Ok(watched)
}

fn start(words: &[OsString], is_json: bool) -> Result<Child, Failure> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    host::make_ordinary(&mut command);
    if is_json {
        command.stdout(std::io::stderr());
    }
    command.spawn().map_err(|error| {
        let message = format!("{}: {error}", words[0].to_string_lossy());
        Failure::new(Exit::Usage, message)
    })
}

/// Watches the requests of a family to all disks; without tracepoints, the counters of the disk
/// below a directory.
fn family_on(
    events: Result<Events, Failure>,
    disks: Vec<Device>,
    family: &mut Family,
    directory: &Path,
    options: &Options<'_>,
    limit: &mut Limit<'_>,
) -> Result<Watched, Failure> {
    let below = device_of(directory);
    let events = match events {
        Ok(events) => events,
        Err(failure) => {
            let name = below?;
            let (facts, ended) = counters::watch(Path::new("/"), &name, Some(family), limit)?;
            let mut watched = by_counters(&name, facts, ended, &failure);
            watched.unseen.push(own_bytes(family, &name));
            return Ok(watched);
        }
    };
    let (mut seen, ended) =
        tracepoints::watch(events, disks, options.sizes, Some(&mut *family), limit)?;
    let busiest = seen.busiest();
    let device = match busiest {
        Some(name) => name,
        None => below?,
    };
    let facts = seen.facts_of(&device, options.sizes);
    let mut unseen: Vec<String> = ended.reason().into_iter().collect();
    unseen.extend(seen.disks.iter().map(|Seen { name, facts }| {
        format!(
            "It also used /dev/{name}: {} reads and {} writes, which are not counted here.",
            grouped(facts.reads),
            grouped(facts.writes)
        )
    }));
    if family.unidentified > 0 {
        unseen.push(format!(
            "{} steps of requests are of threads that had ended before they were identified: some \
             may belong to the load.",
            grouped(family.unidentified)
        ));
    }
    let source = format!("requests to /dev/{device} of the process, by tracepoints");
    Ok(Watched { facts, source, device, unseen, is_gone: ended.is_gone() })
}

fn own_bytes(family: &Family, device: &str) -> String {
    let own = match family.own_bytes {
        Some((read, written)) => format!(
            "it caused reads of {} and writes of {} on all devices, by its own counters",
            Size(read),
            Size(written)
        ),
        None => "its own counters cannot be read".to_owned(),
    };
    format!("All requests to /dev/{device} are counted, not only those of the process: {own}.")
}
