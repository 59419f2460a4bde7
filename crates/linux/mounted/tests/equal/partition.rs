//! A mounted partition, and file systems that cannot be mapped.

use crate::image::{Image, run};
use files::{Bounds, Builder, Kind, Owner, map_volume};
use mounted::{FileSource, add_mounted, first_sector};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// First sector of the partition.
const FIRST: u64 = 6144;

/// A loop device with partitions, detached at the end.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.0], Path::new("/"));
    }
}

/// Attaches `image` in this directory. None, with a message: this user cannot.
fn attach(directory: &Path) -> Option<Loop> {
    let image = directory.join("image");
    let arguments = ["--find", "--show", "--partscan", image.to_str().expect("plain")];
    let output = std::process::Command::new("losetup").args(arguments).output().ok()?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let device = output.status.success().then_some(Loop(name))?;
    let has_node = fs::exists(format!("{}p1", device.0)).is_ok_and(|it| it);
    has_node.then_some(device)
}

#[test]
fn a_mounted_partition_is_at_its_place_on_the_disk() {
    // Keeps other images away until the end.
    let blank = Image::ext4("");
    let directory = blank.path.parent().expect("a directory");
    fs::remove_file(&blank.path).expect("removed");
    let size = |file: File| file.set_len(64 << 20);
    File::create(&blank.path).and_then(size).expect("a file");
    fs::write(directory.join("script"), format!("label: gpt\n{FIRST},\n")).expect("written");
    assert!(run("sh", &["-c", "sfdisk --quiet image < script"], directory));
    let is_root = rustix::process::geteuid().is_root();
    let Some(device) = is_root.then(|| attach(directory)).flatten() else {
        println!("skipped: partitions of a loop device need root and devtmpfs");
        return;
    };
    let partition = format!("{}p1", device.0);
    assert!(run("mkfs.ext4", &["-q", &partition], directory));
    let point = directory.join("point");
    fs::create_dir(&point).expect("made");
    assert!(run("mount", &[&partition, "point"], directory));
    fs::write(point.join("film.mkv"), vec![3; 500_000]).expect("written");
    rustix::fs::syncfs(File::open(&point).expect("mounted")).expect("synced");
    let first = first_sector(point.metadata().expect("mounted").dev());
    let sectors = blank.bytes() / 512;
    let mut builder = Builder::new(sectors, 1 << 20);
    let root = builder.directory(Builder::ROOT, b"p1").expect("room");
    let bounds = Bounds::default();
    let added = add_mounted(&mut builder, &point, FIRST, sectors - FIRST, root, &bounds);
    assert!(run("umount", &["point"], directory));
    drop(device);
    assert_eq!(first.expect("its position"), FIRST);
    added.expect("mapped");
    let kernel = builder.finish(0);
    let reader = map_volume(&mut FileSource::open(&blank.path).expect("open"), &bounds, 0);
    assert_eq!(crate::sectors(&reader), crate::sectors(&kernel));
    assert_eq!(crate::sectors(&kernel).keys().next(), Some(&b"p1/film.mkv".to_vec()));
    assert_eq!((reader.systems()[0].first, reader.systems()[0].kind), (FIRST, Kind::Ext4));
    assert_eq!(kernel.path(Owner::Directory(1)), Some(b"p1".to_vec()));
}

#[test]
fn file_systems_without_a_device_are_refused() {
    let mut builder = Builder::new(100, 1 << 16);
    let proc = Path::new("/proc");
    let refused = add_mounted(&mut builder, proc, 0, 100, Builder::ROOT, &Bounds::default());
    assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::Unsupported));
    assert_eq!(builder.finish(0).systems().len(), 0);
    let null = Path::new("/dev/null").metadata().expect("there").rdev();
    assert_eq!(first_sector(null).expect("no partition"), 0);
}
