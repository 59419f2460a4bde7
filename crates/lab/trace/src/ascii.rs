//! MQSim's ASCII format, also used by SSDsim: one request per line.
//!
//! ```text
//!   time in ns, device, first sector of 512 bytes, sectors, 1 = read or 0 = write
//!   938513000   4       264719034                  16       0
//! ```

use crate::event::{Event, Operation};
use crate::malformed::Malformed;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum length of a request: 32 MiB.
const SECTORS_MAX: u64 = 65_536;

/// Reads lines; skips empty ones.
///
/// # Errors
/// The first line that is not a request.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Event>, Malformed> {
    let text = core::str::from_utf8(bytes);
    let text =
        text.map_err(|_| Malformed::new("the file is neither a recording nor text".into()))?;
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        all.push(event(line).ok_or_else(|| {
            let begins: String = line.chars().take(80).collect();
            let number = number + 1;
            Malformed::new(format!(
                "line {number}: not 'ns device sector sectors 1|0' (1: read): {begins}"
            ))
        })?);
    }
    Ok(all)
}

fn event(line: &str) -> Option<Event> {
    let mut fields = line.split_ascii_whitespace();
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (time_ns, device, first, sectors, kind) =
        (number()?, number()?, number()?, number()?, number()?);
    let operation = match kind {
        0 => Operation::Write { fua: false },
        1 => Operation::Read,
        _ => return None,
    };
    let event = Event {
        time_ns,
        took_ns: None,
        operation,
        device: u32::try_from(device).ok()?,
        first,
        sectors: u32::try_from(sectors).ok()?,
        failed: None,
    };
    let is_good = sectors <= SECTORS_MAX && event.is_sound() && fields.next().is_none();
    is_good.then_some(event)
}
