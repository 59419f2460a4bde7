//! `overdrive trace generate` as users run it.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn trace(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("trace").args(arguments).stdin(Stdio::null());
    command.output().expect("the command runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(arguments: &[&str]) -> Value {
    let output = trace(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", errors(&output));
    serde_json::from_slice(&output.stdout).expect("one object")
}

fn refused(arguments: &[&str], status: i32, what: &str) {
    let output = trace(arguments);
    let errors = errors(&output);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
    assert!(errors.contains(what) && errors.trim_end().lines().count() == 1, "{errors}");
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Returns the generated value of a property.
fn generated(table: &Value, name: &str) -> f64 {
    let mut all = table["properties"].as_array().expect("a table").iter();
    let found = all.find(|property| property["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no '{name}' in {table}"));
    found["generated"].as_f64().expect("a number")
}

/// The table of the generator, and the study of the file that it has written, by other code.
#[test]
fn a_generated_trace_has_the_properties_of_its_table() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("light.trace.zst");
    let path = plain(&path);
    let table = json(&["generate", "light", path, "--scale", "0.02"]);
    let properties = table["properties"].as_array().expect("a table");
    assert!(properties.iter().all(|property| property["wrong"] == false), "{table}");
    assert!(properties.iter().any(|property| property["kind"] == "published"));
    let info = json(&["info", path]);
    let number = |name: &str| info[name].as_f64().expect("a number");
    assert_eq!(generated(&table, "reads"), number("reads"));
    assert_eq!(generated(&table, "writes"), number("writes"));
    assert!((generated(&table, "read") - number("bytes_read") / 1e9).abs() < 1e-9);
    assert!((generated(&table, "written") - number("bytes_written") / 1e9).abs() < 1e-9);
    let requests = number("requests");
    let sequential = 100.0 * (number("sequential_reads") + number("sequential_writes")) / requests;
    assert!((generated(&table, "sequential") - sequential).abs() < 1e-9, "{info}");
    let depths = info["depths"].as_array().expect("depths");
    for (index, name) in ["depth 1", "depth 2", "depth 3", "depth 4 to 5"].iter().enumerate() {
        let count = depths[index]["requests"].as_f64().expect("a number");
        let percent = 100.0 * count / requests;
        assert!((generated(&table, name) - percent).abs() < 1e-9, "{name}: {info}");
    }
    let replayed = json(&["replay", path, "model:samsung-840-evo-250", "--idle-max", "5ms"]);
    assert_eq!(replayed["requests"].as_f64(), Some(requests));
    refused(&["generate", "light", path, "--scale", "0.02"], 2, "exists; name a new file");
}

#[test]
fn workloads_follow_one_another_and_a_file_of_ones_own_is_read() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("jobs.trace");
    let table = json(&["generate", "drivebench1", plain(&path), "--scale", "0.01"]);
    let info = json(&["info", plain(&path)]);
    let names = info["processes"].as_array().expect("processes").iter();
    let mut names: Vec<&str> = names.filter_map(|process| process["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["compiling", "copying", "torrents", "transcoding", "virus-scan"]);
    let one = json(&["generate", "drivebench1", "--scale", "0.01", "--workload", "torrents"]);
    let of_one = one["properties"].as_array().expect("a table").len();
    assert_eq!(table["properties"].as_array().map(Vec::len), Some(5 * of_one));
    let own = home.path().join("own.toml");
    let text = include_str!("../../../lab/suites/presets/pcmark.toml");
    std::fs::write(&own, text.replace("PCMark 8", "Mine")).expect("written");
    let own = json(&["generate", plain(&own), "--workload", "excel"]);
    assert_eq!(own["title"], "Mine, storage");
}

#[test]
fn an_imitation_is_judged_by_caches() {
    let home = tempfile::tempdir().expect("a directory");
    let (path, other) = (home.path().join("light.trace"), home.path().join("other.trace.zst"));
    json(&["generate", "light", plain(&path), "--scale", "0.01", "--seed", "3"]);
    let table = json(&["generate", "--like", plain(&path), plain(&other)]);
    assert_eq!((&table["good"], &table["complete"]), (&true.into(), &true.into()), "{table}");
    assert_eq!(table["miss_ratios"].as_array().map(Vec::len), Some(32));
    assert!(table["replaced"].as_u64() > Some(100), "{table}");
    let (one, two) = (json(&["info", plain(&path)]), json(&["info", plain(&other)]));
    for same in ["reads", "writes", "bytes_read", "bytes_written", "footprint_blocks", "sizes"] {
        assert_eq!(one[same], two[same], "{same}");
    }
    let bytes = |path: &Path| std::fs::read(path).expect("a file");
    assert_ne!(bytes(&path), bytes(&other));
}

#[test]
fn mistakes_are_one_sentence_each() {
    let home = tempfile::tempdir().expect("a directory");
    let path = |name: &str| home.path().join(name).to_str().expect("plain").to_owned();
    refused(&["generate", "hevy"], 2, "did you mean 'heavy'?");
    refused(&["generate", "pcmark", "--workload", "exel"], 2, "it has photoshop-light");
    for scale in ["0", "-1", "1e9", "NaN"] {
        let arguments = ["generate", "light", &format!("--scale={scale}")];
        refused(&arguments, 2, "write 0.0001 to 10");
    }
    refused(&["generate", "light", "--scale", "0.0001"], 2, "too few for its properties");
    // So few requests cannot have the mean depth.
    refused(&["generate", "heavy", "--scale", "0.002"], 1, "'mean depth' of heavy");
    refused(&["generate", &path("none.toml")], 2, "none.toml");
    let damaged = path("damaged.toml");
    let text = include_str!("../../../lab/suites/presets/light.toml");
    std::fs::write(&damaged, text.replace("footprint_bytes", "fotprint")).expect("written");
    refused(&["generate", &damaged], 2, "unknown field `fotprint`");
    let few = path("few.csv");
    std::fs::write(&few, "op,offset,length,time_ns,took_ns,device,process\nR,0,4096,1,,a,\n")
        .expect("written");
    refused(&["generate", "--like", &few], 2, "has 1 reads and writes; an imitation needs");
    refused(&["generate", "--like", &few, "light", &path("x")], 2, "there is no name");
    refused(&["generate", "--like", &few, "-", "--json"], 2, "the standard output has the trace");
}
