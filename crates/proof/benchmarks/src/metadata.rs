//! Bytes of metadata per slot, counted by allocation: the additional memory of a cache with more
//! slots.

use crate::sides::verdict;
use ::policy::Kind;
use anyhow::Result;
use block::{Limits, Memory, WriteMode};
use cache::{Arena, Geometry, Settings, Shared};
use host::HugeAllocator;
use simulator::DEFAULT;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts allocated bytes.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything to the allocator of the suites, and only counts. That one is the
// system's, except when a benchmark of modelled drives uses huge pages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { HugeAllocator.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { HugeAllocator.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { HugeAllocator.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the bytes that are allocated now.
pub(crate) fn allocated_bytes() -> usize {
    HELD.load(Ordering::Relaxed)
}

fn taken(policy: Kind, memory_bytes: u64) -> Result<(usize, u32)> {
    let geometry = Geometry::for_memory(memory_bytes);
    // Without the blocks' own bytes: the rest of the arena is headers.
    let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 0)));
    let arena = memory.bytes();
    let settings = Settings {
        policy,
        durability: block::Durability::Flush,
        write: WriteMode::Back,
        dirty_blocks_max: geometry.slots / 4,
        dirty_age_ns: 1,
        flush_target_ns: 1,
        retry_time_ns: 1,
        workers: 1,
        absorb_blocks_max: 32,
        fill_cost_ns: 1,
        ..Settings::default()
    };
    let before = allocated_bytes();
    let shared = Shared::new(&Limits::plain(1 << 24, 0), geometry, settings, 0, memory)?;
    let taken = allocated_bytes() - before + arena;
    drop(shared);
    Ok((taken, geometry.slots))
}

/// Returns the bytes per slot that grow with the slots.
fn growth(policy: Kind) -> Result<f64> {
    let (small, few) = taken(policy, 1 << 30)?;
    let (large, many) = taken(policy, 4 << 30)?;
    Ok((large - small) as f64 / f64::from(many - few))
}

pub(crate) fn run() -> Result<()> {
    let mut growths = Vec::new();
    for policy in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
        growths.push((growth(policy)?, policy.name()));
    }
    let most = growths.iter().map(|(slot, _)| *slot).fold(0.0, f64::max);
    println!(
        "{most:.2} bytes a slot at most (headers, index with its slack, lists, ghosts)  target at most 32 bytes: {}",
        verdict(most <= 32.0)
    );
    for (slot, name) in growths {
        println!("{name:<13} {slot:.2}");
    }
    // Fetches under way, shadows and the live curve have sizes of their own.
    for mib in [64, 256, 1024, 4096] {
        let (bytes, slots) = taken(DEFAULT, mib << 20)?;
        let beside = bytes.saturating_sub((growth(DEFAULT)? * f64::from(slots)) as usize) >> 10;
        println!(
            "{mib:>5} MiB of cache: {} KiB in all, {beside} KiB of it for what does not grow with the slots",
            bytes >> 10
        );
    }
    Ok(())
}
