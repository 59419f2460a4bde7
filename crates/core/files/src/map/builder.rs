//! Makes a map.

use super::numbers::{put, put_difference};
use super::sweep::{Piece, Raw, split, sweep};
use super::types::{Owner, System};
use super::view::Map;
use super::{
    CHECKED, GROUP, HEADER, INCOMPLETE, MAGIC, SECTORS_MAX, SYSTEM_BYTES, SYSTEMS_MAX, VERSION,
};
use crate::class::Class;
use alloc::vec::Vec;

/// The map has no room for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Bytes of the finished map that are expected of each extent. Most take four to eight.
const FINISHED: usize = 10;
/// Maximum number of bytes of an extent in the finished map.
const EXTENT_MAX: usize = 18;
/// Bytes that readers remember of each directory.
const REMEMBERED: usize = 48;
/// Positions in a map have 32 bits.
const MEMORY_MAX: usize = 1 << 31;

/// A map in the making.
pub struct Builder {
    sectors: u64,
    memory_max: usize,
    /// The header, and the section of files.
    bytes: Vec<u8>,
    directory_bytes: Vec<u8>,
    raw: Vec<Raw>,
    systems: Vec<System>,
    files: u32,
    directories: u32,
    /// Directory of the last file.
    last_directory: u32,
    is_incomplete: bool,
}

fn put_name(bytes: &mut Vec<u8>, name: &[u8]) {
    let name = &name[..name.len().min(usize::from(u8::MAX))];
    bytes.push(name.len() as u8);
    bytes.extend(name.iter().map(|&byte| if matches!(byte, 0 | b'/') { b'?' } else { byte }));
}

impl Builder {
    /// Number of the root directory.
    pub const ROOT: u32 = 0;

    /// Begins the map of a volume of this number of sectors, at most 2^48. The builder and its map
    /// use at most `memory_bytes` bytes. Their address space, up to twice as many, is requested
    /// here: lists that grow later would be copied, and need the memory of both copies.
    pub fn new(sectors: u64, memory_bytes: usize) -> Builder {
        let memory_max = memory_bytes.min(MEMORY_MAX);
        let mut bytes = Vec::with_capacity(memory_max.max(HEADER));
        bytes.resize(HEADER, 0);
        let mut builder = Builder {
            sectors: sectors.min(SECTORS_MAX),
            memory_max,
            bytes,
            directory_bytes: Vec::new(),
            raw: Vec::with_capacity(memory_max / (size_of::<Raw>() + FINISHED)),
            systems: Vec::new(),
            files: 0,
            directories: 1,
            last_directory: 0,
            is_incomplete: false,
        };
        put(&mut builder.directory_bytes, 0);
        put_name(&mut builder.directory_bytes, b"");
        builder
    }

    /// Returns the number of bytes that the builder, its finished map and the readers' lists of
    /// directories take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
            + 2 * self.directory_bytes.len()
            + self.directories as usize * REMEMBERED
            + self.raw.len() * (size_of::<Raw>() + FINISHED)
            + self.systems.len() * 2 * SYSTEM_BYTES
    }

    fn check_room(&mut self) -> Result<(), Full> {
        if self.memory_bytes() + 512 > self.memory_max {
            self.is_incomplete = true;
            return Err(Full);
        }
        Ok(())
    }

    /// Marks the map as incomplete.
    pub fn set_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Adds a directory, and returns its number. Names are cut at 255 bytes; `/` and NUL in them
    /// become `?`.
    ///
    /// # Errors
    /// The map has no room for more.
    ///
    /// # Panics
    /// If there is no directory `parent`.
    pub fn directory(&mut self, parent: u32, name: &[u8]) -> Result<u32, Full> {
        assert!(parent < self.directories, "a directory of this map");
        self.check_room()?;
        let number = self.directories;
        self.directories = number.checked_add(1).ok_or(Full)?;
        put(&mut self.directory_bytes, u64::from(number - parent));
        put_name(&mut self.directory_bytes, name);
        Ok(number)
    }

    /// Adds a file of `bytes` bytes, and returns its number. Its name is changed as that of a
    /// directory.
    ///
    /// # Errors
    /// The map has no room for more.
    ///
    /// # Panics
    /// If there is no such directory.
    pub fn file(
        &mut self,
        directory: u32,
        name: &[u8],
        class: Class,
        bytes: u64,
    ) -> Result<u32, Full> {
        assert!(directory < self.directories, "a directory of this map");
        self.check_room()?;
        let number = self.files;
        self.files = number.checked_add(1).ok_or(Full)?;
        if number.is_multiple_of(GROUP) {
            self.last_directory = 0;
        }
        self.bytes.push(class.number());
        put_difference(&mut self.bytes, self.last_directory, directory);
        put(&mut self.bytes, bytes.div_ceil(4096));
        put_name(&mut self.bytes, name);
        self.last_directory = directory;
        Ok(number)
    }

    /// Adds sectors of a class and an owner. Those outside of the volume are left out; those that
    /// several extents have belong to one of them, and free space gives way to all other classes.
    ///
    /// # Errors
    /// The map has no room for more.
    ///
    /// # Panics
    /// If there is no such owner.
    pub fn extent(
        &mut self,
        first: u64,
        sectors: u64,
        class: Class,
        owner: Owner,
    ) -> Result<(), Full> {
        assert!(self.has(owner), "an owner of this map");
        let end = first.saturating_add(sectors).min(self.sectors);
        let mut at = first.min(end);
        if let Some(last) = self.raw.last_mut()
            && last.end() == at
            && last.is_of(class, owner)
            && let Ok(sum) = u32::try_from(u64::from(last.sectors) + (end - at))
        {
            last.sectors = sum;
            return Ok(());
        }
        while at < end {
            self.check_room()?;
            let length = u32::try_from(end - at).unwrap_or(u32::MAX);
            self.raw.push(Raw::new(at, length, class, owner));
            at += u64::from(length);
        }
        Ok(())
    }

    fn has(&self, owner: Owner) -> bool {
        match owner {
            Owner::None => true,
            Owner::File(number) => number < self.files,
            Owner::Directory(number) => number < self.directories,
        }
    }

    /// Adds a file system. At most 4,096 are listed.
    ///
    /// # Errors
    /// The map has no room for more.
    pub fn system(&mut self, system: System) -> Result<(), Full> {
        self.is_incomplete |= system.is_incomplete;
        if self.systems.len() >= SYSTEMS_MAX || system.directory >= self.directories {
            return Err(Full);
        }
        self.systems.push(system);
        Ok(())
    }

    /// Finishes the map, with this time in seconds since 1970.
    pub fn finish(mut self, seconds: u64) -> Map {
        let file_bytes = self.bytes.len() - HEADER;
        let systems: Vec<System> = core::mem::take(&mut self.systems);
        self.bytes.extend_from_slice(&self.directory_bytes);
        let directory_bytes = core::mem::take(&mut self.directory_bytes).len();
        systems.iter().for_each(|system| put_system(&mut self.bytes, system));
        let mut writer = Writer { bytes_max: self.memory_max, ..Writer::default() };
        sweep(&mut self.raw, |piece| writer.add(&mut self.bytes, piece));
        self.is_incomplete |= writer.is_cut;
        let extents = writer.finish(&mut self.bytes);
        self.raw = Vec::new();
        self.bytes.shrink_to_fit();
        let flags = if self.is_incomplete { INCOMPLETE } else { 0 };
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        header.extend_from_slice(&self.sectors.to_le_bytes());
        header.extend_from_slice(&seconds.to_le_bytes());
        let counts = [flags, self.files, self.directories, systems.len() as u32, extents];
        for number in counts.into_iter().chain([file_bytes as u32, directory_bytes as u32, 0]) {
            header.extend_from_slice(&number.to_le_bytes());
        }
        self.bytes[..HEADER].copy_from_slice(&header);
        let checksum = crc32fast::hash(&self.bytes[CHECKED..]);
        self.bytes[CHECKED - 4..CHECKED].copy_from_slice(&checksum.to_le_bytes());
        Map::parse(self.bytes).expect("a map that was just made is usable")
    }
}

fn put_system(bytes: &mut Vec<u8>, system: &System) {
    bytes.extend_from_slice(&system.first.to_le_bytes());
    bytes.extend_from_slice(&system.sectors.to_le_bytes());
    let flags = u8::from(system.is_incomplete) | u8::from(system.is_damaged) << 1;
    bytes.extend_from_slice(&[system.kind.number(), flags, 0, 0]);
    bytes.extend_from_slice(&system.directory.to_le_bytes());
    bytes.extend_from_slice(&system.unreadable.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
}

/// Writes pieces as extents. Adjacent pieces of one class and owner become one extent.
#[derive(Default)]
struct Writer {
    pending: Option<Piece>,
    /// Maximum number of bytes of the map, and whether extents were left out for it.
    bytes_max: usize,
    is_cut: bool,
    written: u32,
    end: u64,
    /// The last owner of each kind.
    numbers: [u32; 3],
}

impl Writer {
    fn add(&mut self, bytes: &mut Vec<u8>, piece: Piece) {
        if let Some(pending) = &mut self.pending
            && pending.end == piece.first
            && (pending.class, pending.owner) == (piece.class, piece.owner)
        {
            pending.end = piece.end;
            return;
        }
        self.put_pending(bytes);
        // Many small extents that are far from one another take more than expected.
        self.is_cut |= bytes.len() + EXTENT_MAX > self.bytes_max;
        self.pending = Some(piece).filter(|_| !self.is_cut);
    }

    fn put_pending(&mut self, bytes: &mut Vec<u8>) {
        let Some(piece) = self.pending.take() else { return };
        if self.written.is_multiple_of(GROUP) {
            (self.end, self.numbers) = (0, [0; 3]);
        }
        let (kind, number) = split(piece.owner);
        bytes.push(piece.class.number() | kind << 4);
        put(bytes, piece.first - self.end);
        put(bytes, piece.end - piece.first);
        if kind > 0 {
            let last = &mut self.numbers[usize::from(kind)];
            put_difference(bytes, *last, number);
            *last = number;
        }
        self.end = piece.end;
        self.written += 1;
    }

    /// Returns the number of extents.
    fn finish(mut self, bytes: &mut Vec<u8>) -> u32 {
        self.put_pending(bytes);
        self.written
    }
}
