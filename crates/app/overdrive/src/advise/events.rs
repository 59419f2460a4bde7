//! Events of requests to some disks, and of threads, in the order of their times.

use crate::trace::record::tracefs::Instance;
use stack::{Exit, Failure};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use trace::{RingPages, RingRecord, Step};

/// Maximum size of a page of the kernel's buffer.
const PAGE_BYTES_MAX: usize = 1 << 16;
/// The tracepoints of threads.
const TASKS: [&str; 2] = ["task_newtask", "task_rename"];
/// Maximum number of pages of a processor that are read at a time.
const PAGES_MAX: usize = 256;

/// Events as the kernel's tracepoints report them.
pub(super) struct Events {
    pipes: Vec<File>,
    pages: RingPages,
    page: Vec<u8>,
    /// Events that were read, but may be newer than others that were not.
    waiting: Vec<RingRecord>,
    unreadable: u64,
    has_tasks: bool,
    /// Dropped last: the pipes must be closed before it is removed.
    instance: Instance,
}

impl Events {
    /// Begins to collect the events of these disks, by their numbers in filters; with
    /// `with_tasks`, also those of threads that start or are renamed, if the kernel has them.
    ///
    /// # Errors
    /// This user may not, or the kernel has no such events.
    pub(super) fn open(filter_numbers: &[u64], with_tasks: bool) -> Result<Events, Failure> {
        let instance = Instance::open_for(filter_numbers)?;
        let failed = |error: io::Error| Failure::new(Exit::Io, format!("tracefs: {error}"));
        let header = instance.text("events/header_page").map_err(failed)?;
        let format =
            |step: Step| instance.text(&format!("events/block/{}/format", step.tracepoint()));
        let formats = Step::ALL.map(|step| format(step).map(|text| (step, text)));
        let formats = formats.into_iter().collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let known = formats.iter().map(|(step, text)| (*step, text.as_str()));
        let mut pages = RingPages::new(&header, known).ok_or_else(|| {
            Failure::new(Exit::Negative, "tracefs: this kernel's events have an unknown layout")
        })?;
        let has_tasks = with_tasks && start_tasks(&instance, &mut pages);
        let pipes = instance.raw_pipes().map_err(failed)?;
        let (page, waiting) = (vec![0; PAGE_BYTES_MAX], Vec::new());
        Ok(Events { pipes, pages, page, waiting, unreadable: 0, has_tasks, instance })
    }

    /// Whether events of threads are passed on.
    pub(super) fn has_tasks(&self) -> bool {
        self.has_tasks
    }

    /// Passes on the events up to now. Returns whether there are more.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn take(&mut self, each: impl FnMut(&RingRecord)) -> io::Result<bool> {
        // A processor's events that are newer than this may follow others' that were not read.
        let now_ns = host::now_ns();
        let (end_ns, is_more) = self.read(now_ns)?;
        self.pass(end_ns, each);
        Ok(is_more)
    }

    /// Ends the collection, and passes on all events that are left.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn finish(&mut self, mut each: impl FnMut(&RingRecord)) -> io::Result<()> {
        self.instance.stop()?;
        while self.take(&mut each)? {}
        self.pass(u64::MAX, each);
        Ok(())
    }

    /// Returns the number of events that were lost or unreadable.
    pub(super) fn lost(&self) -> u64 {
        self.instance.lost().unwrap_or(0) + self.unreadable
    }

    /// Reads pages. Returns the time up to which all events have been read, and whether there are
    /// more.
    fn read(&mut self, now_ns: u64) -> io::Result<(u64, bool)> {
        let (mut end_ns, mut is_more) = (now_ns, false);
        let Events { pipes, pages, page, waiting, unreadable, .. } = self;
        for pipe in pipes {
            let (mut count, mut last_ns) = (0, 0);
            while count < PAGES_MAX {
                let bytes = match pipe.read(page) {
                    Ok(0) => break,
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                *unreadable += pages.read(&page[..bytes], |record| {
                    last_ns = record.time_ns();
                    waiting.push(record);
                });
                count += 1;
            }
            if count == PAGES_MAX {
                (end_ns, is_more) = (end_ns.min(last_ns), true);
            }
        }
        Ok((end_ns, is_more))
    }

    fn pass(&mut self, end_ns: u64, each: impl FnMut(&RingRecord)) {
        self.waiting.sort_by_key(RingRecord::time_ns);
        let end = self.waiting.partition_point(|record| record.time_ns() <= end_ns);
        self.waiting.drain(..end).as_slice().iter().for_each(each);
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
