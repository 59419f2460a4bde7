//! Samples are recorded by several programs, thinned, limited in size, and begun again if the file
//! is damaged; files of later programs stay as they are.

use history::{
    DriveFigures, DriveIdentity, DriveSample, Figures, MINUTES_KEPT_S, Range, Recorder,
    SECONDS_KEPT_S, Samples, Span, VolumeSample,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A Monday at noon.
const NOW_S: i64 = 1_795_000_000 - 1_795_000_000 % 3600;

fn second(volume: &str, at_s: i64, reads: u64) -> VolumeSample {
    let figures =
        Figures { reads, read_hits: reads / 2, dirty_bytes: at_s as u64 % 7, ..Figures::default() };
    VolumeSample { volume: volume.to_owned(), at_s, figures }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("state/overdrive/samples.sqlite3");
    (home, path)
}

#[test]
fn seconds_become_minutes_and_both_are_limited_in_time() {
    let (_home, path) = place();
    let mut samples = Samples::open(&path).expect("made");
    let start_s = NOW_S - 2 * SECONDS_KEPT_S;
    for batch in 0..720 {
        let at_s = start_s + batch * 10;
        let batch: Vec<_> = (0..10).map(|add| second("db", at_s + add, 3)).collect();
        samples.record_volumes(&batch).expect("written");
    }
    samples.thin(NOW_S).expect("written");
    let seconds = samples.volume("db", Span::Second, Range::ALL).expect("read");
    assert_eq!((seconds.len(), seconds[0].at_s), (3600, NOW_S - 3600));
    let minutes = samples.volume("db", Span::Minute, Range::ALL).expect("read");
    assert_eq!(minutes.len(), 120);
    assert!(minutes.iter().all(|minute| minute.figures.reads == 180), "{minutes:?}");
    assert!(minutes.iter().all(|minute| minute.figures.dirty_bytes == 6), "the maximum");
    let part = Range { from_s: NOW_S - 600, to_s: NOW_S };
    assert_eq!(samples.volume("db", Span::Minute, part).expect("read").len(), 10);
    samples.thin(NOW_S + MINUTES_KEPT_S).expect("written");
    assert_eq!(samples.volume_names().expect("read"), [""; 0], "all are too old");
}

#[test]
fn an_idle_second_is_only_part_of_its_minute() {
    let (_home, path) = place();
    let mut samples = Samples::open(&path).expect("made");
    let idle = VolumeSample { volume: "db".into(), at_s: NOW_S, figures: Figures::default() };
    samples.record_volumes(&[idle]).expect("written");
    assert!(samples.volume("db", Span::Second, Range::ALL).expect("read").is_empty());
    assert_eq!(samples.volume("db", Span::Minute, Range::ALL).expect("read").len(), 1);
}

#[test]
fn counts_beyond_the_maximum_stay_at_it() {
    let (_home, path) = place();
    let mut samples = Samples::open(&path).expect("made");
    for _ in 0..3 {
        samples.record_volumes(&[second("db", NOW_S, u64::MAX)]).expect("written");
    }
    let found = samples.volume("db", Span::Minute, Range::ALL).expect("read");
    assert_eq!(found[0].figures.reads, i64::MAX as u64);
}

#[test]
fn only_the_user_may_read_the_files() {
    let (_home, path) = place();
    let mut samples = Samples::open(&path).expect("made");
    samples.record_volumes(&[second("db", NOW_S, 1)]).expect("written");
    let entries = std::fs::read_dir(path.parent().expect("a directory")).expect("there");
    let modes: Vec<u32> = entries
        .map(|entry| entry.expect("there").metadata().expect("there").permissions().mode() & 0o777)
        .collect();
    assert!(modes.len() >= 2 && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
}

#[test]
fn several_daemons_write_at_one_time() {
    let (_home, path) = place();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut samples = Samples::open(path).expect("opened");
                for at in 0..50 {
                    let own = second(&format!("volume-{number}"), NOW_S + at, 1);
                    let shared = second("shared", NOW_S + at, 1);
                    samples.record_volumes(&[own, shared]).expect("written");
                }
            });
        }
    });
    let samples = Samples::open(&path).expect("opened");
    assert_eq!(samples.volume_names().expect("read").len(), 5);
    let shared = samples.volume("shared", Span::Second, Range::ALL).expect("read");
    assert_eq!(shared.len(), 50);
    assert!(shared.iter().all(|second| second.figures.reads == 4), "{shared:?}");
}

fn drive(serial: &str) -> DriveIdentity {
    DriveIdentity { model: "M".into(), serial: serial.into(), device: "/dev/sda".into() }
}

fn worn(at_s: i64, percent: i64) -> DriveSample {
    let figures = DriveFigures { worn_percent: Some(percent), ..DriveFigures::default() };
    DriveSample { at_s, figures }
}

#[test]
fn samples_of_drives_are_hourly_and_then_daily() {
    let (_home, path) = place();
    let mut samples = Samples::open(&path).expect("made");
    let first_s = NOW_S - 30 * 86_400;
    for half_hour in 0..(30 * 48) {
        let at_s = first_s + half_hour * 1800;
        samples.record_drive(&drive("S1"), &worn(at_s, half_hour / 48)).expect("written");
    }
    samples.record_drive(&drive("S2"), &worn(NOW_S, 1)).expect("written");
    samples.thin(NOW_S).expect("written");
    let found = samples.drive(&drive("S1"), Range::ALL).expect("read");
    assert!((14 * 24 + 16..14 * 24 + 18).contains(&found.len()), "{}", found.len());
    assert_eq!(found.last().and_then(|last| last.figures.worn_percent), Some(29));
    assert_eq!(samples.drives().expect("read").len(), 2);
    let elsewhere = DriveIdentity { device: "/dev/sdb".into(), ..drive("S1") };
    samples.record_drive(&elsewhere, &worn(NOW_S, 30)).expect("written");
    let names: Vec<_> = samples.drives().expect("read").into_iter().map(|it| it.device).collect();
    assert_eq!(names, ["/dev/sda", "/dev/sdb"], "the drive has moved, not multiplied");
}

fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).expect("there");
    let end = bytes.len();
    bytes[4096.min(end / 2)..].fill(0x5a);
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn a_damaged_file_is_set_aside_and_begun_again() {
    for is_total in [false, true] {
        let (_home, path) = place();
        let mut samples = Samples::open(&path).expect("made");
        samples.record_volumes(&[second("db", NOW_S, 1)]).expect("written");
        drop(samples);
        match is_total {
            true => std::fs::write(&path, "a letter, long enough to be one, and no database")
                .expect("written"),
            false => damage(&path),
        }
        let (mut samples, note) = Samples::open_or_renew(&path).expect("a new one");
        let note = note.expect("a sentence");
        assert!(note.contains("was damaged") && note.contains(".damaged-1"), "{note}");
        samples.record_volumes(&[second("db", NOW_S, 1)]).expect("written");
        assert!(path.with_file_name("samples.sqlite3.damaged-1").exists());
        drop(samples);
        assert!(Samples::open_or_renew(&path).expect("good").1.is_none());
    }
}

#[test]
fn a_file_of_a_later_program_is_refused_and_stays() {
    let (_home, path) = place();
    drop(Samples::open(&path).expect("made"));
    let database = rusqlite::Connection::open(&path).expect("there");
    database.pragma_update(None, "user_version", 2).expect("written");
    drop(database);
    let error = Samples::open_or_renew(&path).err().expect("refused").to_string();
    assert!(
        error.contains("by a later version of Overdrive (layout 2; this one reads up to 1)"),
        "{error}"
    );
    assert!(path.exists() && !path.with_file_name("samples.sqlite3.damaged-1").exists());
}

/// Returns a recorder, and the sentences that it reports.
fn recorder(path: &Path) -> (Recorder, Arc<Mutex<Vec<String>>>) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let report = reports.clone();
    let recorder = Recorder::start(path.to_owned(), move |words| {
        report.lock().expect("no panic").push(words.to_owned());
    });
    (recorder.expect("a thread"), reports)
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_recorder_records_batches_and_the_rest_at_its_end() {
    let (_home, path) = place();
    let (recorder, reports) = recorder(&path);
    for at in 0..25 {
        recorder.record(vec![second("db", NOW_S + at, 1), second("web", NOW_S + at, 2)]);
    }
    assert_eq!(recorder.lost(), 0);
    recorder.finish(LONG);
    let samples = Samples::open(&path).expect("there");
    assert_eq!(samples.volume("db", Span::Second, Range::ALL).expect("read").len(), 25);
    assert_eq!(samples.volume("web", Span::Minute, Range::ALL).expect("read")[0].figures.reads, 50);
    assert_eq!(*reports.lock().expect("no panic"), [""; 0]);
}

#[test]
fn a_short_life_leaves_no_file() {
    let (_home, path) = place();
    let (recorder, _) = recorder(&path);
    (0..5).for_each(|at| recorder.record(vec![second("db", NOW_S + at, 1)]));
    recorder.finish(LONG);
    assert!(!path.exists());
}

#[test]
fn a_recorder_never_waits_and_counts_what_is_lost() {
    let (_home, path) = place();
    let database = Samples::open(&path).expect("made");
    drop(database);
    let other = rusqlite::Connection::open(&path).expect("there");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let (recorder, _) = recorder(&path);
    // The thread waits for the lock with the first batch; the queue takes 64 seconds.
    for at in 0..2000 {
        recorder.record(vec![second("db", NOW_S + at, 1)]);
    }
    assert!(recorder.lost() > 1000, "{}", recorder.lost());
    other.execute_batch("COMMIT").expect("unlocked");
    recorder.finish(LONG);
}

#[test]
fn a_place_that_cannot_be_written_is_reported_once() {
    let (home, _) = place();
    std::fs::write(home.path().join("file"), "in the way").expect("written");
    let path = home.path().join("file/samples.sqlite3");
    let (recorder, reports) = recorder(&path);
    (0..40).for_each(|at| recorder.record(vec![second("db", NOW_S + at, 1)]));
    recorder.finish(LONG);
    let reports = reports.lock().expect("no panic");
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].starts_with("the history is not recorded: "), "{reports:?}");
}

#[test]
fn a_file_that_is_removed_or_damaged_meanwhile_is_begun_again() {
    let (_home, path) = place();
    let (recorder, reports) = recorder(&path);
    (0..10).for_each(|at| recorder.record(vec![second("db", NOW_S + at, 1)]));
    while !path.exists() {
        std::thread::yield_now();
    }
    // The batch is recorded before the file is removed.
    while Samples::open(&path)
        .and_then(|samples| samples.volume("db", Span::Second, Range::ALL))
        .map_or(0, |found| found.len())
        < 10
    {
        std::thread::yield_now();
    }
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(path.with_file_name(format!("samples.sqlite3{suffix}")));
    }
    (10..20).for_each(|at| recorder.record(vec![second("db", NOW_S + at, 1)]));
    recorder.finish(LONG);
    let samples = Samples::open(&path).expect("there");
    assert_eq!(samples.volume("db", Span::Second, Range::ALL).expect("read").len(), 10);
    assert_eq!(*reports.lock().expect("no panic"), [""; 0]);
}
