//! The project's own format, version 2. All numbers are little-endian.
//!
//! ```text
//!   file    magic "ODTRACE\n"   version u32   bytes of an event u32
//!           begin u64   CRC-32 u32            blocks, one after the other
//!   block   events u32   CRC-32 u32   dropped u64   bytes of names u32   zero u32
//!           names        events, 56 bytes each
//!   name    kind u8   length u8   zero u16   number u32   letters
//! ```
//!
//! - `begin` is the time of the recording's start, in nanoseconds since 1970 (UTC); 0: unknown.
//!   The CRC is of the 24 bytes before it.
//! - An event's bytes are its words ([`Entry::to_words`]).
//! - A name gives the name of a device (kind 1) or of a process (kind 2) with that number. It is in
//!   the block of the first event that uses it, or in an earlier one.
//! - The CRC covers the whole block except itself. `dropped` is the number of events that were lost
//!   before those of this block.
//! - Blocks are appended when they are full, so that a recording that was cut off, for example by a
//!   crash, can be read to its last complete block.
//! - The file may be compressed as a whole, or in any number of parts one after the other (zstd).
//!
//! Version 1 is read as well. It has no `begin`, no names and no zero fields; its events are the
//! first five words.

use crate::access::Marks;
use crate::event::{Event, WORDS};
use crate::malformed::Malformed;
use crate::trace::Trace;
use alloc::format;
use alloc::vec::Vec;
use crc32fast::Hasher;

/// The first bytes of a recording.
pub const MAGIC: [u8; 8] = *b"ODTRACE\n";
/// The version that is written.
pub const VERSION: u32 = 2;
/// Maximum number of events in a block.
pub const EVENTS_MAX: usize = 4096;
/// Maximum size of the names of a block, in bytes.
pub const NAMES_BYTES_MAX: usize = 1 << 16;

/// Number of 64-bit words of an entry.
pub const ENTRY_WORDS: usize = WORDS + 2;
/// The size of the header of both versions up to the part that differs.
pub(crate) const HEADER_BYTES: usize = 16;
/// A `sent_ns` that was not recorded.
const UNKNOWN: u64 = u64::MAX;
/// A process that was not recorded.
const NO_PROCESS: u32 = u32::MAX;

/// An event of a recording, with all that is recorded of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The request.
    pub event: Event,
    /// Time from the arrival until it was sent to the device, in nanoseconds. None: not recorded.
    pub sent_ns: Option<u64>,
    /// Number of the process, which a [`Name`] describes. None: not recorded.
    pub process: Option<u32>,
    /// Its marks.
    pub marks: Marks,
}

impl From<Event> for Entry {
    fn from(event: Event) -> Entry {
        Entry { event, sent_ns: None, process: None, marks: Marks::default() }
    }
}

impl Entry {
    /// Returns the entry as words: those of [`Event::to_words`], then:
    ///
    /// ```text
    ///   5  sent_ns                all ones: unknown
    ///   6  process                low 32 bits, all ones: unknown; marks: high 32 bits
    /// ```
    pub fn to_words(&self) -> [u64; ENTRY_WORDS] {
        let [time, took, first, sectors, operation] = self.event.to_words();
        let sent = self.sent_ns.map_or(UNKNOWN, |ns| ns.min(UNKNOWN - 1));
        let process = self.process.unwrap_or(NO_PROCESS);
        let origin = u64::from(process) | u64::from(self.marks.0) << 32;
        [time, took, first, sectors, operation, sent, origin]
    }

    /// Reads the words of [`Entry::to_words`]. None: these words are not an entry.
    pub fn from_words(words: [u64; ENTRY_WORDS]) -> Option<Entry> {
        let [time, took, first, sectors, operation, sent, origin] = words;
        let event = Event::from_words([time, took, first, sectors, operation])?;
        let (process, marks) = (origin as u32, Marks((origin >> 32) as u32));
        Some(Entry {
            event,
            sent_ns: (sent != UNKNOWN).then_some(sent),
            process: (process != NO_PROCESS).then_some(process),
            marks,
        })
        .filter(|_| marks.0 & !Marks::ALL == 0)
    }
}

/// The object that a name belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// A device.
    Device,
    /// A process.
    Process,
}

/// The name of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name<'a> {
    /// The kind of object.
    pub named: Named,
    /// Its number in the events.
    pub number: u32,
    /// Its name, at most 255 bytes.
    pub letters: &'a [u8],
}

const NAME_BYTES: usize = 8;

/// Appends the header of a recording that began at this time, in nanoseconds since 1970; 0:
/// unknown.
pub fn header_at(into: &mut Vec<u8>, begin_ns: u64) {
    into.extend_from_slice(&MAGIC);
    into.extend_from_slice(&VERSION.to_le_bytes());
    into.extend_from_slice(&(ENTRY_WORDS as u32 * 8).to_le_bytes());
    into.extend_from_slice(&begin_ns.to_le_bytes());
    let sum = crc32fast::hash(&into[into.len() - (HEADER_BYTES + 8)..]);
    into.extend_from_slice(&sum.to_le_bytes());
}

/// Appends the header of a recording of unknown time.
pub fn header(into: &mut Vec<u8>) {
    header_at(into, 0);
}

/// Appends events without names or origins, in the required number of blocks. `dropped` were lost
/// before the first of them.
pub fn blocks(into: &mut Vec<u8>, events: &[Event], dropped: u64) {
    let entries: Vec<Entry> = events.iter().map(|event| Entry::from(*event)).collect();
    entries_with(into, &entries, &[], dropped);
}

/// Appends names and entries, in the required number of blocks. `dropped` were lost before the
/// first of them.
///
/// # Panics
/// If a name is longer than 255 bytes.
pub fn entries_with(into: &mut Vec<u8>, entries: &[Entry], names: &[Name<'_>], mut dropped: u64) {
    let (mut left, mut names) = (entries, names);
    while !left.is_empty() || !names.is_empty() || dropped > 0 {
        let mut bytes = 0;
        let fits = |name: &&Name<'_>| {
            bytes += NAME_BYTES + name.letters.len();
            bytes <= NAMES_BYTES_MAX
        };
        let (named, unnamed) = names.split_at(names.iter().take_while(fits).count());
        // Events come after all names.
        let count = if unnamed.is_empty() { left.len().min(EVENTS_MAX) } else { 0 };
        let (block, rest) = left.split_at(count);
        put_block(into, block, named, dropped);
        (left, names, dropped) = (rest, unnamed, 0);
    }
}

fn put_block(into: &mut Vec<u8>, entries: &[Entry], names: &[Name<'_>], dropped: u64) {
    let start = into.len();
    into.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&dropped.to_le_bytes());
    let bytes: usize = names.iter().map(|name| NAME_BYTES + name.letters.len()).sum();
    into.extend_from_slice(&(bytes as u32).to_le_bytes());
    into.extend_from_slice(&[0; 4]);
    for name in names {
        let length = u8::try_from(name.letters.len()).expect("a name of at most 255 bytes");
        let kind = if name.named == Named::Device { 1 } else { 2 };
        into.extend_from_slice(&[kind, length, 0, 0]);
        into.extend_from_slice(&name.number.to_le_bytes());
        into.extend_from_slice(name.letters);
    }
    let words = entries.iter().flat_map(Entry::to_words);
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

/// The versions that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    /// Returns the version of a recording with this header.
    pub(crate) fn of(header: &[u8; HEADER_BYTES]) -> Result<Version, Malformed> {
        if !header.starts_with(&MAGIC) {
            return Err(Malformed::new("the file does not begin as a recording does".into()));
        }
        let (version, event_bytes) = (number_at(header, 8), number_at(header, 12));
        let known = [Version::One, Version::Two]
            .into_iter()
            .find(|known| (version, event_bytes as usize) == (known.number(), known.event_bytes()));
        known.ok_or_else(|| {
            Malformed::new(format!(
                "the recording has version {version} with events of {event_bytes} bytes; this \
                 program reads versions 1 (40 bytes) and {VERSION} (56 bytes)"
            ))
        })
    }

    fn number(self) -> u32 {
        if self == Version::One { 1 } else { VERSION }
    }

    fn event_bytes(self) -> usize {
        if self == Version::One { WORDS * 8 } else { ENTRY_WORDS * 8 }
    }

    /// Returns the bytes of the whole header.
    pub(crate) fn header_bytes(self) -> usize {
        if self == Version::One { HEADER_BYTES } else { HEADER_BYTES + 12 }
    }

    /// Returns the time of the start in a whole header; 0: unknown.
    ///
    /// # Errors
    /// The header does not match its checksum.
    pub(crate) fn begin_ns(self, header: &[u8]) -> Result<u64, Malformed> {
        if self == Version::One {
            return Ok(0);
        }
        if crc32fast::hash(&header[..HEADER_BYTES + 8]) != number_at(header, HEADER_BYTES + 8) {
            let what = "the recording is damaged: its header does not match its checksum";
            return Err(Malformed::new(what.into()));
        }
        Ok(word_at(header, HEADER_BYTES))
    }

    /// Returns the bytes of a block before its names.
    fn block_bytes(self) -> usize {
        if self == Version::One { 16 } else { 24 }
    }
}

/// A complete block, with a valid checksum.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
    version: Version,
    number: u64,
    names_bytes: usize,
}

/// A block and the bytes after it. None: the block is incomplete.
pub(crate) type Split<'a> = Option<(Block<'a>, &'a [u8])>;

impl<'a> Block<'a> {
    /// Splits off the first block, and checks that it is complete and valid.
    pub(crate) fn split(
        bytes: &'a [u8],
        version: Version,
        number: u64,
    ) -> Result<Split<'a>, Malformed> {
        let head = version.block_bytes();
        if bytes.len() < head {
            return Ok(None);
        }
        let count = number_at(bytes, 0) as usize;
        if count > EVENTS_MAX {
            return Err(damaged(number, "claims more events than a block may hold"));
        }
        let names_bytes = if version == Version::One { 0 } else { number_at(bytes, 16) as usize };
        if names_bytes > NAMES_BYTES_MAX {
            return Err(damaged(number, "claims more names than a block may hold"));
        }
        let length = head + names_bytes + count * version.event_bytes();
        let Some((block, rest)) = bytes.split_at_checked(length) else { return Ok(None) };
        if checksum(block) != number_at(block, 4) {
            return Err(damaged(number, "does not match its checksum"));
        }
        Ok(Some((Block { bytes: block, version, number, names_bytes }, rest)))
    }

    /// Returns the number of events that were lost before those of this block.
    pub(crate) fn dropped(&self) -> u64 {
        word_at(self.bytes, 8)
    }

    /// Returns its names.
    pub(crate) fn names(&self) -> impl Iterator<Item = Result<Name<'a>, Malformed>> {
        let (head, number) = (self.version.block_bytes(), self.number);
        let mut left = &self.bytes[head..head + self.names_bytes];
        core::iter::from_fn(move || {
            let name = name(&mut left)?;
            if name.is_none() {
                left = &[];
            }
            Some(name.ok_or_else(|| damaged(number, "contains an invalid name")))
        })
    }

    /// Returns its events.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Result<Entry, Malformed>> {
        let (version, number) = (self.version, self.number);
        let events = &self.bytes[version.block_bytes() + self.names_bytes..];
        events.chunks_exact(version.event_bytes()).map(move |line| {
            let entry = match version {
                Version::One => {
                    let words = core::array::from_fn(|index| word_at(line, index * 8));
                    Event::from_words(words).map(Entry::from)
                }
                Version::Two => {
                    Entry::from_words(core::array::from_fn(|index| word_at(line, index * 8)))
                }
            };
            entry.ok_or_else(|| damaged(number, "contains an invalid event"))
        })
    }
}

/// Splits off a name. The outer None: there is no more; the inner one: it is invalid.
#[expect(clippy::option_option, reason = "an iterator's end, and an invalid element")]
fn name<'a>(left: &mut &'a [u8]) -> Option<Option<Name<'a>>> {
    if left.is_empty() {
        return None;
    }
    let Some((head, rest)) = left.split_at_checked(NAME_BYTES) else { return Some(None) };
    let named = match head[0] {
        1 => Named::Device,
        2 => Named::Process,
        _ => return Some(None),
    };
    let Some((letters, rest)) = rest.split_at_checked(head[1].into()) else { return Some(None) };
    *left = rest;
    Some(Some(Name { named, number: number_at(head, 4), letters }))
}

/// Reads a recording: the events of all its complete blocks.
///
/// # Errors
/// It is of another version, or one of its blocks is damaged.
pub(crate) fn read(bytes: &[u8]) -> Result<Trace, Malformed> {
    let version = Version::of(bytes.first_chunk().ok_or_else(short)?)?;
    let split = bytes.split_at_checked(version.header_bytes());
    let (header, mut left) = split.ok_or_else(short)?;
    version.begin_ns(header)?;
    let (mut events, mut dropped, mut number) = (Vec::new(), 0u64, 0u64);
    while !left.is_empty() {
        let Some((block, rest)) = Block::split(left, version, number)? else { break };
        dropped = dropped.saturating_add(block.dropped());
        for name in block.names() {
            name?;
        }
        for entry in block.entries() {
            events.push(entry?.event);
        }
        (left, number) = (rest, number + 1);
    }
    Ok(Trace::new(events, dropped, !left.is_empty()))
}

pub(crate) fn damaged(number: u64, what: &str) -> Malformed {
    Malformed::new(format!("block {number} {what}; the recording is damaged"))
}
