//! The blocks that a cache holds, as they are sent: in pages, so that neither side needs memory or
//! time in proportion to the cache for one answer.
//!
//! ```text
//!   next position 8 | block << 1 | is dirty, 8 | ...          little-endian; no next one: all ones
//! ```

use super::words::HELD_CLASSES;
use hotlist::{CLASS_EXTENTS_MAX, ClassList, ClassRun};

/// Maximum number of blocks of a page.
pub(crate) const PAGE_BLOCKS_MAX: usize = 1 << 13;
/// Maximum length of a page, in bytes.
pub(crate) const PAGE_BYTES_MAX: usize = (PAGE_BLOCKS_MAX + 1) * WORD_BYTES;

const WORD_BYTES: usize = size_of::<u64>();
/// Stands for no next position.
const NO_NEXT: u64 = u64::MAX;

/// A block with its state in one word: sorted by block, the dirty version of one behind the other.
pub(crate) fn word(block: u64, is_dirty: bool) -> u64 {
    block << 1 | u64::from(is_dirty)
}

/// Returns a page as it is sent.
pub(crate) fn encode(next: Option<u64>, words: &[u64]) -> Vec<u8> {
    [next.unwrap_or(NO_NEXT)].iter().chain(words).flat_map(|word| word.to_le_bytes()).collect()
}

/// Appends the blocks of a page, and returns the position of the next one.
///
/// # Errors
/// These bytes are not a page.
pub(crate) fn parse(page: &[u8], words: &mut Vec<u64>) -> Result<Option<u64>, &'static str> {
    let (all, []) = page.as_chunks::<WORD_BYTES>() else {
        return Err("it sent a part of a number");
    };
    let (next, blocks) = all.split_first().ok_or("it sent an empty page of blocks")?;
    words.extend(blocks.iter().map(|word| u64::from_le_bytes(*word)));
    Ok(Some(u64::from_le_bytes(*next)).filter(|next| *next != NO_NEXT))
}

/// Returns runs of neighbouring blocks that are all clean or all dirty. If there are too many,
/// those at the end of the volume are missing.
pub(crate) fn runs_of(mut words: Vec<u64>) -> ClassList {
    words.sort_unstable();
    let mut runs: Vec<ClassRun> = Vec::new();
    for (number, word) in words.iter().enumerate() {
        let (block, class) = (word >> 1, (word & 1) as u8);
        // A block that has moved while the pages were read may be there twice.
        if words.get(number + 1).is_some_and(|next| next >> 1 == block) {
            continue;
        }
        if let Some(last) = runs.last_mut()
            && last.class == class
            && last.first + u64::from(last.blocks) == block
            && last.blocks < u32::MAX
        {
            last.blocks += 1;
            continue;
        }
        if runs.len() == CLASS_EXTENTS_MAX as usize {
            break;
        }
        runs.push(ClassRun { first: block, blocks: 1, class });
    }
    ClassList { names: HELD_CLASSES.map(str::to_owned).to_vec(), runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_are_equal_are_one_run() {
        let blocks = [(9, false), (4, true), (3, false), (8, false), (9, false), (5, false)];
        let mut words: Vec<u64> =
            blocks.iter().map(|(block, dirty)| word(*block, *dirty)).collect();
        words.push(word(5, true));
        let list = runs_of(words);
        let run = |first, blocks, class| ClassRun { first, blocks, class };
        assert_eq!(list.runs, [run(3, 1, 0), run(4, 2, 1), run(8, 2, 0)]);
        assert_eq!(list.names, HELD_CLASSES);
    }

    #[test]
    fn a_page_is_read_as_it_was_sent() {
        let words = [word(7, true), word(1 << 40, false)];
        for next in [None, Some(0), Some(99)] {
            let page = encode(next, &words);
            assert!(page.len() <= PAGE_BYTES_MAX);
            let mut read = vec![5];
            assert_eq!(parse(&page, &mut read), Ok(next));
            assert_eq!(read, [&[5], &words[..]].concat());
            assert!(parse(&page[1..], &mut read).is_err());
        }
        assert!(parse(&[], &mut Vec::new()).is_err());
    }
}
