use super::*;
use crate::arena::Arena;
use crate::arena::pages::{Head, PageMark};
use crate::geometry::Geometry;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use block::Memory;
use core::ops::Range;
use lane::Random;
use packing::Encoding;

fn geometry(slots: u32) -> Geometry {
    Geometry { slots, ..Geometry::SMALLEST }
}

fn arena(geometry: &Geometry) -> Arena {
    let memory = Memory::heap(Arena::bytes(geometry, 512));
    Arena::from_memory(Arc::new(memory), geometry, 512)
}

/// A tier beside a map with the same blocks.
struct Both {
    geometry: Geometry,
    arena: Arena,
    tier: Tier,
    expected: BTreeMap<u64, Vec<u8>>,
    free: Vec<u32>,
    /// The slots that the tier may use.
    used: Range<u32>,
}

impl Both {
    fn new(slots: u32) -> Both {
        let geometry = geometry(slots);
        let arena = arena(&geometry);
        let mut tier = Tier::new(&geometry, arena.clone(), 0);
        tier.open();
        let (expected, free) = (BTreeMap::new(), (0..slots).collect());
        Both { geometry, arena, tier, expected, free, used: 0..slots }
    }

    /// Lets another process take the pages over, with a tier of this size.
    fn take_over(&mut self, slots: u32) {
        let geometry = Geometry { slots, ..self.geometry };
        self.tier = Tier::new(&geometry, self.arena.clone(), 0);
        self.tier.open();
        let pages = (0..self.geometry.slots).filter_map(|slot| {
            let PageMark { number, first } = self.arena.page(slot)?;
            Some(FoundPage { slot, number, first })
        });
        let pages: Vec<FoundPage> = pages.collect();
        // Pages without a mark had no object.
        let is_page = |slot: &u32| pages.iter().any(|page| page.slot == *slot);
        self.free = self.used.clone().filter(|slot| !is_page(slot)).collect();
        self.tier.restore(pages);
        self.take_back();
    }

    fn take_back(&mut self) {
        while let Some(slot) = self.tier.take_released() {
            assert!(!self.free.contains(&slot), "released twice");
            self.free.push(slot);
        }
    }

    /// Drops all objects, and checks that this many slots are free then.
    fn check_empties(&mut self, slots: usize) {
        self.tier.drop_all();
        self.take_back();
        let left = (self.tier.held(), self.tier.pages(), self.free.len());
        assert_eq!(left, (0, 0, slots));
    }

    fn evict(&mut self) {
        let mut again = Copies::default();
        self.tier.evict_oldest(Some(&mut again));
        self.take_back();
        for (object, data) in again.iter() {
            assert_eq!(self.expected[&object.block], data);
        }
        self.expected.retain(|block, _| self.tier.has(*block));
    }

    fn store(&mut self, block: u64, data: Vec<u8>) {
        while self.tier.is_full() {
            self.evict();
        }
        while self.tier.needs_page(data.len()) {
            match self.free.pop() {
                Some(slot) => self.tier.add_page(slot),
                None => self.evict(),
            }
        }
        let encoding = if data.is_empty() { Encoding::Word } else { Encoding::Lz4 };
        self.tier.store(&Encoded::new(encoding, &data).of_block(block), &data);
        self.expected.insert(block, data);
    }

    fn check(&self, slots: u32) {
        self.tier.check(|_| false);
        assert_eq!(self.tier.pages() as usize + self.free.len(), slots as usize);
        assert_eq!(self.tier.held() as usize, self.expected.len());
        let mut copies = Copies::default();
        for block in self.expected.keys() {
            assert!(self.tier.copy(*block, &mut copies));
        }
        for (object, data) in copies.iter() {
            assert!(object.is_sound(data));
            assert_eq!(self.expected[&object.block], data, "block {}", object.block);
        }
    }
}

#[test]
fn it_has_the_bytes_of_every_block_that_was_stored_and_not_removed() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let slots = 64;
        let mut both = Both::new(slots);
        let used = 2 + random.below(62) as usize;
        both.free.truncate(used);
        both.used = 0..used as u32;
        for step in 0..600u64 {
            let block = random.below(300);
            if random.one_in(50) {
                both.take_over(slots);
                both.check(used as u32);
            }
            match random.below(8) {
                0 | 1 => {
                    both.tier.forget(block);
                    both.take_back();
                    both.expected.remove(&block);
                }
                2 => drop(both.tier.note_use(block)),
                3 => {
                    let first = block / 64 * 64;
                    both.tier.forget_all(first..first + 8);
                    both.take_back();
                    both.expected.retain(|block, _| !(first..first + 8).contains(block));
                }
                _ if both.tier.has(block) => {}
                _ => {
                    let most = if random.one_in(3) { 8 } else { 3072 };
                    let bytes = random.below(most) as usize;
                    let data = (0..bytes).map(|at| (step + at as u64 * 7) as u8).collect();
                    both.store(block, data);
                }
            }
            if step % 16 == 0 {
                both.check(used as u32);
            }
        }
        while both.tier.evict_oldest(None) {
            both.take_back();
        }
        assert_eq!((both.tier.held(), both.tier.pages(), both.free.len()), (0, 0, used));
    }
}

#[test]
fn blocks_that_were_read_are_copied_out_of_the_oldest_page() {
    let mut both = Both::new(64);
    both.free.truncate(2);
    for block in 0..4 {
        // Two fill a page.
        let bytes = if block % 2 == 0 { 2028 } else { 2036 };
        both.store(block, vec![block as u8; bytes]);
    }
    assert!(!both.tier.note_use(1), "the first read");
    assert!(both.tier.note_use(1), "the second one");
    let mut again = Copies::default();
    assert!(both.tier.evict_oldest(Some(&mut again)));
    let blocks: Vec<u64> = again.objects.iter().map(|object| object.block).collect();
    assert_eq!(blocks, [1]);
    assert_eq!(both.tier.blocks().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_change_cancels_what_is_being_compressed() {
    let mut both = Both::new(64);
    let [first, second] = [7, 8].map(|block| both.tier.begin(block).expect("room"));
    assert!(!both.tier.is_idle() && both.tier.has_or_awaits(7));
    both.tier.forget(7);
    assert!(!both.tier.has_or_awaits(7));
    assert_eq!((both.tier.end(first), both.tier.end(second)), (None, Some(8)));
    assert!(both.tier.is_idle());
}

#[test]
fn a_takeover_with_less_memory_keeps_the_newest_pages() {
    let mut both = Both::new(64);
    (0..96).for_each(|block| both.store(block, vec![block as u8; 2000]));
    let held = both.tier.held();
    both.take_over(16);
    both.tier.check(|_| false);
    both.expected.retain(|block, _| both.tier.has(*block));
    assert!((20..held).contains(&both.tier.held()), "{held}");
    assert_eq!(both.tier.blocks().max(), Some(95));
    both.check(64);
}

/// Stores a few objects, kills the process, and returns the tier's blocks for the next one after
/// `damage`.
fn found_after(damage: impl Fn(&Both)) -> Vec<u64> {
    let mut both = Both::new(8);
    (0..6).for_each(|block| both.store(block, vec![block as u8; 1500]));
    damage(&both);
    both.take_over(8);
    both.tier.check(|_| false);
    let mut copies = Copies::default();
    let mut blocks: Vec<u64> = both.tier.blocks().collect();
    blocks.iter().for_each(|block| assert!(both.tier.copy(*block, &mut copies)));
    let sound = copies.iter().filter(|(object, data)| object.is_sound(data));
    let sound: Vec<u64> = sound.map(|(object, _)| object.block).collect();
    blocks.retain(|block| sound.contains(block));
    blocks.sort_unstable();
    blocks
}

#[test]
fn damaged_pages_and_objects_are_not_taken_over() {
    let slots: Vec<u32> = (0..8).rev().take(3).collect();
    assert_eq!(found_after(|_| ()), [0, 1, 2, 3, 4, 5]);
    // Objects 2 and 5 lie in two pages each.
    let without_mark = |page: usize| found_after(|both| both.arena.unmark_page(slots[page]));
    assert_eq!(without_mark(0), [3, 4, 5]);
    assert_eq!(without_mark(1), [0, 1]);
    assert_eq!(without_mark(2), [0, 1, 2, 3, 4]);
    let flipped = |at: usize| {
        found_after(|both| {
            let mut byte = [0];
            both.arena.read_bytes(slots[1], at, &mut byte);
            both.arena.write_bytes(slots[1], at, &[byte[0] ^ 4]);
        })
    };
    assert_eq!(flipped(0), [0, 1], "the seal");
    assert_eq!(flipped(100), [0, 1, 3, 4, 5], "bytes of an object that began before");
    // Object 3 begins behind the end of object 2.
    let third = object_bytes(1500) * 3 - (4096 - 8) + 8;
    assert_eq!(flipped(third), [0, 1, 2], "a head: those behind it in its page are not found");
    assert_eq!(flipped(third + 8), [0, 1, 2, 4, 5], "a check");
}

/// Puts a head that is sound, but of another object, or a word that is no head, in front of the
/// bytes of some objects.
fn damage_heads(both: &Both, random: &mut Random) {
    for block in both.tier.blocks() {
        let object = both.tier.objects.find(block).expect("one of its blocks");
        let at = object.begin().at;
        let slot = both.tier.log.slot(object.begin().page);
        match random.below(4) {
            0 => both.arena.write_bytes(slot, at, &random.below(u64::MAX).to_le_bytes()),
            1 => {
                let block = [None, Some(block), Some(random.below(300))][random.below(3) as usize];
                let bytes = 1 + random.below(8191) as usize;
                both.arena.set_object_head(
                    slot,
                    at,
                    &Head { block, encoding: Encoding::Lz4, bytes },
                );
            }
            _ => {}
        }
    }
}

#[test]
fn heads_that_are_damaged_in_a_running_process_lose_only_their_blocks() {
    let mut refused = 0;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut both = Both::new(16);
        for block in 0..24 {
            let bytes = [8 + random.below(3064), 8 + random.below(60)][random.below(2) as usize];
            both.store(block, vec![block as u8; bytes as usize]);
        }
        damage_heads(&both, &mut random);
        for _ in 0..60 {
            let block = random.below(24);
            match random.below(4) {
                0 => both.tier.forget(block),
                1 => drop(both.tier.note_use(block)),
                2 => {
                    let mut copies = Copies::default();
                    let is_copied = both.tier.copy(block, &mut copies);
                    refused += u32::from(!is_copied && both.tier.has(block));
                }
                _ => drop(both.tier.evict_oldest(Some(&mut Copies::default()))),
            }
            both.take_back();
        }
        both.check_empties(16);
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn any_marks_and_heads_are_taken_over_or_dropped() {
    let mut restored = 0;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut both = Both::new(16);
        let near = random.below(1 << 32) as u32;
        for slot in 0..16 {
            let far = if random.one_in(8) { random.below(1 << 32) as u32 } else { 0 };
            let number = near.wrapping_add(random.below(12) as u32).wrapping_add(far);
            let first = random.below(1025).max(2) as usize * 4;
            for at in (8..4096).step_by(8) {
                let most = [16, 4096, 8191][random.below(3) as usize];
                let bytes = 1 + random.below(most) as usize;
                let head = Head { block: Some(random.below(4000)), encoding: Encoding::Lz4, bytes };
                both.arena.set_object_head(slot, at, &head);
            }
            both.arena.mark_page(slot, PageMark { number, first: 4096 });
            both.arena.mark_page(slot, PageMark { number, first });
            if first <= 4096 - 8 {
                let head =
                    Head { block: Some(random.below(4000)), encoding: Encoding::Lz4, bytes: 9 };
                both.arena.set_object_head(slot, first, &head);
            }
        }
        both.take_over(16);
        restored += both.tier.held();
        for block in 0..4000 {
            both.tier.copy(block, &mut Copies::default());
        }
        both.check_empties(16);
    }
    assert!(restored > 1000, "{restored}");
}

#[test]
fn the_time_counts_for_which_compression_is_on() {
    let compression = Compression::new(8);
    let at = |now_ns| {
        let mut all = Counters::default();
        compression.count(&mut all, Compress::Auto, now_ns);
        all.compression_on_ns
    };
    compression.note_setting(Compress::Off, 100);
    assert_eq!(at(150), 0);
    compression.note_setting(Compress::Auto, 200);
    assert_eq!(at(250), 50);
    compression.note_setting(Compress::Lz4, 300);
    compression.note_setting(Compress::Off, 400);
    assert_eq!(at(500), 100);
}
