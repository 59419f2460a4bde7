//! Write-throughs in flight to the backing.

use crate::blocks::blocks_of;
use alloc::vec::Vec;
use block::Extent;

/// The write-throughs of a shard. There are few at a time: a list is searched faster than a table.
#[derive(Default)]
pub(crate) struct WriteThroughQueue {
    list: Vec<Extent>,
    /// Changes that wait until no request for their blocks is in flight to the backing.
    line: Vec<Extent>,
    /// Blocks for which a write-through has failed while the workers had to write them: the workers
    /// write them next. Otherwise these blocks, and a flush that waits for them, would wait as long
    /// as other write-throughs keep failing.
    owed: Vec<u64>,
    /// As if a write-through touched every block: nothing may begin here.
    closed: bool,
}

impl WriteThroughQueue {
    pub(crate) fn new() -> WriteThroughQueue {
        let (list, line) = (Vec::with_capacity(64), Vec::with_capacity(64));
        WriteThroughQueue { list, line, owed: Vec::new(), closed: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.closed
    }

    /// Sets whether the shard behaves as if a write-through touched every block.
    pub(crate) fn close(&mut self, closed: bool) {
        self.closed = closed;
    }

    pub(crate) fn begin(&mut self, at: Extent) {
        self.list.push(at);
    }

    pub(crate) fn end(&mut self, at: Extent) {
        let position = self.list.iter().position(|write_through| *write_through == at);
        self.list.swap_remove(position.expect("a write-through ends once"));
    }

    /// Queues a change that waits for requests in flight to its blocks: it precedes later changes.
    pub(crate) fn line_up(&mut self, at: Extent) {
        self.line.push(at);
    }

    /// Removes a change from the queue.
    pub(crate) fn leave_line(&mut self, at: Extent) {
        let position = self.line.iter().position(|waits| *waits == at);
        self.line.remove(position.expect("it has lined up"));
    }

    /// Notes a failed write-through of a block that the workers must write: they write it next.
    pub(crate) fn owe(&mut self, block: u64) {
        if !self.owed.contains(&block) {
            self.owed.push(block);
        }
    }

    /// Notes that the workers have written the block, or have failed to.
    pub(crate) fn pay(&mut self, block: u64) {
        self.owed.retain(|&owed| owed != block);
    }

    /// Notes that nothing is to be written any more.
    pub(crate) fn pay_all(&mut self) {
        self.owed.clear();
    }

    /// Whether another change of some of the same blocks precedes this one: a change that has
    /// waited there since before this one arrived, or a write of the workers. `waits`: this change
    /// is in the queue.
    pub(crate) fn is_behind(&self, at: Extent, waits: bool) -> bool {
        let before = match waits {
            true => self.line.iter().position(|other| *other == at).unwrap_or(0),
            false => self.line.len(),
        };
        let (first, blocks) = blocks_of(&at);
        let is_owed = |block: &u64| (first..first + u64::from(blocks)).contains(block);
        touch(&self.line[..before], first, blocks) || self.owed.iter().any(is_owed)
    }

    /// Whether a write-through touches any of these blocks.
    #[inline]
    pub(crate) fn meet(&self, first: u64, blocks: u32) -> bool {
        self.closed || touch(&self.list, first, blocks)
    }

    /// Whether this block must not be written back now: during a write-through of it, and while a
    /// change of it waits in the queue. Otherwise that change would wait for as long as others keep
    /// writing there. A block that the workers owe is written back first: the queue waits for it.
    #[inline]
    pub(crate) fn hold_back(&self, block: u64) -> bool {
        self.meet(block, 1) || touch(&self.line, block, 1) && !self.owed.contains(&block)
    }
}

/// Whether any of these extents touches any of these blocks.
fn touch(extents: &[Extent], first: u64, blocks: u32) -> bool {
    let start = first * u64::from(crate::BLOCK_SECTORS);
    let end = (first + u64::from(blocks)) * u64::from(crate::BLOCK_SECTORS);
    extents.iter().any(|at| at.first < end && start < at.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_met_where_it_is_and_everywhere_while_nothing_may_begin() {
        let mut write_through = WriteThroughQueue::new();
        assert!(write_through.is_empty() && !write_through.meet(0, 1000));
        // The end of block 5, and a part of block 6.
        let at = Extent::new(47, 3);
        write_through.begin(at);
        let met =
            [(0, 5), (5, 1), (6, 1), (7, 9), (4, 4)].map(|(first, n)| write_through.meet(first, n));
        assert_eq!(met, [false, true, true, false, true]);
        assert!(!write_through.is_empty());
        write_through.close(true);
        assert!(write_through.meet(7, 9));
        write_through.end(at);
        assert!(!write_through.is_empty() && write_through.meet(900, 1));
        write_through.close(false);
        assert!(write_through.is_empty() && !write_through.meet(5, 2));
    }

    #[test]
    fn who_waits_goes_before_whoever_comes_later_and_nothing_is_sent_before_him() {
        let mut write_through = WriteThroughQueue::new();
        let (first, second) = (Extent::new(16, 8), Extent::new(8, 16));
        assert!(!write_through.is_behind(second, false) && !write_through.hold_back(2));
        write_through.line_up(first);
        assert!(write_through.is_behind(second, false) && !write_through.is_behind(first, true));
        assert!(!write_through.is_behind(Extent::new(24, 8), false), "it is beside it");
        write_through.line_up(second);
        assert!(write_through.is_behind(second, true) && !write_through.is_behind(first, true));
        assert_eq!(
            [0, 1, 2, 3].map(|block| write_through.hold_back(block)),
            [false, true, true, false]
        );
        assert!(!write_through.meet(0, 10) && write_through.is_empty(), "nothing passes");
        write_through.leave_line(first);
        assert!(!write_through.is_behind(second, true) && write_through.hold_back(2));
        write_through.leave_line(second);
        assert!(!write_through.hold_back(2));
    }

    #[test]
    fn where_a_pass_has_failed_over_what_is_to_be_written_the_crew_goes_first() {
        let mut write_through = WriteThroughQueue::new();
        let at = Extent::new(16, 16);
        write_through.line_up(at);
        (0..2).for_each(|_| write_through.owe(3));
        assert!(
            write_through.is_behind(at, true)
                && !write_through.is_behind(Extent::new(32, 8), false)
        );
        assert_eq!([2, 3].map(|block| write_through.hold_back(block)), [true, false]);
        write_through.pay(2);
        assert!(write_through.is_behind(at, true));
        write_through.pay(3);
        assert!(!write_through.is_behind(at, true) && write_through.hold_back(3));
        write_through.owe(2);
        write_through.pay_all();
        assert!(!write_through.is_behind(at, true));
        write_through.leave_line(at);
        write_through.owe(3);
        let behind =
            [1, 2, 3, 4].map(|block| write_through.is_behind(Extent::new(block * 8, 8), false));
        assert_eq!(behind, [false, false, true, false]);
    }
}
