//! Events of all processors' buffers, in the order of their times.
//!
//! ```text
//!   buffer of processor 0 --pages--> events that wait --+
//!   buffer of processor 1 --pages--> events that wait --+--> by time, up to the time that all
//!   ...                                                 |    buffers have been read to
//! ```

use std::io::{self, ErrorKind, Read};
use trace::{RingPages, RingRecord};

/// Maximum size of a page of the kernel's buffer.
const PAGE_BYTES_MAX: usize = 1 << 16;
/// Maximum number of pages that are read at a time, from all processors together. A page of 4 KiB
/// has about 63 events, so that the events that wait have about 5 MiB at most.
const PAGES_MAX: usize = 1024;
/// Minimum of a processor.
const PAGES_MIN: usize = 4;

/// The buffers of all processors.
pub(super) struct Merge<R> {
    pipes: Vec<Pipe<R>>,
    /// Maximum number of pages of a processor that are read at a time.
    pages_max: usize,
    pages: RingPages,
    page: Vec<u8>,
    /// Events that were read, but may be newer than others that were not.
    waiting: Vec<RingRecord>,
    /// Events up to this time were passed on.
    passed_ns: u64,
    /// Number of entries that could not be read.
    pub(super) unreadable: u64,
}

/// The buffer of a processor.
struct Pipe<R> {
    pages: R,
    /// Its events up to this time have been read.
    read_to_ns: u64,
    /// Whether the last read did not reach its end.
    has_more: bool,
}

impl<R: Read> Merge<R> {
    /// Returns the merge of these buffers, each of which returns a page with each read.
    pub(super) fn new(buffers: Vec<R>, pages: RingPages) -> Merge<R> {
        let pages_max = (PAGES_MAX / buffers.len().max(1)).max(PAGES_MIN);
        let pipe = |pages| Pipe { pages, read_to_ns: 0, has_more: false };
        let pipes = buffers.into_iter().map(pipe).collect();
        let (page, waiting) = (vec![0; PAGE_BYTES_MAX], Vec::new());
        Merge { pipes, pages_max, pages, page, waiting, passed_ns: 0, unreadable: 0 }
    }

    /// Passes on the events up to `now_ns`, or the oldest of them. Returns whether there are more.
    ///
    /// # Errors
    /// The errors of the buffers.
    pub(super) fn take(&mut self, now_ns: u64, each: impl FnMut(&RingRecord)) -> io::Result<bool> {
        for number in 0..self.pipes.len() {
            self.read(number, now_ns)?;
        }
        let end_ns = self.pipes.iter().map(|pipe| pipe.read_to_ns).min().unwrap_or(now_ns);
        self.passed_ns = end_ns;
        self.waiting.sort_by_key(RingRecord::time_ns);
        let end = self.waiting.partition_point(|record| record.time_ns() <= end_ns);
        self.waiting.drain(..end).as_slice().iter().for_each(each);
        Ok(self.pipes.iter().any(|pipe| pipe.has_more))
    }

    /// Reads the next pages of a processor, unless events of the pages before still wait for those
    /// of another processor. This bounds the number of events that wait.
    fn read(&mut self, number: usize, now_ns: u64) -> io::Result<()> {
        let Merge { pipes, pages, page, waiting, unreadable, .. } = self;
        let pipe = &mut pipes[number];
        if pipe.has_more && pipe.read_to_ns > self.passed_ns {
            return Ok(());
        }
        pipe.has_more = true;
        let mut count = 0;
        while count < self.pages_max {
            let bytes = match pipe.pages.read(page) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if bytes == 0 {
                (pipe.read_to_ns, pipe.has_more) = (now_ns, false);
                return Ok(());
            }
            *unreadable += pages.read(&page[..bytes], |record| {
                pipe.read_to_ns = record.time_ns();
                waiting.push(record);
            });
            count += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use trace::Step;

    const HEADER: &str = "field: u64 timestamp;\toffset:0;\tsize:8;\n\
                          field: local_t commit;\toffset:8;\tsize:8;\n\
                          field: char data;\toffset:16;\tsize:4080;\n";
    const ISSUE: &str = "ID: 7\nfield:dev_t dev;\toffset:8;\tsize:4;\n\
                         field:sector_t sector;\toffset:16;\tsize:8;\n\
                         field:unsigned int nr_sector;\toffset:24;\tsize:4;\n\
                         field:char rwbs[4];\toffset:28;\tsize:4;\n";

    /// Pages of one event each.
    struct Pages(VecDeque<u64>);

    impl Read for Pages {
        fn read(&mut self, page: &mut [u8]) -> io::Result<usize> {
            let Some(time_ns) = self.0.pop_front() else {
                return Err(ErrorKind::WouldBlock.into());
            };
            let mut event = [0u8; 32];
            event[0] = 7;
            event[16..24].copy_from_slice(&8u64.to_ne_bytes());
            event[24..28].copy_from_slice(&8u32.to_ne_bytes());
            event[28] = b'R';
            let head = 8u32.to_ne_bytes();
            let bytes = [&time_ns.to_ne_bytes()[..], &36u64.to_ne_bytes(), &head, &event].concat();
            page[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    fn merge(buffers: Vec<VecDeque<u64>>) -> Merge<Pages> {
        let pages = RingPages::new(HEADER, [(Step::Issue, ISSUE)]).expect("known");
        Merge::new(buffers.into_iter().map(Pages).collect(), pages)
    }

    #[test]
    fn events_of_processors_are_in_the_order_of_their_times_and_few_wait() {
        // The second processor has its events in the last of a hundred parts of the time.
        let count = 20_000;
        let even = (0..count).map(|number| number * 100).collect();
        let late = (0..count).map(|number| (count - 200) * 100 + number + 1).collect();
        let mut merge = merge(vec![even, late]);
        let (mut times, mut waiting_max) = (Vec::new(), 0);
        while merge.take(u64::MAX, |record| times.push(record.time_ns())).expect("read") {
            waiting_max = waiting_max.max(merge.waiting.len());
        }
        assert_eq!((times.len() as u64, merge.unreadable), (2 * count, 0));
        assert!(times.is_sorted() && waiting_max <= PAGES_MAX, "{waiting_max}");
    }

    #[test]
    fn events_that_are_too_new_wait() {
        let mut merge = merge(vec![[10, 30].into(), [20].into()]);
        let mut times = Vec::new();
        assert!(!merge.take(25, |record| times.push(record.time_ns())).expect("read"));
        assert_eq!(times, [10, 20]);
        assert!(!merge.take(30, |record| times.push(record.time_ns())).expect("read"));
        assert_eq!(times, [10, 20, 30]);
    }
}
