//! Lines `op offset length`, in bytes, between commas or blanks; and the lines that
//! `overdrive trace convert --to csv` writes.
//!
//! ```text
//!   R,0,4096          R read W write, also in words; F flush D discard T trim Z zero A advise
//!   write,8192,512
//!
//!   op,offset,length,time_ns,took_ns,device,process
//!   R,0,4096,1500,80200,sda,postgres
//!   WF,8192,512,2500,,sda,      WF: durable when answered; took_ns and process may be empty
//! ```
//!
//! The first line may be the names of the columns; lines that begin with `#` are skipped. Lines of
//! three columns have no times, and one device.

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;
use crate::event::Operation;
use crate::fields::{between_blanks, between_commas, exactly, number};
use crate::processes::Processes;

const EXPECTED: &str = "not 'op offset length' (op: R or W; bytes)";

pub(crate) fn line(line: &[u8], devices: &mut Devices, processes: &mut Processes) -> Found {
    if line.starts_with(b"#") {
        return Ok(None);
    }
    let fields = match line.contains(&b',') {
        true => exactly(between_commas(line)),
        false => exactly(between_blanks(line)),
    };
    let Some([way, offset, bytes]) = fields else {
        return long_line(line, devices, processes);
    };
    let operation = operation(way).ok_or(EXPECTED)?;
    let extent = extent(offset, bytes)?;
    let access = extent.access(0, devices.numbered(0)?, direction(operation))?;
    Ok(Some(access.of(operation)))
}

/// Reads a line of seven columns.
fn long_line(line: &[u8], devices: &mut Devices, processes: &mut Processes) -> Found {
    let [way, offset, bytes, time, took, device, process] =
        exactly(line.splitn(7, |byte| *byte == b',').map(<[u8]>::trim_ascii)).ok_or(EXPECTED)?;
    let operation = operation(way).ok_or(EXPECTED)?;
    let extent = extent(offset, bytes)?;
    let time_ns = number(time).ok_or("the time is not a number of nanoseconds")?;
    let took_ns = match took {
        [] => None,
        took => Some(number(took).ok_or("took_ns is not a number of nanoseconds")?),
    };
    let access = extent.access(time_ns, devices.named(device)?, direction(operation))?;
    let mut access = access.of(operation).took(took_ns);
    access.details.process = (!process.is_empty()).then(|| processes.named(process));
    Ok(Some(access))
}

fn extent(offset: &[u8], bytes: &[u8]) -> Result<Extent, &'static str> {
    Extent::of_bytes(number(offset).ok_or(EXPECTED)?, number(bytes).ok_or(EXPECTED)?)
}

fn direction(operation: Operation) -> Direction {
    match operation {
        Operation::Read => Direction::Read,
        Operation::Write { .. } => Direction::Write,
        _ => Direction::Other,
    }
}

fn operation(way: &[u8]) -> Option<Operation> {
    let is = |names: &[&str]| names.iter().any(|name| way.eq_ignore_ascii_case(name.as_bytes()));
    let zero = |fua| Operation::Zero { fua, may_unmap: false };
    if is(&["r", "read"]) {
        Some(Operation::Read)
    } else if is(&["w", "write"]) {
        Some(Operation::Write { fua: false })
    } else if is(&["wf"]) {
        Some(Operation::Write { fua: true })
    } else if is(&["f", "flush"]) {
        Some(Operation::Flush)
    } else if is(&["d", "discard", "t", "trim"]) {
        Some(Operation::Discard)
    } else if is(&["z", "zero", "zf"]) {
        Some(zero(way.len() == 2))
    } else if is(&["a", "advise"]) {
        Some(Operation::Advise)
    } else {
        None
    }
}
