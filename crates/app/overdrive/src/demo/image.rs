//! The disk of the demo: a file system with real files of this machine, and a database's space.

use super::children::Children;
use super::scale::{MIB, Scale};
use crate::tools;
use stack::{Exit, Failure};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories of readable files on every Linux, with the cumulative share of each in percent.
const ROOTS: [(&str, u64); 3] = [("/usr/lib", 40), ("/usr/share", 75), ("/usr/include", 100)];
/// Larger files would reduce variety.
const FILE_MAX: u64 = 4 * MIB;
/// Number of files in all; small ones take longest.
const FILES_MAX: u64 = 4000;
const BLOCK: u64 = 4096;

/// Copied files.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Gathered {
    pub(super) files: u64,
    /// In whole blocks.
    pub(super) bytes: u64,
    directories: u64,
}

/// Limits up to which one root may fill the disk.
#[derive(Clone, Copy)]
struct Room {
    files: u64,
    bytes: u64,
}

/// Copies files below `from` until the limits are reached, in the order of their names, so that the
/// same machine gives the same image. Unreadable files and special files are left out.
fn gather(from: &Path, to: &Path, room: Room, done: &mut Gathered) {
    let Ok(entries) = fs::read_dir(from) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    if fs::create_dir_all(to).is_err() {
        return;
    }
    done.directories += 1;
    done.bytes += BLOCK;
    for entry in entries {
        if done.files >= room.files || done.bytes >= room.bytes {
            return;
        }
        let Ok(kind) = entry.file_type() else { continue };
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            gather(&entry.path(), &target, room, done);
        } else if kind.is_file() {
            let bytes = entry.metadata().map_or(0, |data| data.len());
            let whole = bytes.next_multiple_of(BLOCK);
            let fits = bytes > 0 && bytes <= FILE_MAX && done.bytes + whole <= room.bytes;
            if fits && fs::copy(entry.path(), &target).is_ok() {
                done.files += 1;
                done.bytes += whole;
            }
        }
    }
}

fn gather_all(to: &Path, bytes_max: u64) -> Gathered {
    let mut done = Gathered::default();
    for (root, percent) in ROOTS {
        let room = Room { files: FILES_MAX * percent / 100, bytes: bytes_max * percent / 100 };
        gather(Path::new(root), &to.join(&root[1..]), room, &mut done);
    }
    done
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::Permission,
        _ => Exit::Io,
    };
    let mend = "choose another place with --dir";
    Failure::new(exit, format!("{}: {error}; {mend}", path.display()))
}

/// Makes the disk `disk.img` in `directory`.
pub(super) fn make(
    directory: &Path,
    scale: &Scale,
    children: &Children,
) -> Result<(PathBuf, Gathered), Failure> {
    let files = directory.join("files");
    let disk = directory.join("disk.img");
    fs::create_dir(&files).map_err(|error| failed(&files, &error))?;
    let gathered = gather_all(&files, scale.files_bytes * 85 / 100);
    if gathered.bytes < scale.files_bytes / 10 {
        let message = "too few readable files below /usr/lib, /usr/share and /usr/include to \
                       fill an image; run the demo on a machine with an ordinary system";
        return Err(Failure::new(Exit::Negative, message));
    }
    let file = File::create(&disk).map_err(|error| failed(&disk, &error))?;
    file.set_len(scale.disk_bytes()).map_err(|error| failed(&disk, &error))?;
    drop(file);
    let inodes = gathered.files + gathered.directories + 100;
    let mut mkfs = Command::new(tools::find("mkfs.ext4").unwrap_or("mkfs.ext4".into()));
    // The inodes for the files and a small journal: the rest is space for files.
    mkfs.args(["-q", "-F", "-b", "4096", "-m", "0", "-J", "size=4", "-N"])
        .arg(inodes.to_string())
        .arg("-d")
        .arg(&files)
        .arg(&disk)
        .arg(format!("{}M", scale.files_bytes / MIB));
    children.run("mkfs.ext4", &mut mkfs, &mut || ())?;
    fill_database(&disk, scale).map_err(|error| failed(&disk, &error))?;
    fs::remove_dir_all(&files).map_err(|error| failed(&files, &error))?;
    Ok((disk, gathered))
}

/// Copies `bytes` bytes between two positions of existing files, and waits until they are on the
/// disk below: delayed writeback would disturb a measurement.
fn copy_part(from: (&Path, u64), to: (&Path, u64), bytes: u64) -> io::Result<()> {
    let mut source = File::open(from.0)?;
    let mut target = File::options().write(true).open(to.0)?;
    source.seek(SeekFrom::Start(from.1))?;
    target.seek(SeekFrom::Start(to.1))?;
    io::copy(&mut source.take(bytes), &mut target)?;
    target.sync_data()
}

/// The database's space begins as a copy of the last blocks of the file system, so that it is
/// neither empty nor easily distinguished from real data.
fn fill_database(disk: &Path, scale: &Scale) -> io::Result<()> {
    let from = scale.files_bytes - scale.database_bytes;
    copy_part((disk, from), (disk, scale.files_bytes), scale.database_bytes)
}

/// Copies a disk.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).and_then(|_| File::open(to)?.sync_data()).map_err(|error| failed(to, &error))
}

/// Restores a copy of a disk, where the database has changed it.
pub(super) fn restore(disk: &Path, copy: &Path, scale: &Scale) -> Result<(), Failure> {
    let at = scale.files_bytes;
    copy_part((disk, at), (copy, at), scale.database_bytes).map_err(|error| failed(copy, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_copied_in_order_until_the_room_is_full() {
        let place = tempfile::tempdir().expect("a directory");
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir_all(from.join("b")).expect("made");
        for (name, bytes) in [("a", 5000), ("b/c", 4096), ("d", 100), ("e", 0)] {
            fs::write(from.join(name), vec![7; bytes]).expect("written");
        }
        std::os::unix::fs::symlink("a", from.join("0")).expect("linked");
        let mut done = Gathered::default();
        gather(&from, &to, Room { files: 10, bytes: 1 << 20 }, &mut done);
        assert_eq!(done, Gathered { files: 3, bytes: 6 * BLOCK, directories: 2 });
        assert!(!to.join("0").exists() && !to.join("e").exists());
        let (mut done, less) = (Gathered::default(), place.path().join("less"));
        gather(&from, &less, Room { files: 1, bytes: 1 << 20 }, &mut done);
        assert!(less.join("a").exists() && !less.join("d").exists());
    }
}
