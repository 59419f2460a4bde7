//! The simplest lines: `op offset length`, in bytes, between commas or blanks.
//!
//! ```text
//!   R,0,4096          R read W write, also in words; F flush D discard T trim Z zero: neither
//!   write,8192,512
//! ```
//!
//! The first line may be `op,offset,length`; lines that begin with `#` are skipped. There are no
//! times, and one device.

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;
use crate::fields::{between_blanks, between_commas, exactly, number};

const EXPECTED: &str = "not 'op offset length' (op: R or W; bytes)";

pub(crate) fn line(line: &[u8], devices: &mut Devices) -> Found {
    if line.starts_with(b"#") {
        return Ok(None);
    }
    let fields = match line.contains(&b',') {
        true => exactly(between_commas(line)),
        false => exactly(between_blanks(line)),
    };
    let [way, offset, bytes] = fields.ok_or(EXPECTED)?;
    let extent = Extent::of_bytes(number(offset).ok_or(EXPECTED)?, number(bytes).ok_or(EXPECTED)?)?;
    extent.access(0, devices.numbered(0)?, direction(way).ok_or(EXPECTED)?).map(Some)
}

fn direction(way: &[u8]) -> Option<Direction> {
    let is = |names: &[&str]| names.iter().any(|name| way.eq_ignore_ascii_case(name.as_bytes()));
    if is(&["r", "read"]) {
        Some(Direction::Read)
    } else if is(&["w", "write"]) {
        Some(Direction::Write)
    } else if is(&["f", "flush", "d", "discard", "t", "trim", "z", "zero"]) {
        Some(Direction::Other)
    } else {
        None
    }
}
