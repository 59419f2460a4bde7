//! Loads on a mounted file system with a model of its contents: one of a file's contents, after
//! fsx, and one of names, after fsstress.
//!
//! Sources: fsx (A. Tevanian, NeXT, 1991; in xfstests ltp/fsx.c) and fsstress (SGI; in xfstests
//! ltp/fsstress.c), for their operations on a file system.

use crate::dice::Dice;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The largest size of the file of [`contents`].
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The largest piece of it that is changed or read in one operation.
const PIECE_BYTES_MAX: u64 = 200_000;
/// Changes between two checks of the whole file.
const LOOK_EVERY: u64 = 64;
/// Maximum number of names.
const NAMES_MAX: usize = 200;

/// Runs both until they are stopped; panics if anything differs from the model. Each returns its
/// number of operations.
pub(super) fn begin(directory: &Path, ends: &Arc<AtomicBool>) -> Vec<std::thread::JoinHandle<u64>> {
    let start = |name: &str, load: fn(&Path, &AtomicBool) -> u64| {
        let (place, ends) = (directory.join(name), ends.clone());
        fs::create_dir(&place).expect("room");
        std::thread::spawn(move || load(&place, &ends))
    };
    vec![start("contents", contents), start("names", names)]
}

/// Returns bytes that differ from those of other changes.
fn pattern(change: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| (change.wrapping_mul(0x9e37_79b9).wrapping_add(at * 31) >> 3) as u8)
        .collect()
}

/// One file, and its expected contents.
struct Contents {
    file: File,
    model: Vec<u8>,
    change: u64,
}

impl Contents {
    fn write(&mut self, offset: u64, length: u64) {
        let bytes = pattern(self.change, length as usize);
        self.file.write_all_at(&bytes, offset).expect("a write waits, and does not fail");
        self.grow(offset + length);
        self.model[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }

    fn grow(&mut self, bytes: u64) {
        self.model.resize(self.model.len().max(bytes as usize), 0);
    }

    fn truncate(&mut self, bytes: u64) {
        self.file.set_len(bytes).expect("room");
        self.model.resize(bytes as usize, 0);
    }

    /// Clears a range, with or without keeping its blocks; the size stays.
    fn clear(&mut self, offset: u64, length: u64, flags: FallocateFlags) {
        match fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset, length) {
            Err(rustix::io::Errno::OPNOTSUPP) => return,
            done => done.expect("room"),
        }
        let end = self.model.len().min((offset + length) as usize);
        if let Some(part) = self.model.get_mut(offset as usize..end) {
            part.fill(0);
        }
    }

    fn allocate(&mut self, offset: u64, length: u64) {
        fallocate(&self.file, FallocateFlags::empty(), offset, length).expect("room");
        self.grow(offset + length);
    }

    /// Checks the contents of the device, not of the page cache.
    fn check(&self, offset: u64, length: u64) {
        self.file.sync_data().expect("it waits, and does not fail");
        fadvise(&self.file, 0, None, Advice::DontNeed).expect("a file");
        let end = self.model.len().min((offset + length) as usize);
        let Some(expected) = self.model.get(offset as usize..end) else { return };
        let mut found = vec![0; expected.len()];
        self.file.read_exact_at(&mut found, offset).expect("it waits, and does not fail");
        let differs = (0..found.len()).find(|at| found[*at] != expected[*at]);
        assert_eq!(differs, None, "from {offset} on, after change {}", self.change);
    }
}

/// Writes, clears, truncates and extends a file at random, and compares it with a copy in memory.
fn contents(place: &Path, ends: &AtomicBool) -> u64 {
    let file = File::options().create_new(true).read(true).write(true).open(place.join("file"));
    let mut it = Contents { file: file.expect("room"), model: Vec::new(), change: 0 };
    let mut dice = Dice::new();
    while !ends.load(Ordering::Relaxed) {
        it.change += 1;
        let offset = dice.between(0, FILE_BYTES_MAX - PIECE_BYTES_MAX);
        let length = dice.between(1, PIECE_BYTES_MAX);
        match dice.between(0, 9) {
            0..=4 => it.write(offset, length),
            5 => it.truncate(offset),
            6 => it.clear(offset, length, FallocateFlags::PUNCH_HOLE),
            7 => it.clear(offset, length, FallocateFlags::ZERO_RANGE),
            8 => it.allocate(offset, length),
            _ => it.check(offset, length),
        }
        assert_eq!(it.file.metadata().expect("a file").len(), it.model.len() as u64);
        if it.change.is_multiple_of(LOOK_EVERY) {
            it.check(0, FILE_BYTES_MAX);
        }
    }
    it.check(0, FILE_BYTES_MAX);
    it.change
}

/// A tree, and its expected entries: files with their contents, links with their targets,
/// directories.
struct Names {
    root: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
    directories: BTreeSet<String>,
    change: u64,
}

/// Returns one of these keys.
fn any<'a>(dice: &mut Dice, keys: impl ExactSizeIterator<Item = &'a String>) -> Option<String> {
    let last = (keys.len() as u64).checked_sub(1)?;
    keys.into_iter().nth(dice.between(0, last) as usize).cloned()
}

impl Names {
    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns an unused name, in one of the directories.
    fn new_name(&self, dice: &mut Dice) -> String {
        let parent = any(dice, self.directories.iter()).unwrap_or_default();
        format!("{parent}{}", self.change)
    }

    fn count(&self) -> usize {
        self.files.len() + self.links.len() + self.directories.len()
    }

    fn create(&mut self, dice: &mut Dice) {
        let (name, bytes) =
            (self.new_name(dice), pattern(self.change, dice.between(0, 20_000) as usize));
        let file = File::create_new(self.at(&name)).expect("room");
        file.write_all_at(&bytes, 0).expect("room");
        if dice.between(0, 3) == 0 {
            file.sync_all().expect("it waits, and does not fail");
        }
        self.files.insert(name, bytes);
    }

    fn rename(&mut self, dice: &mut Dice) {
        let Some(from) = any(dice, self.files.keys()) else { return };
        // Sometimes over an existing name.
        let other = any(dice, self.files.keys()).filter(|_| dice.between(0, 1) == 0);
        let to = other.unwrap_or_else(|| self.new_name(dice));
        fs::rename(self.at(&from), self.at(&to)).expect("both are ours");
        // Two links of one file stay (rename(2)).
        if self.at(&from).exists() {
            return;
        }
        let bytes = self.files.remove(&from).expect("it is there");
        self.files.insert(to, bytes);
    }

    fn hard_link(&mut self, dice: &mut Dice) {
        let Some(from) = any(dice, self.files.keys()) else { return };
        let to = self.new_name(dice);
        fs::hard_link(self.at(&from), self.at(&to)).expect("room");
        self.files.insert(to, self.files[&from].clone());
    }

    fn symbolic_link(&mut self, dice: &mut Dice) {
        let (name, leads) = (self.new_name(dice), format!("nowhere/{}", self.change));
        std::os::unix::fs::symlink(&leads, self.at(&name)).expect("room");
        self.links.insert(name, leads);
    }

    fn directory(&mut self, dice: &mut Dice) {
        let name = format!("{}/", self.new_name(dice));
        fs::create_dir(self.at(&name)).expect("room");
        self.directories.insert(name);
    }

    fn remove(&mut self, dice: &mut Dice) {
        if let Some(name) = any(dice, self.files.keys()) {
            fs::remove_file(self.at(&name)).expect("it is there");
            self.files.remove(&name);
        }
        if let Some(name) = any(dice, self.links.keys()) {
            fs::remove_file(self.at(&name)).expect("it is there");
            self.links.remove(&name);
        }
        if let Some(name) = any(dice, self.directories.iter()) {
            let holds = |other: &String| other.len() > name.len() && other.starts_with(&name);
            let names = self.files.keys().chain(self.links.keys()).chain(&self.directories);
            let is_empty = !names.into_iter().any(holds);
            assert_eq!(fs::remove_dir(self.at(&name)).is_ok(), is_empty, "{name}");
            if is_empty {
                self.directories.remove(&name);
            }
        }
    }

    /// Compares all names and all contents.
    fn check(&self) {
        let mut found = Names { files: BTreeMap::new(), links: BTreeMap::new(), ..self.empty() };
        found.gather("");
        assert_eq!(found.directories, self.directories, "after change {}", self.change);
        assert_eq!(found.links, self.links, "after change {}", self.change);
        let names = |all: &Names| all.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(self), "after change {}", self.change);
        let differs = self.files.iter().find(|(name, bytes)| found.files[*name] != **bytes);
        assert_eq!(differs.map(|(name, _)| name), None, "after change {}", self.change);
    }

    fn empty(&self) -> Names {
        let (files, links, directories) = Default::default();
        Names { root: self.root.clone(), files, links, directories, change: self.change }
    }

    fn gather(&mut self, below: &str) {
        for entry in fs::read_dir(self.at(below)).expect("it is there") {
            let entry = entry.expect("it can be read");
            let name = format!("{below}{}", entry.file_name().to_str().expect("ours"));
            let kind = entry.file_type().expect("it can be read");
            if kind.is_dir() {
                self.gather(&format!("{name}/"));
                self.directories.insert(format!("{name}/"));
            } else if kind.is_symlink() {
                let leads = fs::read_link(entry.path()).expect("a link");
                self.links.insert(name, leads.to_str().expect("ours").to_owned());
            } else {
                self.files
                    .insert(name, fs::read(entry.path()).expect("it waits, and does not fail"));
            }
        }
    }
}

/// Makes, renames, links and removes files and directories at random, and compares the tree with
/// its model.
fn names(place: &Path, ends: &AtomicBool) -> u64 {
    let (files, links, directories) = Default::default();
    let mut it = Names { root: place.to_owned(), files, links, directories, change: 0 };
    let mut dice = Dice::new();
    while !ends.load(Ordering::Relaxed) {
        it.change += 1;
        match dice.between(0, 9) {
            _ if it.count() > NAMES_MAX => it.remove(&mut dice),
            0..=3 => it.create(&mut dice),
            4 => it.directory(&mut dice),
            5 => it.hard_link(&mut dice),
            6 => it.symbolic_link(&mut dice),
            7 | 8 => it.rename(&mut dice),
            _ => it.remove(&mut dice),
        }
        if it.change.is_multiple_of(LOOK_EVERY) {
            it.check();
        }
    }
    it.check();
    it.change
}
