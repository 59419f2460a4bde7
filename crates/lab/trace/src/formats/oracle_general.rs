//! libCacheSim's oracleGeneral records (its `oracleGeneralBin.h`): 24 bytes each, little-endian,
//! without padding.
//!
//! ```text
//!   u32 time in s   u64 object   u32 bytes   i64 when it comes next, in requests; negative: never
//! ```
//!
//! There is no direction: all are reads. In the block traces that libCacheSim converted from
//! others, an object is the first sector of a request. It is read as such, unless the format is
//! named `oracleGeneral-objects`: then each object is a separate block, whatever its bytes, as in
//! traces of keys. There an object's number above 2^48 is folded into 48 bits; of ten million such
//! objects one pair may collide.

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;

/// The bytes of a record.
pub(crate) const BYTES: usize = 24;
/// The block size for an object.
const BLOCK_BYTES: u64 = 4096;
const OBJECT_BITS: u32 = 48;
/// 2^64 divided by the golden ratio (Knuth, "The Art of Computer Programming", volume 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The interpretation of an object's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Object {
    /// The first sector of the request.
    Sector,
    /// A name without order.
    Name,
}

pub(crate) fn record(record: &[u8], object_is: Object, devices: &mut Devices) -> Found {
    let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|byte| record[at + byte]));
    let long = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| record[at + byte]));
    let (seconds, object, bytes) = (word(0), long(4), word(12));
    if bytes == 0 {
        return Err("the record has no bytes");
    }
    let extent = match object_is {
        Object::Sector => Extent::of_sector(object, bytes.into()).map_err(
            |_| "the object is not a sector; if it is a key, name the format oracleGeneral-objects",
        )?,
        Object::Name => Extent::of_bytes(folded(object) * BLOCK_BYTES, BLOCK_BYTES)?,
    };
    let time_ns = u64::from(seconds) * 1_000_000_000;
    extent.access(time_ns, devices.numbered(0)?, Direction::Read).map(Some)
}

/// Returns a number below 2^48 - 1, so that the block after it is valid, too.
fn folded(object: u64) -> u64 {
    let last = (1 << OBJECT_BITS) - 1;
    if object < last {
        object
    } else {
        (object.wrapping_mul(GOLDEN) >> (64 - OBJECT_BITS)).min(last - 1)
    }
}
