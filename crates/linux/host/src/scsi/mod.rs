//! SCSI and SAS drives by the kernel's pass-through of commands: erasing.
//!
//! Sources: SBC-4 (5.4 FORMAT UNIT, 5.30 SANITIZE), SPC-5 (6.35 REPORT SUPPORTED OPERATION CODES,
//! 6.39 REQUEST SENSE, 4.5 sense data), include/scsi/sg.h.

mod command;
mod erase;
mod sense;
#[cfg(test)]
mod tests;

pub use command::ScsiError;
pub use erase::{Abilities, ScsiErase, abilities, erase, erasing};
pub use sense::Sense;
