//! The file of a module with a folder is the folder's `mod.rs`.

use crate::source::all;

/// Folders whose files are separate programs, not modules.
const PROGRAMS: [&str; 4] = ["tests", "examples", "benches", "bin"];

fn is_program(path: &str) -> bool {
    let folder = path.rsplit('/').nth(1);
    folder.is_some_and(|folder| PROGRAMS.contains(&folder))
}

/// Returns files of modules next to their folders.
fn beside_their_folders(paths: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in paths.iter().filter(|path| !is_program(path)) {
        let Some(stem) = path.strip_suffix(".rs") else { continue };
        let has_folder = paths
            .iter()
            .any(|other| other.strip_prefix(stem).is_some_and(|behind| behind.starts_with('/')));
        if has_folder {
            wrong.push(format!("{path}: move it to {stem}/mod.rs"));
        }
    }
    wrong
}

#[test]
fn modules_with_folders_lie_in_them() {
    let sources = all();
    let paths: Vec<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    assert_eq!(beside_their_folders(&paths), [""; 0]);
}

#[test]
fn a_file_beside_its_folder_is_found() {
    let paths = [
        "crates/a/src/disk.rs",
        "crates/a/src/disk/late.rs",
        "crates/a/src/disks.rs",
        "crates/a/src/doctor/mod.rs",
        "crates/a/src/doctor/place.rs",
        "crates/a/examples/speed.rs",
        "crates/a/examples/speed/table.rs",
    ];
    let wrong = ["crates/a/src/disk.rs: move it to crates/a/src/disk/mod.rs"];
    assert_eq!(beside_their_folders(&paths), wrong);
}
