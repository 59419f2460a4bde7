//! The Storage Performance Council's ASCII format ("SPC Trace File Format Specification", revision
//! 1.0.1), in which the University of Massachusetts publishes the financial and web search traces.
//!
//! ```text
//!   unit,first block of 512 bytes,bytes,R|W,time in s     more fields may follow
//!   0,303567,3584,w,0.000000
//! ```

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;
use crate::fields::{between_commas, decimal, number};

const EXPECTED: &str = "not 'unit,block,bytes,R|W,s'";

pub(crate) fn line(line: &[u8], devices: &mut Devices) -> Found {
    let mut fields = between_commas(line);
    let mut next = || fields.next().ok_or(EXPECTED);
    let (unit, block, bytes, way, time) = (next()?, next()?, next()?, next()?, next()?);
    let direction = match way {
        b"R" | b"r" => Direction::Read,
        b"W" | b"w" => Direction::Write,
        _ => return Err(EXPECTED),
    };
    number(unit).ok_or(EXPECTED)?;
    let time_ns = decimal(time, 9).ok_or(EXPECTED)?;
    let extent = Extent::of_sector(number(block).ok_or(EXPECTED)?, number(bytes).ok_or(EXPECTED)?)?;
    let device = devices.named(unit)?;
    extent.access(time_ns, device, direction).map(Some)
}
