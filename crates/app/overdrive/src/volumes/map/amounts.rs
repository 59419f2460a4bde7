//! Amounts of a volume's blocks in its cache: by class, directory and file.

use super::totals::{Totals, parent_of};
use files::{BLOCK_SECTORS, Map, Owner, Sums};
use hotlist::{ClassList, ClassRun};
use std::collections::HashMap;

/// Bytes of a block.
const BLOCK_BYTES: u64 = BLOCK_SECTORS * files::SECTOR_BYTES;
/// Number of the class of blocks that are not durable yet, among those of held blocks.
const DIRTY: u8 = 1;

/// Amounts of a class, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassAmounts {
    pub(super) class: String,
    /// On the volume.
    pub(super) bytes: u64,
    /// In the cache.
    pub(super) cached_bytes: u64,
    /// In the cache, and not durable yet.
    pub(super) dirty_bytes: u64,
}

/// Amounts of a directory with all below it, or of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathAmounts {
    /// Its number in the map.
    pub(super) owner: Owner,
    /// Number of the directory that contains it. None: it is the root.
    pub(super) parent: Option<u32>,
    /// From the root of the volume, with a slash at the beginning.
    pub(super) path: Vec<u8>,
    /// Its class; of a directory, the one with the most cached blocks.
    pub(super) class: String,
    /// Of a file, its size; of a directory, what it has on the volume.
    pub(super) bytes: u64,
    /// In the cache.
    pub(super) cached_bytes: u64,
    /// On the volume, and not in the cache.
    pub(super) uncached_bytes: u64,
}

/// Amounts of a file, in sectors.
#[derive(Default)]
struct FileSums {
    class: u8,
    cached: u64,
    /// On the volume: less than its size if it is sparse.
    allocated: u64,
}

/// The amounts of a volume.
pub(super) struct Amounts {
    pub(super) classes: Vec<ClassAmounts>,
    /// Directories with cached blocks; the most first.
    pub(super) directories: Vec<PathAmounts>,
    /// Files with cached blocks; the most first.
    pub(super) files: Vec<PathAmounts>,
    /// Cached bytes that belong to no file or directory, by class.
    pub(super) ownerless: Vec<(String, u64)>,
}

/// Returns the common blocks of runs of two lists, with the classes of both. Blocks of the second
/// that the first does not have are of class 0.
fn common<'a>(
    classes: &'a [ClassRun],
    held: &'a [ClassRun],
) -> impl Iterator<Item = (u8, u8, u64)> + 'a {
    let end = |run: &ClassRun| run.first + u64::from(run.blocks);
    held.iter().flat_map(move |run| {
        let from = classes.partition_point(|one| end(one) <= run.first);
        let overlapping = classes[from..].iter().take_while(move |one| one.first < end(run));
        let parts = overlapping
            .map(move |one| (one.class, end(one).min(end(run)) - one.first.max(run.first)));
        let known: u64 = parts.clone().map(|(_, blocks)| blocks).sum();
        let unknown = u64::from(run.blocks) - known;
        parts.chain([(0, unknown)]).map(move |(class, blocks)| (class, run.class, blocks))
    })
}

/// Returns the amounts of each class. `blocks`: those of the volume.
fn by_class(classes: &ClassList, held: &ClassList, blocks: u64) -> Vec<ClassAmounts> {
    let named = |name: &String| ClassAmounts { class: name.clone(), ..ClassAmounts::default() };
    let mut all: Vec<ClassAmounts> = classes.names.iter().map(named).collect();
    let mut known = 0;
    for run in &classes.runs {
        all[usize::from(run.class)].bytes += u64::from(run.blocks) * BLOCK_BYTES;
        known += u64::from(run.blocks);
    }
    // The first class is that of blocks in no run.
    all[0].bytes += blocks.saturating_sub(known) * BLOCK_BYTES;
    for (class, state, blocks) in common(&classes.runs, &held.runs) {
        let amounts = &mut all[usize::from(class)];
        amounts.cached_bytes += blocks * BLOCK_BYTES;
        amounts.dirty_bytes += if state == DIRTY { blocks * BLOCK_BYTES } else { 0 };
    }
    all.retain(|amounts| amounts.bytes + amounts.cached_bytes > 0);
    all
}

/// Returns the sectors of each extent of the map that are held.
fn held_sectors<'a>(
    map: &'a Map,
    held: &'a ClassList,
) -> impl Iterator<Item = (files::Extent, u64)> + 'a {
    held.runs.iter().flat_map(move |run| {
        let (first, sectors) = (run.first * BLOCK_SECTORS, u64::from(run.blocks) * BLOCK_SECTORS);
        map.within(first, sectors).map(move |extent| {
            let common = extent.end().min(first + sectors) - extent.first.max(first);
            (extent, common)
        })
    })
}

fn path(map: &Map, owner: Owner) -> Vec<u8> {
    [b"/", &map.path(owner).unwrap_or_default()[..]].concat()
}

fn sorted(mut all: Vec<PathAmounts>) -> Vec<PathAmounts> {
    let key = |one: &PathAmounts| (std::cmp::Reverse(one.cached_bytes), one.path.clone());
    all.sort_by_cached_key(key);
    all
}

/// Returns the directories with cached sectors.
fn directories(map: &Map, names: &[String], totals: &Totals) -> Vec<PathAmounts> {
    let allocated = Sums::of_map(map).directories(map);
    let amounts = |number: u32| {
        let cached: u64 = totals.of(number).map(|(_, sectors)| sectors).sum();
        let most = totals.of(number).max_by_key(|(_, sectors)| *sectors);
        let bytes = allocated[number as usize] * files::SECTOR_BYTES;
        let cached_bytes = cached * files::SECTOR_BYTES;
        PathAmounts {
            owner: Owner::Directory(number),
            parent: parent_of(map, number),
            path: path(map, Owner::Directory(number)),
            class: most.map(|(class, _)| names[usize::from(class)].clone()).unwrap_or_default(),
            bytes,
            cached_bytes,
            uncached_bytes: bytes.saturating_sub(cached_bytes),
        }
    };
    totals.directories().into_iter().map(amounts).collect()
}

impl FileSums {
    /// Returns the amounts of the file with this number.
    fn amounts(&self, map: &Map, names: &[String], number: u32) -> PathAmounts {
        let file = map.file(number);
        PathAmounts {
            owner: Owner::File(number),
            parent: file.map(|file| file.directory),
            path: path(map, Owner::File(number)),
            class: names[usize::from(self.class)].clone(),
            bytes: file.map_or(0, |file| file.blocks * BLOCK_BYTES),
            cached_bytes: self.cached * files::SECTOR_BYTES,
            uncached_bytes: self.allocated.saturating_sub(self.cached) * files::SECTOR_BYTES,
        }
    }
}

/// Adds up what each of these files has on the volume.
fn add_allocated(map: &Map, files: &mut HashMap<u32, FileSums>) {
    for extent in map.extents() {
        if let Owner::File(number) = extent.owner
            && let Some(file) = files.get_mut(&number)
        {
            file.allocated += extent.sectors;
        }
    }
}

/// Returns the cached bytes of each class that belong to no directory of the map.
fn ownerless(
    names: &[String],
    classes: &[ClassAmounts],
    directories: &Totals,
) -> Vec<(String, u64)> {
    let owned = |class: &str| {
        let of_root = directories.of(0).filter(|(number, _)| names[usize::from(*number)] == class);
        of_root.map(|(_, sectors)| sectors * files::SECTOR_BYTES).sum::<u64>()
    };
    let rest = |one: &ClassAmounts| {
        (one.class.clone(), one.cached_bytes.saturating_sub(owned(&one.class)))
    };
    classes.iter().map(rest).filter(|(_, bytes)| *bytes > 0).collect()
}

impl Amounts {
    /// Returns the amounts of a volume of this number of blocks, with this map, these classes of
    /// its blocks, and these blocks in the cache. `class_of` returns the number of an extent's
    /// class.
    pub(super) fn of(
        map: &Map,
        classes: &ClassList,
        held: &ClassList,
        blocks: u64,
        class_of: impl Fn(&files::Extent) -> u8,
    ) -> Amounts {
        let mut totals = Totals::default();
        let mut files: HashMap<u32, FileSums> = HashMap::new();
        for (extent, sectors) in held_sectors(map, held) {
            match extent.owner {
                Owner::None => {}
                Owner::Directory(number) => totals.add(number, class_of(&extent), sectors),
                Owner::File(number) => {
                    let file = files.entry(number).or_insert_with(|| FileSums {
                        class: class_of(&extent),
                        ..FileSums::default()
                    });
                    file.cached += sectors;
                }
            }
        }
        for (number, sums) in &files {
            if let Some(file) = map.file(*number) {
                totals.add(file.directory, sums.class, sums.cached);
            }
        }
        totals.roll_up(map);
        add_allocated(map, &mut files);
        let names = &classes.names;
        let by_class = by_class(classes, held, blocks);
        let file = |(number, sums): (&u32, &FileSums)| sums.amounts(map, names, *number);
        Amounts {
            directories: sorted(directories(map, names, &totals)),
            files: sorted(files.iter().map(file).collect()),
            ownerless: ownerless(names, &by_class, &totals),
            classes: by_class,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::{Builder, Class};

    fn run(first: u64, blocks: u32, class: u8) -> ClassRun {
        ClassRun { first, blocks, class }
    }

    #[test]
    fn classes_and_held_blocks_are_cut_into_common_parts() {
        let classes = [run(0, 10, 1), run(10, 5, 2), run(20, 10, 1)];
        let held = [run(8, 4, 0), run(14, 8, 1), run(100, 2, 0)];
        let parts: Vec<_> = common(&classes, &held).filter(|(_, _, blocks)| *blocks > 0).collect();
        let expected = [(1, 0, 2), (2, 0, 2), (2, 1, 1), (1, 1, 2), (0, 1, 5), (0, 0, 2)];
        assert_eq!(parts, expected);
        assert_eq!(parts.iter().map(|part| part.2).sum::<u64>(), 4 + 8 + 2);
    }

    #[test]
    fn amounts_add_up_by_class_directory_and_file() {
        let mut builder = Builder::new(8000, 1 << 20);
        let below = builder.directory(Builder::ROOT, b"srv").expect("room");
        let mail = builder.directory(below, b"mail").expect("room");
        let mbox = builder.file(mail, b"box.mbox", Class::Databases, 80 * 512).expect("room");
        let film = builder.file(below, b"a.mp4", Class::Media, 1600 * 512).expect("room");
        builder.extent(0, 16, Class::Metadata, Owner::None).expect("room");
        builder.extent(80, 80, Class::Databases, Owner::File(mbox)).expect("room");
        builder.extent(800, 800, Class::Media, Owner::File(film)).expect("room");
        let map = builder.finish(7);
        let names = ["unknown", "metadata", "databases"].map(str::to_owned).to_vec();
        let classes = ClassList { names, runs: vec![run(0, 2, 1), run(10, 10, 2)] };
        let names = ["clean", "dirty"].map(str::to_owned).to_vec();
        let held = ClassList { names, runs: vec![run(1, 1, 1), run(15, 91, 0)] };
        let class_of = |extent: &files::Extent| match extent.class {
            Class::Metadata => 1,
            Class::Databases => 2,
            _ => 0,
        };
        let amounts = Amounts::of(&map, &classes, &held, 1000, class_of);
        let class = |class: &str, bytes: u64, cached_bytes: u64, dirty_bytes: u64| ClassAmounts {
            class: class.to_owned(),
            bytes: bytes * 4096,
            cached_bytes: cached_bytes * 4096,
            dirty_bytes: dirty_bytes * 4096,
        };
        let expected = [
            class("unknown", 988, 86, 0),
            class("metadata", 2, 1, 1),
            class("databases", 10, 5, 0),
        ];
        assert_eq!(amounts.classes, expected);
        let shown = |one: &PathAmounts| {
            let path = String::from_utf8_lossy(&one.path).into_owned();
            let blocks = [one.bytes, one.cached_bytes, one.uncached_bytes].map(|it| it / 4096);
            (path, one.class.clone(), blocks)
        };
        let row = |path: &str, class: &str, blocks| (path.to_owned(), class.to_owned(), blocks);
        let directories: Vec<_> = amounts.directories.iter().map(shown).collect();
        let expected = [
            row("/", "unknown", [110, 11, 99]),
            row("/srv", "unknown", [110, 11, 99]),
            row("/srv/mail", "databases", [10, 5, 5]),
        ];
        assert_eq!(directories, expected);
        let files: Vec<_> = amounts.files.iter().map(shown).collect();
        // The film is sparse: half of it is on the volume.
        let expected = [
            row("/srv/a.mp4", "unknown", [200, 6, 94]),
            row("/srv/mail/box.mbox", "databases", [10, 5, 5]),
        ];
        assert_eq!(files, expected);
        assert_eq!(amounts.files[1].parent, Some(mail));
        // Of the 86 unknown blocks, six are those of the film.
        let ownerless = [("unknown".to_owned(), 80 * 4096), ("metadata".to_owned(), 4096)];
        assert_eq!(amounts.ownerless, ownerless);
    }
}
