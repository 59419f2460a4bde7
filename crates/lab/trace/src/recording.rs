//! The project's own format, version 1. All numbers are little-endian.
//!
//! ```text
//!   file    magic "ODTRACE\n"   version u32   bytes of an event u32   blocks, one after the other
//!   block   events u32   CRC-32 u32   dropped u64   events, 40 bytes each
//! ```
//!
//! An event's bytes are its words ([`Event::to_words`]). The CRC covers the whole block except
//! itself. `dropped` is the number of events that were lost before those of this block. Blocks are
//! appended when they are full, so that a recording that was cut off, for example by a crash, can
//! be read to its last complete block.

use crate::event::{Event, WORDS};
use crate::malformed::Malformed;
use crate::trace::Trace;
use alloc::format;
use alloc::vec::Vec;
use crc32fast::Hasher;

/// The first bytes of a recording.
pub const MAGIC: [u8; 8] = *b"ODTRACE\n";
/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Maximum number of events in a block.
pub const EVENTS_MAX: usize = 4096;

/// Size of a recording's header.
pub(crate) const HEADER_BYTES: usize = 16;
const BLOCK_BYTES: usize = 16;
const EVENT_BYTES: usize = WORDS * 8;

/// Appends the header of a recording.
pub fn header(into: &mut Vec<u8>) {
    into.extend_from_slice(&MAGIC);
    into.extend_from_slice(&VERSION.to_le_bytes());
    into.extend_from_slice(&(EVENT_BYTES as u32).to_le_bytes());
}

/// Appends events, in the required number of blocks. `dropped` were lost before the first of them.
pub fn blocks(into: &mut Vec<u8>, events: &[Event], mut dropped: u64) {
    let mut left = events;
    while !left.is_empty() || dropped > 0 {
        let (block, rest) = left.split_at(left.len().min(EVENTS_MAX));
        put_block(into, block, dropped);
        (left, dropped) = (rest, 0);
    }
}

fn put_block(into: &mut Vec<u8>, events: &[Event], dropped: u64) {
    let start = into.len();
    into.extend_from_slice(&(events.len() as u32).to_le_bytes());
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&dropped.to_le_bytes());
    let words = events.iter().flat_map(Event::to_words);
    words.for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
    let sum = checksum(&into[start..]);
    into[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the checksum of a block, which does not cover the checksum itself.
fn checksum(block: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&block[..4]);
    hasher.update(&block[8..]);
    hasher.finalize()
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes[at..].first_chunk().expect("the caller has looked at the length");
    u32::from_le_bytes(*four)
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes[at..].first_chunk().expect("the caller has looked at the length");
    u64::from_le_bytes(*eight)
}

/// Returns the error for a recording without a complete header.
pub(crate) fn short() -> Malformed {
    Malformed::new("the recording ends inside its header; record again".into())
}

/// Checks that the recording has the supported version.
pub(crate) fn check_header(header: &[u8; HEADER_BYTES]) -> Result<(), Malformed> {
    if !header.starts_with(&MAGIC) {
        return Err(Malformed::new("the file does not begin as a recording does".into()));
    }
    let (version, event_bytes) = (number_at(header, 8), number_at(header, 12));
    if (version, event_bytes as usize) == (VERSION, EVENT_BYTES) {
        return Ok(());
    }
    Err(Malformed::new(format!(
        "the recording has version {version} with events of {event_bytes} bytes; this program \
         reads version {VERSION}"
    )))
}

/// Returns the number of events that were lost before those of this block.
pub(crate) fn dropped_before(block: &[u8]) -> u64 {
    word_at(block, 8)
}

/// Returns the events of a block.
pub(crate) fn events_of(
    block: &[u8],
    number: u64,
) -> impl Iterator<Item = Result<Event, Malformed>> {
    let (lines, _) = block[BLOCK_BYTES..].as_chunks::<EVENT_BYTES>();
    lines.iter().map(move |line| {
        let words = core::array::from_fn(|index| word_at(line, index * 8));
        Event::from_words(words).ok_or_else(|| damaged(number, "contains an invalid event"))
    })
}

/// Reads a recording: the events of all its complete blocks.
///
/// # Errors
/// It is of another version, or one of its blocks is damaged.
pub(crate) fn read(bytes: &[u8]) -> Result<Trace, Malformed> {
    let (header, mut left) = bytes.split_first_chunk().ok_or_else(short)?;
    check_header(header)?;
    let (mut events, mut dropped, mut number) = (Vec::new(), 0u64, 0u64);
    while !left.is_empty() {
        let Some((block, rest)) = split(left, number)? else { break };
        dropped = dropped.saturating_add(dropped_before(block));
        for event in events_of(block, number) {
            events.push(event?);
        }
        (left, number) = (rest, number + 1);
    }
    Ok(Trace::new(events, dropped, !left.is_empty()))
}

/// A block and the bytes after it. None: the block is incomplete.
pub(crate) type Split<'a> = Option<(&'a [u8], &'a [u8])>;

/// Splits off the first block, and checks that it is complete and valid.
pub(crate) fn split(bytes: &[u8], number: u64) -> Result<Split<'_>, Malformed> {
    if bytes.len() < BLOCK_BYTES {
        return Ok(None);
    }
    let count = number_at(bytes, 0) as usize;
    if count > EVENTS_MAX {
        return Err(damaged(number, "claims more events than a block may hold"));
    }
    let Some((block, rest)) = bytes.split_at_checked(BLOCK_BYTES + count * EVENT_BYTES) else {
        return Ok(None);
    };
    if checksum(block) != number_at(block, 4) {
        return Err(damaged(number, "does not match its checksum"));
    }
    Ok(Some((block, rest)))
}

fn damaged(number: u64, what: &str) -> Malformed {
    Malformed::new(format!("block {number} {what}; the recording is damaged"))
}
