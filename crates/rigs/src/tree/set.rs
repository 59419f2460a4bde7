//! A file set on a file system: made, copied, removed.

use super::cold::{Coldness, look_at};
use super::look::{Look, failed, now_ns};
use load::Content;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use suites::{FileSet, Halt};

/// Bytes of a read and of a write: what cp uses.
pub(super) const TRANSFER_BYTES: usize = 128 << 10;
/// Files of a folder.
const FILES_IN_ONE: usize = 100;
/// Compressibility changes in units of so many bytes.
const SLOT_BYTES: usize = 4096;
const SLOT_SECTORS: u64 = 8;

/// A set that was made.
pub struct Set {
    set: FileSet,
    /// Where its files lie.
    from: PathBuf,
    files: Vec<(PathBuf, u64)>,
}

/// What a copy took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Copied {
    /// Bytes copied.
    pub bytes: u64,
    /// Until all of it was durable, in nanoseconds.
    pub took_ns: u64,
    /// What of that the final sync took.
    pub sync_ns: u64,
}

/// Fills bytes of which so many percent, on average over many slots, cannot be compressed.
struct Filling {
    content: Content,
    data_percent: f64,
    /// What the slots so far have too little.
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

/// Writes a whole file.
fn write(path: &Path, bytes: u64, filling: &mut Filling, buffer: &mut [u8]) -> Result<(), Halt> {
    let mut file = File::create_new(path).map_err(failed("make a file"))?;
    let mut left = bytes;
    while left > 0 {
        // Whole slots are filled: of the last one the file has a part.
        let count = left.min(buffer.len() as u64) as usize;
        filling.fill(&mut buffer[..count.next_multiple_of(SLOT_BYTES)]);
        file.write_all(&buffer[..count]).map_err(failed("write a file"))?;
        left -= count as u64;
    }
    Ok(())
}

/// Makes all that is written in a file system durable.
pub(super) fn sync(directory: &Path) -> Result<(), Halt> {
    let directory = File::open(directory).map_err(failed("open a folder"))?;
    rustix::fs::syncfs(directory).map_err(|errno| failed("sync the file system")(errno.into()))
}

impl Set {
    /// Makes the files in a folder of this directory, and makes them durable. Contents and sizes follow from the seed.
    ///
    /// # Errors
    /// The file system fails or is full, or the watch wants the end.
    pub fn make(
        set: FileSet,
        seed: u64,
        directory: &Path,
        look: &mut Look<'_>,
    ) -> Result<Set, Halt> {
        let from = directory.join(format!("{}-from", set.name));
        let mut filling = Filling {
            content: Content::random(load::content_seed(seed)),
            data_percent: set.data_percent(),
            owed: 0.0,
            sector: 0,
        };
        let mut buffer = vec![0; TRANSFER_BYTES];
        let (stage, mut done) = (format!("making the files of {}", set.name), 0);
        let mut made = Set { set, from, files: Vec::new() };
        for (number, bytes) in set.sizes(seed).into_iter().enumerate() {
            look.goes_on(&stage, done, set.bytes)?;
            let folder = made.from.join(format!("folder-{}", number / FILES_IN_ONE));
            if number % FILES_IN_ONE == 0 {
                fs::create_dir_all(&folder).map_err(failed("make a folder"))?;
            }
            let path = folder.join(format!("file-{number}"));
            write(&path, bytes, &mut filling, &mut buffer)?;
            made.files.push((path, bytes));
            done += bytes;
        }
        sync(directory)?;
        Ok(made)
    }

    /// Drops the files from the page cache. Names and sizes stay there.
    ///
    /// # Errors
    /// The file system fails, or the watch wants the end.
    pub fn drop_from_page_cache(&self, look: &mut Look<'_>) -> Result<Coldness, Halt> {
        look_at(&self.files, true, look)
    }

    /// Copies all files to a folder beside, one after the other, and makes the copy durable by one sync of the file
    /// system. What was copied until an error is told with it.
    ///
    /// # Errors
    /// The file system fails or is full, or the watch wants the end.
    pub fn copy(&self, look: &mut Look<'_>) -> (Copied, Result<(), Halt>) {
        let (start_ns, mut copied) = (now_ns(), Copied::default());
        let result = self.copy_files(look, &mut copied.bytes).and_then(|()| {
            let before_ns = now_ns();
            sync(&self.from)?;
            copied.sync_ns = now_ns() - before_ns;
            Ok(())
        });
        copied.took_ns = now_ns() - start_ns;
        (copied, result)
    }

    fn to(&self) -> PathBuf {
        self.from.with_file_name(format!("{}-to", self.set.name))
    }

    fn copy_files(&self, look: &mut Look<'_>, done: &mut u64) -> Result<(), Halt> {
        let (stage, to) = (format!("copying {}", self.set.name), self.to());
        let mut buffer = vec![0; TRANSFER_BYTES];
        for (number, (path, _)) in self.files.iter().enumerate() {
            let inner = path.strip_prefix(&self.from).unwrap_or(path);
            let copy = to.join(inner);
            if number % FILES_IN_ONE == 0
                && let Some(folder) = copy.parent()
            {
                fs::create_dir_all(folder).map_err(failed("make a folder"))?;
            }
            let mut from = File::open(path).map_err(failed("open a file"))?;
            let mut into = File::create_new(&copy).map_err(failed("make a file"))?;
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
        Ok(())
    }

    /// Removes the files and their copy, and makes that durable: the next set finds the space.
    ///
    /// # Errors
    /// The file system fails.
    pub fn remove(self) -> Result<(), Halt> {
        for folder in [self.to(), self.from.clone()] {
            if folder.exists() {
                fs::remove_dir_all(&folder).map_err(failed("remove a folder"))?;
            }
        }
        self.from.parent().map_or(Ok(()), sync)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suites::FILE_SETS;

    #[test]
    fn a_set_is_as_large_and_as_compressible_as_it_says_and_its_copy_is_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        for set in FILE_SETS {
            let set = set.scaled(0.4);
            let mut watch = ();
            let look = &mut Look::new(&mut watch);
            let made = Set::make(set, 3, directory.path(), look).expect("made");
            let (copied, ended) = made.copy(look);
            assert_eq!((copied.bytes, ended), (set.bytes, Ok(())));
            assert!(copied.took_ns > copied.sync_ns);
            let (mut bytes, mut zeros) = (0, 0);
            for (path, size) in &made.files {
                let from = fs::read(path).expect("there");
                let inner = path.strip_prefix(&made.from).expect("within");
                assert!(from == fs::read(made.to().join(inner)).expect("copied"), "{inner:?}");
                assert_eq!(from.len() as u64, *size);
                bytes += from.len();
                zeros += from.iter().filter(|byte| **byte == 0).count();
            }
            // A byte of 256 of the others is a zero by chance.
            let compressible = (100.0 * zeros as f64 / bytes as f64 - 0.39) / 0.9961;
            let off = (compressible - set.compressible_percent).abs();
            assert!(off < 0.5, "{}: {compressible} % are zeros", set.name);
            made.remove().expect("removed");
            let left = fs::read_dir(directory.path()).expect("there").count();
            assert_eq!(left, 0);
        }
    }

    /// Ends at the third look.
    struct Impatient(u32);

    impl suites::Watch for Impatient {
        fn look(&mut self, _: &str, _: f64) -> bool {
            self.0 += 1;
            self.0 < 3
        }
    }

    #[test]
    fn an_interrupted_copy_tells_what_it_has_done() {
        let directory = tempfile::tempdir().expect("a directory");
        let set = FILE_SETS[0].scaled(1.0);
        let made = Set::make(set, 3, directory.path(), &mut Look::new(&mut ())).expect("made");
        let mut watch = Impatient(2);
        let (copied, ended) = made.copy(&mut Look::new(&mut watch));
        assert_eq!(ended, Err(Halt::Interrupted));
        assert!(copied.bytes < set.bytes, "{copied:?}");
    }
}
