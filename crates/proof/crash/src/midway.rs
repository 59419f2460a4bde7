//! Kills in the middle of a section: the memory between two stores of the engine.
//!
//! A `kill -9` does not wait for a section's end. A subject whose memory survives a kill calls
//! [`saw_store`] between two stores; the memory is copied there, and judged after the step, when no
//! task is in the middle of a section. In such a step no client is answered, and the disk does not
//! change after the copies that are kept ([`disk_changed`]), so disk and oracle are still those of
//! that moment. The actions of one thread are one step of a history, so this state is kept per
//! thread.

use crate::stamp;
use block::Memory;
use lane::Random;
use std::cell::RefCell;
use std::sync::Arc;

/// Maximum number of memories stored per step.
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

/// Begins to watch a step that may store to `memory`: every store is observed, or one of the first
/// `one_of`. Returns the number of stores after which [`saw_store`] must be called.
pub(crate) fn watch(memory: &Arc<Memory>, one_of: u32, random: &mut Random) -> u32 {
    MIDWAY.with_borrow_mut(|midway| {
        if !midway.source.as_ref().is_some_and(|source| Arc::ptr_eq(source, memory)) {
            midway.source = Some(memory.clone());
        }
        midway.every = one_of == 1;
    });
    1 + random.below(u64::from(one_of)) as u32
}

/// Copies the memory as a kill would leave it now. Returns the number of further stores after which
/// this must be called again; 0: never.
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

/// Drops the copies of this step: the disk has changed since. Instead copies the memory as it is
/// now, if the step is watched.
pub(crate) fn disk_changed() {
    MIDWAY.with_borrow_mut(|midway| {
        let Some(mut bytes) = midway.taken.pop() else { return };
        let source = midway.source.as_ref().expect("a memory was watched");
        source.read(0, &mut bytes);
        midway.spare.append(&mut midway.taken);
        midway.taken.push(bytes);
    });
}

/// Returns the memories seen since the watch began, each once, without the final one of the step.
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

/// Returns a memory that is no longer needed for reuse.
pub(crate) fn give_back(bytes: Vec<u8>) {
    MIDWAY.with_borrow_mut(|midway| midway.spare.push(bytes));
}

/// Forgets everything watched before.
pub(crate) fn reset() {
    MIDWAY.with_borrow_mut(|midway| {
        midway.source = None;
        midway.spare.append(&mut midway.taken);
    });
}
