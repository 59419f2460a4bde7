//! Any words in the table of a fence, as a dead process has left it: properties that must hold for
//! all of them. The fuzzer and the replay of its corpus call the same function.
//!
//! An input is a time (8 bytes), followed by stores of 10 bytes each: the number of a word, and its
//! contents. They are applied to the table of a process with a few changes.

use block::{Extent, Memory};
use nbd::fence::{Begin, Export, Fence, SENT_MAX, SETTLE_NS, TABLE_BYTES};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) const EXPORT: Export = Export { sectors: 1 << 20, abilities: [3, 4] };
/// Bytes of one store.
const STORE_BYTES: usize = 10;
/// Latest time: later ones would need centuries of uptime.
const NOW_MAX_NS: u64 = 1 << 62;

/// Returns the memory of a process that has been killed with changes in every state.
fn left_memory() -> Arc<Memory> {
    let memory = Arc::new(Memory::heap(TABLE_BYTES));
    let mut fence = Fence::new(&memory, EXPORT);
    for number in 0..6 {
        if number == 3 {
            fence.changes_end(5);
        }
        let request = fence.request();
        let begun = fence.begin(Extent::new(64 * number, 8), number % 2 == 0, request, 1);
        let Begin::Sent(sent) = begun else { panic!("{begun:?}") };
        if number == 5 {
            fence.answered(sent);
        }
    }
    memory
}

/// Applies the stores, and lets a next process continue with the memory if it accepts it.
pub(crate) fn fence(input: &[u8]) {
    let Some((time, stores)) = input.split_first_chunk() else { return };
    let (now_ns, memory) = (u64::from_le_bytes(*time) % NOW_MAX_NS, left_memory());
    for store in stores.chunks_exact(STORE_BYTES) {
        let (word, value) = store.split_first_chunk().expect("ten bytes");
        let word = usize::from(u16::from_le_bytes(*word)) % (TABLE_BYTES / 8);
        let value = u64::from_le_bytes(value.try_into().expect("eight bytes"));
        memory.word(8 * word).store(value, Ordering::Relaxed);
    }
    if let Some(fence) = Fence::adopt(&memory, EXPORT, now_ns) {
        continue_with(fence, &memory, now_ns);
    }
}

/// Memory of an earlier process holds changes for the settle time at most. From then on the fence
/// works as a new one.
fn continue_with(mut fence: Fence, memory: &Arc<Memory>, now_ns: u64) {
    assert!(fence.sent() <= SENT_MAX);
    for slot in (0..2 * SENT_MAX).step_by(3) {
        fence.answered_earlier(slot);
    }
    let everything = Extent::new(0, EXPORT.sectors as u32);
    let request = fence.request();
    if let Begin::Sent(sent) = fence.begin(everything, false, request, now_ns) {
        fence.answered(sent);
    }
    fence.session_ends(now_ns);
    assert_eq!(fence.sent(), 0);
    let end_ns = now_ns + SETTLE_NS;
    assert!(fence.settled_at(now_ns).is_none_or(|settled_ns| settled_ns <= end_ns));
    let _ = fence.flush_begins(now_ns);
    assert!(fence.flush_begins(now_ns).is_ok(), "a loss is reported once");
    assert_eq!(fence.settled_at(end_ns), None);
    let request = fence.request();
    let Begin::Sent(sent) = fence.begin(everything, false, request, end_ns) else {
        panic!("a change is held after the settle time")
    };
    assert_eq!(fence.sent(), 1);
    let again = Fence::adopt(memory, EXPORT, end_ns).expect("the table is valid");
    assert_eq!(again.sent(), 1, "the next process finds the change");
    fence.answered(sent);
    assert_eq!(fence.sent(), 0);
}
