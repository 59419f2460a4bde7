//! The rescue as a GNU ddrescue mapfile.
//!
//! Source of the format: A. Diaz Diaz, GNU ddrescue manual, chapter "Mapfile structure": comments;
//! a status line (position, status, pass); then the blocks of data, ascending and without a gap,
//! each with its position and size in bytes and `+` (finished) or `?` (not tried).

use super::Rescue;
use core::fmt;
use core::ops::Range;

pub(super) struct Mapfile<'a>(pub(super) &'a Rescue);

impl Mapfile<'_> {
    /// Calls `each` with every line; adjacent items are one line.
    fn each_line(&self, mut each: impl FnMut(Range<u64>, char) -> fmt::Result) -> fmt::Result {
        let mut line = 0..0;
        for item in self.0.items() {
            let end = item.first_sector + item.sectors;
            if item.first_sector > line.end {
                if !line.is_empty() {
                    each(line.clone(), '+')?;
                }
                each(line.end..item.first_sector, '?')?;
                line.start = item.first_sector;
            }
            line.end = end;
        }
        if !line.is_empty() {
            each(line.clone(), '+')?;
        }
        if line.end < self.0.sectors {
            each(line.end..self.0.sectors, '?')?;
        }
        Ok(())
    }
}

impl fmt::Display for Mapfile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |sectors: u64| sectors * u64::from(self.0.grain());
        writeln!(f, "# Mapfile. Written by overdrive: data of a volume that its backing lacks")?;
        writeln!(f, "# Apply: ddrescue --force --domain-mapfile=THIS RESCUED BACKING APPLIED")?;
        writeln!(f, "# current_pos  current_status  current_pass")?;
        writeln!(f, "0x00000000     +               1")?;
        writeln!(f, "#      pos        size  status")?;
        self.each_line(|line, status| {
            let (at, size) = (bytes(line.start), bytes(line.end - line.start));
            writeln!(f, "0x{at:08X}  0x{size:08X}  {status}")
        })
    }
}
