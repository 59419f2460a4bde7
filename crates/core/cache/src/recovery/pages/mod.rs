//! Pages of the compressed tier at a takeover (C9): they are kept if clean slots are, and if the
//! process before has kept their marks true (`arena/pages.rs`). `compressed/restore.rs` decides
//! about each object.

#[cfg(test)]
mod tests;

use super::{CleanBlocks, Parts};
use crate::arena::pages::PageMark;
use crate::compressed::FoundPage;
use crate::shard::Shard;
use block::Compress;

/// Decides whether pages are kept. If not, removes their marks. Called after the durable epoch of
/// the process before is not needed any more, and before this process notes its open epoch.
pub(super) fn keep(parts: &Parts<'_>, clean: CleanBlocks) -> bool {
    let is_kept = clean == CleanBlocks::Keep
        && parts.arena.keeps_pages()
        && parts.settings.compress() != Compress::Off;
    if !is_kept {
        parts.arena.drop_pages(&parts.geometry);
    }
    is_kept
}

impl Shard {
    /// Takes over a free slot. Returns it if it is a page, which is kept.
    pub(super) fn recover_page(&mut self, slot: u32, keeps_pages: bool) -> Option<FoundPage> {
        let mark = if keeps_pages { self.arena().page(self.number(slot)) } else { None };
        let Some(PageMark { number, first }) = mark else {
            self.recover_free(slot);
            return None;
        };
        Some(FoundPage { slot, number, first })
    }
}
