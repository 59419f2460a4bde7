//! Saves dirty data to a file, if writing to its backing fails (C8).
//!
//! The file is a sparse image of the volume's size with every dirty sector at its offset. A mapfile
//! of GNU ddrescue, with the same name and the suffix `.map`, lists these sectors, so that they can
//! be put onto another copy of the volume:
//!
//! ```text
//!   ddrescue --force --domain-mapfile=FILE.map FILE /dev/mended another.map
//! ```
//!
//! Both are written under other names, synced, and renamed: the map first, so that a FILE that
//! exists is complete. No file is ever overwritten. Repeating the same rescue into the same FILE
//! finds the file complete, and succeeds.

use crate::draft::{Draft, directory_of, is_taken, sync_directory_of, with_suffix};
use cache::{Rescue, What};
use ring::SharedMemory;
use stack::{Exit, Failure};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a sector.
const SECTOR: u64 = block::SECTOR;
/// Bytes copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The user of a memory during a rescue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryUser {
    /// A daemon serves the volume, which has failed: reads continue.
    Daemon,
    /// No process.
    Nobody,
}

/// Result of a rescue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rescued {
    /// Bytes of dirty data, including zeros.
    pub bytes: u64,
    /// The mapfile.
    pub map: PathBuf,
    /// Headers with a wrong checksum: their blocks are not in the file.
    pub rejected: u64,
}

fn write_failure(path: &Path, error: io::Error) -> Failure {
    let (exit, mend) = match error.kind() {
        io::ErrorKind::PermissionDenied => (Exit::Permission, ""),
        io::ErrorKind::AlreadyExists => (Exit::Usage, "; choose another name"),
        io::ErrorKind::ResourceBusy => (Exit::Busy, ""),
        _ => (Exit::Io, ""),
    };
    Failure::new(exit, format!("{}: cannot be written: {error}{mend}", path.display()))
}

/// Refuses to save onto the failed storage: the backing itself, a file system on it, or the disk
/// below it, as far as the kernel shows. `keys` are the backing's ([`holder::key_at`]), and `names`
/// its possible absolute paths.
///
/// # Errors
/// Exit status 2, with a correction.
pub fn check_rescue_place(path: &Path, keys: &[String], names: &[PathBuf]) -> Result<(), Failure> {
    let refuse = |what: &str| {
        let message = format!(
            "{}: {what}, to which dirty data cannot be written; save it to another disk",
            path.display()
        );
        Err(Failure::new(Exit::Usage, message))
    };
    if holder::key_at(path).is_ok_and(|key| keys.contains(&key)) {
        return refuse("is the volume's backing");
    }
    let below = host::keys_below(directory_of(path));
    if below.iter().any(|key| keys.contains(key)) {
        return refuse("lies on the volume's backing");
    }
    let names = || names.iter().map(PathBuf::as_path);
    let mut failed = keys.iter().flat_map(|key| host::keys_below_backing(key, names()));
    match failed.any(|key| below.contains(&key)) {
        true => {
            refuse("lies on the same disk, or in the same file system, as the volume's backing")
        }
        false => Ok(()),
    }
}

/// Writes all dirty data in a volume's memory to a new file at `path`, and a map of it next to it;
/// both, and their names, are on their disk when this returns. The memory must not change during
/// this (the volume has failed, or is not served); at the end `unchanged` checks that. A file that
/// already holds exactly this data is accepted.
///
/// # Errors
/// The memory is not a volume's; another file of this name exists, or it cannot be
/// written; the error of `unchanged`. Then no new file is left.
pub fn rescue(
    memory: OwnedFd,
    user: MemoryUser,
    path: &Path,
    unchanged: impl FnOnce() -> Result<(), Failure>,
) -> Result<Rescued, Failure> {
    let damaged =
        |error: String| Failure::new(Exit::Integrity, format!("the volume's memory: {error}"));
    let memory = SharedMemory::adopt(memory).map_err(|error| damaged(error.to_string()))?;
    let found = match user {
        MemoryUser::Daemon => Rescue::from_served_memory(memory.memory().clone()),
        MemoryUser::Nobody => Rescue::from_memory(memory.memory().clone()),
    };
    let rescue = found.map_err(|error| damaged(error.to_string()))?;
    let map = with_suffix(path, ".map");
    match is_taken(path) {
        true => {
            accept_existing(path, &map, &rescue)?;
            unchanged()?;
        }
        false => write_both(path, &map, &rescue, unchanged)?,
    }
    sync_directory_of(path).map_err(|error| write_failure(path, error))?;
    Ok(Rescued { bytes: rescue.rescued_sectors() * SECTOR, map, rejected: rescue.rejected() })
}

fn write_both(
    path: &Path,
    map: &Path,
    rescue: &Rescue,
    unchanged: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let map_draft = match is_taken(map) {
        // Either an earlier attempt was killed before its last step, or the map belongs to another
        // file.
        true => {
            check_map(map, rescue)?;
            None
        }
        false => {
            let draft = Draft::begin(map).map_err(|error| write_failure(map, error))?;
            write_map(draft.file(), rescue).map_err(|error| write_failure(map, error))?;
            Some(draft)
        }
    };
    let draft = Draft::begin(path).map_err(|error| write_failure(path, error))?;
    write_data(draft.file(), rescue).map_err(|error| write_failure(path, error))?;
    unchanged()?;
    let is_new = map_draft.is_some();
    map_draft.map_or(Ok(()), Draft::publish).map_err(|error| write_failure(map, error))?;
    draft.publish().map_err(|error| {
        if is_new {
            let _ = std::fs::remove_file(map);
        }
        write_failure(path, error)
    })
}

/// Accepts an existing file if it and its map hold exactly this rescue, and syncs both.
fn accept_existing(path: &Path, map: &Path, rescue: &Rescue) -> Result<(), Failure> {
    let exists = || write_failure(path, io::ErrorKind::AlreadyExists.into());
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) || !is_taken(map) {
        return Err(exists());
    }
    check_map(map, rescue).map_err(|_| exists())?;
    let file = File::open(path).map_err(|error| write_failure(path, error))?;
    match has_all_data(&file, rescue) {
        Ok(true) => file.sync_all().map_err(|error| write_failure(path, error)),
        _ => Err(exists()),
    }
}

/// Refuses a map of another rescue, and syncs one of this rescue.
fn check_map(map: &Path, rescue: &Rescue) -> Result<(), Failure> {
    let exists = |_| write_failure(map, io::ErrorKind::AlreadyExists.into());
    let text = rescue.mapfile().to_string();
    let mut found = Vec::new();
    let file = File::open(map).map_err(exists)?;
    (&file).take(text.len() as u64 + 1).read_to_end(&mut found).map_err(exists)?;
    if found != text.as_bytes() {
        return Err(exists(io::ErrorKind::AlreadyExists.into()));
    }
    file.sync_all().map_err(|error| write_failure(map, error))
}

/// Calls `each` for every rescued piece, with its offset in the file, its data (None: zeros), and
/// its length in bytes.
fn each_piece(
    rescue: &Rescue,
    mut each: impl FnMut(u64, Option<&[u8]>, u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    for item in rescue.items() {
        let (start, bytes) = (item.first_sector * SECTOR, item.sectors * SECTOR);
        let What::Bytes { offset } = item.what else {
            each(start, None, bytes)?;
            continue;
        };
        let bytes = bytes as usize;
        for done in (0..bytes).step_by(PIECE_BYTES) {
            let length = PIECE_BYTES.min(bytes - done);
            rescue.memory().read(offset + done, &mut piece[..length]);
            each(start + done as u64, Some(&piece[..length]), length as u64)?;
        }
    }
    Ok(())
}

fn write_data(file: &File, rescue: &Rescue) -> io::Result<()> {
    file.set_len(rescue.sectors() * SECTOR)?;
    // Zeros are already present in a sparse file.
    each_piece(rescue, |at, piece, _| piece.map_or(Ok(()), |piece| file.write_all_at(piece, at)))?;
    file.sync_all()
}

/// Whether a file has all rescued data at its offsets.
fn has_all_data(file: &File, rescue: &Rescue) -> io::Result<bool> {
    if file.metadata()?.len() != rescue.sectors() * SECTOR {
        return Ok(false);
    }
    let mut same = true;
    let mut found = vec![0; PIECE_BYTES];
    each_piece(rescue, |at, piece, bytes| {
        for done in (0..bytes).step_by(PIECE_BYTES) {
            let length = (bytes - done).min(PIECE_BYTES as u64) as usize;
            file.read_exact_at(&mut found[..length], at + done)?;
            same &= match piece {
                Some(piece) => piece == &found[..length],
                None => found[..length].iter().all(|byte| *byte == 0),
            };
        }
        Ok(())
    })?;
    Ok(same)
}

fn write_map(mut file: &File, rescue: &Rescue) -> io::Result<()> {
    write!(file, "{}", rescue.mapfile())?;
    file.sync_all()
}
