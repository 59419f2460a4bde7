//! Checks bytes from another process, and finds the groups in them.

use super::extents::Extents;
use super::numbers::Rest;
use super::types::{Kind, Owner, System};
use super::{
    CHECKED, GROUP, HEADER, INCOMPLETE, MAGIC, SECTORS_MAX, SYSTEM_BYTES, SYSTEMS_MAX, Unusable,
    VERSION,
};
use crate::bytes::{byte, le32, le64};
use crate::class::Class;
use alloc::vec::Vec;

/// The header of a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) sectors: u64,
    pub(super) seconds: u64,
    pub(super) is_incomplete: bool,
    pub(super) files: u32,
    pub(super) directories: u32,
    pub(super) systems: u32,
    pub(super) extents: u32,
    /// Ends of the sections of files and directories.
    pub(super) files_end: usize,
    pub(super) directories_end: usize,
    pub(super) systems_end: usize,
}

/// First sector of a group of extents, and its first byte.
pub(super) type Group = (u64, u32);

/// The groups of a map.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) files: Vec<u32>,
    pub(super) directories: Vec<u32>,
    pub(super) extents: Vec<Group>,
    pub(super) systems: Vec<System>,
}

pub(super) fn header(bytes: &[u8]) -> Result<Header, Unusable> {
    if bytes.get(..MAGIC.len()) != Some(&MAGIC) {
        return Err(Unusable::NoMap);
    }
    match le32(bytes, 8) {
        VERSION => {}
        later if later > VERSION => return Err(Unusable::Newer(later)),
        _ => return Err(Unusable::Damaged),
    }
    // Positions in the bytes have 32 bits.
    if bytes.len() < HEADER || u32::try_from(bytes.len()).is_err() {
        return Err(Unusable::Damaged);
    }
    if le32(bytes, 12) != crc32fast::hash(&bytes[CHECKED..]) {
        return Err(Unusable::Damaged);
    }
    let end = |start: usize, length: usize| {
        let end = start.checked_add(length).filter(|end| *end <= bytes.len());
        end.ok_or(Unusable::Damaged)
    };
    let systems = le32(bytes, 44);
    let files_end = end(HEADER, le32(bytes, 52) as usize)?;
    let directories_end = end(files_end, le32(bytes, 56) as usize)?;
    let header = Header {
        sectors: le64(bytes, 16),
        seconds: le64(bytes, 24),
        is_incomplete: le32(bytes, 32) & INCOMPLETE != 0,
        files: le32(bytes, 36),
        directories: le32(bytes, 40),
        systems,
        extents: le32(bytes, 48),
        files_end,
        directories_end,
        systems_end: end(directories_end, (systems as usize).saturating_mul(SYSTEM_BYTES))?,
    };
    let is_sound = header.sectors <= SECTORS_MAX
        && le32(bytes, 32) & !INCOMPLETE == 0
        && le32(bytes, 60) == 0
        && header.systems as usize <= SYSTEMS_MAX
        && header.directories > 0;
    if is_sound { Ok(header) } else { Err(Unusable::Damaged) }
}

/// Checks all sections, and returns their groups.
pub(super) fn index(bytes: &[u8], header: &Header) -> Result<Index, Unusable> {
    Ok(Index {
        files: files(bytes, header)?,
        directories: directories(bytes, header)?,
        extents: extents(bytes, header)?,
        systems: systems(bytes, header)?,
    })
}

fn is_name(name: &[u8]) -> bool {
    !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

fn files(bytes: &[u8], header: &Header) -> Result<Vec<u32>, Unusable> {
    let mut rest = Rest(&bytes[HEADER..header.files_end]);
    let (mut groups, mut last) = (Vec::new(), 0);
    for number in 0..header.files {
        if number % GROUP == 0 {
            last = 0;
            groups.push((header.files_end - rest.0.len()) as u32);
        }
        Class::from_number(rest.byte()?).ok_or(Unusable::Damaged)?;
        last = rest.after(last)?;
        rest.number()?;
        let length = usize::from(rest.byte()?);
        if last >= header.directories || !is_name(rest.take(length)?) {
            return Err(Unusable::Damaged);
        }
    }
    if rest.0.is_empty() { Ok(groups) } else { Err(Unusable::Damaged) }
}

fn directories(bytes: &[u8], header: &Header) -> Result<Vec<u32>, Unusable> {
    let mut rest = Rest(&bytes[header.files_end..header.directories_end]);
    let mut groups = Vec::new();
    for number in 0..header.directories {
        if number % GROUP == 0 {
            groups.push((header.directories_end - rest.0.len()) as u32);
        }
        let back = rest.number()?;
        let length = usize::from(rest.byte()?);
        let name = rest.take(length)?;
        let is_sound = if number == 0 {
            back == 0 && name.is_empty()
        } else {
            (1..=u64::from(number)).contains(&back) && is_name(name)
        };
        if !is_sound {
            return Err(Unusable::Damaged);
        }
    }
    if rest.0.is_empty() { Ok(groups) } else { Err(Unusable::Damaged) }
}

fn extents(bytes: &[u8], header: &Header) -> Result<Vec<Group>, Unusable> {
    let mut extents = Extents::new(&bytes[header.systems_end..]);
    let (mut groups, mut end) = (Vec::new(), 0);
    for number in 0..header.extents {
        let at = bytes.len() - extents.left();
        let extent = extents.read()?;
        if number % GROUP == 0 {
            groups.push((extent.first, at as u32));
        }
        let has_owner = match extent.owner {
            Owner::None => true,
            Owner::File(file) => file < header.files,
            Owner::Directory(directory) => directory < header.directories,
        };
        let is_in_order = extent.first >= end && extent.sectors > 0;
        if !has_owner || !is_in_order || extent.end() > header.sectors {
            return Err(Unusable::Damaged);
        }
        end = extent.end();
    }
    if extents.left() == 0 { Ok(groups) } else { Err(Unusable::Damaged) }
}

fn systems(bytes: &[u8], header: &Header) -> Result<Vec<System>, Unusable> {
    let records = bytes[header.directories_end..header.systems_end].chunks_exact(SYSTEM_BYTES);
    let systems = records.map(|record| {
        let system = System {
            first: le64(record, 0),
            sectors: le64(record, 8),
            kind: Kind::from_number(byte(record, 16)).ok_or(Unusable::Damaged)?,
            directory: le32(record, 20),
            is_incomplete: byte(record, 17) & 1 != 0,
            is_damaged: byte(record, 17) & 2 != 0,
            unreadable: le32(record, 24),
        };
        let end = system.first.checked_add(system.sectors);
        let is_inside = end.is_some_and(|end| end <= header.sectors);
        let is_blank = byte(record, 17) & !3 == 0 && record[18..20] == [0; 2];
        if !is_inside || !is_blank || record[28..] != [0; 4] {
            return Err(Unusable::Damaged);
        }
        if system.directory < header.directories { Ok(system) } else { Err(Unusable::Damaged) }
    });
    systems.collect()
}
