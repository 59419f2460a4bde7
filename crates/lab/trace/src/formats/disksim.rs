//! DiskSim's ASCII format (J. Bucy et al., "The DiskSim Simulation Environment Version 4.0
//! Reference Manual", CMU-PDL-08-101, section on input workloads).
//!
//! ```text
//!   time in ms   device   first block of 512 bytes   blocks   flags, hexadecimal: bit 0 = read
//!   8346.206     0        6397360                    496      0
//! ```
//!
//! Other programs write the same columns with a 0 for a read, so the user must name the format.

use super::{Found, ReadIs};
use crate::access::Extent;
use crate::devices::Devices;
use crate::fields::{between_blanks, decimal, exactly, hexadecimal, number};

const EXPECTED: &str = "not 'ms device block blocks flags'";

pub(crate) fn line(line: &[u8], read_is: ReadIs, devices: &mut Devices) -> Found {
    let [time, device, block, blocks, flags] = exactly(between_blanks(line)).ok_or(EXPECTED)?;
    let time_ns = decimal(time, 6).ok_or(EXPECTED)?;
    number(device).ok_or(EXPECTED)?;
    let flags = hexadecimal(flags).ok_or(EXPECTED)?;
    let extent =
        Extent::of_sectors(number(block).ok_or(EXPECTED)?, number(blocks).ok_or(EXPECTED)?)?;
    let device = devices.named(device)?;
    extent.access(time_ns, device, read_is.direction(flags & 1)).map(Some)
}
