//! Volumes of particular forms: partition tables, containers, circles.

use crate::images::{self, load, run, temporary};
use crate::judge::judge;
use crate::sparse::Sparse;
use files::{Class, Kind, Map, Owner};
use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};

/// A volume with an ext4 on all of it.
pub(crate) fn whole() -> Option<Sparse> {
    images::ext4("-b 1024")
}

fn paths(map: &Map) -> Vec<String> {
    let path = |number| map.path(Owner::File(number)).expect("a path");
    let mut paths: Vec<String> = (0..map.files())
        .map(|number| String::from_utf8(path(number)).expect("plain"))
        .filter(|path| !path.contains("many/"))
        .collect();
    paths.sort();
    paths
}

const FILES: [&str; 6] = [
    "empty",
    "outer/film.mkv",
    "outer/inner/deep.pdf",
    "outer/sparse.iso",
    "program.so.1",
    "var/lib/mysql/table",
];

fn class_of(map: &Map, path: &str) -> Class {
    let is_it = |number: &u32| map.path(Owner::File(*number)).as_deref() == Some(path.as_bytes());
    let number = (0..map.files()).find(is_it).expect("the file");
    map.file(number).expect("the file").class
}

#[test]
fn both_file_systems_show_the_same_tree() {
    for mut image in [images::ext4("-b 1024"), images::xfs("")].into_iter().flatten() {
        let map = judge(&mut image);
        assert_eq!(paths(&map), FILES);
        assert_eq!(map.files(), 126);
        assert_eq!(class_of(&map, "outer/film.mkv"), Class::Media);
        assert_eq!(class_of(&map, "var/lib/mysql/table"), Class::Databases);
        assert_eq!(class_of(&map, "program.so.1"), Class::Executables);
        let film: u64 = map
            .extents()
            .filter(|extent| map.path(extent.owner).as_deref() == Some(b"outer/film.mkv"))
            .map(|extent| extent.sectors)
            .sum();
        assert!((586..=600).contains(&film), "{film} sectors");
        assert!(map.systems().iter().all(|it| !it.is_damaged && it.unreadable == 0));
        assert!(map.extents().any(|extent| extent.class == Class::Journal));
    }
}

#[test]
fn xfs_of_version_4_is_read() {
    let Some(mut image) = images::xfs("-m crc=0,finobt=0,rmapbt=0,reflink=0") else { return };
    let map = judge(&mut image);
    assert_eq!(paths(&map), FILES);
    assert!(map.systems().iter().all(|it| !it.is_damaged && it.unreadable == 0));
}

/// Partitions a volume of 400 MiB by sfdisk, and puts these images into its partitions.
fn partitioned(script: &str, contents: &[(u64, &Sparse)]) -> Option<Sparse> {
    let directory = temporary();
    let path = directory.path().join("image");
    File::create(&path).and_then(|file| file.set_len(400 << 20)).expect("a file");
    if !run("sfdisk", &["--version"], directory.path()) {
        return None;
    }
    fs::write(directory.path().join("script"), script).expect("written");
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sfdisk");
    command.args(["--quiet"]).arg(&path).env("PATH", search).stdin(Stdio::piped());
    let mut child = command.spawn().expect("sfdisk runs");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(script.as_bytes()).expect("written");
    drop(input);
    assert!(child.wait().expect("it ends").success(), "{script}");
    let mut volume = load(&path);
    for (first, image) in contents {
        let moved = image.stored.iter().map(|(number, sector)| (first + number, *sector));
        volume.stored.extend(moved);
    }
    Some(volume)
}

fn container(mark: &[u8], at: u64) -> Sparse {
    let mut image = Sparse { sectors: 2048, ..Sparse::default() };
    for (index, byte) in mark.iter().enumerate() {
        image.set(at + index as u64, *byte);
    }
    image
}

fn kinds(map: &Map) -> Vec<(u64, Kind, String)> {
    let name = |directory| String::from_utf8(map.path(Owner::Directory(directory)).expect("one"));
    let systems = map.systems().iter();
    systems.map(|it| (it.first, it.kind, name(it.directory).expect("plain"))).collect()
}

#[test]
fn guid_partitions_and_containers_are_named() {
    let (Some(ext4), Some(xfs)) = (whole(), images::xfs("")) else { return };
    let (luks, lvm) = (container(b"LUKS\xba\xbe\0\x02", 0), container(b"LVM2 001", 512 + 24));
    let script = "label: gpt\n2048,8192\n10240,2048\n12288,2048\n16384,655360\n";
    let contents = [(2048, &ext4), (10240, &luks), (12288, &lvm), (16384, &xfs)];
    let Some(mut volume) = partitioned(script, &contents) else { return };
    let map = judge(&mut volume);
    let expected = [
        (2048, Kind::Ext4, "p1".to_owned()),
        (10240, Kind::Luks, "p2".into()),
        (12288, Kind::Lvm, "p3".into()),
        (16384, Kind::Xfs, "p4".into()),
    ];
    assert_eq!(kinds(&map), expected);
    assert_eq!(map.systems()[1].kind.name(), "unknown (LUKS)");
    assert_eq!(map.find(10240), None);
    let all = FILES.iter().flat_map(|file| [format!("p1/{file}"), format!("p4/{file}")]);
    let mut all: Vec<String> = all.collect();
    all.sort();
    assert_eq!(paths(&map), all);
    // The copy at the end replaces a table that is damaged.
    volume.set(512 + 60, 1);
    volume.set(512 + 17, 1);
    assert_eq!(kinds(&judge(&mut volume)), expected);
}

#[test]
fn partitions_in_the_first_sector_and_logical_ones_are_found() {
    let Some(ext4) = whole() else { return };
    let script = "label: dos\n2048,8192\n10240,65536,E\n12288,8192\n22528,8192\n";
    let contents = [(2048, &ext4), (12288, &ext4), (22528, &ext4)];
    let Some(mut volume) = partitioned(script, &contents) else { return };
    let map = judge(&mut volume);
    let names: Vec<_> =
        kinds(&map).into_iter().map(|(first, kind, name)| (first, name, kind)).collect();
    let expected = [(2048, "p1"), (12288, "p5"), (22528, "p6")];
    assert_eq!(names, expected.map(|(first, name)| (first, name.to_owned(), Kind::Ext4)));
    // A chain of tables that leads back to itself.
    let link = 10240 * 512 + 446 + 16 + 8;
    volume.set(link, 0);
    volume.set(link + 1, 0);
    volume.set(link + 2, 0);
    assert!(kinds(&judge(&mut volume)).len() <= 3);
}

/// Changes the inode of each entry of a directory whose name begins with these bytes, in an ext4.
/// Returns the number of entries.
fn redirect(image: &mut Sparse, name: &[u8], inode: u32) -> usize {
    let mut entries = Vec::new();
    for (number, sector) in &image.stored {
        let at = |at: usize| number * 512 + at as u64;
        // Entries are aligned; one that crosses the end of a sector is left.
        let found = (0..504).step_by(4).filter(|start| sector[start + 8..].starts_with(name));
        entries.extend(found.filter(|start| sector[start + 6] >= name.len() as u8).map(at));
    }
    for entry in &entries {
        for (at, byte) in (*entry..).zip(inode.to_le_bytes()) {
            image.set(at, byte);
        }
    }
    entries.len()
}

#[test]
fn directories_in_a_circle_are_read_once() {
    let Some(mut image) = whole() else { return };
    let before = judge(&mut image);
    assert!(redirect(&mut image, b"inner", 2) == 1);
    let map = judge(&mut image);
    assert_eq!(map.systems()[0].unreadable, 1);
    assert_eq!(map.files(), before.files() - 1, "only the file below `inner` has no name");
    assert!(!map.is_incomplete());
}

#[test]
fn names_that_lead_to_one_inode_show_its_blocks_once() {
    let Some(mut image) = whole() else { return };
    let film = judge(&mut image);
    // Nearly all entries of a directory lead to one file.
    assert!(redirect(&mut image, b"a name of some length", 14) > 80);
    let map = judge(&mut image);
    // Each name is a file, and each block belongs to one of them.
    assert!(map.files() > 80);
    assert!(map.extents().count() <= film.extents().count() + 120);
}
