//! How a packed block is recorded in a header.
//!
//! A header of the arena has two words. A packed block's number, state and header checksum are
//! where those of other blocks are, so 24 bits of the first word and 44 of the second are free:
//!
//! ```text
//! first  word  | block 40 | codec 2 | check 22 |
//! second word  | length 12 | location 32 | state 4 | header's check 16 |
//! pattern      24 and 44 bits: codec 0, 0 in the next 2, then the 64 bits of the repeated word
//! ```
//!
//! A move changes only the location, which is in the second word with the header's check: one
//! atomic store publishes it.

use crate::area::Location;
use crate::codec::{CHECK_BITS, Codec, LENGTH_MAX, Object};

const SECOND_BITS: u32 = 44;
const LOCATION_BITS: u32 = 32;
/// Bits of a pattern in the first word.
const PATTERN_HIGH_BITS: u32 = u64::BITS - SECOND_BITS;

/// A packed block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// This word, repeated.
    Pattern(u64),
    /// An object, at a location in the area.
    Object(Object, Location),
}

impl Record {
    /// Returns the record in 24 and 44 bits.
    pub fn to_bits(&self) -> (u32, u64) {
        match *self {
            Record::Pattern(word) => {
                ((word >> SECOND_BITS) as u32, word & ((1 << SECOND_BITS) - 1))
            }
            Record::Object(Object { codec, check, length }, location) => {
                let first = (codec as u32) << CHECK_BITS | check;
                (first, u64::from(length) << LOCATION_BITS | u64::from(location.0))
            }
        }
    }

    /// Returns the record in these bits; `None` if no record has them.
    pub fn from_bits(first: u32, second: u64) -> Option<Record> {
        let check = first & ((1 << CHECK_BITS) - 1);
        let codec = match first >> CHECK_BITS {
            0 if first >> PATTERN_HIGH_BITS == 0 && second >> SECOND_BITS == 0 => {
                return Some(Record::Pattern(u64::from(first) << SECOND_BITS | second));
            }
            1 => Codec::Lz4,
            2 => Codec::Zstd,
            _ => return None,
        };
        let length = u16::try_from(second >> LOCATION_BITS).ok()?;
        let is_possible = (1..=LENGTH_MAX).contains(&usize::from(length));
        let location = Location(second as u32);
        is_possible.then_some(Record::Object(Object { codec, check, length }, location))
    }
}
