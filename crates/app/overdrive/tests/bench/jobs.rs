//! Files of loads for the suite `custom`.

use crate::common::{json_and_errors, number, run, target};

/// Returns the example of a job file in the document.
fn documented_job() -> &'static str {
    let page = include_str!("../../../../../docs/SUITES.md");
    let (_, rest) = page.split_once("```toml\n").expect("an example");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_documented_job_runs_as_it_stands() {
    let home = tempfile::tempdir().expect("a directory");
    let (job, image) = (home.path().join("mail.toml"), home.path().join("disk.img"));
    std::fs::write(&job, documented_job()).expect("written");
    let (job, image) = (job.to_str().expect("plain"), image.to_str().expect("plain"));
    let arguments = ["custom", image, "--size", "256M", "--job", job, "--verify", "--json"];
    let (object, errors) = json_and_errors(&run(home.path(), &arguments));
    let rows = object["rows"].as_array().expect("rows");
    let tests: Vec<&str> = rows.iter().filter_map(|row| row["test"].as_str()).collect();
    assert_eq!(tests, ["log", "users read", "mail arrives"], "{errors}");
    assert_eq!((&rows[0]["unit"], &rows[1]["unit"]), (&"MB/s".into(), &"IOPS".into()));
    // The load is open, so it takes its nominal time, unless the machine stalls for that long.
    assert!((250.0..=510.0).contains(&number(&rows[2]["value"])), "{}", rows[2]);
    assert!(rows[0]["flush_ns"].is_number() && rows[2]["flush_ns"].is_null(), "{rows:?}");
    assert!(rows.iter().all(|row| row["shortened"].is_null()), "it is as long as it says");
    let method = object["method"].to_string();
    for json_and_errors in
        ["log: sequential 16 KiB writes, QD1 over 64 MiB for 1 s", "after 2 s of idle"]
    {
        assert!(method.contains(json_and_errors), "{method}");
    }
    assert_eq!(object["span_bytes"], 256 << 20);
}

#[test]
fn a_job_file_is_exported_for_fio_with_what_each_load_writes() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name).to_str().expect("plain").to_owned();
    let (job, image, fio) = (at("mail.toml"), at("disk.img"), at("mail.fio"));
    std::fs::write(&job, documented_job()).expect("written");
    std::fs::File::create(&image).and_then(|file| file.set_len(256 << 20)).expect("room");
    let output = run(home.path(), &["custom", &image, "--job", &job, "--export-fio", &fio]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&fio).expect("written");
    let jobs: Vec<&str> = text.split("\n[").collect();
    assert_eq!(jobs.len(), 1 + 1 + 1 + 3, "global, the filling, the loads: {text}");
    let named = |name: &str| {
        let found = jobs.iter().find(|job| job.starts_with(&format!("{name}]")));
        *found.unwrap_or_else(|| panic!("no {name}: {text}"))
    };
    let (log, users, mail) = (named("log"), named("users read"), named("mail arrives"));
    assert!(log.contains("buffer_compress_percentage=60\n") && log.contains("size=67108864\n"));
    assert!(users.contains("random_distribution=zipf:1.1\n") && users.contains("iodepth=16\n"));
    assert!(!users.contains("buffer_compress") && !users.contains("dedupe"), "{users}");
    assert!(mail.contains("dedupe_percentage=20\n") && mail.contains("rate_iops=325,175\n"));
    assert!(log.contains("end_fsync=1\n") && !mail.contains("end_fsync"), "{text}");
}

#[test]
fn each_load_of_a_job_writes_data_of_its_own_kind() {
    let home = tempfile::tempdir().expect("a directory");
    let (job, image) = (home.path().join("job.toml"), home.path().join("disk.img"));
    std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("room");
    let load = "[[load]]\norder = 'sequential'\nblock = '1M'\nreads = 0\n";
    // On a busy machine, 50 ms were too short for the second mebibyte of the first load.
    let quarter = "time = '500ms'\nspan = '32M'\ndata = 25\n";
    let whole = "time = '50ms'\nspan = '1M'\n";
    std::fs::write(&job, [load, quarter, load, "name = 'b'\n", whole].concat()).expect("written");
    let (job, name) = (job.to_str().expect("plain"), image.to_str().expect("plain"));
    let output = run(home.path(), &["custom", name, "--destroy", "--job", job, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&image).expect("there");
    let zeros = |mib: usize| {
        let part = &bytes[mib << 20..(mib + 1) << 20];
        part.iter().filter(|byte| **byte == 0).count() as f64 / part.len() as f64
    };
    // The second load has rewritten the first mebibyte; the first load reached the next one, and
    // never the last. In an incompressible sector, the head has some zeros.
    let found = [zeros(0), zeros(1), zeros(63)];
    assert!(found[0] < 0.05 && (0.73..0.78).contains(&found[1]) && found[2] < 0.05, "{found:?}");
}

#[test]
fn a_job_that_cannot_be_run_is_refused_before_anything_is_written() {
    let home = tempfile::tempdir().expect("a directory");
    let (job, image) = (home.path().join("job.toml"), home.path().join("disk.img"));
    std::fs::write(&image, vec![7; 64 << 20]).expect("written");
    let (name, path) = (image.to_str().expect("plain"), job.to_str().expect("plain"));
    let model = target();
    for (text, arguments, says) in [
        ("[[load]]\nspan = '65M'", vec!["custom", name, "--destroy"], "span 65 MiB: only 64 MiB"),
        ("[[load]]\nname = 'a'\nblock = '1G'", vec!["custom", name, "--destroy"], "load 'a': "),
        ("[[load]]\n\nspeed = 1", vec!["custom", name, "--destroy"], "job.toml:3: unknown key"),
        ("[[load]]\ndata = 1", vec!["custom", &model], "write model:NAME?data=PERCENT"),
        ("[[load]]", vec!["qd1", name, "--destroy"], "--job: qd1 has its own loads"),
        ("[[load]]", vec!["custom", name, "--destroy", "--only", "b"], "has no such test"),
        (
            "[[load]]\nidle_before = '18446744073709s'",
            vec!["custom", name, "--destroy"],
            "10000000 s",
        ),
    ] {
        std::fs::write(&job, text).expect("written");
        let output = run(home.path(), &[&arguments[..], &["--job", path]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {errors}");
        assert!(errors.contains(says) && errors.lines().count() == 1, "{text}: {errors}");
    }
    let both = run(home.path(), &["custom", name, "--job", path, "--depth", "4"]);
    assert_eq!(both.status.code(), Some(2), "options beside a file");
    let bytes = std::fs::read(&image).expect("there");
    assert!(bytes.iter().all(|byte| *byte == 7), "nothing is written");
}
