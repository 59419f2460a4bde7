//! SSDsim's ASCII format (Y. Hu et al., "Performance Impact and Interplay of SSD Parallelism
//! through Advanced Commands, Allocation Strategy and Data Granularity", ICS 2011; the simulator's
//! `get_requests`).
//!
//! ```text
//!   time in ns   device   first sector of 512 bytes   sectors   1 = read, 0 = write
//!   97900000     0        287641400                   128       1
//! ```
//!
//! Other programs write the same columns with a 0 for a read, so the user must name the format.

use super::{Found, ReadIs};
use crate::access::Extent;
use crate::devices::Devices;
use crate::fields::{between_blanks, exactly, number};

const EXPECTED: &str = "not 'ns device sector sectors 0|1'";

pub(crate) fn line(line: &[u8], read_is: ReadIs, devices: &mut Devices) -> Found {
    let [time, device, sector, sectors, flag] = exactly(between_blanks(line)).ok_or(EXPECTED)?;
    let flag = number(flag).filter(|flag| *flag <= 1).ok_or(EXPECTED)?;
    let time_ns = number(time).ok_or(EXPECTED)?;
    number(device).ok_or(EXPECTED)?;
    let extent =
        Extent::of_sectors(number(sector).ok_or(EXPECTED)?, number(sectors).ok_or(EXPECTED)?)?;
    let device = devices.named(device)?;
    extent.access(time_ns, device, read_is.direction(flag)).map(Some)
}
