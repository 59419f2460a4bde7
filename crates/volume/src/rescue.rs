//! Saving what is dirty to a file, where its backing does not take it (C8).
//!
//! The file is a sparse image of the volume's size with every dirty sector at its place. Beside it,
//! under the same name with `.map` behind it, lies a mapfile of GNU ddrescue that tells which those
//! are, so that they can be put onto another copy of the volume:
//!
//! ```text
//!   ddrescue --force --domain-mapfile=FILE.map FILE /dev/mended another.map
//! ```

use crate::failure::{Exit, Failure};
use cache::{Rescue, What};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use uring::SharedMemory;

/// Bytes of a sector.
const SECTOR: u64 = block::SECTOR;
/// Bytes copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What was saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rescued {
    /// Bytes that were dirty, zeros included.
    pub bytes: u64,
    /// The mapfile.
    pub map: PathBuf,
    /// Headers whose checksum was wrong: what they stood for is not in the file.
    pub rejected: u64,
}

fn cannot(path: &Path, error: io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::Permission,
        io::ErrorKind::AlreadyExists => Exit::Usage,
        _ => Exit::Io,
    };
    let mend = match error.kind() {
        io::ErrorKind::AlreadyExists => "; choose a name that is free",
        _ => "",
    };
    Failure::new(exit, format!("{}: cannot be written: {error}{mend}", path.display()))
}

fn create(path: &Path) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|error| cannot(path, error))
}

/// Writes everything that is dirty in a volume's memory to a new file at `path`, and a map of it
/// beside it; both are on their disk when this returns. The memory must not change meanwhile: the
/// volume has failed, or nobody serves it.
///
/// # Errors
/// The memory is no volume's; a file of this name exists, or cannot be written. What was written of
/// it then is removed.
pub fn rescue(memory: OwnedFd, path: &Path) -> Result<Rescued, Failure> {
    let memory = SharedMemory::adopt(memory)
        .map_err(|error| Failure::new(Exit::Integrity, format!("the volume's memory: {error}")))?;
    let rescue = Rescue::over(memory.memory().clone())
        .map_err(|error| Failure::new(Exit::Integrity, format!("the volume's memory: {error}")))?;
    let mut name = path.as_os_str().to_owned();
    name.push(".map");
    let map = PathBuf::from(name);
    if map.exists() {
        return Err(cannot(&map, io::ErrorKind::AlreadyExists.into()));
    }
    let data = create(path)?;
    let written = write_data(&data, &rescue)
        .map_err(|error| cannot(path, error))
        .and_then(|()| write_map(&map, &rescue));
    if let Err(failure) = written {
        // Half a rescue that looks like a whole one is worse than none.
        let _ = std::fs::remove_file(path);
        let _ = std::fs::remove_file(&map);
        return Err(failure);
    }
    Ok(Rescued { bytes: rescue.rescued_sectors() * SECTOR, map, rejected: rescue.rejected() })
}

fn write_data(file: &File, rescue: &Rescue) -> io::Result<()> {
    file.set_len(rescue.sectors() * SECTOR)?;
    let mut piece = vec![0; PIECE_BYTES];
    for item in rescue.items() {
        // What is zero is so in a sparse file already.
        let What::Bytes { offset } = item.what else { continue };
        let bytes = (item.sectors * SECTOR) as usize;
        let mut done = 0;
        while done < bytes {
            let length = piece.len().min(bytes - done);
            rescue.memory().read(offset + done, &mut piece[..length]);
            file.write_all_at(&piece[..length], item.first_sector * SECTOR + done as u64)?;
            done += length;
        }
    }
    file.sync_all()
}

fn write_map(path: &Path, rescue: &Rescue) -> Result<(), Failure> {
    let mut file = create(path)?;
    write!(file, "{}", rescue.mapfile())
        .and_then(|()| file.sync_all())
        .map_err(|error| cannot(path, error))
}
