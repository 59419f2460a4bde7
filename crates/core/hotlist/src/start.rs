//! The start-up list: blocks that were read in the first minutes of the last starts, in order.
//!
//! The header is that of a list of hot blocks, with the magic "ODSTARTL" and the number of starts
//! (1 to 3) as the number of parts. After it:
//!
//! ```text
//!     8 x   for each start, the latest first: its blocks, and the blocks of a group
//!       -   the groups of all starts, one after the other, each coded as a class
//! ```
//!
//! A group has the blocks that were read one after the other, in ascending order. The last group of
//! a start may be smaller. The groups of a start are as small as three bytes per block allow: 64
//! blocks, unless these are far from one another. A block is named by the latest start that has
//! read it.

use crate::blocks::Blocks;
use crate::header::{self, put_number};
use crate::{Description, FIXED, IDENTITY_MAX, MAGIC_BYTES, Unusable};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Maximum number of starts in a list: a block is forgotten when as many whole starts have not read
/// it.
pub const STARTS: usize = 3;

/// Maximum number of blocks of a start-up list: 2 GiB.
pub const START_BLOCKS_MAX: usize = 1 << 19;

/// Maximum number of bytes of a start-up list.
pub const START_BYTES_MAX: usize = FIXED + IDENTITY_MAX + 8 * STARTS + 6 * START_BLOCKS_MAX;

const START_MAGIC: [u8; MAGIC_BYTES] = *b"ODSTARTL";
/// Minimum number of blocks of a group.
const GROUP_MIN: usize = 64;
/// Bytes of a block for which larger groups are not tried.
const ENOUGH_BYTES: usize = 3;

/// A valid start-up list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartList {
    of: Description,
    starts: Vec<Vec<u64>>,
}

impl StartList {
    /// Reads a list.
    ///
    /// # Errors
    /// The bytes are no start-up list, damaged, or of a later version.
    pub fn parse(bytes: &[u8]) -> Result<StartList, Unusable> {
        if bytes.len() > START_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let (of, parts, mut rest) =
            header::open(bytes, &START_MAGIC, Unusable::NoStartList, STARTS as u16)?;
        let (mut lengths, mut counts, mut sum) = (Vec::new(), Vec::new(), 0);
        for _ in 0..parts {
            let (length, group) = (rest.u32()?, rest.u32()?);
            sum += u64::from(length);
            if sum > START_BLOCKS_MAX as u64 {
                return Err(Unusable::TooLarge);
            }
            lengths.push(length as usize);
            counts.extend(groups_of(length, group).ok_or(Unusable::Damaged)?);
        }
        let mut blocks = Blocks::new(counts, rest.0.to_vec());
        let mut take = |length| -> Vec<u64> {
            let inside = |block: &u64| *block < of.volume_blocks;
            blocks.by_ref().take(length).take_while(inside).collect()
        };
        let starts: Vec<Vec<u64>> = lengths.iter().map(|length| take(*length)).collect();
        let is_whole = starts.iter().map(Vec::len).eq(lengths) && blocks.is_at_end();
        if is_whole { Ok(StartList { of, starts }) } else { Err(Unusable::Damaged) }
    }

    /// The volume from which it was saved.
    pub fn description(&self) -> &Description {
        &self.of
    }

    /// Returns the blocks of each start, in the order in which they were read; the latest start
    /// first.
    pub fn into_starts(self) -> Vec<Vec<u64>> {
        self.starts
    }
}

/// Returns the numbers of blocks of the groups of a start. None: there are blocks, but groups
/// without any.
fn groups_of(blocks: u32, group: u32) -> Option<impl Iterator<Item = u32>> {
    if blocks > 0 && group == 0 {
        return None;
    }
    let starts = (0..blocks).step_by(group.max(1) as usize);
    Some(starts.map(move |first| group.min(blocks - first)))
}

/// Returns the starts to save after a start that has read these blocks. Without its last part (it
/// `is_whole` otherwise), the start is the first part of a start like the one before it. After a
/// whole start, all former ones are one start older, and the oldest is forgotten.
pub fn learn(mut read: Vec<u64>, is_whole: bool, former: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    let mut former = former.into_iter();
    if !is_whole {
        read.extend(former.next().unwrap_or_default());
    }
    core::iter::once(read).chain(former).take(STARTS).collect()
}

/// Returns the list of these starts, the latest first. A block that occurs twice is named once, by
/// the latest start. Blocks beyond [`START_BLOCKS_MAX`], and starts beyond [`STARTS`], are left
/// out.
///
/// # Panics
/// If the identity is longer than [`IDENTITY_MAX`], or a block lies beyond the volume's end.
pub fn encode_start(of: &Description, mut starts: Vec<Vec<u64>>) -> Vec<u8> {
    starts.truncate(STARTS);
    starts.resize(starts.len().max(1), Vec::new());
    let mut named = BTreeSet::new();
    for start in &mut starts {
        start.retain(|block| named.len() < START_BLOCKS_MAX && named.insert(*block));
    }
    assert!(named.last().is_none_or(|last| *last < of.volume_blocks), "blocks of the volume");
    let room = 8 * STARTS + ENOUGH_BYTES * named.len();
    let mut bytes = header::begin(&START_MAGIC, of, starts.len() as u16, room);
    let coded: Vec<(usize, Vec<u8>)> = starts.iter().map(|start| code(start)).collect();
    for (start, (group, _)) in starts.iter().zip(&coded) {
        bytes.extend_from_slice(&(start.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(*group as u32).to_le_bytes());
    }
    coded.iter().for_each(|(_, start)| bytes.extend_from_slice(start));
    header::seal(&mut bytes);
    bytes
}

/// Codes a start. Returns the size of its groups and its bytes.
fn code(start: &[u64]) -> (usize, Vec<u8>) {
    let mut group = GROUP_MIN;
    loop {
        let coded = code_in_groups(start, group);
        if coded.len() <= ENOUGH_BYTES * start.len() || group >= start.len() {
            return (group, coded);
        }
        group *= 2;
    }
}

fn code_in_groups(start: &[u64], group: usize) -> Vec<u8> {
    let (mut coded, mut sorted) = (Vec::new(), Vec::with_capacity(group));
    for blocks in start.chunks(group) {
        sorted.clear();
        sorted.extend_from_slice(blocks);
        sorted.sort_unstable();
        let mut least = 0;
        for block in &sorted {
            put_number(&mut coded, block - least);
            least = block + 1;
        }
    }
    coded
}
