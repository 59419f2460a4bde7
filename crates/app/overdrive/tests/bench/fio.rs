//! Job files of fio, which run as the lab's loads do.

use crate::common::{json_and_errors, number, run};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

#[test]
fn fio_and_the_lab_agree_on_the_shape_of_a_job() {
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skipped: fio is missing (apt-get install fio)");
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("disk.img");
    std::fs::File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("room");
    let (path, job) = (file.to_str().expect("plain"), home.path().join("job.fio"));
    let shape = ["--block", "8K", "--depth", "4", "--reads", "70", "--time", "500ms"];
    let export = ["custom", path, "--export-fio", job.to_str().expect("plain")];
    let exported = run(home.path(), &[&export[..], &shape].concat());
    assert_eq!(exported.status.code(), Some(0), "{}", String::from_utf8_lossy(&exported.stderr));
    let mut fio = Command::new("fio");
    let output = fio.arg(&job).arg("--output-format=json").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let start = output.stdout.iter().position(|byte| *byte == b'{').expect("a report");
    let report: Value = serde_json::from_slice(&output.stdout[start..]).expect("a report");
    let jobs = report["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 2, "the filling, and the load");
    assert_eq!(
        number(&jobs[0]["write"]["io_bytes"]),
        f64::from(64 << 20),
        "it fills all of it once"
    );
    let (reads, writes) = (&jobs[1]["read"], &jobs[1]["write"]);
    let count = |side: &Value| number(&side["total_ios"]);
    let all = count(reads) + count(writes);
    assert_eq!(number(&reads["io_bytes"]), count(reads) * 8192.0);
    let share = count(reads) / all;
    let slack = 4.0 * (0.21 / all).sqrt();
    assert!((share - 0.7).abs() < slack + 0.01, "{share} of {all} are reads");
    let depths = &jobs[1]["iodepth_level"];
    assert!(number(&depths["4"]) > 90.0, "{depths}");
    let ours = [&["custom", path, "--destroy", "--json"][..], &shape].concat();
    let (object, errors) = json_and_errors(&run(home.path(), &ours));
    assert_eq!(object["rows"][0]["test"], "random 8 KiB 70 % reads, QD4", "{errors}");
    let refused = run(home.path(), &["qd1", path, "--destroy", "--depth", "4"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--depth: qd1 has its own loads"));
}

#[test]
fn fio_measures_the_file_that_was_named_or_the_name_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let job = home.path().join("job.fio");
    let export = |name: &str| {
        let folder = home.path().join("images");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("room");
        let image = folder.join(name);
        std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("room");
        let words = ["custom", image.to_str().expect("text"), "--export-fio"];
        let shape = [job.to_str().expect("plain"), "--reads", "0", "--time", "10ms"];
        (run(home.path(), &[&words[..], &shape].concat()), folder, image)
    };
    for (name, why) in [
        ("a#b", "beginning of a comment"),
        ("a;b", "beginning of a comment"),
        ("a\\b", "escape of the next character"),
        ("a\\", "escape"),
        ("a${HOME}b", "an environment variable"),
        ("a$ncpus", "'$ncpus' in it as a number"),
        ("a ", "blanks at its ends"),
        ("a\u{2003}", "blanks at its ends"),
        ("a\t", "control character"),
        ("a\nb", "control character"),
    ] {
        let _ = std::fs::remove_file(&job);
        let (refused, _, _) = export(name);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{name:?}: {said}");
        assert!(said.contains(why) && said.contains("rename it"), "{name:?}: {said}");
        assert!(said.lines().count() == 1 && !job.exists(), "{name:?}: {said}");
    }
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skipped: fio is missing (apt-get install fio)");
        return;
    }
    for name in ["a:b", " a  b", "$HOME$", "a{b}", "'\"=,[%]", "\u{e4}\u{3000}b", "include a"] {
        let (exported, folder, image) = export(name);
        let said = String::from_utf8_lossy(&exported.stderr);
        assert_eq!(exported.status.code(), Some(0), "{name:?}: {said}");
        // Some file systems do not support direct I/O.
        let direct = std::fs::read_to_string(&job).expect("written");
        std::fs::write(&job, direct.replace("direct=1", "direct=0")).expect("written");
        let ran = Command::new("fio").arg(&job).output().expect("it runs");
        assert!(ran.status.success(), "{name:?}: {}", String::from_utf8_lossy(&ran.stderr));
        let written = std::fs::metadata(&image).expect("there").blocks() * 512;
        assert!(written >= 64 << 20, "{name:?}: {written} bytes of it were written");
        assert_eq!(std::fs::read_dir(folder).expect("there").count(), 1, "{name:?}");
    }
}
