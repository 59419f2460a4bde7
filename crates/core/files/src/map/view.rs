//! Looks into a map.

use super::extents::Extents;
use super::numbers::Rest;
use super::parse::{Header, Index, header, index};
use super::types::{Directory, Extent, FileEntry, Owner, System};
use super::{GROUP, Unusable};
use crate::BLOCK_SECTORS;
use crate::class::Class;
use alloc::vec::Vec;

/// Maximum number of directories in the path of a file: those above are left out.
const PATH_MAX: usize = 1024;

/// A map from the sectors of a volume to classes, files and directories.
#[derive(Debug)]
pub struct Map {
    bytes: Vec<u8>,
    header: Header,
    index: Index,
}

impl Map {
    /// Reads a map in the format of this crate. Accepts any bytes.
    ///
    /// # Errors
    /// The bytes are no map, damaged, or of a later version.
    pub fn parse(bytes: Vec<u8>) -> Result<Map, Unusable> {
        let header = header(&bytes)?;
        let index = index(&bytes, &header)?;
        Ok(Map { bytes, header, index })
    }

    /// Returns the map in the format of this crate.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the map in the format of this crate.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of bytes of memory that the map takes.
    pub fn memory_bytes(&self) -> usize {
        let index = &self.index;
        self.bytes.capacity()
            + (index.files.capacity() + index.directories.capacity()) * size_of::<u32>()
            + index.extents.capacity() * size_of::<(u64, u32)>()
            + index.systems.capacity() * size_of::<System>()
    }

    /// Returns the number of sectors of the volume.
    pub fn sectors(&self) -> u64 {
        self.header.sectors
    }

    /// Returns the time at which the map was made, in seconds since 1970.
    pub fn seconds(&self) -> u64 {
        self.header.seconds
    }

    /// Whether a bound has cut the map off.
    pub fn is_incomplete(&self) -> bool {
        self.header.is_incomplete
    }

    /// Returns the number of files.
    pub fn files(&self) -> u32 {
        self.header.files
    }

    /// Returns the number of directories, including the root.
    pub fn directories(&self) -> u32 {
        self.header.directories
    }

    /// Returns the file systems and other contents that were found.
    pub fn systems(&self) -> &[System] {
        &self.index.systems
    }

    /// Returns all extents, in ascending order.
    pub fn extents(&self) -> Extents<'_> {
        Extents::new(&self.bytes[self.header.systems_end..])
    }

    /// Returns the extents from the group on that contains this sector, or begins after it.
    fn extents_near(&self, sector: u64) -> Extents<'_> {
        let groups = &self.index.extents;
        let after = groups.partition_point(|(first, _)| *first <= sector);
        let start = groups.get(after.saturating_sub(1)).map_or(0, |(_, at)| *at as usize);
        Extents::new(self.bytes.get(start..).filter(|_| start > 0).unwrap_or_default())
    }

    /// Returns the extent that contains this sector. None: the map has nothing about the sector.
    pub fn find(&self, sector: u64) -> Option<Extent> {
        let mut extents = self.extents_near(sector);
        let found = extents.find(|extent| extent.end() > sector)?;
        (found.first <= sector).then_some(found)
    }

    /// Returns the extents that overlap these sectors, in ascending order.
    pub fn within(&self, first: u64, sectors: u64) -> impl Iterator<Item = Extent> {
        let end = first.saturating_add(sectors);
        let extents = self.extents_near(first).skip_while(move |extent| extent.end() <= first);
        extents.take_while(move |extent| extent.first < end)
    }

    /// Returns the class and the owner of a block of 4 KiB: those of the extent that has the most
    /// of its sectors, and of the first of these.
    pub fn block(&self, block: u64) -> (Class, Owner) {
        let first = block.saturating_mul(BLOCK_SECTORS);
        let end = first.saturating_add(BLOCK_SECTORS);
        let (mut best, mut most) = ((Class::Unknown, Owner::None), 0);
        for extent in self.within(first, BLOCK_SECTORS) {
            let common = extent.end().min(end) - extent.first.max(first);
            if common > most {
                (best, most) = ((extent.class, extent.owner), common);
            }
        }
        best
    }

    /// Returns a file. None: there is no file with this number.
    pub fn file(&self, number: u32) -> Option<FileEntry<'_>> {
        let start = *self.index.files.get((number / GROUP) as usize)?;
        let mut rest = Rest(self.bytes.get(start as usize..self.header.files_end)?);
        let mut directory = 0;
        for _ in 0..number % GROUP {
            rest.byte().ok()?;
            directory = rest.after(directory).ok()?;
            rest.number().ok()?;
            let length = usize::from(rest.byte().ok()?);
            rest.take(length).ok()?;
        }
        let class = Class::from_number(rest.byte().ok()?)?;
        directory = rest.after(directory).ok()?;
        let blocks = rest.number().ok()?;
        let length = usize::from(rest.byte().ok()?);
        Some(FileEntry { class, directory, blocks, name: rest.take(length).ok()? })
    }

    /// Returns a directory. None: there is no directory with this number.
    pub fn directory(&self, number: u32) -> Option<Directory<'_>> {
        let start = *self.index.directories.get((number / GROUP) as usize)?;
        let mut rest = Rest(self.bytes.get(start as usize..self.header.directories_end)?);
        for _ in 0..number % GROUP {
            rest.number().ok()?;
            let length = usize::from(rest.byte().ok()?);
            rest.take(length).ok()?;
        }
        let back = u32::try_from(rest.number().ok()?).ok()?;
        let length = usize::from(rest.byte().ok()?);
        let name = rest.take(length).ok()?;
        Some(Directory { parent: (back > 0).then(|| number.saturating_sub(back)), name })
    }

    /// Returns the path of a file or a directory from the root of the volume, without a slash at
    /// its beginning. Of a very deep one, the end of the path. None: there is no owner.
    pub fn path(&self, owner: Owner) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let mut next = match owner {
            Owner::None => return None,
            Owner::Directory(number) => Some(number),
            Owner::File(number) => {
                let file = self.file(number)?;
                names.push(file.name);
                Some(file.directory)
            }
        };
        while let Some(number) = next.filter(|_| names.len() < PATH_MAX) {
            let directory = self.directory(number)?;
            if directory.parent.is_some() {
                names.push(directory.name);
            }
            next = directory.parent;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }
}
