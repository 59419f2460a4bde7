//! The start-up list: the blocks that the last starts have read, fetched in order ahead of the
//! guest.
//!
//! ```text
//!   the latest start   b b b b b b b b b b b b b b b b b b b b
//!                            ^guest      ^next           ^
//!                            '------- at most WINDOW ----'
//! ```
//!
//! The *guest* is at the last block of a start that clients have read for the first time. Pieces
//! are taken from *next* on, up to a window beyond the guest. The number of blocks taken is
//! limited to a window and twice the blocks of that start that clients have read: a guest that
//! does something else also reads one of them now and then, anywhere in the list. So few blocks
//! are fetched that no client reads, and blocks that are far from their use take no slots. Older
//! starts are followed only if clients do what they did then.

use super::shape::{Shape, Source};
use super::{Listed, Piece};
use alloc::vec::Vec;
use hotlist::StartList;

/// Maximum number of blocks that are fetched beyond the guest: 32 MiB.
const WINDOW: usize = 8192;
/// One of this number of slots may hold blocks beyond the guest.
const WINDOW_ONE_IN: usize = 8;
/// First reads that show that the guest is elsewhere in the list: one alone may have been made for
/// any reason.
const JUMP: u32 = 8;
/// Blocks that may be fetched beyond a window for each first read of a block of the start.
const PER_READ: usize = 2;
/// Blocks of the list that are as close as this are one read.
const ONE_READ: usize = 32;

/// The list, and the guest's position.
#[derive(Debug)]
pub(super) struct StartUp {
    blocks: Vec<u64>,
    starts: Vec<Start>,
    /// The blocks with their indices, ordered by block.
    index: Vec<(u64, u32)>,
    /// The start that the guest repeats.
    current: usize,
    window: usize,
}

/// The indices of a start.
#[derive(Clone, Copy, Debug)]
struct Start {
    next: usize,
    guest: usize,
    end: usize,
    /// Blocks that were taken, and first reads of its blocks.
    taken: usize,
    repeated: usize,
    /// The last block that lies beyond the window, and the number of first reads near it.
    beyond: usize,
    reads: u32,
    is_followed: bool,
}

impl Start {
    fn is_due(&self, window: usize) -> bool {
        self.is_followed
            && self.next < self.end.min(self.guest + window)
            && self.taken < window + PER_READ * self.repeated
    }

    /// Notes a first read of the block with this index.
    fn follow(&mut self, at: usize, window: usize) {
        self.repeated += 1;
        if self.is_followed && at < self.guest + window {
            self.guest = self.guest.max(at + 1);
            return;
        }
        let distance = at.abs_diff(self.beyond);
        if self.reads > 0 && distance < ONE_READ {
            return;
        }
        let is_near = self.reads > 0 && distance < window;
        (self.beyond, self.reads) = (at, if is_near { self.reads + 1 } else { 1 });
        if self.reads >= JUMP {
            (self.guest, self.next) = (at + 1, self.next.max(at + 1));
            (self.reads, self.is_followed) = (0, true);
        }
    }
}

impl StartUp {
    /// Makes the state of a list for a cache with this number of slots. The latest start is
    /// followed from its first block on.
    pub(super) fn new(list: StartList, slots: u32) -> StartUp {
        let (mut blocks, mut starts) = (Vec::new(), Vec::new());
        for start in list.into_starts() {
            let next = blocks.len();
            let is_followed = starts.is_empty();
            blocks.extend(start);
            let end = blocks.len();
            starts.push(Start {
                next,
                guest: next,
                end,
                taken: 0,
                repeated: 0,
                beyond: 0,
                reads: 0,
                is_followed,
            });
        }
        let mut index: Vec<(u64, u32)> =
            blocks.iter().zip(0u32..).map(|(block, at)| (*block, at)).collect();
        index.sort_unstable();
        let window = WINDOW.min(slots as usize / WINDOW_ONE_IN).max(1);
        StartUp { blocks, starts, index, current: 0, window }
    }

    /// The number of its blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Notes the first read of a block by a client.
    pub(super) fn follow(&mut self, block: u64) {
        let found = self.index.partition_point(|(other, _)| *other < block);
        let Some(&(_, at)) = self.index.get(found).filter(|(other, _)| *other == block) else {
            return;
        };
        let at = at as usize;
        let start = self.starts.partition_point(|start| start.end <= at);
        self.starts[start].follow(at, self.window);
        if self.starts[start].is_followed {
            self.current = start;
        }
    }

    /// Whether a piece may be taken now.
    pub(super) fn is_due(&self) -> bool {
        self.starts.get(self.current).is_some_and(|start| start.is_due(self.window))
    }

    /// The number of blocks that were taken and lie beyond the guest.
    pub(super) fn beyond_guest(&self) -> u64 {
        let beyond = |start: &Start| start.next.saturating_sub(start.guest) as u64;
        self.starts.iter().map(beyond).sum()
    }

    /// Returns the next piece, if one may be taken. It must be tried, or is left out.
    pub(super) fn next_piece(&mut self, shape: &Shape, gap: u64) -> Option<Piece> {
        let start = self.starts.get_mut(self.current)?;
        while start.is_due(self.window) && !shape.has(self.blocks[start.next]) {
            start.next += 1;
        }
        if !start.is_due(self.window) {
            return None;
        }
        let (first, mut listed) =
            (start.next, Listed::new(self.blocks[start.next], Source::StartUp));
        start.next += 1;
        while start.next < start.end && shape.extends(&listed, self.blocks[start.next], gap) {
            listed.insert(self.blocks[start.next]);
            start.next += 1;
        }
        start.taken += start.next - first;
        Some(listed.piece())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::ops::Range;
    use hotlist::{Description, encode_start};

    const SLOTS: u32 = 1 << 20;

    fn shape() -> Shape {
        Shape { piece_blocks: 64, region_blocks: 1024, volume_blocks: 1 << 30 }
    }

    /// A list of a start, and perhaps the one before it, each with blocks of its own in ascending
    /// order.
    fn list(latest: Range<u64>, before: Option<Range<u64>>, slots: u32) -> StartUp {
        let of = Description { identity: "1".into(), volume_blocks: 1 << 31, saved_s: 0 };
        let starts = [Some(latest), before].into_iter().flatten().map(Range::collect).collect();
        let list = StartList::parse(&encode_start(&of, starts)).expect("a list");
        StartUp::new(list, slots)
    }

    /// Takes all pieces that are due. Returns their blocks.
    fn take(list: &mut StartUp) -> Vec<u64> {
        let next = || list.next_piece(&shape(), 0);
        let blocks = core::iter::from_fn(next).flat_map(|piece| {
            let first = piece.at.first / 8;
            first..first + u64::from(piece.at.count) / 8
        });
        blocks.collect()
    }

    fn follow(list: &mut StartUp, blocks: impl IntoIterator<Item = u64>) {
        blocks.into_iter().for_each(|block| list.follow(block));
    }

    #[test]
    fn a_window_ahead_of_the_guest_is_fetched_in_order() {
        let window = WINDOW as u64;
        let mut list = list(100..100_000, None, SLOTS);
        let close = |taken: &[u64], range: Range<u64>| {
            // The last piece may end a little later.
            assert_eq!(taken.first(), Some(&range.start));
            assert!(taken.last().is_some_and(|last| *last + 1 >= range.end));
            assert!(taken.last().is_some_and(|last| *last < range.end + 64));
            assert!(taken.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            *taken.last().expect("not empty") + 1
        };
        let mut next = close(&take(&mut list), 100..100 + window);
        assert!(!list.is_due() && list.beyond_guest() >= window);
        let mut read = 100;
        for guest in [5_000, 6_000, 9_000] {
            follow(&mut list, read..guest + 1);
            read = guest + 1;
            next = close(&take(&mut list), next..guest + 1 + window);
        }
        follow(&mut list, [150]);
        assert!(!list.is_due(), "the guest does not go back");
    }

    #[test]
    fn the_guest_is_found_where_it_reads_and_one_read_is_no_evidence() {
        let mut list = list(0..100_000, None, SLOTS);
        let window = take(&mut list).len();
        assert!(window >= WINDOW);
        follow(&mut list, [50_000, 90_000, 70_000, 20_000, 50_000]);
        assert!(!list.is_due(), "here and there");
        follow(&mut list, 60_000..60_032);
        assert!(!list.is_due(), "one read");
        follow(&mut list, (60_000..60_000 + 32 * u64::from(JUMP)).step_by(32));
        let taken = take(&mut list);
        let first = 60_000 + 32 * (u64::from(JUMP) - 1) + 1;
        assert_eq!(taken.first(), Some(&first));
        assert!(!taken.is_empty() && taken.len() < WINDOW, "as far as the guest has used the list");
    }

    #[test]
    fn a_guest_that_reads_a_block_now_and_then_is_not_followed_far() {
        let mut list = list(0..100_000, None, SLOTS);
        let mut taken = take(&mut list).len();
        // Each lies within the window, far from the one before.
        for block in (0..90_000).step_by(5_000) {
            follow(&mut list, [block]);
            taken += take(&mut list).len();
        }
        assert!(taken < WINDOW + 200, "{taken}");
    }

    #[test]
    fn an_older_start_is_followed_once_the_guest_repeats_it() {
        let mut list = list(0..1000, Some(50_000..60_000), SLOTS);
        assert_eq!(take(&mut list), (0..1000).collect::<Vec<_>>());
        follow(&mut list, 50_000..50_100);
        assert!(!list.is_due());
        follow(&mut list, 50_100..50_400);
        assert_eq!(take(&mut list).first(), Some(&50_225));
        follow(&mut list, [1]);
        assert!(!list.is_due(), "all of the latest start was taken");
    }

    #[test]
    fn small_caches_have_small_windows_and_blocks_beyond_the_end_are_left_out() {
        let mut small = list(0..1000, None, 256);
        assert!((32..96).contains(&take(&mut small).len()));
        let mut shrunk = list((1 << 30) - 2..(1 << 30) + 50, None, SLOTS);
        assert_eq!(take(&mut shrunk), vec![(1 << 30) - 2, (1 << 30) - 1]);
        assert!(!shrunk.is_due());
        let mut empty = list(0..0, None, SLOTS);
        follow(&mut empty, 0..20);
        assert!(!empty.is_due() && take(&mut empty).is_empty());
    }
}
