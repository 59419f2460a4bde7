//! Results are saved whole, found again, and printed as CSV; files of other programs are not
//! changed.

use history::{History, Which};
use serde_json::{Value, json};
use std::path::Path;

fn result(suite: &str, target: &str, values: &[f64]) -> Value {
    let rows = values.iter().enumerate().map(|(number, value)| {
        json!({ "test": format!("part {number}, QD1"), "unit": "MB/s", "value": value, "p99_ns": 12, "valid": true })
    });
    json!({
        "schema": "overdrive.bench/1", "suite": suite, "target": target, "cached": false, "complete": true,
        "state": "fresh", "preparation": "", "rows": rows.collect::<Vec<_>>()
    })
}

fn words() -> Vec<String> {
    ["overdrive", "bench"].map(str::to_owned).to_vec()
}

fn csv(history: &History, which: &Which) -> Vec<String> {
    let mut lines = Vec::new();
    history.csv(which, &mut |line| lines.push(line)).expect("read");
    lines
}

#[test]
fn what_was_kept_is_found_again_whole() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("data/overdrive/history.sqlite3");
    let machine = json!({ "kernel": "Linux 6" });
    let (one, two) = (result("qd1", "/dev/sdb", &[1.5]), result("atto", "disk.img", &[2.0, 3.0]));
    let mut history = History::open(&path).expect("made");
    assert_eq!(history.keep(&words(), &machine, &one).expect("kept"), 1);
    assert_eq!(history.keep(&words(), &machine, &two).expect("kept"), 2);
    drop(history);
    let mut history = History::open(&path).expect("there");
    let all = history.list(&Which::default()).expect("read");
    assert_eq!(all.iter().map(|run| run.id).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((&all[1].result, &all[1].machine, &all[1].command), (&one, &machine, &words()));
    assert_eq!((all[0].at.len(), all[0].at.ends_with('Z')), (20, true), "{}", all[0].at);
    let of = |suite: &str| Which { suite: Some(suite.to_owned()), ..Which::default() };
    assert_eq!(history.list(&of("atto")).expect("read").len(), 1);
    let in_name = Which { target: Some("sd".to_owned()), ..Which::default() };
    assert_eq!(history.list(&in_name).expect("read")[0].id, 1);
    let newest = Which { newest: Some(1), ..Which::default() };
    assert_eq!(history.list(&newest).expect("read")[0].id, 2);
    assert!(history.remove(2).expect("written") && !history.remove(2).expect("written"));
    assert_eq!(history.get(2).expect("read"), None);
    assert_eq!(history.keep(&words(), &machine, &one).expect("kept"), 3, "no number comes twice");
}

#[test]
fn rows_are_reported_as_csv_with_their_run() {
    let home = tempfile::tempdir().expect("a directory");
    let mut history = History::open(&home.path().join("h")).expect("made");
    history.keep(&words(), &json!({}), &result("qd1", "a,b", &[1.5, 2.0])).expect("kept");
    history.keep(&words(), &json!({}), &result("atto", "c", &[3.25])).expect("kept");
    let lines = csv(&history, &Which::default());
    assert!(
        lines[0].starts_with("run,at,suite,target,cached,complete,state,preparation,number,test,")
    );
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(
        lines[1].starts_with("1,")
            && lines[1].contains(",qd1,\"a,b\",0,1,fresh,,0,\"part 0, QD1\",MB/s,1.5,")
    );
    assert!(lines[3].starts_with("2,") && lines[3].contains(",3.25,"), "{}", lines[3]);
    let newest = Which { newest: Some(1), ..Which::default() };
    assert_eq!(csv(&history, &newest).len(), 2);
}

fn refused(path: &Path) -> String {
    History::open(path).err().map_or_else(|| "taken".to_owned(), |error| error.to_string())
}

#[test]
fn files_of_others_are_refused_and_stay_as_they_are() {
    let home = tempfile::tempdir().expect("a directory");
    let text = home.path().join("text");
    std::fs::write(&text, "a letter to a friend, which is long enough to be one").expect("written");
    assert!(refused(&text).contains("move it away"), "{}", refused(&text));
    let other = home.path().join("other");
    let database = rusqlite::Connection::open(&other).expect("made");
    database.execute_batch("CREATE TABLE friends (name TEXT)").expect("made");
    drop(database);
    let before = std::fs::read(&other).expect("there");
    assert!(refused(&other).contains("another program's file"), "{}", refused(&other));
    assert_eq!(std::fs::read(&other).expect("there"), before);
    let later = home.path().join("later");
    drop(History::open(&later).expect("made"));
    let database = rusqlite::Connection::open(&later).expect("there");
    database.pragma_update(None, "user_version", 2).expect("written");
    drop(database);
    assert!(refused(&later).contains("by a later version of Overdrive"), "{}", refused(&later));
    assert!(refused(&home.path().join("text/below")).contains("text/below: "));
}

#[test]
fn a_file_cut_anywhere_never_panics() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("h");
    let mut history = History::open(&path).expect("made");
    for _ in 0..8 {
        history.keep(&words(), &json!({}), &result("qd1", "t", &[1.0; 40])).expect("kept");
    }
    drop(history);
    let whole = std::fs::read(&path).expect("there");
    for step in 0..64 {
        let mut bytes = whole.clone();
        let at = whole.len() * step / 64;
        if step % 2 == 0 {
            bytes.truncate(at)
        } else {
            bytes[at..(at + 64).min(whole.len())].fill(0xff)
        }
        std::fs::write(&path, &bytes).expect("written");
        let _ = std::fs::remove_file(home.path().join("h-journal"));
        if let Ok(history) = History::open(&path) {
            let _ = history.list(&Which::default());
            let _ = history.csv(&Which::default(), &mut |_| ());
        }
    }
}

#[test]
fn several_keep_results_at_one_time() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("h");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut history = History::open(path).expect("opened");
                for _ in 0..10 {
                    let result = result("qd1", &number.to_string(), &[1.0]);
                    history.keep(&words(), &json!({}), &result).expect("kept");
                }
            });
        }
    });
    let history = History::open(&path).expect("there");
    assert_eq!(history.list(&Which::default()).expect("read").len(), 40);
}
