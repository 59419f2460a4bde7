//! Direct writes, which bypass the whole cache (`request/direct.rs`): their conditions in the
//! shard, and their counters.

use super::{Change, Reason, Shard};
use crate::admission::Candidate;
use crate::arena::{Header, State};
use crate::blocks::blocks_of;
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use policy::{Access, Hash};

/// How a change is written directly.
#[derive(Clone, Copy)]
pub(crate) struct DirectWrite {
    pub(crate) reason: Reason,
    /// The change is durable when it is answered.
    pub(crate) durable: bool,
    /// The properties of its blocks, if they would be admitted without the bypass.
    pub(crate) candidate: Option<Candidate>,
}

/// Whether a direct write may ignore this version of its block: only with a planted bug.
fn is_ignored(header: &Header) -> bool {
    match header.state {
        State::Clean => planted(Bug::DirectOverCopy),
        _ => planted(Bug::DirectOverDirty),
    }
}

impl Shard {
    /// Whether memory has no version of the blocks of a change, no request for them is under way,
    /// and no change of them waits. Then the change can be sent to
    /// the backing and answered in this section. Not while an order is promised: then the change
    /// may have to wait for closed epochs.
    pub(crate) fn is_clear_for(&self, gauges: &Gauges, change: &Change) -> bool {
        if gauges.is_ordered() {
            return false;
        }
        let (first, blocks) = blocks_of(&change.at);
        let meets_change = self.write_through.meet(first, blocks)
            || self.write_through.is_behind(change.at, false);
        if meets_change && !planted(Bug::DirectBesideChange) {
            return false;
        }
        if self.fills.meet(first, blocks) && !planted(Bug::DirectBesideFetch) {
            return false;
        }
        if !self.zeroes.is_empty() && self.zeroes.meet(first, blocks) {
            return false;
        }
        (first..first + u64::from(blocks))
            .all(|block| !self.has_version(block) && !self.is_compressed(block))
    }

    /// Whether memory has any version of a block.
    fn has_version(&self, block: u64) -> bool {
        let is_version = |slot| {
            let header = self.header(slot);
            header.block == block && !is_ignored(&header)
        };
        self.index.find(Hash::of(block), is_version).is_some()
    }

    /// Counts a direct write that was answered, and reports it to the samplers as a write-through
    /// is reported. `good`: it succeeded.
    pub(crate) fn count_direct(&mut self, change: &Change, write: &DirectWrite, good: bool) {
        self.count_change(change);
        self.count_write_through(write.reason);
        let (first, blocks) = blocks_of(&change.at);
        self.note_map_write(first, blocks);
        let Some(candidate) = write.candidate else { return };
        let pollutes = self.follow_write(&change.at, candidate).would_pollute();
        if good && !pollutes {
            self.accessed(first, blocks, blocks, Access::WriteThrough);
        }
    }
}
