//! The format of maps, and lookups in it, against a plain list.

use files::{Builder, Class, Full, Kind, Map, Owner, Sums, System, Unusable};
use proptest::prelude::*;

const SECTORS: u64 = 500;

/// A map in the making, as plain lists.
#[derive(Clone, Debug)]
struct Plan {
    /// Parent (as a share of those before) and name of each directory.
    directories: Vec<(prop::sample::Index, Vec<u8>)>,
    /// Directory, name, class and size of each file.
    files: Vec<(prop::sample::Index, Vec<u8>, Class, u64)>,
    /// First sector, length and owner (0: free, 1: metadata, others: a file).
    extents: Vec<(u64, u64, prop::sample::Index)>,
}

fn class() -> impl Strategy<Value = Class> {
    prop::sample::select(&Class::ALL[5..])
}

fn plan() -> impl Strategy<Value = Plan> {
    let name = || prop::collection::vec(any::<u8>(), 1..12);
    let index = || any::<prop::sample::Index>();
    let directories = prop::collection::vec((index(), name()), 0..100);
    let files = prop::collection::vec((index(), name(), class(), 0u64..1 << 44), 1..150);
    let extents = prop::collection::vec((0..SECTORS + 50, 1u64..9, index()), 0..160);
    (directories, files, extents).prop_map(|(directories, files, extents)| Plan {
        directories,
        files,
        extents,
    })
}

fn plain(name: &[u8]) -> Vec<u8> {
    name.iter().map(|&byte| if matches!(byte, 0 | b'/') { b'?' } else { byte }).collect()
}

fn build(plan: &Plan) -> Result<Map, Full> {
    let mut builder = Builder::new(SECTORS, 1 << 20);
    let mut directories = 1;
    for (parent, name) in &plan.directories {
        builder.directory(parent.index(directories) as u32, name)?;
        directories += 1;
    }
    for (directory, name, class, bytes) in &plan.files {
        builder.file(directory.index(directories) as u32, name, *class, *bytes)?;
    }
    for &(first, sectors, owner) in &plan.extents {
        let (class, owner) = owned(plan, owner);
        builder.extent(first, sectors, class, owner)?;
    }
    let (first, sectors, kind, directory) = (8, SECTORS - 8, Kind::Xfs, 0);
    let (is_incomplete, is_damaged, unreadable) = (false, true, 3);
    builder.system(System {
        first,
        sectors,
        kind,
        directory,
        is_incomplete,
        is_damaged,
        unreadable,
    })?;
    Ok(builder.finish(1_700_000_000))
}

fn owned(plan: &Plan, owner: prop::sample::Index) -> (Class, Owner) {
    match owner.index(plan.files.len() + 2) {
        0 => (Class::Free, Owner::None),
        1 => (Class::Metadata, Owner::None),
        number => (plan.files[number - 2].2, Owner::File(number as u32 - 2)),
    }
}

/// The classes and owners that a sector may have.
fn candidates(plan: &Plan, sector: u64) -> Vec<(Class, Owner)> {
    let covers = |&&(first, sectors, _): &&(u64, u64, prop::sample::Index)| {
        (first..first + sectors).contains(&sector)
    };
    plan.extents.iter().filter(covers).map(|&(.., owner)| owned(plan, owner)).collect()
}

fn path_of(plan: &Plan, file: usize) -> Vec<u8> {
    let (directory, name, ..) = &plan.files[file];
    let mut names = vec![plain(name)];
    let mut number = directory.index(plan.directories.len() + 1);
    while number > 0 {
        let (parent, name) = &plan.directories[number - 1];
        names.push(plain(name));
        number = parent.index(number);
    }
    names.reverse();
    names.join(&b'/')
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_map_finds_what_was_added(plan in plan()) {
        let map = build(&plan).expect("room");
        prop_assert_eq!(map.files() as usize, plan.files.len());
        for (number, (_, name, class, bytes)) in plan.files.iter().enumerate() {
            let file = map.file(number as u32).expect("a file");
            prop_assert_eq!(file.name, plain(name));
            prop_assert_eq!((file.class, file.blocks), (*class, bytes.div_ceil(4096)));
            let path = map.path(Owner::File(number as u32));
            prop_assert_eq!(path, Some(path_of(&plan, number)));
        }
        prop_assert_eq!(map.file(map.files()), None);
        prop_assert_eq!(map.directory(map.directories()), None);
        for sector in 0..SECTORS + 60 {
            let found = map.find(sector);
            let candidates = candidates(&plan, sector);
            match found {
                None => prop_assert!(candidates.is_empty() || sector >= SECTORS),
                Some(extent) => {
                    let is_one = candidates.contains(&(extent.class, extent.owner));
                    prop_assert!(is_one && sector < SECTORS);
                    let is_free = extent.class == Class::Free;
                    let all_free = candidates.iter().all(|(class, _)| *class == Class::Free);
                    prop_assert_eq!(is_free, all_free);
                }
            }
        }
    }

    #[test]
    fn a_block_has_the_class_of_most_of_its_sectors(plan in plan()) {
        let map = build(&plan).expect("room");
        for block in 0..SECTORS / 8 + 2 {
            let (class, owner) = map.block(block);
            let sectors = block * 8..block * 8 + 8;
            let is_same = |&sector: &u64| {
                map.find(sector).is_some_and(|it| (it.class, it.owner) == (class, owner))
            };
            let same = sectors.clone().filter(is_same).count();
            let known = sectors.filter(|&sector| map.find(sector).is_some()).count();
            prop_assert_eq!(same == 0, known == 0);
        }
    }

    #[test]
    fn sums_are_those_of_single_sectors(plan in plan()) {
        let map = build(&plan).expect("room");
        let sums = Sums::of_map(&map);
        let mut single = Sums::new(&map);
        for sector in 0..SECTORS {
            let found = map.find(sector);
            let (class, owner) = found.map_or((Class::Unknown, Owner::None), |it| (it.class, it.owner));
            single.add(&map, class, owner, 1);
        }
        prop_assert_eq!(&sums, &single);
        let total: u64 = Class::ALL.iter().map(|&class| sums.class(class)).sum();
        prop_assert_eq!(total, SECTORS);
        let of_files: u64 = Class::ALL[4..].iter().map(|&class| sums.class(class)).sum();
        prop_assert_eq!(sums.directories(&map)[0], of_files);
    }

    #[test]
    fn a_map_survives_its_format_and_nothing_else_does(plan in plan(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let map = build(&plan).expect("room");
        let bytes = map.bytes().to_vec();
        let again = Map::parse(bytes.clone()).expect("a map");
        prop_assert_eq!(again.systems(), map.systems());
        prop_assert!(again.extents().eq(map.extents()));
        prop_assert_eq!((again.seconds(), again.sectors()), (1_700_000_000, SECTORS));
        let mut flipped = bytes.clone();
        flipped[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(Map::parse(flipped).is_err());
        let cut = bytes[..at.index(bytes.len())].to_vec();
        prop_assert!(Map::parse(cut).is_err());
    }
}

#[test]
fn other_bytes_are_named() {
    assert_eq!(Map::parse(Vec::new()).err(), Some(Unusable::NoMap));
    assert_eq!(Map::parse(b"ODHOTLST and more".to_vec()).err(), Some(Unusable::NoMap));
    let mut newer = Builder::new(1, 1 << 16).finish(0).into_bytes();
    newer[8] = 2;
    assert_eq!(Map::parse(newer).err(), Some(Unusable::Newer(2)));
}

#[test]
fn a_builder_without_room_says_so_and_its_map_is_incomplete() {
    let limit = 20_000;
    let mut builder = Builder::new(1 << 30, limit);
    let mut files = 0;
    while let Ok(file) = builder.file(0, b"a file of some length", Class::Other, 4096) {
        let _ = builder.extent(u64::from(file) * 16, 8, Class::Other, Owner::File(file));
        files += 1;
    }
    assert!(files > 200, "{files}");
    assert!(builder.memory_bytes() <= limit);
    let map = builder.finish(0);
    assert!(map.is_incomplete() && map.files() == files);
}

#[test]
fn long_extents_and_far_sectors_are_kept_whole() {
    let sectors = 1 << 48;
    let mut builder = Builder::new(u64::MAX, 1 << 16);
    builder.extent(5, 1 << 40, Class::Free, Owner::None).expect("room");
    builder.extent(sectors - 1, 9, Class::Journal, Owner::None).expect("room");
    let map = builder.finish(0);
    let found: Vec<_> = map.extents().map(|it| (it.first, it.sectors, it.class)).collect();
    assert_eq!(found, [(5, 1 << 40, Class::Free), (sectors - 1, 1, Class::Journal)]);
    assert_eq!(map.find(1 << 39).map(|it| it.class), Some(Class::Free));
    assert_eq!(map.find(u64::MAX), None);
}
