//! Computes the next use of the block of each access, in temporary files.
//!
//! Accesses are split into parts by their block, so that all accesses to a block are in one part. A
//! part is small enough to hold the last access to each of its blocks in memory; the next access to
//! a block answers that one. The answers are split again, by the number of the earlier access, and
//! each range of numbers is sorted in memory. Each number is written and read three times; memory
//! holds the blocks of one part, or one range.

use crate::error::Error;
use crate::hash::{OfBlocks, mixed};
use crate::plan::Watch;
use crate::spool::{Spool, Spooled};
use hashbrown::HashMap;

/// Next use of a block that is not accessed again.
pub(crate) const NEVER: u64 = u64::MAX;
/// Average number of accesses in a part, unless that gives too many parts.
const PART: u64 = 1 << 22;
/// Maximum number of parts: two files each, of the 1,024 that a process may have open.
const PARTS_MAX: u64 = 256;
/// The buffer of a part that is written.
const BUFFER_BYTES: usize = 1 << 15;
/// Numbers read at a time.
const PORTION: usize = 1 << 13;
const STAGE: &str = "when each block comes next";

/// Returns for each access the number of the next access to the same block, or [`NEVER`]. Reads the
/// blocks to their end.
pub(crate) fn next_uses(blocks: &mut Spooled, watch: &mut dyn Watch) -> Result<Spooled, Error> {
    next_uses_in(blocks, PART, watch)
}

fn next_uses_in(blocks: &mut Spooled, part: u64, watch: &mut dyn Watch) -> Result<Spooled, Error> {
    let count = blocks.count;
    let parts = count.div_ceil(part).clamp(1, PARTS_MAX);
    let dealt = deal_blocks(blocks, parts)?;
    look(watch, 1.0 / 3.0)?;
    let range = count.div_ceil(parts).max(1);
    let answers = deal_answers(dealt, parts, range, watch)?;
    let mut all = Spool::new(1 << 18)?;
    for (number, answers) in (0..).zip(answers) {
        let first = number * range;
        let length = range.min(count.saturating_sub(first));
        in_order(answers, first, length, &mut all)?;
        look(watch, (2.0 + number as f64 / parts as f64) / 3.0)?;
    }
    all.read()
}

fn look(watch: &mut dyn Watch, share: f64) -> Result<(), Error> {
    if watch.look(STAGE, share) { Ok(()) } else { Err(Error::Interrupted) }
}

fn spools(count: u64) -> Result<Vec<Spool>, Error> {
    (0..count).map(|_| Spool::new(BUFFER_BYTES)).collect()
}

/// Splits pairs of an access's number and its block by the block.
fn deal_blocks(blocks: &mut Spooled, parts: u64) -> Result<Vec<Spool>, Error> {
    let mut dealt = spools(parts)?;
    let (mut taken, mut number) = (Vec::new(), 0);
    loop {
        taken.clear();
        blocks.take(PORTION, &mut taken)?;
        if taken.is_empty() {
            return Ok(dealt);
        }
        for block in &taken {
            let part = &mut dealt[(mixed(*block) % parts) as usize];
            part.put(number)?;
            part.put(*block)?;
            number += 1;
        }
    }
}

/// Splits pairs of an access's number and the number of the next one to the same block by the
/// first.
fn deal_answers(
    dealt: Vec<Spool>,
    parts: u64,
    range: u64,
    watch: &mut dyn Watch,
) -> Result<Vec<Spool>, Error> {
    let mut answers = spools(parts)?;
    for (done, part) in dealt.into_iter().enumerate() {
        let mut last: HashMap<u64, u64, OfBlocks> = HashMap::with_hasher(OfBlocks);
        for_pairs(part, |number, block| {
            if let Some(before) = last.insert(block, number) {
                let into = &mut answers[(before / range) as usize];
                into.put(before)?;
                into.put(number)?;
            }
            Ok(())
        })?;
        look(watch, (1.0 + done as f64 / parts as f64) / 3.0)?;
    }
    Ok(answers)
}

/// Writes the answers of a range of accesses in the order of their numbers.
fn in_order(answers: Spool, first: u64, length: u64, into: &mut Spool) -> Result<(), Error> {
    let mut ordered = vec![NEVER; length as usize];
    for_pairs(answers, |number, next| {
        ordered[(number - first) as usize] = next;
        Ok(())
    })?;
    ordered.into_iter().try_for_each(|next| into.put(next))
}

fn for_pairs(
    spool: Spool,
    mut with: impl FnMut(u64, u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut spooled, mut taken) = (spool.read()?, Vec::new());
    loop {
        taken.clear();
        spooled.take(PORTION, &mut taken)?;
        if taken.is_empty() {
            return Ok(());
        }
        for pair in taken.as_chunks::<2>().0 {
            with(pair[0], pair[1])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the next uses by brute force.
    fn brute(blocks: &[u64]) -> Vec<u64> {
        let next = |(number, block): (usize, &u64)| {
            let behind = blocks[number + 1..].iter().position(|other| other == block);
            behind.map_or(NEVER, |behind| (number + 1 + behind) as u64)
        };
        blocks.iter().enumerate().map(next).collect()
    }

    proptest! {
        #[test]
        fn each_finds_the_next_of_its_block(
            blocks in prop::collection::vec(0..20u64, 0..200), part in 1..80u64,
        ) {
            let mut spool = Spool::new(1 << 10).expect("room");
            blocks.iter().for_each(|block| spool.put(*block).expect("room"));
            let mut spooled = spool.read().expect("room");
            let mut found = next_uses_in(&mut spooled, part, &mut ()).expect("room");
            let mut numbers = Vec::new();
            found.take(1000, &mut numbers).expect("room");
            prop_assert_eq!(numbers, brute(&blocks));
        }
    }
}
