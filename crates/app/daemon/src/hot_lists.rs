//! The files of the lists of hot blocks: one for each identity of a volume's contents.
//!
//! A list shows the blocks that the owner of a disk uses, so only this user can read it. A list
//! that cannot be used means that the cache starts empty: no file is ever changed for that.

use hotlist::{BYTES_MAX, Description, Entry, HotList, encode};
use rustix::fs::{Mode, OFlags};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Lists that stay, whatever their age ...
const STAY: usize = 16;
/// ... and the maximum number of lists.
const MOST: usize = 256;
/// Lists beyond the first ones are removed if they are older than the newest by this: 90 days, in
/// seconds. Compared with one another, lists keep their ages if the clock jumps.
const AGE_MAX_S: i64 = 90 * 86_400;

const SUFFIX: &str = "hot";

/// The directory of the lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HotLists(PathBuf);

impl HotLists {
    /// Returns the lists in this state directory. The directory need not exist.
    pub(crate) fn in_state(state: &Path) -> HotLists {
        HotLists(state.join("hot"))
    }

    fn path_of(&self, identity: &str) -> PathBuf {
        self.0.join(format!("{:016x}.{SUFFIX}", crate::hash::hash(identity)))
    }

    /// Reads the list of a volume with these contents and this number of whole blocks. None: there
    /// is no list.
    ///
    /// # Errors
    /// The list cannot be used: one sentence.
    pub(crate) fn load(&self, identity: &str, blocks: u64) -> Result<Option<HotList>, String> {
        let path = self.path_of(identity);
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(&path, &format!("cannot be read ({error})"))),
        };
        let list = HotList::parse(&bytes).map_err(|why| unusable(&path, &why.to_string()))?;
        let of = list.description();
        if of.identity != identity {
            return Err(unusable(&path, "belongs to another volume"));
        }
        if of.volume_blocks > blocks {
            return Err(unusable(&path, "is of the time when the volume was larger"));
        }
        Ok(Some(list))
    }

    /// Replaces the list of a volume, then removes lists that are old or too many.
    ///
    /// # Errors
    /// The list cannot be written; the former one stays.
    pub(crate) fn save(&self, of: &Description, entries: Vec<Entry>) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let path = self.path_of(&of.identity);
        let bytes = encode(of, entries);
        let new = path.with_extension("new");
        let written = write(&new, &bytes).and_then(|()| std::fs::rename(&new, &path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
            return written;
        }
        File::open(&self.0)?.sync_all()?;
        self.sweep();
        Ok(())
    }

    /// Removes the list of a volume. Returns whether there was one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) fn forget(&self, identity: &str) -> io::Result<bool> {
        match std::fs::remove_file(self.path_of(identity)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes lists that are old or too many, as far as possible.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.0) else { return };
        let mut files: Vec<(i64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.mtime(), entry.path())))
            .filter(|(_, path)| {
                let suffix = path.extension().and_then(|suffix| suffix.to_str());
                matches!(suffix, Some(SUFFIX | "new"))
            })
            .collect();
        files.sort_by(|one, two| two.cmp(one));
        let newest = files.first().map_or(0, |(time, _)| *time);
        for (number, (time, path)) in files.iter().enumerate() {
            let is_old = newest.saturating_sub(*time) > AGE_MAX_S;
            if number >= MOST || number >= STAY && is_old {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn unusable(path: &Path, why: &str) -> String {
    format!("the list of hot blocks {} {why}; the cache starts empty", path.display())
}

/// Reads a regular file, unless it is longer than any list.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe or a device must not block the thread.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let length = file.metadata().and_then(|found| match found.is_file() {
        true => Ok(found.len()),
        false => Err(io::Error::other("it is no file")),
    })?;
    if length > BYTES_MAX as u64 {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than any list"));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file that only this user can read, and makes it durable.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    fn of(identity: &str, volume_blocks: u64) -> Description {
        Description { identity: identity.to_owned(), volume_blocks, saved_s: 1 }
    }

    fn entries() -> Vec<Entry> {
        (0..100).map(|block| Entry::new(block * 3, 0)).collect()
    }

    fn scene() -> (tempfile::TempDir, HotLists) {
        let place = tempfile::tempdir().expect("room");
        let lists = HotLists::in_state(&place.path().join("state"));
        (place, lists)
    }

    #[test]
    fn a_list_is_read_as_it_was_saved_and_only_its_user_can_read_it() -> io::Result<()> {
        let (_place, lists) = scene();
        assert_eq!(lists.load("a", 1000), Ok(None), "no directory");
        lists.save(&of("a", 1000), entries())?;
        let list = lists.load("a", 1000).expect("usable").expect("there is one");
        assert_eq!((list.len(), list.description()), (100, &of("a", 1000)));
        let mode = |path: &Path| std::fs::metadata(path).map(|it| it.permissions().mode() & 0o777);
        assert_eq!((mode(&lists.0)?, mode(&lists.path_of("a"))?), (0o700, 0o600));
        assert_eq!(lists.load("b", 1000), Ok(None), "another volume");
        assert!(lists.load("a", 2000).is_ok_and(|list| list.is_some()), "it has grown");
        lists.save(&of("a", 1000), vec![Entry::new(5, 0)])?;
        assert_eq!(lists.load("a", 1000).expect("usable").map(|list| list.len()), Some(1));
        assert_eq!((lists.forget("a")?, lists.forget("a")?), (true, false));
        assert_eq!(std::fs::read_dir(&lists.0)?.count(), 0);
        Ok(())
    }

    #[test]
    fn whatever_cannot_be_used_is_named_in_one_sentence_and_stays() -> io::Result<()> {
        let (_place, lists) = scene();
        lists.save(&of("a", 1000), entries())?;
        let (path, good) = (lists.path_of("a"), std::fs::read(lists.path_of("a"))?);
        let why = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("room");
            let why = lists.load("a", 1000).expect_err("unusable");
            assert!(why.ends_with("; the cache starts empty") && !why.contains(". "), "{why}");
            assert_eq!(std::fs::read(&path).expect("it stays"), bytes);
            why
        };
        assert!(why(&good[..good.len() - 1]).contains("is damaged"));
        assert!(why(b"hello").contains("is damaged"));
        assert!(why(b"hello, world").contains("is no list"));
        let newer = [&good[..8], &[9], &good[9..]].concat();
        assert!(why(&newer).contains("later version (9)"));
        assert!(why(&encode(&of("b", 1000), entries())).contains("another volume"));
        assert!(why(&encode(&of("a", 1001), entries())).contains("was larger"));
        std::fs::remove_file(&path)?;
        let file = File::create(&path)?;
        file.set_len(BYTES_MAX as u64 + 1)?;
        assert!(lists.load("a", 1000).is_err_and(|why| why.contains("larger than any list")));
        std::fs::remove_file(&path)?;
        std::fs::create_dir(&path)?;
        assert!(lists.load("a", 1000).is_err_and(|why| why.contains("is no file")));
        std::fs::remove_dir(&path)?;
        std::os::unix::fs::symlink("/etc/hostname", &path)?;
        assert!(lists.load("a", 1000).is_err_and(|why| why.contains("cannot be read")));
        Ok(())
    }

    #[test]
    fn a_save_that_fails_leaves_the_former_list() -> io::Result<()> {
        let (place, lists) = scene();
        lists.save(&of("a", 1000), entries())?;
        // A directory in the way fails also for root, unlike permissions.
        std::fs::create_dir(lists.path_of("a").with_extension("new"))?;
        assert!(lists.save(&of("a", 1000), Vec::new()).is_err());
        assert_eq!(lists.load("a", 1000).expect("usable").map(|list| list.len()), Some(100));
        let file = place.path().join("file");
        std::fs::write(&file, "")?;
        assert!(HotLists::in_state(&file).save(&of("a", 1000), entries()).is_err());
        assert!(HotLists::in_state(&file).load("a", 1000).is_err());
        Ok(())
    }

    #[test]
    fn old_lists_and_too_many_are_removed() -> io::Result<()> {
        let (_place, lists) = scene();
        std::fs::create_dir_all(&lists.0)?;
        // The clock may have been anywhere when they were saved.
        let newest = SystemTime::UNIX_EPOCH + Duration::from_secs(400 * 86_400);
        let save = |number: u64, days: u64| {
            let path = lists.path_of(&format!("volume {number}"));
            let file = File::create(path).expect("room");
            file.set_modified(newest - Duration::from_secs(days * 86_400)).expect("ours");
        };
        (0..20).for_each(|number| save(number, number * 10));
        lists.sweep();
        let left = |number: u64| lists.path_of(&format!("volume {number}")).exists();
        let gone: Vec<u64> = (0..20).filter(|number| !left(*number)).collect();
        assert_eq!(gone, (16..20).collect::<Vec<_>>(), "older than 90 days, beyond the first 16");
        (100..400).for_each(|number| save(number, 0));
        lists.sweep();
        assert_eq!(std::fs::read_dir(&lists.0)?.count(), MOST);
        Ok(())
    }
}
