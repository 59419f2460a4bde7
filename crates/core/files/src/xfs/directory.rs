//! Entries of directories.

use super::inode::{Form, Inode};
use crate::bytes::{be16, be32, be64, byte, part};
use crate::fault::{Fault, Step};
use crate::tree::Entries;

/// Position of the hashes and free lists of a directory, in bytes: blocks from there on have no
/// names.
const NAMES_END: u64 = 1 << 35;
/// Marks of a directory of one block, and of a block of names in a larger one; version 4 and 5.
const SINGLE: [&[u8]; 2] = [b"XD2B", b"XDB3"];
const NAMES: [&[u8]; 2] = [b"XD2D", b"XDD3"];
/// Headers of these blocks, in versions 4 and 5.
const HEADERS: [usize; 2] = [16, 64];
/// Mark of an unused entry.
const UNUSED: u16 = 0xffff;

/// Adds the entries in an inode.
pub(super) fn short_form(inode: &Inode, has_types: bool, each: &mut Entries) -> Step {
    let fork = inode.data_fork();
    if fork.form != Form::Local {
        return Ok(());
    }
    let number_bytes = if byte(fork.bytes, 1) > 0 { 8 } else { 4 };
    let list = usize::from(byte(fork.bytes, 0).max(byte(fork.bytes, 1)));
    // Two counters and the parent come first.
    let mut at = 2 + number_bytes;
    for _ in 0..list {
        let length = usize::from(byte(fork.bytes, at));
        let number_at = at + 3 + length + usize::from(has_types);
        if length == 0 || number_at + number_bytes > fork.bytes.len() {
            return Err(Fault::Damaged);
        }
        let number = match number_bytes {
            8 => be64(fork.bytes, number_at),
            _ => u64::from(be32(fork.bytes, number_at)),
        };
        each.add(part(fork.bytes, at + 3, length), number);
        at = number_at + number_bytes;
    }
    Ok(())
}

/// Adds the entries in the block at this position of a directory.
pub(super) fn block(at: u64, block: &[u8], has_types: bool, each: &mut Entries) -> Step {
    if at >= NAMES_END {
        return Ok(());
    }
    let kind = |marks: [&[u8]; 2]| marks.into_iter().position(|mark| block.starts_with(mark));
    let (version, end) = match (kind(NAMES), kind(SINGLE)) {
        (Some(version), _) => (version, block.len()),
        (None, Some(version)) => {
            // The hashes are at the end, and their number behind them.
            let hashes = be32(block, block.len() - 8) as usize;
            let room = (block.len() - 8).checked_sub(hashes.saturating_mul(8));
            (version, room.ok_or(Fault::Damaged)?)
        }
        (None, None) => return Err(Fault::Damaged),
    };
    entries(&block[..end], HEADERS[version], has_types, each)
}

fn entries(block: &[u8], start: usize, has_types: bool, each: &mut Entries) -> Step {
    let mut at = start;
    while at < block.len() {
        if be16(block, at) == UNUSED {
            let length = usize::from(be16(block, at + 2));
            if length < 8 || length % 8 != 0 {
                return Err(Fault::Damaged);
            }
            at += length;
            continue;
        }
        let length = usize::from(byte(block, at + 8));
        // Behind the name: its type, and the position of the entry.
        let whole = (9 + length + usize::from(has_types) + 2).next_multiple_of(8);
        if length == 0 || at + whole > block.len() {
            return Err(Fault::Damaged);
        }
        each.add(part(block, at + 9, length), be64(block, at));
        at += whole;
    }
    Ok(())
}
