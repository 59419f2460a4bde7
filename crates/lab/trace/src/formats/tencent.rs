//! Tencent's cloud block storage traces (Y. Zhang et al., "OSCA: An Online-Model Based Cache
//! Allocation Scheme in Cloud Block Storage Systems", ATC 2020; SNIA IOTTA trace set 27917, its
//! README).
//!
//! ```text
//!   time in s,first sector of 512 bytes,sectors,0 = read or 1 = write,volume
//!   1538323200,12910952,128,0,1063
//! ```

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;
use crate::fields::{between_commas, exactly, number};

const EXPECTED: &str = "not 's,sector,sectors,0|1,volume' (0: read)";

pub(crate) fn line(line: &[u8], devices: &mut Devices) -> Found {
    let [time, sector, sectors, way, volume] = exactly(between_commas(line)).ok_or(EXPECTED)?;
    let direction = match way {
        b"0" => Direction::Read,
        b"1" => Direction::Write,
        _ => return Err(EXPECTED),
    };
    number(volume).ok_or(EXPECTED)?;
    let time_ns = number(time).ok_or(EXPECTED)?;
    let time_ns = time_ns.checked_mul(1_000_000_000).ok_or("the time is out of range")?;
    let extent =
        Extent::of_sectors(number(sector).ok_or(EXPECTED)?, number(sectors).ok_or(EXPECTED)?)?;
    let device = devices.named(volume)?;
    extent.access(time_ns, device, direction).map(Some)
}
