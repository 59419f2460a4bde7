//! A holder is owned, orphaned, taken over, and ends.

use crate::common::{TestDirectory, eventually, is_alive, kill, within};
use holder::{Busy, Keeper, Record, Records};
use rustix::process::Signal;
use std::fs;
use std::io;
use std::time::Duration;

#[test]
fn a_killed_daemon_loses_nothing_and_the_next_one_goes_on() {
    let place = TestDirectory::new();
    let mut first = place.daemon("start");
    first.says(&["started", "ready"]).order("dirty 3").says(&["done"]);
    let status = place.status().expect("a holder");
    assert_eq!((status.owner_pid, status.dirty_blocks), (Some(first.pid()), 3));
    assert!(status.held_bytes >= 1 << 20, "{status:?}");
    first.kill();
    assert!(place.is_locked(), "no other process may use the image");
    assert!(eventually(|| place.status().expect("it stays").owner_pid.is_none()));

    let mut second = place.daemon("find");
    second.says(&["found 3 precious vol", "ready"]);
    let taken = place.status().expect("the same holder");
    assert_eq!(taken.owner_pid, Some(second.pid()));
    assert_eq!(taken.holder_pid, status.holder_pid);
    second.order("dirty 0").says(&["done"]).order("release").says(&["released"]);
    assert!(place.status().is_none());
    drop(second);
    assert!(!place.is_locked(), "released by all");
    assert!(eventually(|| !is_alive(status.holder_pid)));
}

#[test]
fn killed_again_and_again_it_is_always_found_at_once() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("dirty 1").says(&["done"]);
    for _ in 0..20 {
        daemon.kill();
        // No pause: the holder may not have noticed yet.
        daemon = place.daemon("find");
        daemon.says(&["found 1 precious vol", "ready"]);
    }
    daemon.order("release").says(&["released"]);
}

#[test]
fn of_many_who_want_it_one_gets_it() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("dirty 1").says(&["done"]);
    daemon.kill();
    let mut all: Vec<_> = (0..6).map(|_| place.daemon("find")).collect();
    let lines: Vec<String> = all.iter_mut().map(|one| one.line()).collect();
    let winner = lines.iter().position(|line| line.starts_with("found")).expect("one of them");
    let busy = format!("busy {}", all[winner].pid());
    for (index, line) in lines.iter().enumerate() {
        assert!(index == winner || *line == busy, "{lines:?}");
    }
    all[winner].says(&["ready"]).order("release").says(&["released"]);
}

#[test]
fn descriptors_of_a_backing_are_exchanged_and_outlive_a_daemon_with_nothing_dirty() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("exchange 3").says(&["done"]);
    // Without dirty data the holder stays for only 50 ms by itself.
    let approach = Keeper::approach(&place.runtime(), &place.key()).expect("it answers");
    daemon.kill();
    let mut next = place.daemon("find");
    next.says(&["found 0 precious vol", "ready"]).order("count").says(&["3", "done"]);
    drop(approach.expect("there is a holder"));
    next.order("exchange 1").says(&["done"]).order("release").says(&["released"]);
    assert!(place.status().is_none());
}

#[test]
fn with_nothing_dirty_the_holder_goes_with_its_daemon() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]);
    let holder = place.status().expect("a holder").holder_pid;
    daemon.kill();
    assert!(eventually(|| !is_alive(holder)));
    assert!(!place.is_locked());
    assert!(fs::read_dir(place.runtime().join("holders")).expect("it").next().is_none());
    place.daemon("find").says(&["none"]);
}

/// The last of many volumes that a daemon opens in turn is taken over late.
#[test]
fn clean_blocks_stay_while_a_daemon_that_starts_approaches() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("clean 5").says(&["done"]);
    let holder = place.status().expect("a holder").holder_pid;
    let approach = Keeper::approach(&place.runtime(), &place.key()).expect("it answers");
    daemon.kill();
    assert!(eventually(|| place.status().expect("it stays").has_only_clean));
    // Ten times as long as it stays by itself.
    let has_gone = || !is_alive(holder);
    assert!(!within(Duration::from_millis(500), has_gone));
    drop(approach.expect("there is a holder"));
    assert!(eventually(has_gone));
}

/// The next process finds in the record whether data was lost with the memory.
#[test]
fn a_holder_clears_the_record_when_it_ends_with_nothing_dirty_and_not_when_it_is_killed() {
    let place = TestDirectory::new();
    let records = Records::of(&place.runtime());
    for is_killed in [false, true] {
        let mut daemon = place.daemon("start");
        daemon.says(&["started", "ready"]);
        let looked = Keeper::look(&place.runtime(), &place.key()).expect("it answers");
        let memory = holder::memory_identity(looked.expect("it is there").arena).expect("open");
        let record = Record { memory: Some(memory), bytes: 7, ..Record::default() };
        records.write(&place.key(), &record).expect("room");
        let holder = place.status().expect("a holder").holder_pid;
        if is_killed {
            kill(holder, Signal::KILL);
        }
        daemon.kill();
        assert!(eventually(|| !is_alive(holder)));
        let found = records.read(&place.key()).expect("it stays");
        assert_eq!((found.memory.is_some(), found.bytes), (is_killed, 7));
    }
}

#[test]
fn a_failure_outlives_the_daemon_also_with_nothing_dirty() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("failed").says(&["done"]).order("dirty 0");
    daemon.says(&["done"]);
    daemon.kill();
    assert!(eventually(|| place.status().expect("it stays").owner_pid.is_none()));
    assert!(place.status().expect("it stays").failed);
    assert!(Keeper::discard(&place.runtime(), &place.key(), None).expect("it has no owner"));
    assert!(!place.is_locked());
    assert!(!Keeper::discard(&place.runtime(), &place.key(), None).expect("no holder is there"));
}

#[test]
fn while_it_is_owned_it_is_busy() {
    let place = TestDirectory::new();
    let mut owner = place.daemon("start");
    owner.says(&["started", "ready"]).order("dirty 1").says(&["done"]);
    place.daemon("find").says(&[&format!("busy {}", owner.pid())]);
    let refused = Keeper::discard(&place.runtime(), &place.key(), None).expect_err("owned");
    assert_eq!(Busy::of(&refused), Some(Busy { pid: owner.pid() }));
    // A second daemon for the same image cannot have a holder.
    let mut second = place.daemon("start");
    second.says(&["started"]);
    assert!(second.line().starts_with("error "), "locked");
    let looked = Keeper::look(&place.runtime(), &place.key()).expect("it answers").expect("it is");
    assert_eq!(looked.retained.volume, "vol");
    let mut text = [0; 8];
    rustix::io::pread(&looked.arena, &mut text, 4096).expect("memory");
    assert_eq!(&text, b"precious");
    assert_eq!(place.status().expect("still").owner_pid, Some(owner.pid()), "a look owns nothing");
    owner.order("release").says(&["released"]);
}

#[test]
fn a_new_program_in_the_same_process_takes_over() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("dirty 7").says(&["done"]);
    let pid = daemon.pid();
    daemon.order("exec").says(&["found 7 precious vol", "ready"]);
    assert_eq!(place.status().expect("a holder").owner_pid, Some(pid));
    daemon.order("release").says(&["released"]);
}

#[test]
fn a_killed_holder_shows_at_the_owner_who_starts_another() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("dirty 2").says(&["done"]);
    let holder = place.status().expect("a holder").holder_pid;
    daemon.order("watch");
    kill(holder, Signal::KILL);
    daemon.says(&["done"]);
    assert!(eventually(|| !is_alive(holder)), "it leaves no zombie");
    // Its socket is stale now, and is replaced.
    daemon.order("keep").says(&["done"]);
    let other = place.status().expect("another holder");
    assert_ne!(other.holder_pid, holder);
    daemon.kill();
    let mut next = place.daemon("find");
    next.says(&["found 2 precious vol", "ready"]).order("release").says(&["released"]);
}

#[test]
fn the_socket_of_a_killed_holder_is_swept_and_that_of_a_stopped_one_is_not() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("dirty 2").says(&["done"]);
    let holder = place.status().expect("a holder").holder_pid;
    daemon.kill();
    let sockets = || fs::read_dir(place.runtime().join("holders")).expect("it").count();
    kill(holder, Signal::STOP);
    let roll = Keeper::roll(&place.runtime()).expect("a roll");
    assert!(roll.answered.is_empty());
    assert_eq!((roll.silent[0].pid, &roll.silent[0].key), (Some(holder), &place.key()));
    assert_eq!(sockets(), 1);
    kill(holder, Signal::KILL);
    assert!(eventually(|| !is_alive(holder)));
    assert!(place.status().is_none());
    assert_eq!(sockets(), 0);
}

#[test]
fn a_deleted_image_needs_no_holder() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("dirty 2").says(&["done"]);
    let holder = place.status().expect("a holder").holder_pid;
    fs::remove_file(&place.image).expect("it is there");
    assert!(place.status().is_some(), "it is served all the same");
    daemon.kill();
    assert!(eventually(|| !is_alive(holder)));
    assert!(place.status().is_none());
}

#[test]
fn an_orphan_is_found_again_after_its_directory_has_gone() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("dirty 2").says(&["done"]);
    fs::remove_dir_all(place.runtime().join("holders")).expect("it is there");
    daemon.kill();
    assert!(eventually(|| place.status().is_some_and(|status| status.owner_pid.is_none())));
    let found = place.status().expect("a holder");
    assert_eq!(found.dirty_blocks, 2);
}

/// Whether this process has CAP_SYS_RESOURCE (bit 24), which is required to lower a score.
fn may_choose_score() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("it");
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("a line");
    u64::from_str_radix(set.trim(), 16).expect("a set") >> 24 & 1 == 1
}

#[test]
fn signals_end_it_only_where_nothing_is_lost() {
    let place = TestDirectory::new();
    let mut daemon = place.daemon("start");
    daemon.says(&["started", "ready"]).order("failed").says(&["done"]);
    let holder = place.status().expect("a holder").holder_pid;
    let name = fs::read_to_string(format!("/proc/{holder}/comm")).expect("it lives");
    assert_eq!(name.trim(), "od-holder");
    let score = fs::read_to_string(format!("/proc/{holder}/oom_score_adj")).expect("it lives");
    let score: i32 = score.trim().parse().expect("a number");
    assert!(score == -1000 || !may_choose_score() && score <= 0, "{score}");
    let memory = fs::read_to_string(format!("/proc/{holder}/statm")).expect("it lives");
    let resident: u64 = memory.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
    assert!(resident * 4096 < 16 << 20, "{resident} pages are not tiny");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill(holder, signal);
    }
    assert!(place.status().is_some(), "it is owned");
    daemon.order("dirty 1").says(&["done"]);
    daemon.kill();
    assert!(eventually(|| place.status().expect("it stays").owner_pid.is_none()));
    kill(holder, Signal::TERM);
    let status = place.status().expect("something is dirty");
    assert_eq!(status.dirty_blocks, 1);
    let arena = Keeper::look(&place.runtime(), &place.key()).expect("it answers").expect("it is");
    rustix::io::pwrite(&arena.arena, &0u64.to_ne_bytes(), 0).expect("memory");
    kill(holder, Signal::INT);
    assert!(place.status().is_some(), "that was not a request to end");
    kill(holder, Signal::TERM);
    assert!(eventually(|| !is_alive(holder)));
}

#[test]
fn called_by_hand_it_says_that_there_is_no_use() -> io::Result<()> {
    let ended = std::process::Command::new(crate::common::TRIAL).arg("hold").output()?;
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("started by `overdrive serve`"));
    Ok(())
}

#[test]
fn a_program_that_is_no_holder_is_an_error() -> io::Result<()> {
    let place = TestDirectory::new();
    let image = fs::File::open(&place.image)?;
    let retained = holder::RetainedVolume {
        volume: "v".into(),
        backing: "b".into(),
        key: place.key(),
        is_recorded: true,
    };
    let fd = std::os::fd::AsFd::as_fd(&image);
    for program in ["/bin/true", "/bin/false", "/nowhere"] {
        let refused = Keeper::start(&place.runtime(), &retained, fd, &[fd], program.as_ref());
        let message = refused.expect_err("no holder").to_string();
        assert!(message.starts_with(program), "{message}");
    }
    Ok(())
}
