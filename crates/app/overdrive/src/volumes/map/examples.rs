//! Maps with amounts, for tests.

use super::Report;
use super::amounts::Amounts;
use daemon::MapSummary;
use daemon::control::statistics::{FileClass, FileHints};
use files::{Builder, Class, Extent, Kind, Map, Owner, System};
use hints::{FileRules, class_list, class_of};
use hotlist::{ClassList, ClassRun};

/// Memory of the cache.
const MEMORY_BYTES: u64 = 64 << 20;

/// Returns the amounts of a map whose blocks are all cached, but for those from `end` on.
fn amounts(map: &Map, end: u64) -> Amounts {
    let rules = FileRules::default();
    let names = ["clean", "dirty"].map(str::to_owned).to_vec();
    let blocks = u32::try_from(end).expect("a small volume");
    let held = ClassList { names, runs: vec![ClassRun { first: 0, blocks, class: 0 }] };
    let class = |extent: &Extent| class_of(map, extent, &rules, MEMORY_BYTES);
    let classes = class_list(map, &rules, MEMORY_BYTES);
    Amounts::of(map, &classes, &held, map.sectors() / files::BLOCK_SECTORS, class)
}

/// Returns a report on 8 blocks of metadata, a film of 4096 blocks whose name is no text, a mail
/// store of 2048 blocks of which half are cached, and a document of one block.
pub(super) fn report() -> Report {
    let mut builder = Builder::new(8 * 16_384, 1 << 20);
    let films = builder.directory(Builder::ROOT, b"films").expect("room");
    let srv = builder.directory(Builder::ROOT, b"srv").expect("room");
    let mut file = |directory, name: &[u8], class, first: u64, blocks: u64| {
        let number = builder.file(directory, name, class, blocks * 4096).expect("room");
        builder.extent(first * 8, blocks * 8, class, Owner::File(number)).expect("room");
    };
    file(films, b"\xe4.mp4", Class::Other, 8, 4096);
    file(srv, b"a<b>.txt", Class::Documents, 4104, 1);
    file(srv, b"box.mbox", Class::Databases, 4105, 2048);
    builder.extent(0, 64, Class::Metadata, Owner::None).expect("room");
    let system = System {
        first: 0,
        sectors: 8 * 16_384,
        kind: Kind::Ext4,
        directory: 0,
        is_incomplete: false,
        is_damaged: false,
        unreadable: 0,
    };
    builder.system(system).expect("room");
    let map = builder.finish(7);
    let class = |class: &str, hits, misses, time_saved_ns| FileClass {
        class: class.to_owned(),
        hits,
        misses,
        time_saved_ns,
        ..FileClass::default()
    };
    let classes =
        vec![class("databases", 900, 100, 2_500_000_000), class("other", 0, 4096, 1_000_000)];
    Report {
        volume: "db".to_owned(),
        summary: MapSummary::of(&map),
        amounts: amounts(&map, 4105 + 1024),
        memory_bytes: MEMORY_BYTES,
        hints: Some(FileHints { followed: true, classes, ..FileHints::default() }),
    }
}

/// Returns the amounts of this number of directories with this number of files each, which are all
/// cached. The first files are larger.
pub(super) fn many(directories: u32, files: u32) -> Amounts {
    let mut builder = Builder::new(1 << 26, 1 << 24);
    let mut first = 0;
    for directory in 0..directories {
        let name = format!("directory-{directory}");
        let parent = builder.directory(Builder::ROOT, name.as_bytes()).expect("room");
        for file in 0..files {
            let blocks = u64::from(1000 / (file + 1) + 1);
            let name = format!("file-{file}.txt");
            let class = if file % 2 == 0 { Class::Documents } else { Class::Other };
            let number = builder.file(parent, name.as_bytes(), class, blocks * 4096).expect("room");
            builder.extent(first, blocks * 8, class, Owner::File(number)).expect("room");
            first += blocks * 8;
        }
    }
    amounts(&builder.finish(7), first / 8)
}
