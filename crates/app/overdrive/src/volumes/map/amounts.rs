//! Amounts of a volume's blocks in its cache: by class, directory and file.

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
    /// From the root of the volume, with a slash at the beginning.
    pub(super) path: Vec<u8>,
    pub(super) bytes: u64,
    pub(super) cached_bytes: u64,
}

/// The amounts of a volume.
pub(super) struct Amounts {
    pub(super) classes: Vec<ClassAmounts>,
    /// Directories with cached blocks; the most first.
    pub(super) directories: Vec<PathAmounts>,
    /// Files with cached blocks; the most first.
    pub(super) files: Vec<PathAmounts>,
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

impl Amounts {
    /// Returns the amounts of a volume of this number of blocks, with this map, these classes of
    /// its blocks, and these blocks in the cache.
    pub(super) fn of(map: &Map, classes: &ClassList, held: &ClassList, blocks: u64) -> Amounts {
        let mut sums = Sums::new(map);
        let mut files: HashMap<u32, u64> = HashMap::new();
        for (extent, sectors) in held_sectors(map, held) {
            sums.add(map, extent.class, extent.owner, sectors);
            if let Owner::File(number) = extent.owner {
                *files.entry(number).or_default() += sectors;
            }
        }
        let (all, cached) = (Sums::of_map(map).directories(map), sums.directories(map));
        let directories =
            all.iter().zip(&cached).enumerate().filter(|(_, (_, cached))| **cached > 0);
        let directories = directories.map(|(number, (all, cached))| PathAmounts {
            path: path(map, Owner::Directory(number as u32)),
            bytes: all * files::SECTOR_BYTES,
            cached_bytes: cached * files::SECTOR_BYTES,
        });
        let file = |(number, sectors): (u32, u64)| PathAmounts {
            path: path(map, Owner::File(number)),
            bytes: map.file(number).map_or(0, |file| file.blocks * BLOCK_BYTES),
            cached_bytes: sectors * files::SECTOR_BYTES,
        };
        Amounts {
            classes: by_class(classes, held, blocks),
            directories: sorted(directories.collect()),
            files: sorted(files.into_iter().map(file).collect()),
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
        let film = builder.file(below, b"a.mp4", Class::Media, 800 * 512).expect("room");
        builder.extent(0, 16, Class::Metadata, Owner::None).expect("room");
        builder.extent(80, 80, Class::Databases, Owner::File(mbox)).expect("room");
        builder.extent(800, 800, Class::Media, Owner::File(film)).expect("room");
        let map = builder.finish(7);
        let names = ["unknown", "metadata", "databases"].map(str::to_owned).to_vec();
        let classes = ClassList { names, runs: vec![run(0, 2, 1), run(10, 10, 2)] };
        let names = ["clean", "dirty"].map(str::to_owned).to_vec();
        let held = ClassList { names, runs: vec![run(1, 1, 1), run(15, 90, 0)] };
        let amounts = Amounts::of(&map, &classes, &held, 1000);
        let class = |class: &str, bytes: u64, cached_bytes: u64, dirty_bytes: u64| ClassAmounts {
            class: class.to_owned(),
            bytes: bytes * 4096,
            cached_bytes: cached_bytes * 4096,
            dirty_bytes: dirty_bytes * 4096,
        };
        let expected = [
            class("unknown", 988, 85, 0),
            class("metadata", 2, 1, 1),
            class("databases", 10, 5, 0),
        ];
        assert_eq!(amounts.classes, expected);
        let amount = |path: &str, bytes: u64, cached_bytes: u64| PathAmounts {
            path: path.as_bytes().to_vec(),
            bytes: bytes * 4096,
            cached_bytes: cached_bytes * 4096,
        };
        let directories =
            [amount("/", 110, 10), amount("/srv", 110, 10), amount("/srv/mail", 10, 5)];
        assert_eq!(amounts.directories, directories);
        assert_eq!(
            amounts.files,
            [amount("/srv/a.mp4", 100, 5), amount("/srv/mail/box.mbox", 10, 5)]
        );
    }
}
