//! `overdrive bench filebench` and `loadtime` on the files of a directory, as users run them.
//!
//! On ext4 of a loop device if this user may mount one; tests that need no separate file system run
//! anywhere.

use rustix::fs::FallocateFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

fn bench(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("bench").args(arguments).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", home).env("XDG_DATA_HOME", home.join("data"));
    command
}

fn run(home: &Path, arguments: &[&str]) -> (Option<i32>, Value, String) {
    parse_output(&bench(home, arguments).output().expect("the command runs"))
}

/// Returns the status, the JSON object if there is one, and the messages.
fn parse_output(output: &Output) -> (Option<i32>, Value, String) {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let object = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), object, errors)
}

/// Returns the tests and whether each is partial.
fn tests(object: &Value) -> Vec<(String, bool)> {
    let rows = object["rows"].as_array().expect("rows").iter();
    let is_partial = |row: &Value| row["partial"] == true;
    rows.map(|row| (row["test"].as_str().expect("text").to_owned(), is_partial(row))).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("there");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(|entry| name(entry.expect("read"))).collect()
}

/// Waits until this suite has a folder whose name begins with `part`.
#[allow(clippy::disallowed_methods, reason = "another process is waited for")]
fn wait_for(directory: &Path, part: &str, child: &mut Child) {
    for _ in 0..6000 {
        let folders = names(directory).into_iter().filter(|name| name.starts_with("overdrive-"));
        if folders.map(|name| directory.join(name).join(part)).any(|path| path.exists()) {
            return;
        }
        let ended = child.try_wait().expect("it can be asked");
        assert_eq!(ended, None, "the suite has ended before {part}");
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{part} has not come");
}

/// ext4 on a loop device, mounted.
struct Mounted {
    point: PathBuf,
    _directory: TempDir,
}

fn well(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

impl Mounted {
    /// Mounts it. None, with a message: this user cannot mount.
    fn new(mib: u64) -> Option<Mounted> {
        let directory = tempfile::tempdir().expect("a directory");
        let (image, point) = (directory.path().join("image"), directory.path().join("mount"));
        let file = File::create(&image).expect("a file");
        file.set_len(mib << 20).expect("it grows");
        fs::create_dir(&point).expect("made");
        let made = rustix::process::geteuid().is_root()
            && well("mkfs.ext4", &["-q", "-m", "0", text(&image)])
            && well("mount", &["-o", "loop", text(&image), text(&point)]);
        if !made {
            println!("skipped: needs root, mkfs.ext4 and a loop device");
            return None;
        }
        Some(Mounted { point, _directory: directory })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        well("umount", &[text(&self.point)]);
    }
}

#[test]
fn every_set_is_copied_in_both_states_and_nothing_is_left() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(mounted) = Mounted::new(256) else { return };
    let point = text(&mounted.point);
    fs::write(mounted.point.join("mine"), "kept").expect("written");
    let (status, object, errors) = run(
        home.path(),
        &["filebench", point, "--share", "0.2", "--time", "1s", "--span", "64M", "--json"],
    );
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!((&object["complete"], &object["time"]), (&true.into(), &"real".into()));
    let rows = object["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 11, "five sets twice, and the random writes");
    for row in rows.iter().filter(|row| row["unit"] == "MB/s") {
        let said = row["shortened"].as_str().expect("a share");
        assert!(said.contains(" files, "), "{said}");
        assert!(row["cold"] == true, "dropped, and that is known: {row}");
        assert!(row["prepared"].as_str().is_some_and(|it| it.contains("0.0 % stayed")), "{row}");
        assert!(row["value"].as_f64().is_some_and(|value| value > 0.0));
        let is_used = row["test"].as_str().is_some_and(|test| test.ends_with("used"));
        assert_eq!(said.contains("random writes for 1 of 1800 s"), is_used, "{said}");
        assert_eq!(said.contains("random writes over 64 MiB only"), is_used, "{said}");
    }
    assert_eq!(object["facts"]["file_system"], "ext4");
    let mut left = names(&mounted.point);
    left.sort_unstable();
    assert_eq!(left, ["lost+found", "mine"]);
}

#[test]
fn too_little_room_is_refused_before_anything_is_written() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(mounted) = Mounted::new(128) else { return };
    let (status, object, errors) = run(home.path(), &["filebench", text(&mounted.point), "--json"]);
    assert_eq!((status, object), (Some(2), Value::Null));
    assert!(errors.contains("the set Movie and its copy need 7.8 GiB, but only "), "{errors}");
    assert_eq!(names(&mounted.point), ["lost+found"]);
}

#[test]
fn what_was_measured_before_a_signal_is_kept_and_the_folder_goes() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut command = bench(home.path(), &["filebench", text(directory.path())]);
    command.args(["--share", "1", "--json", "--no-history"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    wait_for(directory.path(), "RAW-from", &mut child);
    kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
    let (status, object, errors) = parse_output(&child.wait_with_output().expect("it ends"));
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("interrupted; the measurement is not complete"), "{errors}");
    assert_eq!(object["complete"], false);
    assert_eq!(tests(&object)[0], ("Movie, fresh".to_owned(), false));
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn a_disk_that_runs_full_ends_it_with_a_sentence() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(mounted) = Mounted::new(512) else { return };
    let mut command = bench(home.path(), &["filebench", text(&mounted.point)]);
    command.args(["--share", "3", "--json", "--no-history"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    wait_for(&mounted.point, "RAW-from", &mut child);
    // Another program takes all free space, including space that is freed later.
    let other = File::create(mounted.point.join("other")).expect("an inode is free");
    let mut end = 0;
    for bytes in [64 << 20, 8 << 20, 1 << 20, 4096_u64] {
        while rustix::fs::fallocate(&other, FallocateFlags::empty(), end, bytes).is_ok() {
            end += bytes;
        }
    }
    let (status, object, errors) = parse_output(&child.wait_with_output().expect("it ends"));
    assert_eq!(status, Some(6), "{errors}");
    assert!(errors.contains("no space left"), "{errors}");
    assert!(errors.contains("the measurement is not complete"), "{errors}");
    assert_eq!(tests(&object)[0], ("Movie, fresh".to_owned(), false));
    assert!(!names(&mounted.point).iter().any(|name| name.starts_with("overdrive-")));
}

/// Runs briefly; `attack` receives the folder while random writes are running.
fn attacked(directory: &Path, attack: impl FnOnce(&Path)) -> (Option<i32>, Value, String) {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = bench(home.path(), &["filebench", text(directory), "--only", "TR, used"]);
    command.args(["--share", "1", "--span", "4M", "--time", "2s", "--json", "--no-history"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    wait_for(directory, "random-writes", &mut child);
    let own = names(directory).into_iter().find(|name| name.starts_with("overdrive-"));
    attack(&directory.join(own.expect("it has come")));
    parse_output(&child.wait_with_output().expect("it ends"))
}

#[test]
fn what_is_mounted_in_the_folder_is_left_as_it_is() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let victim = tempfile::tempdir().expect("a directory");
    fs::write(victim.path().join("mine"), "kept").expect("written");
    let (mut inner, mut is_mounted) = (PathBuf::new(), false);
    let (status, object, errors) = attacked(directory.path(), |own| {
        inner = own.join("inner");
        fs::create_dir(&inner).expect("made");
        is_mounted = well("mount", &["--bind", text(victim.path()), text(&inner)]);
    });
    let left = names(inner.parent().expect("a folder"));
    if is_mounted {
        assert!(well("umount", &[text(&inner)]));
    } else {
        println!("skipped in part: a bind mount needs root");
    }
    assert_eq!(names(victim.path()), ["mine"]);
    assert_eq!(left, ["inner"], "what it has made is gone");
    assert_eq!((status, &object["complete"]), (Some(5), &true.into()), "{errors}");
    assert!(
        errors.contains("-0: was left behind: it contains files that this run has not made"),
        "{errors}"
    );
}

#[test]
fn what_is_mounted_over_the_folder_is_left_as_it_is() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let victim = tempfile::tempdir().expect("a directory");
    fs::write(victim.path().join("random-writes"), "kept").expect("written");
    let mut place = None;
    let (status, _, errors) = attacked(directory.path(), |own| {
        let is_mounted = well("mount", &["--bind", text(victim.path()), text(own)]);
        place = is_mounted.then(|| own.to_owned());
    });
    let Some(place) = place else {
        println!("skipped: a bind mount needs root");
        return;
    };
    assert!(well("umount", &[text(&place)]));
    assert_eq!(names(victim.path()), ["random-writes"]);
    assert_eq!(names(&place), [""; 0], "what it has made is gone");
    assert_eq!(status, Some(5), "{errors}");
    assert!(errors.contains("-0: was left behind: a file system is mounted on it"), "{errors}");
}

#[test]
fn what_takes_the_place_of_the_folder_is_left_as_it_is() {
    for is_link in [false, true] {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let inner = Path::new("TR-from/folder-0");
        fs::create_dir_all(path("mine").join(inner)).expect("made");
        fs::write(path("mine").join(inner).join("file-0"), "kept").expect("written");
        let mut place = PathBuf::new();
        let (status, object, errors) = attacked(directory.path(), |own| {
            place = own.to_owned();
            fs::rename(own, path("moved")).expect("moved");
            if is_link {
                std::os::unix::fs::symlink("mine", own).expect("made");
            } else {
                fs::rename(path("mine"), own).expect("moved");
            }
        });
        let mine = fs::read(place.join(inner).join("file-0")).expect("it is there");
        assert_eq!(mine, b"kept");
        assert_eq!(names(&place.join(inner)), ["file-0"]);
        assert_eq!(names(&path("moved")), [""; 0], "what it has made is gone");
        assert_eq!((status, &object["complete"]), (Some(5), &true.into()), "{errors}");
        assert!(errors.contains("another program has replaced it"), "{errors}");
        assert!(errors.contains("/moved"), "{errors}");
    }
}

#[test]
fn the_folder_of_a_killed_run_is_named_and_that_of_a_running_one_is_not() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let here = text(directory.path());
    let again = || run(home.path(), &["filebench", here, "--only", "TR, fresh", "--share", "0.1"]);
    let mut child = bench(home.path(), &["filebench", here, "--share", "20", "--no-history"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    wait_for(directory.path(), "Movie-from", &mut child);
    let (status, _, errors) = again();
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    let left = directory.path().join(format!("overdrive-filebench-{}-0", child.id()));
    fs::create_dir(directory.path().join("overdrive-filebench-mine")).expect("made");
    let (status, _, errors) = again();
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        errors
            .contains(&format!("overdrive: {}: an earlier run has left it behind", left.display())),
        "{errors}"
    );
    assert!(errors.contains("rm -r --one-file-system -- '"), "{errors}");
    assert_eq!(errors.matches("rm -r").count(), 1, "{errors}");
    assert!(left.join("Movie-from").exists());
}

#[test]
fn random_writes_are_reported_as_they_were_done() {
    let home = tempfile::tempdir().expect("a directory");
    let Some(mounted) = Mounted::new(128) else { return };
    let only = ["filebench", text(&mounted.point), "--only", "TR, used", "--share", "0.2"];
    let asked = ["--time", "1ms", "--span", "900G", "--json", "--no-history"];
    let (status, object, errors) = run(home.path(), &[&only[..], &asked].concat());
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(object["test_time_ns"], 1_000_000_000_u64);
    let row = |test: &str| {
        let mut rows = object["rows"].as_array().expect("rows").iter();
        let row = rows.find(|row| row["test"] == test).expect("a row");
        (row["shortened"].as_str().expect("text").to_owned(), row["value"].as_f64().expect("IOPS"))
    };
    let (writes, per_second) = row("random writes before the used state");
    assert_eq!(writes, "random writes for 1 of 1800 s");
    assert!(per_second > 0.0);
    let (copy, _) = row("TR, used");
    let (_, over) = copy.split_once("random writes over ").expect("how much");
    let mib = over.strip_suffix(" MiB only").and_then(|mib| mib.parse::<u64>().ok());
    assert!(mib.is_some_and(|mib| (32..128).contains(&mib)), "{copy}");
}

#[test]
fn a_load_reads_everything_twice_and_changes_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = |name: String| directory.path().join(name);
    fs::create_dir(path("inner".into())).expect("made");
    for number in 0..40_usize {
        let folder = if number % 2 == 0 { "" } else { "inner/" };
        let file = path(format!("{folder}{number}"));
        fs::write(&file, vec![number as u8; 1 + number * 10_000]).expect("written");
        File::open(&file).and_then(|file| file.sync_all()).expect("durable");
    }
    let times = || {
        let files = (0..40).map(|number| {
            let folder = if number % 2 == 0 { "" } else { "inner/" };
            let found = path(format!("{folder}{number}")).metadata().expect("there");
            (found.atime(), found.atime_nsec(), found.mtime(), found.mtime_nsec(), found.ino())
        });
        files.collect::<Vec<_>>()
    };
    let before = times();
    let (status, object, errors) =
        run(home.path(), &["loadtime", text(directory.path()), "--json", "--no-history"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let rows = object["rows"].as_array().expect("rows");
    let row = |test: &str| rows.iter().find(|row| row["test"] == test).expect("a row");
    let bytes: usize = (0..40).map(|number| 1 + number * 10_000).sum();
    for pass in ["first load", "second load"] {
        let seconds = row(pass)["value"].as_f64().expect("a number");
        assert_eq!(row(pass)["requests"], 40, "files");
        // The object has three decimals, so short times are imprecise.
        let rate = row(&format!("{pass}, data"))["value"].as_f64().expect("a number");
        assert!((rate * seconds * 1e6 - bytes as f64).abs() < 0.001 * rate * 1e6, "{rate}");
        assert!(row(&format!("{pass}, data"))["requests"].as_u64() > Some(80), "single reads");
    }
    let said = row("first load")["prepared"].as_str().expect("text");
    assert!(said.starts_with("dropped from the page cache: "), "{said}");
    // Files in memory cannot be cold, and the output says so.
    assert_eq!(said.contains(": 0.0 %"), row("first load")["cold"] == true, "{said}");
    assert_eq!(row("second load")["cold"], false);
    assert_eq!(times(), before);
}

#[test]
fn what_makes_no_sense_on_files_is_refused_with_a_mend() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = tempfile::tempdir().expect("a directory");
    let here = text(directory.path());
    for (arguments, status, says) in [
        (vec!["filebench", here, "--cache", "1G"], 2, "overdrive mount"),
        (vec!["filebench", here, "--size", "1G"], 2, "--share PERCENT"),
        (vec!["filebench", here, "--share", "0"], 2, "above 0, at most 100"),
        (vec!["filebench", here, "--only", "Film, fresh"], 2, "Movie, fresh"),
        (vec!["filebench", here, "--state", "used"], 2, "--state"),
        (vec!["filebench", here, "--depth", "4"], 2, "--depth"),
        (vec!["filebench", here, "--span", "0"], 2, "a file of at least 1M"),
        (vec!["filebench", here, "--span", "1000K"], 2, "a file of at least 1M"),
        (vec!["filebench", here, "--time", "0"], 2, "nothing would be measured"),
        (vec!["filebench", here, "--time", "4294967296s"], 2, "at most 10000000s"),
        (vec!["filebench", here, "--export-fio", "/tmp/none.fio"], 2, "a job of fio"),
        (vec!["filebench", "/no/such/place"], 1, "cannot be examined"),
        (vec!["filebench", "model:samsung-840-evo-250", "--share", "4"], 2, "replayed unchanged"),
        (vec!["loadtime", here, "--time", "4s"], 2, "the whole directory is read"),
        (vec!["loadtime", here], 2, "contains no file to read"),
        (vec!["qd1", "model:samsung-840-evo-250", "--share", "4"], 2, "--span"),
    ] {
        let (found, object, errors) = run(home.path(), &arguments);
        assert!(errors.contains(says), "{arguments:?}: {errors}");
        assert_eq!((found, object), (Some(status), Value::Null), "{arguments:?}");
        assert_eq!(names(directory.path()), [""; 0], "{arguments:?}");
    }
}
