//! Small images by the tools of the file systems. None of them needs root.

use crate::sparse::Sparse;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

pub(crate) fn run(program: &str, arguments: &[&str], directory: &Path) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(directory).env("PATH", path).output();
    match output {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {errors}");
            true
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{program}: {error}");
            println!("skipped: {program}: {error}");
            false
        }
    }
}

/// Files and directories of a few shapes.
fn tree(root: &Path) {
    for name in ["outer/inner", "var/lib/mysql", "many"] {
        fs::create_dir_all(root.join(name)).expect("made");
    }
    for (name, bytes) in [
        ("outer/inner/deep.pdf", 3000),
        ("outer/film.mkv", 300_000),
        ("var/lib/mysql/table", 40_000),
        ("program.so.1", 9000),
        ("empty", 0),
    ] {
        fs::write(root.join(name), vec![b'x'; bytes]).expect("written");
    }
    for entry in 0..120 {
        let name = format!("many/a name of some length {entry}.jpg");
        fs::write(root.join(name), if entry % 9 == 0 { "contents" } else { "" }).expect("written");
    }
    let sparse = File::create(root.join("outer/sparse.iso")).expect("a file");
    for block in 0..40u64 {
        sparse.write_all_at(&[1; 1024], block * 50_000).expect("written");
    }
}

/// Returns a directory, in memory if possible: mkfs.xfs writes a log of 64 MiB.
pub(crate) fn temporary() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory")
}

/// Stores the sectors of an image that are not zero.
pub(crate) fn load(path: &Path) -> Sparse {
    let file = File::open(path).expect("an image");
    let bytes = file.metadata().expect("its size").len();
    let mut sparse = Sparse { sectors: bytes / 512, ..Sparse::default() };
    let mut piece = vec![0; 1 << 20];
    for start in (0..bytes).step_by(piece.len()) {
        let length = piece.len().min((bytes - start) as usize);
        file.read_exact_at(&mut piece[..length], start).expect("read");
        for (number, sector) in (start / 512..).zip(piece[..length].chunks_exact(512)) {
            if sector != [0; 512] {
                sparse.stored.insert(number, sector.try_into().expect("a sector"));
            }
        }
    }
    sparse
}

/// Returns an ext4 made with these options. None: the tool is missing.
pub(crate) fn ext4(options: &str) -> Option<Sparse> {
    let directory = temporary();
    tree(&directory.path().join("tree"));
    let fixed = ["-q", "-F", "-m", "0", "-d", "tree"];
    let options = options.split(' ').filter(|option| !option.is_empty());
    let arguments: Vec<&str> = fixed.into_iter().chain(options).chain(["image", "4m"]).collect();
    run("mkfs.ext4", &arguments, directory.path()).then(|| load(&directory.path().join("image")))
}

/// Returns an XFS made with these options. None: the tool is missing.
pub(crate) fn xfs(options: &str) -> Option<Sparse> {
    let directory = temporary();
    tree(&directory.path().join("tree"));
    fs::write(directory.path().join("prototype"), prototype()).expect("written");
    let image = File::create(directory.path().join("image")).expect("a file");
    image.set_len(320 << 20).expect("set");
    let fixed = ["-q", "-f", "-p", "prototype"];
    let options = options.split(' ').filter(|option| !option.is_empty());
    let arguments: Vec<&str> = fixed.into_iter().chain(options).chain(["image"]).collect();
    run("mkfs.xfs", &arguments, directory.path()).then(|| load(&directory.path().join("image")))
}

/// Returns the tree as a prototype of mkfs.xfs.
fn prototype() -> String {
    let mut text = String::from("/boot\n0 0\nd--755 0 0\n");
    text += "empty ---644 0 0 /dev/null\nprogram.so.1 ---755 0 0 tree/program.so.1\n";
    text +=
        "outer d--755 0 0\ninner d--755 0 0\ndeep.pdf ---644 0 0 tree/outer/inner/deep.pdf\n$\n";
    text +=
        "film.mkv ---644 0 0 tree/outer/film.mkv\nsparse.iso ---644 0 0 tree/outer/sparse.iso\n$\n";
    text += "var d--755 0 0\nlib d--755 0 0\nmysql d--755 0 0\n";
    text += "table ---644 0 0 tree/var/lib/mysql/table\n$\n$\n$\nmany d--755 0 0\n";
    for entry in 0..120 {
        text += &format!("a-name-of-some-length-{entry}.jpg ---644 0 0 /dev/null\n");
    }
    text + "$\n$\n"
}
