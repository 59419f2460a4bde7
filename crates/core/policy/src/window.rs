//! A window before a main part: new blocks must be read again in a first-in-first-out queue, the
//! window, before they enter the main part, a CLOCK. The window's size can be changed at any time,
//! up to the whole cache: then the policy is LRU.
//!
//! ```text
//!            window                                    main
//!   miss --> [ young      |  old       ] -- read? ---> [ second chances ] --> gone
//!                 reads      reads          not                 for as many rounds as
//!                 are not    count           |                  reads, three at most
//!                 counted                    v
//!                                          ghosts (names only) -- read again ----> main
//! ```
//!
//! The queues are those of S3-FIFO (J. Yang et al., "FIFO Queues are All You Need for Cache
//! Eviction", SOSP 2023) with the correlation window of Clock2Q+ (VMware, VLDB 2026, arXiv
//! 2511.21958): a read of a block that was admitted a moment ago belongs to the same work, and does
//! not count. There are two additions. Blocks that leave the window fill the main part while it is
//! not full: so a part of a loop that is larger than the cache stays cached, where queues of proven
//! blocks alone would keep nothing. And the window's share is chosen while the cache works
//! (`arbiter.rs`).
//!
//! A slot of the main part counts up to three reads, and each pass of the hand takes one of them.
//! So a block that is read three times as often as another stays three times as long, which one bit
//! cannot do. Three is what fits beside the list in four bits.
//!
//! Main can be *guarded*: a ghost that is read again then enters it only if the hand finds a slot
//! without reads among the next two; the hand takes one read of each slot that it passes. Otherwise
//! the block enters the window. Without the guard each such block evicts one of main, even if all
//! of them are read more often: in a loop, or if the same blocks are hot for long. With the guard
//! main follows a change more slowly.
//!
//! And main can be *proven* only: then blocks that were not read do not fill it, and the window
//! takes the rest of the cache. The arbiter decides about both, as about the shares.
//!
//! A shard of a few slots has no room for a window and a main part, and is always LRU.
//!
//! A slot that was dirty enters the window like a miss, unless its block was in the main part
//! before it was overwritten: then it returns there. Reads and writes while it was dirty count.

use crate::fingerprints::Fingerprints;
use crate::packed::Packed;
use crate::{Cause, Hash, Held, Links, List, ListsByHeat, Replacement, WALK_MAX};

const YOUNG: usize = 0;
const OLD: usize = 1;
const MAIN: usize = 2;
/// The bits of a slot's state.
const PLACE: u64 = 3;
/// One read, and the bits of all.
const READ: u64 = 4;
const READS: u64 = 12;

/// The whole cache, as a share.
pub(crate) const ALL: u32 = 1024;
/// Added to a share if main is guarded.
pub(crate) const GUARDED: u32 = 1 << 16;
/// Added to a share if only proven blocks enter main.
pub(crate) const PROVEN: u32 = 1 << 17;
/// Fewer slots than this are always LRU: a window of one or two would admit nothing to main.
const SLOTS_MIN: u32 = 16;
/// Slots of a guarded main part of which one must be without reads.
const GUARDS: u32 = 2;
/// Initial share: LRU, until a shadow is better.
pub(crate) const FIRST_SHARE: u32 = ALL;

/// Returns the window's share of the cache, in 1024ths, of a value that
/// [`Arbiter`](crate::Arbiter) has returned.
pub fn window_share(share: u32) -> u32 {
    share & !(GUARDED | PROVEN)
}

/// Returns the rule for main of a value that [`Arbiter`](crate::Arbiter) has returned: `guarded`,
/// `proven`, or an empty string for none.
pub fn main_rule(share: u32) -> &'static str {
    match share & (GUARDED | PROVEN) {
        0 => "",
        GUARDED => "guarded",
        _ => "proven",
    }
}

pub(crate) struct Window {
    /// Young, old and main, oldest first.
    lists: [List; 3],
    /// `| reads 2 | list 2 |` of each slot: the list of a clean slot, and its reads since, if reads
    /// count there. They are adjacent because a hit needs both.
    states: Packed<4>,
    ghosts: Fingerprints,
    /// Number of slots.
    slots: u32,
    /// Free slots that count as part of the window.
    free: u32,
    /// Whether the last victim was one of the window, before a main part.
    has_rejected: bool,
    /// The window's share, in 1024ths.
    share: u32,
    is_guarded: bool,
    is_proven_only: bool,
}

impl Window {
    pub(crate) fn new(share: u32) -> Window {
        Window {
            lists: [List::EMPTY; 3],
            states: Packed::EMPTY,
            ghosts: Fingerprints::new(0),
            slots: 0,
            free: 0,
            has_rejected: false,
            share: window_share(share),
            is_guarded: share & GUARDED != 0,
            is_proven_only: share & PROVEN != 0,
        }
    }

    /// Sets the window's share, in 1024ths, plus [`GUARDED`] or [`PROVEN`]; the next evictions
    /// adjust the lists to it.
    pub(crate) fn set_share(&mut self, share: u32) {
        self.share = if self.slots < SLOTS_MIN { ALL } else { window_share(share) };
        self.is_guarded = share & GUARDED != 0;
        self.is_proven_only = share & PROVEN != 0;
    }

    fn is_lru(&self) -> bool {
        self.share >= ALL
    }

    fn clean(&self) -> u32 {
        self.lists.iter().map(|list| list.length).sum()
    }

    /// Number of clean slots, and of free ones that count as part of the window.
    fn room(&self) -> u32 {
        self.clean() + self.free
    }

    /// Target number of slots in the window, the free ones included.
    fn window_max(&self) -> u32 {
        let slots = u64::from(self.room()) * u64::from(self.share) / u64::from(ALL);
        (slots as u32).max(1)
    }

    #[inline]
    fn place(&self, slot: u32) -> usize {
        (self.states.get(slot) & PLACE) as usize
    }

    fn set_place(&mut self, slot: u32, place: usize) {
        let reads = self.states.get(slot) & READS;
        self.states.set(slot, reads | place as u64);
    }

    fn was_read(&self, slot: u32) -> bool {
        self.states.get(slot) & READS != 0
    }

    /// Returns whether the slot was read, and takes all its reads.
    fn take_reads(&mut self, slot: u32) -> bool {
        let state = self.states.get(slot);
        self.states.set(slot, state & PLACE);
        state & READS != 0
    }

    /// Returns whether the slot was read, and takes one of its reads.
    fn take_read(&mut self, slot: u32) -> bool {
        let state = self.states.get(slot);
        let was_read = state & READS != 0;
        if was_read {
            self.states.set(slot, state - READ);
        }
        was_read
    }

    /// Makes a clean slot the newest one: it was read, and the window is the whole cache.
    #[inline]
    fn touch(&mut self, links: &mut Links, slot: u32) {
        if self.lists[YOUNG].length == self.clean() {
            // The usual case. Needs no access to its state.
            return links.touch(&mut self.lists[YOUNG], slot);
        }
        self.move_to(links, slot, YOUNG);
    }

    fn move_to(&mut self, links: &mut Links, slot: u32, to: usize) {
        let from = self.place(slot);
        self.set_place(slot, to);
        links.remove(&mut self.lists[from], slot);
        links.push_back(&mut self.lists[to], slot);
    }

    /// Whether its block was in main before it was overwritten, left the window recently, or was
    /// read repeatedly while it was compressed.
    fn is_proven(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause) -> bool {
        if self.place(slot) == MAIN {
            return true;
        }
        let has_returned = self.ghosts.remove(hash) || cause == Cause::Compressed;
        has_returned && self.main_yields(links)
    }

    /// Whether main takes a block that has returned: unless it is guarded, always.
    fn main_yields(&mut self, links: &mut Links) -> bool {
        let main_max = self.room().saturating_sub(self.window_max());
        if !self.is_guarded || self.lists[MAIN].length < main_max {
            return true;
        }
        for _ in 0..GUARDS {
            let List { head, length, .. } = self.lists[MAIN];
            if length == 0 || !self.take_read(head) {
                return true;
            }
            links.touch(&mut self.lists[MAIN], head);
        }
        false
    }

    /// The oldest slot of the window.
    fn oldest(&self) -> Option<u32> {
        let [young, old, _] = &self.lists;
        let list = if old.length > 0 { old } else { young };
        (list.length > 0).then_some(list.head)
    }

    /// Returns the victim while the window is the whole cache: main contains only slots from an
    /// earlier share.
    fn lru_victim(&mut self, links: &mut Links) -> Option<u32> {
        for _ in 0..WALK_MAX {
            let List { head, length, .. } = self.lists[MAIN];
            if length == 0 {
                return self.oldest();
            }
            if !self.take_reads(head) {
                return Some(head);
            }
            self.move_to(links, head, YOUNG);
        }
        self.lists.iter().rev().find(|list| list.length > 0).map(|list| list.head)
    }

    /// Returns the oldest slot of the window that was not read; moves those before it to main.
    /// None: main must evict, or the walk has reached its limit.
    fn window_victim(&mut self, links: &mut Links, walked: &mut u32) -> Option<u32> {
        let room = self.room();
        let window_max = self.window_max();
        let main_max = room.saturating_sub(window_max);
        while *walked < WALK_MAX {
            let main = self.lists[MAIN].length;
            if main > main_max || room - main < window_max && main == main_max {
                return None;
            }
            let slot = self.oldest()?;
            if (main == main_max || self.is_proven_only) && !self.was_read(slot) {
                return Some(slot);
            }
            *walked += 1;
            self.take_reads(slot);
            self.move_to(links, slot, MAIN);
        }
        None
    }

    /// Returns the first slot of main without reads; takes one read of those before it, and moves
    /// them to the end.
    fn main_victim(&mut self, links: &mut Links, walked: &mut u32) -> Option<u32> {
        while self.lists[MAIN].length > 0 {
            let slot = self.lists[MAIN].head;
            if *walked >= WALK_MAX || !self.take_read(slot) {
                return Some(slot);
            }
            *walked += 1;
            links.touch(&mut self.lists[MAIN], slot);
        }
        None
    }
}

impl Replacement for Window {
    #[inline]
    fn lists(&self) -> &[List] {
        &self.lists
    }

    fn coldest_first(&self) -> ListsByHeat {
        let [young, old, main] = self.lists;
        if self.is_lru() { [main, old, young] } else { [old, young, main] }
    }

    fn reads(&self, slot: u32) -> u32 {
        ((self.states.get(slot) & READS) / READ) as u32
    }

    fn restore(&mut self, links: &mut Links, slot: u32, _: Hash, list: usize, reads: u32) {
        self.states.set(slot, list as u64 | (u64::from(reads) * READ));
        links.push_back(&mut self.lists[list], slot);
    }

    fn ghosts(&self) -> &[u16] {
        self.ghosts.all()
    }

    fn ghosts_mut(&mut self) -> &mut [u16] {
        self.ghosts.all_mut()
    }

    #[inline]
    fn hit(&mut self, links: &mut Links, slot: u32, _: impl FnOnce() -> Hash, held: Held) {
        if self.is_lru() && held == Held::Clean {
            return self.touch(links, slot);
        }
        let state = self.states.get(slot);
        let is_young = held == Held::Clean && state == YOUNG as u64;
        if !is_young && state & READS != READS {
            self.states.set(slot, state + READ);
        }
    }

    fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause) {
        let is_proven = !self.is_lru() && self.is_proven(links, slot, hash, cause);
        let place = if is_proven { MAIN } else { YOUNG };
        self.set_place(slot, place);
        links.push_back(&mut self.lists[place], slot);
        let young_max = if self.is_lru() { u32::MAX } else { self.window_max().div_ceil(2) };
        for _ in 0..2 {
            if self.lists[YOUNG].length > young_max {
                self.move_to(links, self.lists[YOUNG].head, OLD);
            }
        }
    }

    fn victim(&mut self, links: &mut Links, _: Hash, hash_of: impl Fn(u32) -> Hash) -> Option<u32> {
        self.has_rejected = false;
        if self.is_lru() {
            return self.lru_victim(links);
        }
        let mut walked = 0;
        if let Some(slot) = self.window_victim(links, &mut walked) {
            self.has_rejected = true;
            self.ghosts.push(hash_of(slot));
            return Some(slot);
        }
        self.main_victim(links, &mut walked).or_else(|| self.oldest())
    }

    /// A slot passes the list in which it is once more.
    fn spare(&mut self, links: &mut Links, slot: u32, hash: Hash) {
        self.ghosts.remove(hash);
        match self.place(slot) {
            MAIN if !self.is_lru() => links.touch(&mut self.lists[MAIN], slot),
            _ => self.move_to(links, slot, YOUNG),
        }
    }

    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        self.states.set(new, self.states.get(old));
        if held == Held::Clean {
            links.replace(&mut self.lists[self.place(old)], old, new);
        }
    }

    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        let place = self.states.replace(slot, YOUNG as u64) & PLACE;
        if held == Held::Clean {
            links.remove(&mut self.lists[place as usize], slot);
        }
    }

    fn set_room(&mut self, _: u32, free: u32) {
        self.free = free;
    }

    fn has_rejected(&self) -> bool {
        self.has_rejected
    }

    /// Removes all ghosts.
    fn resize(&mut self, slots: u32) {
        self.slots = slots;
        self.states.resize(slots);
        self.ghosts = Fingerprints::new((u64::from(slots) * 9 / 10) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::draw;
    use crate::slots::Slots;
    use crate::{Kind, Policy, misses};
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The rules above on vectors of blocks, oldest at 0.
    struct Plain {
        young: Vec<(u64, u8)>,
        old: Vec<(u64, u8)>,
        main: Vec<(u64, u8)>,
        ghosts: Fingerprints,
        size: usize,
        share: usize,
        is_guarded: bool,
        is_proven_only: bool,
    }

    impl Plain {
        fn window_max(&self) -> usize {
            let held = self.young.len() + self.old.len() + self.main.len();
            (held * self.share / ALL as usize).max(1)
        }

        fn evict(&mut self) {
            let window_max = self.window_max();
            let main_max = self.size - window_max;
            loop {
                let window = self.young.len() + self.old.len();
                let main = self.main.len();
                if window == 0 || main > main_max || window < window_max && main == main_max {
                    break;
                }
                let list = if self.old.is_empty() { &mut self.young } else { &mut self.old };
                let (block, reads) = list.remove(0);
                if (main == main_max || self.is_proven_only) && reads == 0 {
                    return self.ghosts.push(Hash::of(block));
                }
                self.main.push((block, 0));
            }
            while self.main_passes() {}
            self.main.remove(0);
        }

        /// Takes a read of the first block and moves it to the end. False: it has none.
        fn main_passes(&mut self) -> bool {
            let was_read = self.main[0].1 > 0;
            if was_read {
                let (block, reads) = self.main.remove(0);
                self.main.push((block, reads - 1));
            }
            was_read
        }

        fn main_yields(&mut self) -> bool {
            let held = self.young.len() + self.old.len() + self.main.len();
            let is_full = self.main.len() >= held.saturating_sub(self.window_max());
            let passes = |plain: &mut Plain| !plain.main.is_empty() && plain.main_passes();
            !(self.is_guarded && is_full && passes(self) && passes(self))
        }

        fn read(&mut self, block: u64) -> bool {
            if self.young.iter().any(|(other, _)| *other == block) {
                return true;
            }
            let mut held = self.old.iter_mut().chain(&mut self.main);
            if let Some((_, reads)) = held.find(|(other, _)| *other == block) {
                *reads = (*reads + 1).min(3);
                return true;
            }
            if self.young.len() + self.old.len() + self.main.len() == self.size {
                self.evict();
            }
            match self.ghosts.remove(Hash::of(block)) && self.main_yields() {
                true => self.main.push((block, 0)),
                false => self.young.push((block, 0)),
            }
            let young_max = self.window_max().div_ceil(2);
            for _ in 0..2 {
                if self.young.len() > young_max {
                    self.old.push(self.young.remove(0));
                }
            }
            false
        }
    }

    proptest! {
        #[test]
        fn each_read_ends_as_the_rules_say(
            slots in SLOTS_MIN..60,
            share in 1..1000u32,
            is_guarded: bool,
            is_proven_only: bool,
            blocks in proptest::collection::vec(0..120u64, 0..1000),
        ) {
            let flags = [is_guarded, is_proven_only].map(u32::from);
            let flags = (flags[0] * GUARDED) | (flags[1] * PROVEN);
            let mut window = Slots::with_window(share | flags, slots);
            let ghosts = Fingerprints::new(slots * 9 / 10);
            let (young, old, main) = (Vec::new(), Vec::new(), Vec::new());
            let (size, share) = (slots as usize, share as usize);
            let mut plain =
                Plain { young, old, main, ghosts, size, share, is_guarded, is_proven_only };
            for block in blocks {
                prop_assert_eq!(window.read_hash(Hash::of(block)), plain.read(block));
            }
        }

        #[test]
        fn a_window_that_is_all_is_lru(
            slots in 1..40u32,
            blocks in proptest::collection::vec(0..80u64, 0..1000),
        ) {
            let mut window = Slots::with_window(ALL, slots);
            let missed = blocks.iter().filter(|block| !window.read_hash(Hash::of(**block))).count();
            prop_assert_eq!(missed as u64, misses(Kind::Lru, slots, blocks));
        }
    }

    #[test]
    fn a_few_slots_are_lru_whatever_the_share() {
        let mut state = 5;
        let blocks: Vec<u64> = (0..5000).map(|_| draw(&mut state, 20)).collect();
        for (slots, is_lru) in [(SLOTS_MIN - 1, true), (SLOTS_MIN, false)] {
            let mut window = Slots::with_window(ALL / 4, slots);
            let missed = blocks.iter().filter(|block| !window.read_hash(Hash::of(**block))).count();
            let lru = misses(Kind::Lru, slots, blocks.iter().copied());
            assert_eq!(missed as u64 == lru, is_lru, "{slots} slots: {missed}, LRU {lru}");
        }
    }

    #[test]
    fn the_share_can_change_at_any_time() {
        let mut window = Slots::with_window(ALL, 100);
        let mut state = 7;
        for read in 0..20_000 {
            if read % 97 == 0 {
                let share = [1, ALL / 32, ALL / 4, ALL / 2, ALL][draw(&mut state, 5) as usize];
                let flags = [0, GUARDED, PROVEN][draw(&mut state, 3) as usize];
                window.set_window_share(share | flags);
            }
            window.read_hash(Hash::of(draw(&mut state, 300)));
            let held: u32 = window.lists().iter().map(|list| list.length).sum();
            assert!(held == 100 || read < 1000 && held <= 100, "{held} after {read} reads");
        }
        // Main is emptied once the window is the whole cache again.
        window.set_window_share(ALL);
        (0..200).for_each(|block| _ = window.read_hash(Hash::of(1000 + block)));
        assert_eq!(window.lists()[MAIN].length, 0);
    }

    #[test]
    fn a_loop_that_does_not_fit_and_a_scan_leave_a_part_of_it() {
        let missed = |share: u32, blocks: &mut dyn Iterator<Item = u64>| {
            let mut window = Slots::with_window(share, 1000);
            blocks.filter(|&block| !window.read_hash(Hash::of(block))).count()
        };
        let mut loops = (0..15_000).map(|read| read % 1500);
        let looped = missed(ALL / 10, &mut loops);
        assert!(looped < 15_000 * 3 / 5, "{looped}");
        // A hot set, followed by a scan of twice the cache's size.
        let mut hot = (0..20_000u64).map(|read| match read % 10_000 {
            at @ 8000.. => 1_000_000 + read / 10_000 * 10_000 + at,
            at => at * at % 701,
        });
        let kept = missed(ALL / 10, &mut hot);
        assert!(kept < 4000 + 400 + 300, "{kept}");
    }

    /// Returns the cached blocks after these misses, each of which enters a slot that was dirty.
    /// Every second one of the first blocks was read while dirty.
    #[test]
    fn what_was_read_while_dirty_has_proved_itself() {
        const SLOTS: u32 = 100;
        let (mut links, mut policy) = (Links::new(SLOTS), Policy::new(Kind::Adaptive, SLOTS));
        policy.set_window_share(ALL / 4);
        let mut held: Vec<u64> = (0..u64::from(SLOTS)).collect();
        for slot in 0..SLOTS {
            policy.admit(&mut links, slot, Hash::of(held[slot as usize]), Cause::Fetch);
        }
        for block in 1000..1100 {
            let hash_of = |slot: u32| Hash::of(held[slot as usize]);
            let slot = policy.victim(&mut links, Hash::of(block), hash_of).expect("all are clean");
            policy.forget(&mut links, slot, Held::Clean);
            held[slot as usize] = block;
            if block < 1020 && block % 2 == 0 {
                policy.hit(&mut links, slot, || Hash::of(block), Held::Dirty);
            }
            policy.admit(&mut links, slot, Hash::of(block), Cause::Writeback);
        }
        let mut first: Vec<u64> =
            held.into_iter().filter(|block| (1000..1020).contains(block)).collect();
        first.sort_unstable();
        assert_eq!(first, (1000..1020).step_by(2).collect::<Vec<u64>>());
    }

    /// The write fills another slot, and the slot that held the block is free for the next one.
    #[test]
    fn what_was_in_main_before_it_was_overwritten_is_there_again_when_it_is_clean() {
        const SLOTS: u32 = 100;
        let (mut links, mut policy) = (Links::new(SLOTS), Policy::new(Kind::Adaptive, SLOTS));
        policy.set_window_share(ALL / 4);
        let of = |slot: u32| Hash::of(u64::from(slot));
        for slot in 0..SLOTS {
            policy.admit(&mut links, slot, of(slot), Cause::Fetch);
        }
        // Main fills when a victim is requested.
        let mut free = policy.victim(&mut links, of(SLOTS), of).expect("all are clean");
        policy.forget(&mut links, free, Held::Clean);
        for list in [MAIN, OLD, YOUNG] {
            let (old, main) = (policy.lists()[list].head, policy.lists()[MAIN].length);
            policy.succeed(&mut links, old, free, Held::Dirty);
            policy.forget(&mut links, old, Held::Clean);
            policy.admit(&mut links, free, of(old), Cause::Writeback);
            assert_eq!(policy.lists()[MAIN].length, main, "what was in list {list}");
            free = old;
        }
    }
}
