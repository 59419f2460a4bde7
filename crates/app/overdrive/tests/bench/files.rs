//! Suites on files in real time.

use crate::common::{bench, json_and_errors, pause, run};
use std::process::Stdio;

#[test]
fn a_suite_runs_on_a_file_for_real_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("test.img");
    let path = file.to_str().expect("plain");
    let arguments = [
        "qd1",
        path,
        "--size",
        "64M",
        "--time",
        "200ms",
        "--prepare",
        "fill",
        "--verify",
        "--json",
    ];
    let arguments = [&arguments[..], &["--only", "random 4 KiB read, QD1"]].concat();
    let output = run(home.path(), &arguments);
    let (object, errors) = json_and_errors(&output);
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""));
    assert_eq!((&object["time"], &object["complete"]), (&"real".into(), &true.into()));
    let row = &object["rows"][0];
    assert!(row["value"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
    assert!(row["ceiling"].as_f64().is_some_and(|ceiling| ceiling > 0.0), "{row}");
    assert_eq!(row["shortened"], "0.2 s of 60 s, 64 MiB of 8 GiB");
    assert!(object["facts"]["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("Linux")));
    assert!(!file.exists());
}

#[test]
fn what_would_be_lost_is_said_and_an_interrupt_ends_a_real_run() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("disk.img");
    std::fs::File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("room");
    let path = file.to_str().expect("plain");
    let refused = run(home.path(), &["qd1", path]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("an image of 64 MiB") && errors.contains("--destroy"), "{errors}");
    let missing = run(home.path(), &["qd1", "no-such-volume"]);
    assert_eq!(missing.status.code(), Some(1));
    let mut command = bench(
        home.path(),
        &["qd1", path, "--destroy", "--time", "600s", "--prepare", "fresh", "--json"],
    );
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let id = rustix::process::Pid::from_child(&child);
    pause(2_000);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    let (object, errors) = json_and_errors(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!((&object["complete"], &object["rows"][0]["partial"]), (&false.into(), &true.into()));
    assert!(file.exists(), "it was there before");
}

#[test]
fn neither_the_target_nor_what_took_the_place_of_a_made_file_is_lost() {
    let home = tempfile::tempdir().expect("a directory");
    let image = home.path().join("disk.img");
    let precious = vec![7; 64 << 20];
    std::fs::write(&image, &precious).expect("written");
    let image = image.to_str().expect("plain");
    for arguments in [
        &["custom", image, "--export-fio", image][..],
        &["custom", image, "--destroy", "--time", "50ms", "--report", image],
    ] {
        let output = run(home.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("uses it as input; name another"), "{said}");
        assert!(std::fs::read(image).expect("there") == precious, "nothing is changed");
    }
    let made = home.path().join("made.img");
    let name = made.to_str().expect("plain");
    let mut running = bench(home.path(), &["custom", name, "--size", "64M", "--time", "2s"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    while !made.exists() {
        pause(1);
    }
    pause(500);
    std::fs::rename(&made, home.path().join("old.img")).expect("there");
    std::fs::write(&made, "a thesis").expect("written");
    running.wait().expect("it ends");
    assert_eq!(std::fs::read_to_string(&made).expect("it stays"), "a thesis");
}

#[test]
fn no_run_writes_what_another_has_written() {
    let home = tempfile::tempdir().expect("a directory");
    let image = home.path().join("disk.img");
    std::fs::write(&image, vec![0; 64 << 20]).expect("written");
    let name = image.to_str().expect("plain");
    let mut images = (0..2).map(|_| {
        let output = run(home.path(), &["custom", name, "--destroy", "--time", "50ms", "--json"]);
        assert_eq!(json_and_errors(&output).0["complete"], true);
        std::fs::read(&image).expect("there")
    });
    let (one, two) = (images.next(), images.next());
    let same = one.iter().flatten().zip(two.iter().flatten()).filter(|(a, b)| a == b).count();
    // The head of a sector counts its writes; the rest is random.
    assert!(same < 64 << 15, "{same} of {} bytes are the same", 64 << 20);
}

#[test]
fn the_fill_compresses_as_far_as_the_data() {
    let home = tempfile::tempdir().expect("a directory");
    let image = home.path().join("disk.img");
    std::fs::write(&image, vec![1; 64 << 20]).expect("written");
    let name = image.to_str().expect("plain");
    let output = run(home.path(), &["custom", name, "--destroy", "--time", "50ms", "--data", "25"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&image).expect("there");
    let zeros = bytes.iter().filter(|byte| **byte == 0).count() as f64 / bytes.len() as f64;
    assert!((0.73..0.78).contains(&zeros), "{zeros} are zeros");
}
