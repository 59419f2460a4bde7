//! The classes of blocks, by a map of files.

use crate::rules::{FileFacts, FileRules, number_of};
use files::{BLOCK_SECTORS, Class, Extent, Map, Owner};
use hotlist::{CLASS_EXTENTS_MAX, ClassList, ClassRun};
use policy::{CLASSES, ClassExtent, ClassMap, Hints, MapError, UNKNOWN, class_by_name};

/// Bytes of a block.
const BLOCK_BYTES: u64 = BLOCK_SECTORS * files::SECTOR_BYTES;

/// Returns the names of the classes, by their numbers.
pub fn names() -> Vec<String> {
    CLASSES.iter().map(|class| class.name.to_owned()).collect()
}

/// Returns the classes of the blocks of a volume with this map, for a cache of this size. If they
/// change so often that there are too many runs, those at the end of the volume are missing.
pub fn class_list(map: &Map, rules: &FileRules, memory_bytes: u64) -> ClassList {
    let mut list = ClassList { names: names(), runs: Vec::new() };
    let mut last = None;
    for extent in map.extents() {
        // Extents of a file follow one another.
        let class = match last {
            Some((owner, class)) if owner == extent.owner && owner != Owner::None => class,
            _ => class_of(map, &extent, rules, memory_bytes),
        };
        last = Some((extent.owner, class));
        // A block is of the class of its first sector.
        let (first, end) =
            (extent.first.div_ceil(BLOCK_SECTORS), extent.end().div_ceil(BLOCK_SECTORS));
        if class != UNKNOWN && !append(&mut list.runs, first, end, class) {
            break;
        }
    }
    list
}

/// Appends blocks, which follow the last ones. Returns false if there is no room.
fn append(runs: &mut Vec<ClassRun>, mut first: u64, end: u64, class: u8) -> bool {
    if let Some(last) = runs.last_mut()
        && last.class == class
        && last.first + u64::from(last.blocks) == first
        && first < end
    {
        let more = (end - first).min(u64::from(u32::MAX - last.blocks));
        last.blocks += more as u32;
        first += more;
    }
    while first < end {
        if runs.len() == CLASS_EXTENTS_MAX as usize {
            return false;
        }
        let blocks = (end - first).min(u32::MAX.into()) as u32;
        runs.push(ClassRun { first, blocks, class });
        first += u64::from(blocks);
    }
    true
}

/// Returns the number of the class of an extent of this map, for a cache of this size.
pub fn class_of(map: &Map, extent: &Extent, rules: &FileRules, memory_bytes: u64) -> u8 {
    let Owner::File(number) = extent.owner else {
        return number_of(extent.class.name());
    };
    let Some(file) = map.file(number) else { return number_of(Class::Unknown.name()) };
    let path = if rules.need_paths() { path_in_system(map, extent) } else { Vec::new() };
    // Of blocks before the end of a file, the last one may not be full.
    let bytes = file.blocks.saturating_mul(BLOCK_BYTES);
    let facts = FileFacts { class: extent.class, path: &path, name: file.name, bytes };
    rules.class_of(&facts, memory_bytes)
}

/// Returns the path of a file from the root of its file system: of a partition, its number is left
/// out.
fn path_in_system(map: &Map, extent: &Extent) -> Vec<u8> {
    let path = map.path(extent.owner).unwrap_or_default();
    let system = map
        .systems()
        .iter()
        .find(|system| (system.first..system.first + system.sectors).contains(&extent.first));
    let root = system.and_then(|system| map.path(Owner::Directory(system.directory)));
    match root.filter(|root| !root.is_empty()) {
        Some(root) => path.get(root.len() + 1..).unwrap_or_default().to_vec(),
        None => path,
    }
}

/// Returns the hints of these classes, by their names: classes that this program does not have
/// count as unknown.
///
/// # Errors
/// The list is not of a volume of this number of blocks.
pub fn hints(list: &ClassList, rules: &FileRules, volume_blocks: u64) -> Result<Hints, MapError> {
    let numbers: Vec<u8> =
        list.names.iter().map(|name| class_by_name(name).unwrap_or(UNKNOWN)).collect();
    let extents = list.runs.iter().map(|run| ClassExtent {
        first: run.first,
        blocks: run.blocks,
        class: numbers.get(usize::from(run.class)).copied().unwrap_or(UNKNOWN),
    });
    Ok(Hints { map: ClassMap::new(extents, volume_blocks)?, treatments: rules.treatments() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::Builder;

    /// A volume of two partitions with a film in each, and metadata that is not aligned.
    fn map() -> Map {
        let mut builder = Builder::new(1 << 20, 1 << 20);
        let mut add = |partition: &str, at: u64, name: &[u8]| {
            let root = builder.directory(Builder::ROOT, partition.as_bytes()).expect("room");
            let below = builder.directory(root, b"films").expect("room");
            let file = builder.file(below, name, Class::Media, 1 << 27).expect("room");
            let owner = Owner::File(file);
            builder.extent(at, 3, Class::Metadata, Owner::None).expect("room");
            builder.extent(at + 8, 80, Class::Media, owner).expect("room");
            builder.extent(at + 96, 16, Class::Media, owner).expect("room");
            builder.extent(at + 112, 9, Class::Free, Owner::None).expect("room");
            builder
                .system(files::System {
                    first: at,
                    sectors: 1 << 12,
                    kind: files::Kind::Ext4,
                    directory: root,
                    is_incomplete: false,
                    is_damaged: false,
                    unreadable: 0,
                })
                .expect("room");
        };
        add("p1", 0, b"a.mp4");
        add("p2", 1 << 13, b"b.mp4");
        builder.finish(7)
    }

    fn runs(rules: &str) -> Vec<(u64, u32, String)> {
        let rules = FileRules::new(&rules.parse().expect("syntax")).expect("values");
        let list = class_list(&map(), &rules, 1 << 30);
        let named = list
            .runs
            .iter()
            .map(|run| (run.first, run.blocks, list.names[usize::from(run.class)].clone()));
        named.collect()
    }

    #[test]
    fn blocks_have_the_class_of_their_first_sector() {
        let run = |first, blocks, class: &str| (first, blocks, class.to_owned());
        let expected = [
            run(0, 1, "metadata"),
            run(1, 10, "big-media"),
            run(12, 2, "big-media"),
            run(14, 2, "free-space"),
            run(1024, 1, "metadata"),
            run(1025, 10, "big-media"),
            run(1036, 2, "big-media"),
            run(1038, 2, "free-space"),
        ];
        assert_eq!(runs("none"), expected);
        let ruled = runs("/films=databases");
        assert_eq!((&ruled[1].2[..], &ruled[5].2[..]), ("databases", "databases"));
        assert_eq!(runs("b.mp4=other".replace("b.mp4", "*.mp4").as_str())[1].2, "other");
    }

    #[test]
    fn hints_follow_the_names_of_classes() {
        let rules = FileRules::default();
        let mut list = class_list(&map(), &rules, 1 << 30);
        list.names[usize::from(number_of("metadata"))] = "of a later version".to_owned();
        let hints = super::hints(&list, &rules, 1 << 17).expect("inside the volume");
        assert_eq!(hints.map.class_of(0), UNKNOWN);
        assert_eq!(hints.map.class_of(1), number_of("big-media"));
        assert_eq!(hints.map.class_of(11), UNKNOWN);
        assert!(super::hints(&list, &rules, 1000).is_err(), "a smaller volume");
    }

    #[test]
    fn very_long_runs_are_divided() {
        let mut runs = Vec::new();
        let end = u64::from(u32::MAX) * 2 + 5;
        assert!(append(&mut runs, 0, 3, 1) && append(&mut runs, 3, end, 1));
        assert_eq!(runs.len(), 3);
        assert_eq!(runs.iter().map(|run| u64::from(run.blocks)).sum::<u64>(), end);
    }
}
