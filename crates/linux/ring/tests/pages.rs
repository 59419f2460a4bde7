//! Adopted memory and locked memory, each in a separate process, since page faults and locks are
//! counted per process.

use host::{faults, lock_process};
use ring::{HugePages, SharedMemory, shared_memory, shared_memory_of};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The part that the child runs; unset: this is not the child.
const PART: &str = "OVERDRIVE_TEST_PAGES_PART";
const BYTES: usize = 1 << 30;

fn locked_kibibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Accesses every page, like the engine. Returns the number of page faults.
fn faults_of_touching(shared: &SharedMemory) -> u64 {
    let before = faults();
    for page in (0..shared.memory().bytes()).step_by(4096) {
        shared.memory().write(page, &[1]);
    }
    let after = faults();
    assert_eq!(after.major, before.major);
    after.minor - before.minor
}

#[allow(clippy::disallowed_methods, reason = "the time is what is tested")]
fn adopts() {
    let memory = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let start = Instant::now();
    let shared = SharedMemory::adopt(memory).expect("the parent's memory");
    let took = start.elapsed();
    let mut seen = [0; 6];
    shared.memory().read(BYTES - 6, &mut seen);
    assert_eq!(&seen, b"parent");
    println!("took over {} MiB in {took:?}", BYTES >> 20);
    assert!(took.as_millis() < 1000, "{took:?}");
    shared.warm().expect("a thread").join().expect("it does not panic");
    let count = faults_of_touching(&shared);
    assert!(count < 100, "{count} faults, one a page would be {}", BYTES / 4096);
}

fn locks() {
    let shared = shared_memory("test", 8 << 20, HugePages::Never, &mut |_, _| ()).expect("memory");
    if let Err(error) = shared.lock() {
        println!("skipped: {error}");
        return;
    }
    assert!(locked_kibibytes() >= 8 << 10, "{}", locked_kibibytes());
    match lock_process() {
        Ok(()) => {
            // Code, constants, heap: more than the arena.
            assert!(locked_kibibytes() > 9 << 10, "{}", locked_kibibytes());
            let before = locked_kibibytes();
            let later = block::Memory::heap(4 << 20);
            later.zero(0, 4 << 20);
            assert!(locked_kibibytes() >= before + 4096, "what comes later is locked, too");
        }
        Err(error) => assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}"),
    }
}

/// Unused parts of an arena get no huge pages, which others need.
fn locks_huge() {
    const HUGE: usize = 2 << 20;
    let used = std::iter::once(0..HUGE).collect();
    let had = shared_memory_of("test", 16 * HUGE, used, HugePages::Require, &mut |_, _| ());
    let (Ok(shared), Ok(())) = (had, lock_process()) else {
        println!("skipped: there are no huge pages, or nothing may be locked");
        return;
    };
    let blocks = rustix::fs::fstat(shared.file()).expect("its size").st_blocks;
    assert_eq!(blocks * 512, HUGE as i64, "bytes behind 2 MiB in use");
}

/// Without the capability and with a limit: both errors explain how to raise it.
fn is_refused() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(64 << 10), maximum: Some(64 << 10) };
    setrlimit(Resource::Memlock, limit).expect("a lower limit");
    let shared = shared_memory("test", 8 << 20, HugePages::Never, &mut |_, _| ()).expect("memory");
    for refused in [shared.lock(), lock_process()] {
        match refused {
            Ok(()) => println!("skipped: this user may lock what it likes"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("64 KiB (RLIMIT_MEMLOCK)"), "{text}");
                assert!(text.contains("LimitMEMLOCK=infinity"), "{text}");
            }
        }
    }
}

#[test]
fn child() {
    match std::env::var(PART).as_deref() {
        Ok("adopts") => adopts(),
        Ok("locks") => locks(),
        Ok("locks_huge") => locks_huge(),
        Ok("is_refused") => is_refused(),
        _ => (),
    }
}

fn play(part: &str, stdin: Stdio, through: &[&str]) {
    let program = std::env::current_exe().expect("this program");
    let mut words = through.iter().map(|word| (*word).into()).chain([program.into_os_string()]);
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .args(["--exact", "child", "--nocapture"])
        .env(PART, part)
        .stdin(stdin)
        .output();
    let Ok(output) = output else {
        println!("skipped: {through:?} cannot be run");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_gibibyte_is_taken_over_at_once_and_never_faults() {
    let Ok(shared) = shared_memory("test", BYTES, HugePages::Never, &mut |_, _| ()) else {
        println!("skipped: there is no gibibyte to spare");
        return;
    };
    shared.memory().write(BYTES - 6, b"parent");
    let file = shared.file().try_clone_to_owned().expect("a descriptor");
    play("adopts", Stdio::from(file), &[]);
}

#[test]
fn memory_is_locked_where_that_is_allowed() {
    play("locks", Stdio::null(), &[]);
}

#[test]
fn what_is_not_in_use_takes_no_huge_pages() {
    play("locks_huge", Stdio::null(), &[]);
}

#[test]
fn where_it_is_not_the_reason_is_reported() {
    if rustix::process::geteuid().is_root() {
        // Root may lock any amount, unless that capability is removed.
        let through = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"];
        play("is_refused", Stdio::null(), &through);
    } else {
        play("is_refused", Stdio::null(), &[]);
    }
}
