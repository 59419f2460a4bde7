//! Daemons that begin, answer, fall silent, end, and come back.

#[path = "common/fake.rs"]
mod fake;

use daemon::control::words::{Row, State};
use fake::Fake;
use live::{Fleet, Presence, Snapshot, Source, Unserved};
use std::path::Path;
use std::time::Duration;

const PACE: Duration = Duration::from_millis(50);

fn fleet(runtime: &Path, unserved: impl Fn() -> Vec<Unserved> + Send + Sync + 'static) -> Fleet {
    Fleet::start(Source::All(runtime.to_owned(), Box::new(unserved)), PACE)
}

/// Waits until the fleet is in a state.
fn wait(fleet: &Fleet, is_there: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let mut number = 0;
    loop {
        let snapshot = fleet.snapshot();
        if is_there(&snapshot) {
            return snapshot;
        }
        number = fleet.wait(number, Duration::from_millis(100));
    }
}

#[test]
fn volumes_are_followed_until_their_daemon_ends_and_after_that() {
    let home = tempfile::tempdir().expect("a directory");
    let fleet = fleet(home.path(), Vec::new);
    assert!(wait(&fleet, |all| all.number > 0).volumes.is_empty());
    let first = Fake::start(home.path(), &["b", "a"]);
    let points = |all: &Snapshot| all.find("a").map_or(0, |volume| volume.points.len());
    let all = wait(&fleet, |all| points(all) >= 2 && all.find("b").is_some());
    let names: Vec<&str> = all.volumes.iter().map(|volume| volume.row.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let rates = *all.find("a").expect("there").rates().expect("two readings");
    assert_eq!(rates.hit_ratio, Some(0.75));
    drop(first);
    let all = wait(&fleet, |all| all.find("a").is_some_and(|it| it.presence == Presence::Ended));
    let volume = all.find("a").expect("it stays");
    assert!(volume.rates().is_none() && volume.stats.is_some());
    assert!(volume.trouble(all.now).expect("a sentence").contains("ended"));
    assert_eq!(volume.state_word(), "ended");
    let before = volume.points.len();
    // The next daemon continues the same entry, with the former points.
    let _second = Fake::start(home.path(), &["a"]);
    let all = wait(&fleet, |all| {
        all.find("a").is_some_and(|volume| volume.presence == Presence::Answering)
    });
    assert!(all.find("a").expect("there").points.len() >= before);
    assert_eq!(all.volumes.iter().filter(|volume| volume.row.name == "a").count(), 1);
}

#[test]
fn a_silent_daemon_is_named_and_others_go_on() {
    let (home, other) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let silent = Fake::start(home.path(), &["a"]);
    let mut good = Fake::start(other.path(), &["b"]);
    let place = home.path().join("daemons/1.sock");
    std::fs::rename(&good.socket, &place).expect("the same disk");
    good.socket = place;
    let fleet = fleet(home.path(), Vec::new);
    wait(&fleet, |all| all.find("a").is_some() && all.find("b").is_some());
    silent.mute();
    let is_silent = |all: &Snapshot| {
        all.find("a").is_some_and(|volume| matches!(volume.presence, Presence::Silent(_)))
    };
    let all = wait(&fleet, is_silent);
    assert_eq!(all.find("a").expect("there").row.state, State::NoAnswer);
    let before = all.find("b").expect("there").seen;
    wait(&fleet, |all| all.find("b").is_some_and(|volume| volume.seen > before));
}

#[test]
fn volumes_without_a_daemon_are_listed_with_their_reason() {
    let home = tempfile::tempdir().expect("a directory");
    let row: Row = serde_json::from_value(serde_json::json!({
        "name": "old", "backing": "x", "state": "orphaned", "size_bytes": 1, "memory_bytes": 1,
        "write": "", "dirty_bytes": 4096, "clients": 0, "uri": "", "pid": 1,
    }))
    .expect("a row");
    let fleet = fleet(home.path(), move || vec![(row.clone(), "It waits.".to_owned())]);
    let all = wait(&fleet, |all| !all.volumes.is_empty());
    let volume = all.find("old").expect("there");
    assert_eq!(
        (volume.state_word(), volume.trouble(all.now)),
        ("orphaned", Some("It waits.".into()))
    );
    let _daemon = Fake::start(home.path(), &["old"]);
    wait(&fleet, |all| {
        all.volumes.len() == 1
            && all.find("old").is_some_and(|it| it.presence == Presence::Answering)
    });
}
