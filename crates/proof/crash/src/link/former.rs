//! The connections that a killed process has left: as in `crates/fronts/nbd/src/client/former.rs`.

use super::export_of;
use crate::disk::State;
use block::Memory;
use lane::Random;
use nbd::fence::Fence;
use std::sync::Arc;

/// Reads the answers that a killed process has left, flushes, and ends its connections. Changes
/// that stay unanswered are left in the table. Returns whether answered changes may be lost, which
/// the memory of the cache must then note.
pub(crate) fn settle_former(
    disk: &mut State,
    table: &Arc<Memory>,
    is_encrypted: bool,
    now_ns: u64,
    random: &mut Random,
) -> bool {
    let clock_ns = disk.server().clock_ns(now_ns);
    let fence = Fence::adopt(table, export_of(&disk.model), clock_ns);
    let mut fence = fence.expect("the table is a fence's");
    if is_encrypted {
        fence.abandon(clock_ns);
    } else {
        // A server that is silent for a second leaves the rest unanswered.
        let is_silent = random.one_in(4);
        while !(is_silent && random.one_in(2))
            && let Some(slot) = disk.take_former_answer()
        {
            fence.answered_earlier(slot);
        }
        fence.changes_end(clock_ns);
        // An anchor whose server does not answer is given up.
        if !random.one_in(8) && disk.can_flush_on_former_anchor() {
            let mark = fence.mark(clock_ns);
            disk.flush_on_former_anchor();
            // A loss that was noted before stays noted.
            let _ = fence.flush_ends(mark, true);
        }
        fence.session_ends(clock_ns);
    }
    disk.forget_connections();
    let is_lost = fence.has_loss();
    if is_lost {
        fence.note_reported();
    }
    is_lost
}
