use super::*;
use crate::geometry::Geometry;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use block::Memory;
use lane::Random;

fn geometry(slots: u32) -> Geometry {
    Geometry { slots, ..Geometry::SMALLEST }
}

fn arena(geometry: &Geometry) -> Arena {
    let memory = Memory::heap(Arena::bytes(geometry, 512));
    Arena::from_memory(Arc::new(memory), geometry, 512)
}

/// A tier beside a map with the same blocks.
struct Both {
    arena: Arena,
    tier: Tier,
    expected: BTreeMap<u64, Vec<u8>>,
    free: Vec<u32>,
}

impl Both {
    fn new(slots: u32) -> Both {
        let geometry = geometry(slots);
        let arena = arena(&geometry);
        let mut tier = Tier::new(&geometry, arena.slot_bytes());
        tier.open();
        Both { arena, tier, expected: BTreeMap::new(), free: (0..slots).collect() }
    }

    fn take_back(&mut self) {
        while let Some(slot) = self.tier.take_released() {
            assert!(!self.free.contains(&slot), "released twice");
            self.free.push(slot);
        }
    }

    fn evict(&mut self) {
        let mut again = Copies::default();
        self.tier.evict_oldest(&self.arena, 0, Some(&mut again));
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
        self.tier.store(&self.arena, 0, block, Encoding::Lz4, &data);
        self.expected.insert(block, data);
    }

    fn check(&self, slots: u32) {
        self.tier.check(|_| false);
        assert_eq!(self.tier.pages() as usize + self.free.len(), slots as usize);
        assert_eq!(self.tier.held() as usize, self.expected.len());
        let mut copies = Copies::default();
        for block in self.expected.keys() {
            assert!(self.tier.copy(&self.arena, 0, *block, &mut copies));
        }
        for (object, data) in copies.iter() {
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
        for step in 0..600u64 {
            let block = random.below(300);
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
                    let bytes = 8 + random.below(most) as usize;
                    let data = (0..bytes).map(|at| (step + at as u64 * 7) as u8).collect();
                    both.store(block, data);
                }
            }
            if step % 16 == 0 {
                both.check(used as u32);
            }
        }
        while both.tier.evict_oldest(&both.arena, 0, None) {
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
        both.store(block, vec![block as u8; 2048]);
    }
    assert!(!both.tier.note_use(1), "the first read");
    assert!(both.tier.note_use(1), "the second one");
    let mut again = Copies::default();
    assert!(both.tier.evict_oldest(&both.arena, 0, Some(&mut again)));
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
fn an_object_has_20_bytes() {
    assert_eq!(size_of::<Object>(), 20);
}
