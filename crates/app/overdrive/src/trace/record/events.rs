//! Events of requests to some disks, and of threads.

use super::merge::Merge;
use super::tracefs::Instance;
use stack::{Exit, Failure};
use std::fs::File;
use std::io;
use trace::{RingPages, RingRecord, Step};

/// Age from which no processor adds an event: a time is taken just before the event is stored, the
/// events of nested interrupts become visible together, and the host of a guest may stop a
/// processor in between.
const SETTLE_NS: u64 = 20_000_000;

/// The tracepoints of threads.
const TASKS: [&str; 2] = ["task_newtask", "task_rename"];

/// Events as the kernel's tracepoints report them, in the order of their times.
pub(crate) struct Events {
    merge: Merge<File>,
    has_tasks: bool,
    /// Dropped last: the buffers must be closed before it is removed.
    instance: Instance,
}

impl Events {
    /// Begins to collect the events of these disks, by their numbers in filters; with
    /// `with_tasks`, also those of threads that start or are renamed, if the kernel has them.
    ///
    /// # Errors
    /// This user may not, or the kernel has no such events.
    pub(crate) fn open(filter_numbers: &[u64], with_tasks: bool) -> Result<Events, Failure> {
        let instance = Instance::open(filter_numbers)?;
        let failed = |error: io::Error| Failure::new(Exit::Io, format!("tracefs: {error}"));
        let header = instance.text("events/header_page").map_err(failed)?;
        let format =
            |step: Step| instance.text(&format!("events/block/{}/format", step.tracepoint()));
        let formats = Step::ALL.map(|step| format(step).map(|text| (step, text)));
        let formats = formats.into_iter().collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let known = formats.iter().map(|(step, text)| (*step, text.as_str()));
        let mut pages = RingPages::new(&header, known).ok_or_else(|| {
            let message = "tracefs: the layout of this kernel's events is unknown, as on 32-bit \
                           systems; record a served volume instead";
            Failure::new(Exit::Negative, message)
        })?;
        let has_tasks = with_tasks && start_tasks(&instance, &mut pages);
        let merge = Merge::new(instance.raw_pipes().map_err(failed)?, pages);
        Ok(Events { merge, has_tasks, instance })
    }

    /// Whether events of threads are passed on.
    pub(crate) fn has_tasks(&self) -> bool {
        self.has_tasks
    }

    /// Passes on the events up to now. Returns whether there are more.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn take(&mut self, each: impl FnMut(&RingRecord)) -> io::Result<bool> {
        self.merge.take(host::now_ns().saturating_sub(SETTLE_NS), each)
    }

    /// Ends the collection, and passes on all events that are left.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(&RingRecord)) -> io::Result<()> {
        self.instance.stop()?;
        while self.merge.take(u64::MAX, &mut each)? {}
        Ok(())
    }

    /// Returns the number of events that were lost, because a buffer was full.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn lost(&self) -> io::Result<u64> {
        self.instance.lost()
    }

    /// Returns the number of entries of the buffers that could not be read.
    pub(crate) fn unreadable(&self) -> u64 {
        self.merge.unreadable
    }
}

/// Begins to collect the events of threads. Returns false if this kernel has none that are known.
fn start_tasks(instance: &Instance, pages: &mut RingPages) -> bool {
    let format = |name: &str| instance.text(&format!("events/task/{name}/format"));
    let [started, renamed] = TASKS.map(format);
    let (Ok(started), Ok(renamed)) = (started, renamed) else { return false };
    let is_on = |name: &str| instance.enable(&format!("events/task/{name}")).is_ok();
    pages.read_tasks(&started, &renamed) && TASKS.into_iter().all(is_on)
}
