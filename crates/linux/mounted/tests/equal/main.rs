//! The readers of images find the same blocks as the kernel: each file's sectors in the map of an
//! unmounted image are those that FIEMAP has reported while it was mounted.

mod image;
mod partition;
mod shapes;

use files::{Bounds, Class, Map, Owner, ReadAt, Sums, map_volume};
use image::Image;
use mounted::FileSource;
use std::collections::{BTreeMap, BTreeSet};

/// The sectors of each path, as ranges.
type Sectors = BTreeMap<Vec<u8>, Vec<(u64, u64)>>;

/// Returns the sectors of all files in a map.
fn sectors(map: &Map) -> Sectors {
    let mut found = Sectors::new();
    for file in 0..map.files() {
        found.insert(map.path(Owner::File(file)).expect("a path"), Vec::new());
    }
    for extent in map.extents().filter(|extent| matches!(extent.owner, Owner::File(_))) {
        let path = map.path(extent.owner).expect("a path");
        let list = found.get_mut(&path).expect("listed");
        match list.last_mut() {
            Some(last) if last.1 == extent.first => last.1 = extent.end(),
            _ => list.push((extent.first, extent.end())),
        }
    }
    found
}

/// Makes files in a new file system, and compares the map of the image with that of the mounted
/// one. Returns the former.
fn compare(image: &Image, make: impl Fn(&std::path::Path)) -> Option<Map> {
    let mount = image.mount()?;
    make(&mount.point);
    mount.sync();
    let sectors_of_image = image.bytes() / 512;
    let bounds = Bounds::default();
    let kernel = mounted::map_mounted(&mount.point, sectors_of_image, &bounds, 7);
    let kernel = kernel.expect("mapped by the kernel");
    drop(mount);
    let map = map_of(image);
    assert!(!map.is_incomplete() && !kernel.is_incomplete());
    for system in map.systems().iter().chain(kernel.systems()) {
        assert_eq!((system.unreadable, system.is_damaged), (0, false), "{system:?}");
    }
    let (by_reader, by_kernel) = (sectors(&map), sectors(&kernel));
    let names = |found: &Sectors| found.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&by_reader), names(&by_kernel));
    for (path, list) in &by_kernel {
        let path_shown = String::from_utf8_lossy(path);
        assert_eq!(&by_reader[path], list, "{path_shown}");
    }
    classes_agree(&map, &kernel);
    Some(map)
}

fn map_of(image: &Image) -> Map {
    let mut source = FileSource::open(&image.path).expect("an image");
    assert_eq!(source.bytes(), image.bytes());
    map_volume(&mut source, &Bounds::default(), 7)
}

fn classes_agree(map: &Map, kernel: &Map) {
    let classes = |map: &Map| {
        let file = |number| {
            let file = map.file(number).expect("a file");
            (map.path(Owner::File(number)).expect("a path"), (file.class, file.blocks))
        };
        (0..map.files()).map(file).collect::<BTreeMap<_, _>>()
    };
    let by_reader = classes(map);
    for (path, class) in classes(kernel) {
        assert_eq!(by_reader[&path], class, "{}", String::from_utf8_lossy(&path));
    }
}

/// Checks that almost all of a new file system is explained.
fn is_explained(map: &Map, image: &Image, free_bytes: u64) {
    let sums = Sums::of_map(map);
    let unknown = sums.class(Class::Unknown) * 512;
    assert!(unknown <= image.unexplained_bytes, "{unknown} bytes of {} are unknown", image.name);
    assert_eq!(sums.class(Class::Free) * 512, free_bytes, "{}: free space", image.name);
    assert!(sums.class(Class::Metadata) > 0 && sums.class(Class::Directories) > 0);
}

fn shapes_on(image: &Image) {
    let Some(map) = compare(image, shapes::make) else { return };
    is_explained(&map, image, image.free_bytes());
}

#[test]
fn ext4_of_many_kinds() {
    for options in image::EXT4 {
        shapes_on(&Image::ext4(options));
    }
}

#[test]
fn xfs_of_many_kinds() {
    for options in image::XFS {
        shapes_on(&Image::xfs(options));
    }
}

#[test]
fn blocks_that_files_share_belong_to_one_of_them() {
    let image = Image::xfs("");
    compare(&image, |point| {
        shapes::random(&point.join("first"), 900_000);
        for copy in ["second", "third"] {
            assert!(image::run("cp", &["--reflink=always", "first", copy], point));
        }
        shapes::overwrite(&point.join("second"), 100_000, 50_000);
    });
}
