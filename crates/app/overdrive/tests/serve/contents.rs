//! The contents of a file or device decide which commands accept it: one table of signatures, for
//! every command that opens a file or device.

use crate::common::{Ended, OVERDRIVE, image, place, run, serve_in};
use crate::home::Home;
use host::{Kind, signatures};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// Beyond the second copies of superblocks that most formats have.
const BYTES: u64 = 96 * MIB;
/// Beyond the third copy of btrfs.
const BYTES_LARGE: u64 = 260 << 30;

fn text(path: &Path) -> &str {
    path.to_str().expect("a test's path is text")
}

/// Makes a sparse file with one set of a signature's marks. False: the file is too small for them.
fn make(path: &Path, marks: &[host::Mark], bytes: u64) -> bool {
    let file = File::create(path).expect("room");
    file.set_len(bytes).expect("sparse");
    marks.iter().all(|mark| {
        let place = mark.places(bytes).first().copied();
        place.is_some_and(|(offset, mark)| file.write_all_at(mark, offset).is_ok())
    })
}

struct Sample {
    home: Arc<Home>,
    target: PathBuf,
    other: PathBuf,
}

impl Sample {
    fn new() -> Sample {
        let home = Home::new();
        let [target, other] = ["target.img", "other.img"].map(|name| home.path().join(name));
        File::create(&other).expect("room").set_len(BYTES).expect("sparse");
        Sample { home, target, other }
    }

    fn create_pool(&self, more: &[&str]) -> Ended {
        let fixed = ["pool", "create", text(&self.target), text(&self.other)];
        run(OVERDRIVE, &[&fixed, more].concat())
    }

    fn bench(&self, more: &[&str]) -> Ended {
        let fixed = ["bench", "seqfill", text(&self.target), "--time", "1s"];
        self.home.overdrive(&[&fixed, more].concat())
    }

    fn serve(&self) -> Ended {
        serve_in(&self.home, &self.target, &["-q", "--memory", "4M", "--run", "exit 99"])
    }

    fn attach(&self) -> Ended {
        let name = format!("contents-{}", std::process::id());
        let target = text(&self.target);
        self.home.overdrive(&["attach", target, "--name", &name, "--memory", "4M"])
    }
}

#[test]
fn nothing_that_is_known_becomes_a_member_of_a_pool() {
    let sample = Sample::new();
    let mut count = 0;
    for signature in signatures() {
        for marks in signature.any {
            for bytes in [BYTES, BYTES_LARGE] {
                // The large size is for copies that lie beyond the small one.
                let is_far = |mark: &host::Mark| mark.places(BYTES).is_empty();
                if bytes == BYTES_LARGE && !marks.iter().any(is_far) {
                    continue;
                }
                if !make(&sample.target, marks, bytes) {
                    continue;
                }
                let refused = sample.create_pool(&[]);
                refused.refused(2, &["target.img", "is not blank", signature.words, "--overwrite"]);
                count += 1;
            }
        }
    }
    assert!(count > 150, "{count}");
}

#[test]
fn a_file_system_of_several_hosts_is_refused_by_every_command() {
    let sample = Sample::new();
    let clusters = signatures().iter().filter(|signature| signature.kind == Kind::Cluster);
    for signature in clusters {
        let marks = signature.any[0];
        assert!(make(&sample.target, marks, BYTES), "{signature:?}");
        let words = [signature.words, "several hosts"];
        sample.serve().refused(2, &[&words[..], &["--raw"]].concat());
        if crate::common::is_root() {
            sample.attach().refused(2, &[&words[..], &["--raw"]].concat());
        }
        for more in [&["--destroy"][..], &[]] {
            sample.bench(more).refused(2, &[&words[..], &["wipefs --all"]].concat());
        }
        sample.create_pool(&["--overwrite"]).refused(2, &[&words[..], &["wipefs --all"]].concat());
    }
}

#[test]
fn images_are_refused_by_what_would_write_over_them() {
    let sample = Sample::new();
    for signature in signatures() {
        let Kind::Image(format) = signature.kind else { continue };
        assert!(make(&sample.target, signature.any[0], BYTES), "{signature:?}");
        if format.is_container() {
            sample.bench(&[]).refused(2, &["LUKS container", "--destroy"]);
            continue;
        }
        for refused in [sample.serve(), sample.bench(&["--destroy"])] {
            refused.refused(2, &[&format!("is a {format} image, not a raw disk")]);
        }
    }
}

#[test]
fn contents_that_a_suite_would_destroy_are_named_wherever_their_mark_is() {
    let sample = Sample::new();
    for signature in signatures() {
        if matches!(signature.kind, Kind::Cluster | Kind::Image(_)) {
            continue;
        }
        assert!(make(&sample.target, signature.any[0], BYTES), "{signature:?}");
        sample.bench(&[]).refused(2, &[&format!("with {}", signature.words), "--destroy"]);
    }
}

#[test]
fn a_pool_s_member_is_known_by_its_mark() {
    let place = place();
    let target = image(&place, 64);
    let other = place.path().join("other.img");
    File::create(&other).expect("room").set_len(BYTES).expect("sparse");
    run(OVERDRIVE, &["pool", "create", text(&target), text(&other)]).well();
    let again = run(OVERDRIVE, &["pool", "create", text(&target), text(&other)]);
    again.refused(2, &["disk.img: is not blank", "a member of a pool of Overdrive"]);
    run(OVERDRIVE, &["pool", "create", "--overwrite", text(&target), text(&other)]).well();
}
