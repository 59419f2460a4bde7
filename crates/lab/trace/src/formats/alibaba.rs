//! Alibaba's block traces of 2020 (J. Li et al., "An In-Depth Analysis of Cloud Block Storage
//! Workloads in Large-Scale Production", IISWC 2020; the README of alibaba/block-traces).
//!
//! ```text
//!   device,R|W,first byte,bytes,time in us
//!   419,W,8792731648,16384,1577808144360767
//! ```

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;
use crate::fields::{between_commas, exactly, number};

const EXPECTED: &str = "not 'device,R|W,offset,bytes,us'";

pub(crate) fn line(line: &[u8], devices: &mut Devices) -> Found {
    let [device, way, offset, bytes, time] = exactly(between_commas(line)).ok_or(EXPECTED)?;
    let direction = match way {
        b"R" | b"r" => Direction::Read,
        b"W" | b"w" => Direction::Write,
        _ => return Err(EXPECTED),
    };
    number(device).ok_or(EXPECTED)?;
    let time_ns = number(time).ok_or(EXPECTED)?;
    let time_ns = time_ns.checked_mul(1000).ok_or("the time is out of range")?;
    let extent = Extent::of_bytes(number(offset).ok_or(EXPECTED)?, number(bytes).ok_or(EXPECTED)?)?;
    let device = devices.named(device)?;
    extent.access(time_ns, device, direction).map(Some)
}
