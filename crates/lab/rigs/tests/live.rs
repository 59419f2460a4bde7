//! Rigs in real time on files: what they create, remove, refuse and detect.

use block::Size;
use load::{Content, Limit, Load, Order};
use rigs::{Live, Wishes};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use stack::{Exit, Failure};
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use suites::{Halt, Plan, Target, TestRig, find};

const BYTES: u64 = 64 << 20;

fn wishes() -> Wishes {
    Wishes {
        size: None,
        destroy: true,
        read_only: false,
        verify: true,
        content: Content::random(3),
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn refused(path: &str, wishes: &Wishes) -> Failure {
    match Live::open(path, wishes) {
        Ok(_) => panic!("{path} is opened"),
        Err(failure) => failure,
    }
}

fn plan(path: &Path) -> Plan {
    let suite = find("qd1").expect("a suite");
    let usual = Plan::new(suite.profile(), Target::of_rig(text(path), BYTES, 3));
    Plan { time_ns: 200_000_000, ..usual }
}

fn load(reads_percent: u32) -> Load {
    let load = Load::new(Order::Random, 4096, BYTES).depth(4);
    Load { reads_percent, limit: Limit::time(200_000_000), flush: true, ..load }
}

#[test]
fn a_file_is_made_for_the_test_and_removed_with_it() {
    let directory = tempfile::tempdir().expect("room");
    let path = directory.path().join("test.img");
    let made = Wishes { size: Some(Size(BYTES)), destroy: false, ..wishes() };
    let rig = Live::open(text(&path), &made).expect("there is room");
    assert_eq!(rig.bytes(), BYTES);
    let (plan, mut watch) = (plan(&path), ());
    let mut rig = TestRig::with_rig(Box::new(rig), &plan, &mut watch).expect("bare");
    let record = rig.load("reads", load(50)).expect("it runs");
    assert!(record.reads.count() > 0 && record.writes.count() > 0);
    assert!(rig.ceiling(record.per_second()).is_some_and(|ceiling| ceiling > 0.0));
    assert!(rig.remarks()[0].contains("written first"), "{:?}", rig.remarks());
    assert_eq!(fs::metadata(&path).expect("made").len(), BYTES);
    drop(rig);
    assert!(!path.exists());
}

#[test]
fn a_load_that_shares_its_processor_reports_how_long_it_was_kept_waiting() {
    if !Path::new("/proc/thread-self/schedstat").exists() {
        println!("skipped: this kernel does not count waits for a processor");
        return;
    }
    let mut processor = CpuSet::new();
    processor.set(sched_getcpu());
    // Threads started from here on have only this processor.
    sched_setaffinity(None, &processor).expect("its own processor");
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    let other = std::thread::spawn(move || {
        while !seen.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    let rig = Live::open("ram:64M", &wishes()).expect("memory");
    let (plan, mut watch) = (plan(Path::new("ram:64M")), ());
    let mut rig = TestRig::with_rig(Box::new(rig), &plan, &mut watch).expect("bare");
    rig.load("reads", load(100)).expect("it runs");
    let kept_waiting = rig.kept_waiting();
    ended.store(true, Ordering::Relaxed);
    other.join().expect("it ends");
    assert!((0.1..1.0).contains(&kept_waiting), "{kept_waiting}");
}

#[test]
fn what_is_there_is_not_lost_unasked() {
    let directory = tempfile::tempdir().expect("room");
    let path = directory.path().join("disk.img");
    let mut bytes = vec![0; 1 << 20];
    bytes[1080..1082].copy_from_slice(&[0x53, 0xef]);
    fs::write(&path, &bytes).expect("room");
    let careful = Wishes { destroy: false, ..wishes() };
    let failure = refused(text(&path), &careful);
    assert_eq!(failure.exit, Exit::Usage);
    for says in ["an image of 1 MiB", "ext4", "--destroy"] {
        assert!(failure.message.contains(says), "{failure}");
    }
    let again = Wishes { size: Some(Size(BYTES)), ..careful.clone() };
    assert!(refused(text(&path), &again).message.contains("exists already"));
    fs::write(directory.path().join("a.qcow2"), [b"QFI\xfb\0\0\0\x03", &[0; 4088][..]].concat())
        .expect("room");
    let image = directory.path().join("a.qcow2");
    assert!(refused(text(&image), &wishes()).message.contains("qcow2"));
    let missing = directory.path().join("missing");
    assert_eq!(refused(text(&missing), &wishes()).exit, Exit::Negative);
    assert_eq!(fs::read(&path).expect("untouched"), bytes);
    let full = Wishes { size: Some(Size(1 << 60)), ..careful };
    assert!(refused(text(&missing), &full).message.contains("cannot be created"));
    assert!(!missing.exists(), "nothing is left of a file that could not be made");
}

#[test]
fn data_that_is_not_what_was_written_ends_the_suite() {
    let directory = tempfile::tempdir().expect("room");
    let path = directory.path().join("disk.img");
    fs::File::create(&path).and_then(|file| file.set_len(BYTES)).expect("room");
    let rig = Live::open(text(&path), &wishes()).expect("it opens");
    let (plan, mut watch) = (plan(&path), ());
    let mut rig = TestRig::with_rig(Box::new(rig), &plan, &mut watch).expect("bare");
    assert!(rig.load("sound", load(50)).is_ok() && rig.halt().is_none());
    let file = fs::OpenOptions::new().write(true).open(&path).expect("it is there");
    let zeros = vec![0; 1 << 20];
    for at in 0..BYTES >> 20 {
        file.write_all_at(&zeros, at << 20).expect("room");
    }
    let record = rig.load("reads", load(100)).expect("what was done is told");
    assert!(record.requests() > 0);
    let Some(Halt::Wrong(mismatch)) = rig.halt() else { panic!("{:?}", rig.halt()) };
    assert!(mismatch.to_string().contains("never written there"), "{mismatch}");
    assert!(rig.load("more", load(100)).is_err());
}

#[test]
fn a_file_that_shrinks_leaves_what_was_measured() {
    let directory = tempfile::tempdir().expect("room");
    let path = directory.path().join("disk.img");
    fs::File::create(&path).and_then(|file| file.set_len(BYTES)).expect("room");
    let rig = Live::open(text(&path), &wishes()).expect("it opens");
    let (plan, mut watch) = (plan(&path), ());
    let mut rig = TestRig::with_rig(Box::new(rig), &plan, &mut watch).expect("bare");
    rig.load("sound", load(0)).expect("it runs");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("it is there");
    file.set_len(BYTES / 2).expect("it can be cut");
    rig.load("cut", load(0)).expect("what was done is told");
    let Some(halt @ Halt::Failed(_)) = rig.halt() else { panic!("{:?}", rig.halt()) };
    assert!(halt.to_string().contains("has shrunk"), "{halt}");
    assert_eq!(fs::metadata(&path).expect("there").len(), BYTES / 2, "it has not grown again");
}

#[test]
fn requests_with_a_time_of_their_own_start_on_time() {
    let target = Target::of_rig("null:1G", 1 << 30, 1);
    let plain = Wishes { verify: false, ..wishes() };
    let rig = Live::open("null:1G", &plain).expect("always there");
    let plan = Plan::new(find("qd1").expect("a suite").profile(), target);
    let mut watch = ();
    let mut rig = TestRig::with_rig(Box::new(rig), &plan, &mut watch).expect("bare");
    let arrival = load::Arrival::Open { interval_ns: 1_000_000, depth_max: 8 };
    let median = |record: &load::Record| match record.lateness.count() {
        0 => 0,
        _ => record.lateness.quantile_ns(0.5),
    };
    // Half of the starts, in the best of many runs, since the machine may be busy: without the busy
    // wait the median is 50 us or more in each.
    let mut medians = Vec::new();
    while medians.len() < 100 && medians.last().is_none_or(|median| *median >= 40_000) {
        let record = rig.load("open", Load { arrival, ..load(0) }).expect("it runs");
        assert!((190..=201).contains(&record.requests()), "{}", record.requests());
        medians.push(median(&record));
    }
    assert!(medians.last().is_some_and(|median| *median < 40_000), "{medians:?} ns");
}

#[test]
fn a_device_that_another_program_has_open_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a loop device needs root");
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room");
    let path = directory.path().join("disk.img");
    fs::write(&path, vec![7; BYTES as usize]).expect("room");
    let output = Command::new("losetup").args(["--find", "--show", text(&path)]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        println!("skipped: no loop device");
        return;
    };
    let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let mut holder = Command::new("sh")
        .args(["-c", "exec 3<\"$0\"; echo; read -r line", &device])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut ready = [0];
    holder.stdout.take().expect("a pipe").read_exact(&mut ready).expect("it has it open");
    let held = Live::open(&device, &wishes()).err().map(|failure| (failure.exit, failure.message));
    drop(holder.stdin.take());
    holder.wait().expect("it ends");
    let free = Live::open(&device, &wishes()).map(drop).err().map(|failure| failure.message);
    Command::new("losetup").args(["--detach", &device]).status().expect("it was there before");
    let (exit, message) = held.expect("it is refused");
    assert_eq!(exit, Exit::Busy, "{message}");
    assert!(message.contains("is open in"), "{message}");
    assert_eq!(free, None);
    assert!(fs::read(&path).expect("there").iter().all(|byte| *byte == 7), "nothing is written");
}
