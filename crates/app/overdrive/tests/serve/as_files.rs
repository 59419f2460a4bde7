//! Volumes as files (`--fuse`), read and written by programs that only use files, and under a loop
//! device.

use crate::common::{
    OVERDRIVE, Server, have, image, is_root, no_mounts, no_namespaces, pause, place, run,
    wait_until,
};
use crate::home::Home;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const MIB: usize = 1 << 20;
const IMAGE_MIB: usize = 8;

/// Whether we may mount files and attach loop devices. Prints the reason if not.
fn have_files() -> bool {
    let may = is_root() && Path::new("/dev/fuse").exists();
    if !may {
        // A privilege, not a program: build servers may lack it, too.
        println!("skipped: not root, or no /dev/fuse");
    }
    may
}

/// A server of an image, which is the file `disk` of a directory.
struct Files {
    server: Server,
    directory: PathBuf,
    _place: TempDir,
    image: PathBuf,
}

impl Files {
    fn start(mib: usize, options: &[&str]) -> Files {
        let place = place();
        let image = image(&place, mib as u64);
        let home = Home::new();
        let directory = home.path().join("files");
        let server = serve(&home, &image, &directory, options);
        Files { server, directory, _place: place, image }
    }

    fn path(&self) -> PathBuf {
        self.directory.join("disk")
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.path()).expect("it is there")
    }
}

fn serve(home: &Arc<Home>, image: &Path, directory: &Path, options: &[&str]) -> Server {
    let mut command = Command::new(OVERDRIVE);
    command.arg("serve").arg(image).args(["--name", "disk", "--memory", "64M"]).args(options);
    command.arg("--fuse").arg(directory);
    Server::spawn_in(home, command)
}

/// Numbers that follow from the first.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// Performs one step of a program that reads and writes any bytes, and of a model of the expected
/// bytes.
fn step(file: &File, model: &mut [u8], dice: &mut Dice) {
    let at = dice.below(model.len() - 1);
    let length = 1 + dice.below(200_000.min(model.len() - at));
    let range = at..at + length;
    match dice.below(5) {
        0 | 1 => {
            let value = dice.below(256) as u8;
            model[range].fill(value);
            file.write_all_at(&vec![value; length], at as u64).expect("room");
        }
        2 => {
            let kept = FallocateFlags::KEEP_SIZE;
            let how = [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE][dice.below(2)];
            model[range].fill(0);
            fallocate(file, how | kept, at as u64, length as u64).expect("zeros");
        }
        3 => file.sync_all().expect("a flush"),
        _ => {
            let mut found = vec![0; length];
            file.read_exact_at(&mut found, at as u64).expect("inside");
            assert!(found == model[range.clone()], "{range:?}");
        }
    }
}

#[test]
fn a_file_holds_what_was_written_and_so_does_the_image() {
    if !have_files() {
        return;
    }
    let files = Files::start(IMAGE_MIB, &["--threads", "2"]);
    let (mut model, mut dice) = (vec![0; IMAGE_MIB * MIB], Dice(27));
    let file = files.open();
    (0..400).for_each(|_| step(&file, &mut model, &mut dice));
    drop(file);
    let Files { server, image, directory, _place } = files;
    let _home = server.home.clone();
    server.end().well();
    assert!(fs::read(&image).expect("it is there") == model, "the image differs");
    assert!(fs::read_dir(&directory).expect("it is there").next().is_none(), "it is unmounted");
}

#[test]
fn it_behaves_as_a_disk_of_its_size() {
    if !have_files() {
        return;
    }
    let files = Files::start(IMAGE_MIB, &[]);
    let (file, end) = (files.open(), (IMAGE_MIB * MIB) as u64);
    assert_eq!(fs::metadata(files.path()).expect("it is there").len(), end);
    // The file ends at its size.
    assert_eq!(file.write_at(&[1; 4096], end - 1000).expect("some of it"), 1000);
    let beyond = file.write_at(&[1; 4096], end).expect_err("no room");
    assert_eq!(beyond.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    assert_eq!(file.read_at(&mut [0; 4096], end - 10).expect("some of it"), 10);
    assert_eq!(file.read_at(&mut [0; 10], end).expect("the end"), 0);
    assert_eq!(file.set_len(10).expect_err("fixed").kind(), ErrorKind::PermissionDenied);
    file.set_len(end).expect("that is its size");
    // Names appear and disappear with volumes.
    let other = File::create(files.directory.join("other")).expect_err("no new names");
    assert_eq!(other.kind(), ErrorKind::PermissionDenied);
    assert!(fs::remove_file(files.path()).is_err());
    let names: Vec<_> = fs::read_dir(&files.directory).expect("listed").flatten().collect();
    assert_eq!(names.len(), 1);
    // Data and holes.
    file.write_all_at(&[7; 4096], 1 << 20).expect("room");
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(4096)).expect("there is some"), 1 << 20);
    assert_eq!(
        rustix::fs::seek(&file, SeekFrom::Hole(1 << 20)).expect("behind it"),
        (1 << 20) + 4096
    );
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(end)).expect_err("the end"), Errno::NXIO);
    // The host caches no page of it.
    if have(&["fincore"]) {
        let pages = run("fincore", &["-n", "-o", "PAGES", &files.path().display().to_string()]);
        assert_eq!(pages.well().stdout.trim(), "0");
    }
    drop(file);
    files.server.end().well();
}

#[test]
fn a_file_that_is_only_read_refuses_changes() {
    if !have_files() {
        return;
    }
    let files = Files::start(IMAGE_MIB, &["--read-only"]);
    // Root can open it anyway.
    let refused = files.open().write_at(&[1; 512], 0).expect_err("it is read only");
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    let mut first = [1; 512];
    File::open(files.path()).expect("readable").read_exact(&mut first).expect("zeros");
    assert_eq!(first, [0; 512]);
    files.server.end().well();
}

#[test]
fn a_confined_daemon_mounts_again_after_a_user_has_unmounted() {
    if !have_files() || !have(&["umount"]) {
        return;
    }
    let _alone = no_namespaces();
    let files = Files::start(IMAGE_MIB, &[]);
    let confined = || {
        let stats = files.server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        stats["process"]["confined"].clone()
    };
    assert_eq!(confined(), crate::confined::all_parts());
    run("umount", &[files.directory.to_str().expect("plain")]).well();
    wait_until("it is unmounted", || !files.path().exists());
    files.server.home.overdrive(&["upgrade"]).well();
    assert!(files.path().exists(), "the next program mounts again");
    assert_eq!(confined(), crate::confined::all_parts());
    let directory = files.directory.clone();
    files.server.end().well();
    assert!(!directory.join("disk").exists(), "it is unmounted at the end");
}

#[test]
fn a_directory_that_cannot_be_mounted_on_is_refused() {
    if !have_files() {
        return;
    }
    let place = place();
    let image = image(&place, 8);
    let full = place.path().display().to_string();
    crate::common::serve(&image, &["--fuse", &full]).refused(2, &["is not empty"]);
    let file = image.display().to_string();
    crate::common::serve(&image, &["--fuse", &file]).refused(2, &["is not a directory"]);
    let mount = place.path().join("files").display().to_string();
    let refused = crate::common::serve(&image, &["--fuse", &mount, "--name", "a/b"]);
    refused.refused(2, &["contains a '/'"]);
}

#[test]
fn a_mount_that_waits_is_given_to_no_other_image() {
    if !have_files() {
        return;
    }
    let files = Files::start(IMAGE_MIB, &[]);
    let directory = files.directory.clone();
    let path = files.path();
    let waits_at = path.clone();
    let (home, other) = (files.server.home.clone(), place());
    let other_image = image(&other, IMAGE_MIB as u64);
    let server = files.server;
    let home_of_killed = server.kill();
    let waiting = std::thread::spawn(move || File::open(path)?.read_exact(&mut [0; 512]));
    let options = ["--name", "disk", "--fuse", directory.to_str().expect("text")];
    let refused = crate::common::serve_in(&home, &other_image, &options);
    refused.refused(5, &["waits for the daemon of another backing", "umount -f"]);
    assert!(!waiting.is_finished(), "it still waits for its own");
    // A waiting program can be killed, even after the holder has read its request.
    let mut reader = Command::new("cat");
    let mut reader = reader.arg(&waits_at).stdout(Stdio::null()).spawn().expect("coreutils");
    pause(Duration::from_secs(2));
    reader.kill().expect("it waits");
    wait_until("it has ended", || reader.try_wait().expect("our child").is_some());
    let listed = home.overdrive(&["volume", "list", "--json"]).json("overdrive.volumes/1");
    let row = &listed["volumes"][0];
    assert_eq!((&row["name"], &row["state"]), (&"disk".into(), &"waiting".into()), "{listed}");
    let advice = row["advice"].as_str().expect("text");
    assert!(advice.contains("overdrive serve ") && advice.contains("umount -f "), "{advice}");
    let server = serve(&home_of_killed, &files.image, &directory, &[]);
    waiting.join().expect("no panic").expect("it has only waited");
    server.end().well();
}

/// In a mount namespace in which all users may open /dev/fuse, as on an ordinary machine; then as a
/// user without root's rights: serves an image as a file, writes it, reads it again.
const AS_USER: &str = r#"
set -e
mknod -m 666 "$1/fuse-device" c 10 229
mount --bind "$1/fuse-device" /dev/fuse
cp "$2" "$1/overdrive"
chmod -R a+rwX "$1"
cd "$1"
exec setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_RUNTIME_DIR="$1/run" HOME="$1" \
  ./overdrive serve disk.img --name disk --memory 16M --fuse files --run '
    set -e
    grep -q "files fuse.overdrive .*user_id=65534" /proc/self/mounts
    printf "of a user" | dd of="$file" conv=notrunc,fsync status=none
    head -c 9 "$file"'
"#;

#[test]
fn a_user_who_is_not_root_mounts_by_fusermount3() {
    if !have_files() || !have(&["fusermount3", "setpriv", "unshare"]) {
        return;
    }
    let _alone = no_mounts();
    let place = tempfile::Builder::new().prefix("od").tempdir_in("/tmp").expect("room");
    let disk = image(&place, 8);
    let directory = place.path().display().to_string();
    let ended = run("unshare", &["-m", "sh", "-c", AS_USER, "sh", &directory, OVERDRIVE]).well();
    assert_eq!(ended.stdout, "of a user", "{}", ended.stderr);
    assert_eq!(&fs::read(disk).expect("it is there")[..9], b"of a user");
}

/// A loop device over the file, until it is dropped.
struct Loop(String);

impl Loop {
    fn attach(file: &Path) -> Loop {
        let file = file.display().to_string();
        Loop(
            run("losetup", &["--direct-io=on", "--show", "-f", &file])
                .well()
                .stdout
                .trim()
                .to_owned(),
        )
    }

    fn says(&self, what: &str) -> String {
        let name = self.0.trim_start_matches("/dev/");
        fs::read_to_string(format!("/sys/block/{name}/{what}"))
            .expect("it is there")
            .trim()
            .to_owned()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// A mounted file system, until it is dropped.
struct Mounted(String);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

/// Uses a file system on a loop device over the file, kills its daemon in between, and checks the
/// file system.
fn survives(make: &[&str], check: &[&str]) {
    let tools = ["losetup", "fio", "fstrim", "mount", "umount", make[0], check[0]];
    if !have_files() || !have(&tools) {
        return;
    }
    let _guard = no_namespaces();
    let files = Files::start(512, &[]);
    let (place, path) = (files.directory.with_file_name("mounted"), files.path());
    fs::create_dir(&place).expect("room");
    let (place, device) = (place.display().to_string(), Loop::attach(&path));
    assert_eq!(
        (device.says("queue/write_cache"), device.says("loop/dio")),
        ("write back".into(), "1".into())
    );
    run(make[0], &[&make[1..], &[&device.0]].concat()).well();
    run("mount", &[&device.0, &place]).well();
    let mounted = Mounted(place.clone());
    let load = format!(
        "--name=t --directory={place} --size=64M --rw=randwrite --bs=4k --iodepth=16 --ioengine=libaio \
         --direct=1 --fsync=64 --time_based --runtime=5 --verify=crc32c --verify_backlog=500 --output-format=terse"
    );
    let fio = std::thread::spawn(move || run("fio", &load.split(' ').collect::<Vec<_>>()));
    crate::common::pause(std::time::Duration::from_secs(2));
    let Files { server, image, directory: _, _place } = files;
    let server = server.reborn();
    fio.join().expect("it ran").well();
    run("fstrim", &[&place]).well();
    run("umount", &[&place]).well();
    drop(mounted);
    run(check[0], &[&check[1..], &[&device.0]].concat()).well();
    drop(device);
    server.end().well();
    // The image alone is consistent, too.
    run(check[0], &[&check[1..], &[&image.display().to_string()]].concat()).well();
}

#[test]
fn ext4_on_it_survives_a_killed_daemon() {
    survives(&["mkfs.ext4", "-q"], &["fsck.ext4", "-fn"]);
}

#[test]
fn xfs_on_it_survives_a_killed_daemon() {
    survives(&["mkfs.xfs", "-q"], &["xfs_repair", "-n"]);
}
