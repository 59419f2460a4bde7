//! Compares the table of signatures with libblkid, if its programs are installed on this machine.

use host::signatures;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a program. None, with a printed reason, if it is not installed.
fn program(name: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(name).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: {name} cannot be run: {error}");
            None
        }
    }
}

/// Returns all output of a program.
fn output_text(output: &Output) -> String {
    let both = [output.stdout.clone(), output.stderr.clone()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn every_name_that_libblkid_knows_is_in_the_table() {
    let Some(known) = program("blkid", &["-k"]) else { return };
    let known = output_text(&known);
    let ours: BTreeSet<&str> = signatures().iter().flat_map(|it| it.names).copied().collect();
    let missing: Vec<&str> = known.lines().filter(|name| !ours.contains(name)).collect();
    assert!(!known.is_empty() && missing.is_empty(), "{missing:?}");
}

/// Returns the types and offsets that wipefs finds.
fn wiped(path: &Path) -> Option<Vec<(String, u64)>> {
    let found = program("wipefs", &["--parsable", "--output", "TYPE,OFFSET", path.to_str()?])?;
    let said = String::from_utf8_lossy(&found.stdout).into_owned();
    let row = |line: &str| {
        let (kind, offset) = line.split_once(',')?;
        let offset = u64::from_str_radix(offset.trim().strip_prefix("0x")?, 16).ok()?;
        Some((kind.to_owned(), offset))
    };
    Some(said.lines().filter_map(row).collect())
}

fn has(file: &File, offset: u64, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, offset).is_ok() && found == bytes
}

/// Checks that each signature that wipefs finds is in the table with that name and position.
/// Returns whether there is one; None without wipefs.
fn agrees(path: &Path, what: &str) -> Option<bool> {
    let file = File::open(path).expect("it is there");
    let size = file.metadata().expect("it is there").len();
    let theirs = wiped(path)?;
    for (kind, offset) in &theirs {
        let ours = signatures().iter().filter(|it| it.names.contains(&&**kind));
        let mut places = ours.flat_map(|it| it.any).flat_map(|marks| *marks);
        // libblkid reports some marks at their superblock or sector.
        let is_there =
            |(at, bytes): (u64, &[u8])| at.abs_diff(*offset) <= 96 && has(&file, at, bytes);
        let is_found = places.any(|mark| mark.places(size).into_iter().any(is_there));
        assert!(is_found, "{what}: wipefs finds {kind} at {offset:#x}");
    }
    Some(!theirs.is_empty())
}

#[test]
fn wipefs_agrees_on_the_marks_that_suffice_to_it() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room");
    let path = place.path().join("image");
    let mut agreed = BTreeSet::<&str>::new();
    for signature in signatures() {
        for marks in signature.any {
            let file = File::create(&path).expect("room");
            file.set_len(1 << 30).expect("sparse");
            let places = marks.iter().filter_map(|mark| mark.places(1 << 30).first().copied());
            for (offset, bytes) in places {
                file.write_all_at(bytes, offset).expect("room");
            }
            match agrees(&path, signature.words) {
                None => return,
                Some(true) => agreed.extend(signature.names),
                Some(false) => {}
            }
        }
    }
    println!("{} names: {agreed:?}", agreed.len());
    assert!(agreed.len() > 20, "{agreed:?}");
}

#[test]
fn wipefs_agrees_on_what_other_programs_make() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room");
    let path = place.path().join("image");
    let name = path.to_str().expect("plain");
    let label = |label: &str| format!("echo 'label: {label}' | sfdisk -q {name}");
    let [dos, gpt, sun, sgi] = ["dos", "gpt", "sun", "sgi"].map(label);
    let makers: [&[&str]; 12] = [
        &["mkfs.ext4", "-qF", name],
        &["mkfs.xfs", "-qf", name],
        &["mkswap", name],
        &["mkfs.minix", name],
        &["mkfs.btrfs", "-qf", name],
        &["mkfs.vfat", name],
        &["mkfs.f2fs", "-qf", name],
        &["mkfs.ntfs", "-qFf", name],
        &["sh", "-c", &dos],
        &["sh", "-c", &gpt],
        &["sh", "-c", &sun],
        &["sh", "-c", &sgi],
    ];
    for maker in makers {
        fs::write(&path, "").expect("room");
        File::options().write(true).open(&path).expect("ours").set_len(512 << 20).expect("sparse");
        let made = Command::new(maker[0]).args(&maker[1..]).output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("skipped: {maker:?}");
            continue;
        }
        match agrees(&path, maker[0]) {
            None => return,
            Some(found) => assert!(found, "wipefs finds nothing of {maker:?}"),
        }
    }
}
