//! Kills in the middle of a section: the memory as it was between two stores of the engine.
//!
//! A `kill -9` does not wait for a section's end. A subject that keeps memory through a kill calls
//! [`saw_store`] between two stores; the memory is copied there and then, and judged after the step,
//! when no task is in the middle of a section. In such a step no client is answered and the disk does not
//! change, so disk and oracle are still those of that moment. What one thread does is one step of a
//! history, so this is kept for each thread.

use crate::stamp;
use block::Memory;
use lane::Random;
use std::cell::RefCell;
use std::sync::Arc;

/// The most memories that are kept of one step.
const TAKEN_MAX: usize = 256;

#[derive(Default)]
struct Midway {
    source: Option<Arc<Memory>>,
    every: bool,
    taken: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

thread_local! {
    static MIDWAY: RefCell<Midway> = RefCell::default();
}

/// A step begins in which `memory` may be stored to: every store is looked at, or one of the first
/// `one_of`. Returns after how many stores [`saw_store`] is to be called.
pub(crate) fn watch(memory: &Arc<Memory>, one_of: u32, random: &mut Random) -> u32 {
    MIDWAY.with_borrow_mut(|midway| {
        if !midway.source.as_ref().is_some_and(|source| Arc::ptr_eq(source, memory)) {
            midway.source = Some(memory.clone());
        }
        midway.every = one_of == 1;
    });
    1 + random.below(u64::from(one_of)) as u32
}

/// The memory is as a kill would leave it now. Returns after how many more stores this is to be called
/// again; 0: no more.
pub(crate) fn saw_store() -> u32 {
    MIDWAY.with_borrow_mut(|midway| {
        let Some(source) = &midway.source else { return 0 };
        let mut bytes = midway.spare.pop().unwrap_or_default();
        bytes.resize(source.bytes(), 0);
        source.read(0, &mut bytes);
        midway.taken.push(bytes);
        u32::from(midway.every && midway.taken.len() < TAKEN_MAX)
    })
}

/// The memories seen since the watch began, each once, without what the step has left in the end.
pub(crate) fn take() -> Vec<Vec<u8>> {
    MIDWAY.with_borrow_mut(|midway| {
        if midway.taken.is_empty() {
            return Vec::new();
        }
        let mut last = midway.spare.pop().unwrap_or_default();
        let source = midway.source.as_ref().expect("a memory was watched");
        last.resize(source.bytes(), 0);
        source.read(0, &mut last);
        let mut seen = vec![stamp::digest(&last)];
        midway.spare.push(last);
        let (new, known) = std::mem::take(&mut midway.taken).into_iter().partition(|bytes| {
            let digest = stamp::digest(bytes);
            let is_new = !seen.contains(&digest);
            seen.push(digest);
            is_new
        });
        midway.spare.extend::<Vec<Vec<u8>>>(known);
        new
    })
}

/// A memory is no longer needed.
pub(crate) fn give_back(bytes: Vec<u8>) {
    MIDWAY.with_borrow_mut(|midway| midway.spare.push(bytes));
}

/// Whatever was watched before is over.
pub(crate) fn reset() {
    MIDWAY.with_borrow_mut(|midway| {
        midway.source = None;
        midway.spare.append(&mut midway.taken);
    });
}
