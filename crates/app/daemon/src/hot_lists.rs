//! The files of the lists of hot blocks, of the start-up lists, of the policies' states and of the
//! classes of blocks: one of each for each identity of a volume's contents.
//!
//! A list shows the blocks that the owner of a disk uses, so only this user can read it. A list
//! that cannot be used means that the cache starts empty: no file is ever changed for that.

use cache::{Geometry, PolicyState};
use hotlist::{
    BYTES_MAX, CLASS_FILE_BYTES_MAX, Description, Entry, HotList, POLICY_BYTES_MAX,
    START_BYTES_MAX, SavedClasses, SavedPolicy, StartList, Unusable, encode, encode_classes,
    encode_policy, encode_start, learn,
};
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

/// A kind of lists, with its files.
#[derive(Debug)]
struct Kind {
    suffix: &'static str,
    /// The suffix of a list that is being written.
    new: &'static str,
    name: &'static str,
    bytes_max: usize,
    /// The consequence of a list that cannot be used.
    without: &'static str,
}

const HOT: Kind = Kind {
    suffix: "hot",
    new: "new",
    name: "list of hot blocks",
    bytes_max: BYTES_MAX,
    without: "the cache starts empty",
};

const START: Kind = Kind {
    suffix: "start",
    new: "start-new",
    name: "start-up list",
    bytes_max: START_BYTES_MAX,
    without: "this start is not read ahead",
};

const POLICY: Kind = Kind {
    suffix: "policy",
    new: "policy-new",
    name: "state of the policy",
    bytes_max: POLICY_BYTES_MAX,
    without: "the policy and the curve of other sizes start empty",
};

const CLASSES: Kind = Kind {
    suffix: "classes",
    new: "classes-new",
    name: "list of the classes of blocks",
    bytes_max: CLASS_FILE_BYTES_MAX,
    without: "there are no hints until the files are mapped",
};

impl Kind {
    /// Returns the sentence about a file that cannot be used.
    fn unusable(&self, path: &Path, why: &str) -> String {
        format!("the {} {} {why}; {}", self.name, path.display(), self.without)
    }
}

/// The directory of the lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HotLists(PathBuf);

impl HotLists {
    /// Returns the lists in this state directory. The directory need not exist.
    pub(crate) fn in_state(state: &Path) -> HotLists {
        HotLists(state.join("hot"))
    }

    fn path_of(&self, kind: &Kind, identity: &str) -> PathBuf {
        self.0.join(format!("{:016x}.{}", block::stable_hash(identity.bytes()), kind.suffix))
    }

    /// Reads the list of a volume with these contents and this number of whole blocks. None: there
    /// is no list.
    ///
    /// # Errors
    /// The list cannot be used: one sentence.
    pub(crate) fn load(&self, identity: &str, blocks: u64) -> Result<Option<HotList>, String> {
        self.load_any(&HOT, identity, blocks, HotList::parse, HotList::description)
    }

    /// Reads the start-up list of a volume, as [`HotLists::load`] does.
    ///
    /// # Errors
    /// The list cannot be used: one sentence.
    pub(crate) fn load_start(
        &self,
        identity: &str,
        blocks: u64,
    ) -> Result<Option<StartList>, String> {
        self.load_any(&START, identity, blocks, StartList::parse, StartList::description)
    }

    /// Reads the state of the policy of a volume, as [`HotLists::load`] does, for a cache of this
    /// policy and size. None: there is none, or none for this cache.
    ///
    /// # Errors
    /// The state cannot be used: one sentence.
    pub(crate) fn load_policy(
        &self,
        identity: &str,
        blocks: u64,
        kind: policy::Kind,
        geometry: &Geometry,
    ) -> Result<Option<PolicyState>, String> {
        let of = SavedPolicy::description;
        let saved = self.load_any(&POLICY, identity, blocks, SavedPolicy::parse, of)?;
        let Some(saved) = saved else { return Ok(None) };
        PolicyState::parse(saved.state(), kind, geometry)
            .map_err(|why| POLICY.unusable(&self.path_of(&POLICY, identity), &why.to_string()))
    }

    /// Reads the classes of a volume's blocks, as [`HotLists::load`] does.
    ///
    /// # Errors
    /// The list cannot be used: one sentence.
    pub(crate) fn load_classes(
        &self,
        identity: &str,
        blocks: u64,
    ) -> Result<Option<SavedClasses>, String> {
        self.load_any(&CLASSES, identity, blocks, SavedClasses::parse, SavedClasses::description)
    }

    fn load_any<List>(
        &self,
        kind: &Kind,
        identity: &str,
        blocks: u64,
        parse: impl FnOnce(&[u8]) -> Result<List, Unusable>,
        description: impl FnOnce(&List) -> &Description,
    ) -> Result<Option<List>, String> {
        let path = self.path_of(kind, identity);
        let unusable = |why: &str| kind.unusable(&path, why);
        let bytes = match read(&path, kind.bytes_max) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(&format!("cannot be read ({error})"))),
        };
        let list = parse(&bytes).map_err(|why| unusable(&why.to_string()))?;
        let of = description(&list);
        if of.identity != identity {
            return Err(unusable("belongs to another volume"));
        }
        if of.volume_blocks > blocks {
            return Err(unusable("is of the time when the volume was larger"));
        }
        Ok(Some(list))
    }

    /// Replaces the list of a volume, then removes lists that are old or too many.
    ///
    /// # Errors
    /// The list cannot be written; the former one stays.
    pub(crate) fn save(&self, of: &Description, entries: Vec<Entry>) -> io::Result<()> {
        self.replace(&HOT, &of.identity, &encode(of, entries))
    }

    /// Replaces the state of the policy of a volume, as [`HotLists::save`] does.
    ///
    /// # Errors
    /// The state cannot be written; the former one stays.
    pub(crate) fn save_policy(&self, of: &Description, state: &[u8]) -> io::Result<()> {
        self.replace(&POLICY, &of.identity, &encode_policy(of, state))
    }

    /// Replaces the classes of a volume's blocks, as [`HotLists::save`] does.
    ///
    /// # Errors
    /// The list cannot be written; the former one stays.
    pub(crate) fn save_classes(&self, of: &Description, list: &[u8]) -> io::Result<()> {
        self.replace(&CLASSES, &of.identity, &encode_classes(of, list))
    }

    /// Adds a start that has read these blocks to the start-up list of a volume: all of its first
    /// minutes, if it `is_whole`. Then removes lists that are old or too many.
    ///
    /// # Errors
    /// The list cannot be written; the former one stays.
    pub(crate) fn save_start(
        &self,
        of: &Description,
        read: Vec<u64>,
        is_whole: bool,
    ) -> io::Result<()> {
        // A list that cannot be used has been reported at the start, and is replaced.
        let former = self.load_start(&of.identity, of.volume_blocks).ok().flatten();
        let former = former.map(StartList::into_starts).unwrap_or_default();
        self.replace(&START, &of.identity, &encode_start(of, learn(read, is_whole, former)))
    }

    fn replace(&self, kind: &Kind, identity: &str, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let path = self.path_of(kind, identity);
        let new = path.with_extension(kind.new);
        let written = write(&new, bytes).and_then(|()| std::fs::rename(&new, &path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
            return written;
        }
        File::open(&self.0)?.sync_all()?;
        self.sweep(kind);
        Ok(())
    }

    /// Removes the files of a volume. Returns whether there was one.
    ///
    /// # Errors
    /// One cannot be removed.
    pub(crate) fn forget(&self, identity: &str) -> io::Result<bool> {
        let mut was_there = false;
        for kind in [&HOT, &START, &POLICY, &CLASSES] {
            match std::fs::remove_file(self.path_of(kind, identity)) {
                Ok(()) => was_there = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(was_there)
    }

    /// Removes lists of a kind that are old or too many, as far as possible.
    fn sweep(&self, kind: &Kind) {
        let Ok(entries) = std::fs::read_dir(&self.0) else { return };
        let mut files: Vec<(i64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.mtime(), entry.path())))
            .filter(|(_, path)| {
                let suffix = path.extension().and_then(|suffix| suffix.to_str());
                suffix.is_some_and(|suffix| suffix == kind.suffix || suffix == kind.new)
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

/// Reads a regular file, unless it is longer than any list.
fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    // A pipe or a device must not block the thread.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let length = file.metadata().and_then(|found| match found.is_file() {
        true => Ok(found.len()),
        false => Err(io::Error::other("it is no file")),
    })?;
    if length > bytes_max as u64 {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than any list"));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
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
        assert_eq!((mode(&lists.0)?, mode(&lists.path_of(&HOT, "a"))?), (0o700, 0o600));
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
        let (path, good) = (lists.path_of(&HOT, "a"), std::fs::read(lists.path_of(&HOT, "a"))?);
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
        std::fs::create_dir(lists.path_of(&HOT, "a").with_extension("new"))?;
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
            let path = lists.path_of(&HOT, &format!("volume {number}"));
            let file = File::create(path).expect("room");
            file.set_modified(newest - Duration::from_secs(days * 86_400)).expect("ours");
        };
        (0..20).for_each(|number| save(number, number * 10));
        lists.sweep(&HOT);
        let left = |number: u64| lists.path_of(&HOT, &format!("volume {number}")).exists();
        let gone: Vec<u64> = (0..20).filter(|number| !left(*number)).collect();
        assert_eq!(gone, (16..20).collect::<Vec<_>>(), "older than 90 days, beyond the first 16");
        (100..400).for_each(|number| save(number, 0));
        lists.sweep(&HOT);
        assert_eq!(std::fs::read_dir(&lists.0)?.count(), MOST);
        Ok(())
    }

    #[test]
    fn a_start_up_list_is_a_file_of_its_own_and_starts_add_to_it() -> io::Result<()> {
        let (_place, lists) = scene();
        assert_eq!(lists.load_start("a", 1000), Ok(None), "no directory");
        lists.save(&of("a", 1000), entries())?;
        lists.save_start(&of("a", 1000), vec![9, 5], true)?;
        lists.save_start(&of("a", 1000), vec![7, 9], true)?;
        let starts = |lists: &HotLists| {
            let list = lists.load_start("a", 1000).expect("usable").expect("there is one");
            list.into_starts()
        };
        assert_eq!(starts(&lists), [vec![7, 9], vec![5]]);
        lists.save_start(&of("a", 1000), vec![8], false)?;
        assert_eq!(starts(&lists), [vec![7, 8, 9], vec![5]], "the rest of that start follows");
        let path = lists.path_of(&START, "a");
        assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        assert_eq!(lists.load("a", 1000).expect("usable").map(|list| list.len()), Some(100));

        std::fs::write(&path, &std::fs::read(lists.path_of(&HOT, "a"))?)?;
        let why = lists.load_start("a", 1000).expect_err("unusable");
        assert!(why.contains("is no start-up list; this start is not read ahead"), "{why}");
        lists.save_start(&of("a", 1000), vec![1], false)?;
        assert_eq!(starts(&lists), [[1]], "it was replaced");
        let file = File::create(&path)?;
        file.set_len(START_BYTES_MAX as u64 + 1)?;
        assert!(lists.load_start("a", 1000).is_err_and(|why| why.contains("larger than any list")));
        assert_eq!((lists.forget("a")?, lists.forget("a")?), (true, false));
        assert_eq!(std::fs::read_dir(&lists.0)?.count(), 0);
        Ok(())
    }

    #[test]
    fn the_state_of_a_policy_is_a_file_of_its_own_and_is_named_if_it_cannot_be_used()
    -> io::Result<()> {
        let (_place, lists) = scene();
        let geometry = Geometry::for_memory(16 << 20);
        let load = || lists.load_policy("a", 1000, policy::Kind::Adaptive, &geometry);
        assert!(load().is_ok_and(|state| state.is_none()), "no directory");
        lists.save(&of("a", 1000), entries())?;
        // Of an earlier layout, which this program does not use and does not report.
        lists.save_policy(&of("a", 1000), &[0; 100])?;
        assert!(load().is_ok_and(|state| state.is_none()));
        let path = lists.path_of(&POLICY, "a");
        assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        let good = std::fs::read(&path)?;
        let why = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("room");
            let why = load().err().expect("unusable");
            assert!(
                why.ends_with("; the policy and the curve of other sizes start empty"),
                "{why}"
            );
            assert!(!why.contains(". "), "one sentence: {why}");
            assert_eq!(std::fs::read(&path).expect("it stays"), bytes);
            why
        };
        assert!(why(&good[..good.len() - 1]).contains("is damaged"));
        assert!(why(&encode_policy(&of("a", 1000), &[1, 0, 0, 0, 1])).contains("is damaged"));
        assert!(
            why(&encode_policy(&of("a", 1000), &[7; 12])).contains("later version (117901063)")
        );
        assert!(why(&std::fs::read(lists.path_of(&HOT, "a"))?).contains("is no state of a policy"));
        let newer = [&good[..8], &[9], &good[9..]].concat();
        assert!(why(&newer).contains("later version (9)"));
        assert!(why(&encode_policy(&of("b", 1000), &[7; 100])).contains("another volume"));
        assert!(why(&encode_policy(&of("a", 1001), &[7; 100])).contains("was larger"));
        File::create(&path)?.set_len(POLICY_BYTES_MAX as u64 + 1)?;
        assert!(load().is_err_and(|why| why.contains("larger than")));
        assert_eq!(lists.load("a", 1000).expect("usable").map(|list| list.len()), Some(100));
        assert_eq!((lists.forget("a")?, lists.forget("a")?), (true, false));
        assert_eq!(std::fs::read_dir(&lists.0)?.count(), 0);
        Ok(())
    }
}
