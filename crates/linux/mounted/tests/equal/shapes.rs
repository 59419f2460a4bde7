//! Files and directories of many shapes.

use rustix::fs::{FallocateFlags, fallocate};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

/// Writes a file of this many bytes, none of which are zero.
pub(crate) fn random(path: &Path, bytes: usize) {
    let mut state = bytes as u64 | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as u8 | 1
    };
    fs::write(path, (0..bytes).map(|_| next()).collect::<Vec<u8>>()).expect("written");
}

pub(crate) fn overwrite(path: &Path, at: u64, bytes: usize) {
    let file = File::options().write(true).open(path).expect("a file");
    file.write_all_at(&vec![7; bytes], at).expect("written");
}

/// Makes files of every shape.
pub(crate) fn make(root: &Path) {
    sizes(root);
    sparse(root);
    fragmented(root);
    unwritten(root);
    names(root);
    directories(root);
    deleted(root);
}

fn sizes(root: &Path) {
    for (index, bytes) in
        [0, 1, 50, 59, 100, 150, 511, 4095, 4096, 4097, 70_000, 1_300_000].into_iter().enumerate()
    {
        random(&root.join(format!("size{index}.txt")), bytes);
    }
    for (name, head) in
        [("program", "\x7fELF and more"), ("script", "#!/bin/sh"), ("other", "plain")]
    {
        fs::write(root.join(name), head).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(root.join(name), mode).expect("set");
    }
}

fn sparse(root: &Path) {
    let file = File::create(root.join("sparse.iso")).expect("a file");
    // Direct, single, double and triple indirect blocks of a block map.
    for at in [0u64, 40_000, 300_000, 5_000_000, 70_000_000, 900_000_000, 1_500_000_000] {
        file.write_all_at(&[3; 5000], at).expect("written");
    }
    file.set_len(1_700_000_000).expect("set");
}

/// Two files that grow in turn, each by a synced block: their extents interleave.
fn fragmented(root: &Path) {
    let files = ["one.mkv", "two.mkv"].map(|name| File::create(root.join(name)).expect("a file"));
    for block in 0..600u64 {
        for file in &files {
            file.write_all_at(&[5; 4096], block * 8192).expect("written");
        }
    }
    for hole in (0..300u64).step_by(3) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // ext2 and ext3 have no such call.
        let _ = fallocate(&files[0], flags, hole * 8192, 4096);
    }
}

fn unwritten(root: &Path) {
    let file = File::create(root.join("unwritten.db")).expect("a file");
    // ext2 and ext3 have no such call.
    if fallocate(&file, FallocateFlags::empty(), 0, 3_000_000).is_ok() {
        file.write_all_at(&[9; 10_000], 1_000_000).expect("written");
    }
    let beyond = File::create(root.join("beyond")).expect("a file");
    let _ = fallocate(&beyond, FallocateFlags::KEEP_SIZE, 0, 200_000);
}

fn names(root: &Path) {
    random(&root.join("linked"), 20_000);
    fs::create_dir(root.join("names")).expect("made");
    fs::hard_link(root.join("linked"), root.join("names/link")).expect("linked");
    fs::remove_file(root.join("linked")).expect("removed");
    random(&root.join("names").join(OsStr::from_bytes(b"not UTF-8 \xff\xfe.jpg")), 10_000);
    random(&root.join("names").join("n".repeat(255)), 10_000);
    symlink("short", root.join("names/symlink")).expect("made");
    symlink("long/".repeat(60), root.join("names/long symlink")).expect("made");
    // A pipe has no blocks.
    let pipe = root.join("names/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("made");
}

fn directories(root: &Path) {
    for (name, entries) in [("few", 3), ("some", 60), ("many", 500), ("most", 2500)] {
        let directory = root.join(name);
        fs::create_dir(&directory).expect("made");
        for entry in 0..entries {
            let name = format!("{}-{entry}", "a name of some length".repeat(entry % 5));
            fs::write(directory.join(name), if entry % 40 == 0 { "contents" } else { "" })
                .expect("written");
        }
    }
    let mut deep = root.to_path_buf();
    for level in 0..40 {
        deep.push(format!("level {level}"));
        fs::create_dir(&deep).expect("made");
        fs::write(deep.join("file.pdf"), "contents").expect("written");
    }
}

fn deleted(root: &Path) {
    for entry in (0..2500).step_by(3) {
        let name = format!("{}-{entry}", "a name of some length".repeat(entry % 5));
        fs::remove_file(root.join("most").join(name)).expect("removed");
    }
    fs::remove_file(root.join("size10.txt")).expect("removed");
    random(&root.join("late.deb"), 400_000);
}
