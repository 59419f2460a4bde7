//! MSR Cambridge CSV (D. Narayanan et al., "Write Off-Loading: Practical Power Management for
//! Enterprise Storage", FAST 2008; SNIA IOTTA trace set 388, its README).
//!
//! ```text
//!   time,host,disk,Read|Write,first byte,bytes,response time   times in 100 ns (FILETIME)
//!   128166372003061629,usr,0,Read,7014609920,24576,41286
//! ```
//!
//! A device is a host and a disk: `usr:0`.

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;
use crate::fields::{between_commas, exactly, number};

const EXPECTED: &str = "not 'time,host,disk,Read|Write,offset,bytes,response time'";

pub(crate) fn line(line: &[u8], devices: &mut Devices) -> Found {
    let [time, host, disk, way, offset, bytes, response] =
        exactly(between_commas(line)).ok_or(EXPECTED)?;
    let direction = match way {
        way if way.eq_ignore_ascii_case(b"read") => Direction::Read,
        way if way.eq_ignore_ascii_case(b"write") => Direction::Write,
        _ => return Err(EXPECTED),
    };
    let time_ns = number(time).ok_or(EXPECTED)?;
    let time_ns = time_ns.checked_mul(100).ok_or("the time is out of range")?;
    number(disk).ok_or(EXPECTED)?;
    let took_ns = number(response).ok_or(EXPECTED)?.checked_mul(100);
    let extent = Extent::of_bytes(number(offset).ok_or(EXPECTED)?, number(bytes).ok_or(EXPECTED)?)?;
    // Host and disk are adjacent: between the first comma and the third.
    let mut commas = line.iter().enumerate().filter(|(_, byte)| **byte == b',');
    let places = (commas.next(), commas.nth(1));
    let (Some((before, _)), Some((behind, _))) = places else { return Err(EXPECTED) };
    let together = &line[before + 1..behind];
    let is_plain = together.len() == host.len() + 1 + disk.len();
    let device = if is_plain { devices.named(together)? } else { return Err(EXPECTED) };
    Ok(Some(extent.access(time_ns, device, direction)?.took(took_ns)))
}
