//! A file set on a file system: created, copied, removed.

use super::cold::{Coldness, look_at};
use super::folder::Folder;
use super::look::{Look, failed, now_ns};
use super::quiet::open_at;
use load::Content;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use suites::{FileSet, Halt};

/// Bytes of a read and of a write, as in cp.
pub(super) const TRANSFER_BYTES: usize = 128 << 10;
/// Files per folder.
const FILES_IN_ONE: usize = 100;
/// Compressibility varies in units of this size.
const SLOT_BYTES: usize = 4096;
const SLOT_SECTORS: u64 = 8;

/// A set generated from a seed, which determines contents, names and sizes.
pub struct Set {
    set: FileSet,
    seed: u64,
    /// Number and size of each file.
    files: Vec<(usize, u64)>,
}

fn folder_name(number: usize) -> String {
    format!("folder-{}", number / FILES_IN_ONE)
}

fn file_name(number: usize) -> String {
    format!("file-{number}")
}

/// The result of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Copied {
    /// Bytes copied.
    pub bytes: u64,
    /// Time until the copy was durable, in nanoseconds.
    pub took_ns: u64,
    /// The part of that time that the final sync took.
    pub sync_ns: u64,
}

/// Fills buffers with data of which a given part, on average over many slots, cannot be compressed.
struct Filling {
    content: Content,
    data_percent: f64,
    /// The part that the slots so far lack.
    owed: f64,
    sector: u64,
}

impl Filling {
    fn fill(&mut self, into: &mut [u8]) {
        for slot in into.chunks_mut(SLOT_BYTES) {
            let wanted = self.data_percent + self.owed;
            let percent = wanted.round().clamp(0.0, 100.0);
            let content = Content { data_percent: percent as u32, ..self.content };
            self.owed = wanted - content.data_percent_exact();
            content.fill_bytes(self.sector, self.content.seed, slot);
            self.sector += SLOT_SECTORS;
        }
    }
}

/// Writes a whole file. Calls `goes_on` before each write with the bytes so far.
fn write(
    file: &mut File,
    bytes: u64,
    filling: &mut Filling,
    buffer: &mut [u8],
    mut goes_on: impl FnMut(u64) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let mut done = 0;
    while done < bytes {
        goes_on(done)?;
        // Whole slots are filled, even if the file ends within the last one.
        let count = (bytes - done).min(buffer.len() as u64) as usize;
        filling.fill(&mut buffer[..count.next_multiple_of(SLOT_BYTES)]);
        file.write_all(&buffer[..count]).map_err(failed("write a file"))?;
        done += count as u64;
    }
    Ok(())
}

impl Set {
    /// Describes a set; creates nothing yet.
    pub fn new(set: FileSet, seed: u64) -> Set {
        Set { set, seed, files: set.sizes(seed).into_iter().enumerate().collect() }
    }

    fn from(&self) -> String {
        format!("{}-from", self.set.name)
    }

    fn to(&self) -> String {
        format!("{}-to", self.set.name)
    }

    /// Creates the files in a folder of this one, and makes them durable.
    ///
    /// # Errors
    /// The file system fails or is full, or the watch interrupts.
    pub fn make(&self, folder: &mut Folder, look: &mut Look<'_>) -> Result<(), Halt> {
        let mut filling = Filling {
            content: Content::random(load::content_seed(self.seed)),
            data_percent: self.set.data_percent(),
            owed: 0.0,
            sector: 0,
        };
        let mut buffer = vec![0; TRANSFER_BYTES];
        let (stage, mut done) = (format!("making the files of {}", self.set.name), 0);
        let from = folder.make_folder(&self.from()).map_err(failed("make a folder"))?;
        for (number, bytes) in &self.files {
            let mut goes_on = |of_file| look.goes_on(&stage, done + of_file, self.set.bytes);
            goes_on(0)?;
            let inner = from.make_folder(&folder_name(*number)).map_err(failed("make a folder"))?;
            let file = inner.make_file(&file_name(*number), OFlags::WRONLY);
            let mut file = file.map_err(failed("make a file"))?;
            write(&mut file, *bytes, &mut filling, &mut buffer, goes_on)?;
            done += bytes;
        }
        from.sync().map_err(failed("sync the file system"))
    }

    /// Drops the files from the page cache. Names and sizes stay cached.
    ///
    /// # Errors
    /// The file system fails, or the watch interrupts.
    pub fn drop_from_page_cache(
        &self,
        folder: &Folder,
        look: &mut Look<'_>,
    ) -> Result<Coldness, Halt> {
        let from = folder.look_up(&self.from()).map_err(failed("open a folder"))?;
        let open = |number: &usize| {
            let path = Path::new(&folder_name(*number)).join(file_name(*number));
            Ok(open_at(&from, &path)?.0)
        };
        look_at(&self.files, open, true, look)
    }

    /// Copies all files to a second folder, one after the other, and makes the copy durable by one
    /// sync of the file system. Results before an error are returned with it.
    ///
    /// # Errors
    /// The file system fails or is full, or the watch interrupts.
    pub fn copy(&self, folder: &mut Folder, look: &mut Look<'_>) -> (Copied, Result<(), Halt>) {
        let (start_ns, mut copied) = (now_ns(), Copied::default());
        let result = self.copy_files(folder, look, &mut copied.bytes).and_then(|to| {
            let before_ns = now_ns();
            to.sync().map_err(failed("sync the file system"))?;
            copied.sync_ns = now_ns() - before_ns;
            Ok(())
        });
        copied.took_ns = now_ns() - start_ns;
        (copied, result)
    }

    /// Copies the files. Returns the folder with the copy.
    fn copy_files<'a>(
        &self,
        folder: &'a mut Folder,
        look: &mut Look<'_>,
        done: &mut u64,
    ) -> Result<&'a Folder, Halt> {
        let stage = format!("copying {}", self.set.name);
        let mut buffer = vec![0; TRANSFER_BYTES];
        let from = folder.look_up(&self.from()).map_err(failed("open a folder"))?;
        let to = folder.make_folder(&self.to()).map_err(failed("make a folder"))?;
        for files in self.files.chunks(FILES_IN_ONE) {
            let inner = folder_name(files[0].0);
            let from = from.look_up(&inner).map_err(failed("open a folder"))?;
            let to = to.make_folder(&inner).map_err(failed("make a folder"))?;
            for (number, _) in files {
                let name = file_name(*number);
                let mut from = from.open_file(&name).map_err(failed("open a file"))?;
                let into = to.make_file(&name, OFlags::WRONLY);
                let mut into = into.map_err(failed("make a file"))?;
                loop {
                    look.goes_on(&stage, *done, self.set.bytes)?;
                    let count = from.read(&mut buffer).map_err(failed("read a file"))?;
                    if count == 0 {
                        break;
                    }
                    into.write_all(&buffer[..count]).map_err(failed("write a file"))?;
                    *done += count as u64;
                }
            }
        }
        Ok(to)
    }

    /// Removes the files and their copy, and makes that durable, so that the next set can use the
    /// space. A failure to remove them is reported at the end.
    ///
    /// # Errors
    /// The file system fails.
    pub fn remove(&self, folder: &mut Folder) -> Result<(), Halt> {
        for name in [self.to(), self.from()] {
            let _ = folder.remove_folder(&name);
        }
        folder.sync().map_err(failed("sync the file system"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::Impatient;
    use super::*;
    use std::fs;
    use suites::FILE_SETS;

    #[test]
    fn a_set_is_as_large_and_as_compressible_as_it_says_and_its_copy_is_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut above = Folder::open(directory.path()).expect("a folder");
        for set in FILE_SETS {
            let set = set.scaled(0.4);
            let mut watch = ();
            let look = &mut Look::new(&mut watch);
            let (made, folder) = (Set::new(set, 3), above.make_folder("own").expect("made"));
            made.make(folder, look).expect("made");
            let (copied, ended) = made.copy(folder, look);
            assert_eq!((copied.bytes, ended), (set.bytes, Ok(())));
            assert!(copied.took_ns > copied.sync_ns);
            let (mut bytes, mut zeros) = (0, 0);
            for (number, size) in &made.files {
                let inner = Path::new(&folder_name(*number)).join(file_name(*number));
                let path = |set: String| directory.path().join("own").join(set).join(&inner);
                let from = fs::read(path(made.from())).expect("there");
                assert!(from == fs::read(path(made.to())).expect("copied"), "{inner:?}");
                assert_eq!(from.len() as u64, *size);
                bytes += from.len();
                zeros += from.iter().filter(|byte| **byte == 0).count();
            }
            // By chance one of 256 other bytes is a zero.
            let compressible = (100.0 * zeros as f64 / bytes as f64 - 0.39) / 0.9961;
            let off = (compressible - set.compressible_percent).abs();
            assert!(off < 0.5, "{}: {compressible} % are zeros", set.name);
            made.remove(folder).expect("removed");
            let left = fs::read_dir(directory.path().join("own")).expect("there").count();
            assert_eq!(left, 0);
        }
    }

    #[test]
    fn an_interrupted_copy_reports_what_it_has_done() {
        let directory = tempfile::tempdir().expect("a directory");
        let set = FILE_SETS[0].scaled(1.0);
        let folder = &mut Folder::open(directory.path()).expect("a folder");
        let made = Set::new(set, 3);
        made.make(folder, &mut Look::new(&mut ())).expect("made");
        let mut watch = Impatient(2);
        let (copied, ended) = made.copy(folder, &mut Look::new(&mut watch));
        assert_eq!(ended, Err(Halt::Interrupted));
        assert!(copied.bytes < set.bytes, "{copied:?}");
    }

    #[test]
    fn it_is_interrupted_within_a_file_that_it_makes() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = &mut Folder::open(directory.path()).expect("a folder");
        // One file, which takes some seconds in a test build.
        let set = FileSet { bytes: 1 << 30, files: 1, ..FILE_SETS[0] };
        let made = Set::new(set, 3).make(folder, &mut Look::new(&mut Impatient(0)));
        assert_eq!(made, Err(Halt::Interrupted));
        let file = fs::metadata(directory.path().join("Movie-from/folder-0/file-0"));
        assert!(file.expect("there").len() < set.bytes);
    }
}
