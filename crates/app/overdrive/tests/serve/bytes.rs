//! Clients without block sizes: any bytes, at any offset, without a helper in between.

use crate::common::{Server, have, is_root, place, run, wait_until};
use crate::dice::{Dice, scaled};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use tempfile::TempDir;

/// Threads that write at the same time.
const WRITERS: u64 = 4;
/// Consecutive bytes that belong to one thread: less than a sector, so that all threads share each
/// sector.
const STRIP: u64 = 113;
/// Bytes of the volume that they write to.
const SPAN: u64 = 1 << 20;

fn can_fuse() -> bool {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        // A privilege, not a program: build servers may lack it, too.
        println!("skipped: nbdfuse needs root and /dev/fuse");
        return false;
    }
    have(&["nbdfuse", "umount"])
}

/// A volume as a file.
struct Fused {
    nbdfuse: Child,
    directory: TempDir,
}

impl Fused {
    fn new(uri: &str) -> Fused {
        let directory = place();
        let mut nbdfuse = Command::new("nbdfuse");
        nbdfuse.args(["--connections", "4"]).arg(directory.path().join("volume")).arg(uri);
        let fused = Fused { nbdfuse: nbdfuse.spawn().expect("it was there"), directory };
        wait_until("nbdfuse shows the volume", || fused.path().exists());
        fused
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("volume")
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(self.path()).expect("the volume is there")
    }
}

impl Drop for Fused {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.directory.path()).status();
        let _ = self.nbdfuse.wait();
    }
}

/// Writes pieces of its own strips, of odd sizes, and reads each back. Returns its final data.
fn write_strips(file: &File, writer: u64) -> Vec<(u64, Vec<u8>)> {
    let mut dice = Dice::new();
    (0..writer * 100).for_each(|_| _ = dice.between(0, 1));
    let strips = SPAN / STRIP / WRITERS;
    let mut own = vec![vec![0u8; STRIP as usize]; strips as usize];
    for number in 0..scaled(600) {
        let strip = dice.between(0, strips - 1);
        let at = dice.between(0, STRIP - 1);
        let length = dice.between(1, STRIP - at);
        let bytes: Vec<u8> = (0..length).map(|_| (writer * 60 + number % 60) as u8 + 1).collect();
        let offset = (strip * WRITERS + writer) * STRIP + at;
        file.write_all_at(&bytes, offset).expect("odd bytes are taken");
        let kept = &mut own[strip as usize];
        kept[at as usize..(at + length) as usize].copy_from_slice(&bytes);
        let mut found = vec![0; STRIP as usize];
        file.read_exact_at(&mut found, offset - at).expect("odd bytes are read");
        assert!(found == *kept, "strip {strip} of writer {writer}");
    }
    (0..strips).map(|strip| (strip * WRITERS + writer) * STRIP).zip(own).collect()
}

fn odd_bytes(backing: &str, options: &[&str]) -> Vec<u8> {
    let server = Server::start(backing, options);
    let fused = Fused::new(&server.uri);
    let file = fused.open();
    let mut expected = vec![0u8; SPAN as usize];
    let left: Vec<_> = thread::scope(|scope| {
        let writers = (0..WRITERS).map(|writer| {
            let file = fused.open();
            scope.spawn(move || write_strips(&file, writer))
        });
        let writers: Vec<_> = writers.collect();
        writers.into_iter().flat_map(|writer| writer.join().expect("no panic")).collect()
    });
    for (offset, bytes) in left {
        expected[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    file.sync_all().expect("a flush");
    let mut found = vec![0; SPAN as usize];
    file.read_exact_at(&mut found, 0).expect("all of it");
    assert!(found == expected, "{backing}");
    drop(file);
    drop(fused);
    server.end().well();
    expected
}

#[test]
fn nbdfuse_writes_odd_sizes_at_odd_places_and_finds_them_again() {
    if !can_fuse() {
        return;
    }
    for options in [["--memory", "2M", "--write", "back-now"], ["--memory", "0", "--write", "none"]]
    {
        let place = place();
        let image = crate::common::image(&place, 8);
        let expected = odd_bytes(&image.display().to_string(), &options);
        assert!(fs::read(&image).expect("the image")[..expected.len()] == expected, "on the image");
    }
}

#[test]
fn nbdfuse_writes_odd_sizes_to_blocks_of_4_kib() {
    if !can_fuse() {
        return;
    }
    let place = place();
    let members = ["0.img", "1.img"].map(|name| place.path().join(name).display().to_string());
    for member in &members {
        File::create(member).and_then(|file| file.set_len(64 << 20)).expect("room");
    }
    run(crate::common::OVERDRIVE, &["pool", "create", &members[0], &members[1]]).well();
    odd_bytes(&format!("pool:{}", members.join(",")), &["--memory", "2M"]);
}
