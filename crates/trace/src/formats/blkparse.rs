//! The text of blkparse in its default form (`man blkparse`, "OUTPUT DESCRIPTION AND FORMATTING").
//!
//! ```text
//!   major,minor cpu sequence time in s  process action RWBS first sector + sectors [name]
//!   259,2       0   1        0.00000000 4020    Q      R    282624       + 8       [java]
//! ```
//!
//! One kind of event counts: Q, requests as they were queued, or D, as they were sent to the device. Between the two
//! the kernel merges neighbours: a merge is an event M or F, which is counted and told. So after Q there are as many
//! requests as were asked for, and after D fewer, larger ones. In RWBS a letter D is a discard; R, W are the
//! directions; a flush has no sectors. Lines come by processor, not quite in the order of their times: they are put
//! in order within a window (`window.rs`). The summary at the end, which begins with `CPU` or `Total`, is skipped.

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;
use crate::fields::{between_blanks, decimal, number};

const EXPECTED: &str = "not 'major,minor cpu sequence s process action RWBS sector + sectors'";

/// Which events count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Requests as they were queued.
    Queued,
    /// Requests as they were sent to the device.
    Sent,
}

/// What is kept between the lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blkparse {
    event: Event,
    /// Requests that were merged into others.
    pub(crate) merged: u64,
    is_summary: bool,
}

impl Blkparse {
    pub(crate) fn new(event: Event) -> Blkparse {
        Blkparse { event, merged: 0, is_summary: false }
    }

    pub(crate) fn line(&mut self, line: &[u8], devices: &mut Devices) -> Found {
        self.is_summary |= line.starts_with(b"CPU") || line.starts_with(b"Total");
        if self.is_summary {
            return Ok(None);
        }
        let mut fields = between_blanks(line);
        let mut next = || fields.next().ok_or(EXPECTED);
        let device = next()?;
        let mut numbers = device.splitn(2, |byte| *byte == b',').map(number);
        if !matches!((numbers.next(), numbers.next()), (Some(Some(_)), Some(Some(_)))) {
            return Err(EXPECTED);
        }
        let (cpu, sequence) = (number(next()?), number(next()?));
        cpu.and(sequence).ok_or(EXPECTED)?;
        let time_ns = decimal(next()?, 9).ok_or(EXPECTED)?;
        number(next()?).ok_or(EXPECTED)?;
        let wanted: &[u8] = if self.event == Event::Queued { b"Q" } else { b"D" };
        match next()? {
            action if action == wanted => {}
            b"M" | b"F" => {
                self.merged += 1;
                return Ok(None);
            }
            _ => return Ok(None),
        }
        let rwbs = next()?;
        let device = devices.named(device)?;
        match fields.next().map(number) {
            Some(Some(sector)) => {
                let is_plus = fields.next() == Some(b"+");
                let sectors = fields.next().and_then(number).filter(|_| is_plus);
                let extent = Extent::of_sectors(sector, sectors.ok_or(EXPECTED)?)?;
                extent.access(time_ns, device, direction(rwbs)).map(Some)
            }
            // A flush: behind its letters stands the name of the process.
            _ if rwbs.starts_with(b"F") || rwbs == b"N" => {
                Extent::of_bytes(0, 0)?.access(time_ns, device, Direction::Other).map(Some)
            }
            _ => Err(EXPECTED),
        }
    }
}

fn direction(rwbs: &[u8]) -> Direction {
    let has = |letter: u8| rwbs.contains(&letter);
    match (has(b'D'), has(b'R'), has(b'W')) {
        (false, true, _) => Direction::Read,
        (false, false, true) => Direction::Write,
        _ => Direction::Other,
    }
}
