//! The classes of a volume's blocks, by the files that they belong to.
//!
//! As a file, the header is that of a list of hot blocks, with the magic "ODCLASSM" and one part;
//! after it, and as the process that maps files sends it:
//!
//! ```text
//!   bytes
//!       1   number of classes: 1 to 16
//!       -   for each: bytes of its name (1 byte, 1 to 32), name
//!       4   number of extents
//!       -   for each: blocks between the extent before and this one, blocks (at least 1), class
//! ```
//!
//! The numbers of an extent are in groups of seven bits, as in a list; the class is a byte.

use crate::header::{self, Rest, put_number};
use crate::{Description, FIXED, IDENTITY_MAX, MAGIC_BYTES, Unusable};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Maximum number of classes.
pub const CLASS_NAMES_MAX: usize = 16;
/// Maximum number of extents.
pub const CLASS_EXTENTS_MAX: u32 = 4 << 20;
/// Maximum number of bytes without the header: an extent has at most 16.
pub const CLASS_LIST_BYTES_MAX: usize = 1 << 26;
/// Maximum number of bytes of a file.
pub const CLASS_FILE_BYTES_MAX: usize = FIXED + IDENTITY_MAX + CLASS_LIST_BYTES_MAX;

const NAME_BYTES_MAX: usize = 32;
const CLASSES_MAGIC: [u8; MAGIC_BYTES] = *b"ODCLASSM";

/// Neighbouring blocks of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassRun {
    /// The first block.
    pub first: u64,
    /// Number of blocks, at least 1.
    pub blocks: u32,
    /// The index of the name of their class.
    pub class: u8,
}

/// The classes of a volume's blocks. Blocks in no run are of no class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassList {
    /// Names of the classes.
    pub names: Vec<String>,
    /// Runs, in ascending order.
    pub runs: Vec<ClassRun>,
}

impl ClassList {
    /// Returns its bytes, without the header of a file.
    ///
    /// # Panics
    /// If there are too many names or runs, a name is too long or empty, or the runs overlap.
    pub fn encode(&self) -> Vec<u8> {
        assert!((1..=CLASS_NAMES_MAX).contains(&self.names.len()), "1 to 16 classes");
        assert!(self.runs.len() <= CLASS_EXTENTS_MAX as usize, "not too many runs");
        let mut bytes = alloc::vec![self.names.len() as u8];
        for name in &self.names {
            assert!((1..=NAME_BYTES_MAX).contains(&name.len()), "{name}: a short name");
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes.extend_from_slice(&(self.runs.len() as u32).to_le_bytes());
        let mut end = 0;
        for run in &self.runs {
            put_number(&mut bytes, run.first.checked_sub(end).expect("ascending runs"));
            put_number(&mut bytes, run.blocks.into());
            bytes.push(run.class);
            end = run.first + u64::from(run.blocks);
        }
        bytes
    }

    /// Reads bytes as of [`ClassList::encode`], for a volume of this number of blocks.
    ///
    /// # Errors
    /// They are damaged, too many, or of a larger volume.
    pub fn parse(bytes: &[u8], volume_blocks: u64) -> Result<ClassList, Unusable> {
        if bytes.len() > CLASS_LIST_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let mut rest = Rest(bytes);
        let names = usize::from(rest.byte()?);
        if !(1..=CLASS_NAMES_MAX).contains(&names) {
            return Err(Unusable::Damaged);
        }
        let names = (0..names).map(|_| name(&mut rest)).collect::<Result<Vec<_>, _>>()?;
        let runs = rest.u32()?;
        // A run has at least three bytes.
        if runs > CLASS_EXTENTS_MAX || runs as usize > rest.0.len() / 3 {
            return Err(Unusable::Damaged);
        }
        let mut list = ClassList { names, runs: Vec::with_capacity(runs as usize) };
        let mut end = 0u64;
        for _ in 0..runs {
            let (between, blocks) = (rest.number()?, rest.number()?);
            let (first, class) = (end.checked_add(between), rest.byte()?);
            let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0);
            let (Some(first), Some(blocks)) = (first, blocks) else {
                return Err(Unusable::Damaged);
            };
            end = first.checked_add(blocks.into()).ok_or(Unusable::Damaged)?;
            if end > volume_blocks || usize::from(class) >= list.names.len() {
                return Err(Unusable::Damaged);
            }
            list.runs.push(ClassRun { first, blocks, class });
        }
        if rest.0.is_empty() { Ok(list) } else { Err(Unusable::Damaged) }
    }
}

fn name(rest: &mut Rest<'_>) -> Result<String, Unusable> {
    let length = usize::from(rest.byte()?);
    if !(1..=NAME_BYTES_MAX).contains(&length) {
        return Err(Unusable::Damaged);
    }
    let name = core::str::from_utf8(rest.take(length)?).map_err(|_| Unusable::Damaged)?;
    Ok(name.to_string())
}

/// A valid file with the classes of a volume's blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedClasses {
    of: Description,
    /// The classes.
    pub list: ClassList,
}

impl SavedClasses {
    /// Reads a file.
    ///
    /// # Errors
    /// The bytes are no such file, damaged, or of a later version.
    pub fn parse(bytes: &[u8]) -> Result<SavedClasses, Unusable> {
        if bytes.len() > CLASS_FILE_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let (of, _, rest) = header::open(bytes, &CLASSES_MAGIC, Unusable::NoClasses, 1)?;
        let list = ClassList::parse(rest.0, of.volume_blocks)?;
        Ok(SavedClasses { of, list })
    }

    /// The volume of which they are.
    pub fn description(&self) -> &Description {
        &self.of
    }
}

/// Returns the file of classes, whose bytes are as of [`ClassList::encode`].
///
/// # Panics
/// If the identity is longer than [`IDENTITY_MAX`].
pub fn encode_classes(of: &Description, list: &[u8]) -> Vec<u8> {
    let mut bytes = header::begin(&CLASSES_MAGIC, of, 1, list.len());
    bytes.extend_from_slice(list);
    header::seal(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn list() -> ClassList {
        let run = |first, blocks, class| ClassRun { first, blocks, class };
        let names = ["unknown", "metadata", "big-media"].map(ToString::to_string).to_vec();
        let runs = vec![run(0, 1, 1), run(1, 300, 2), run(70_000, u32::MAX, 1)];
        ClassList { names, runs }
    }

    const BLOCKS: u64 = 70_000 + u32::MAX as u64;

    #[test]
    fn classes_are_read_as_they_were_written() {
        let bytes = list().encode();
        assert_eq!(ClassList::parse(&bytes, BLOCKS), Ok(list()));
        assert_eq!(ClassList::parse(&bytes, BLOCKS - 1), Err(Unusable::Damaged));
        let of = Description { identity: "a".into(), volume_blocks: BLOCKS, saved_s: 7 };
        let saved = SavedClasses::parse(&encode_classes(&of, &bytes)).expect("usable");
        assert_eq!((saved.description(), &saved.list), (&of, &list()));
        let empty = ClassList { names: list().names, runs: Vec::new() };
        assert_eq!(ClassList::parse(&empty.encode(), 0), Ok(empty));
    }

    #[test]
    fn any_bytes_are_refused_or_read() {
        let bytes = list().encode();
        for cut in 0..bytes.len() {
            assert!(ClassList::parse(&bytes[..cut], BLOCKS).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                // No panic, and nothing outside of the volume.
                if let Ok(read) = ClassList::parse(&other, BLOCKS) {
                    let end = |run: &ClassRun| run.first + u64::from(run.blocks);
                    assert!(read.runs.iter().all(|run| end(run) <= BLOCKS));
                    assert!(read.runs.iter().is_sorted_by(|one, two| end(one) <= two.first));
                }
            }
        }
        let many = [&[1, 1, b'x'][..], &u32::MAX.to_le_bytes()].concat();
        assert_eq!(ClassList::parse(&many, BLOCKS), Err(Unusable::Damaged));
        assert_eq!(SavedClasses::parse(b"ODHOTLST"), Err(Unusable::NoClasses));
    }
}
