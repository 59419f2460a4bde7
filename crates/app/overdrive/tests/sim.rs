//! `overdrive sim` as users run it: its output, its files, and its exit status.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("sim").args(arguments).stdin(Stdio::null());
    command.output().expect("the command runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

/// Returns a trace of block 0 and then a loop over four blocks, three times: 13 accesses, 4 blocks;
/// one of the requests is a write.
fn looped() -> String {
    let mut text = "op,offset,length\nW,0,512\n".to_owned();
    for round in 0..12 {
        text += &format!("R,{},4096\n", round % 4 * 4096);
    }
    text + "flush,0,0\n"
}

#[test]
fn json_is_one_object_with_a_run_for_each_policy_and_size() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), "loop.csv", &looped());
    let path = path.to_str().expect("plain");
    let output =
        sim(&["--trace", path, "--memory", "12K,100%", "--policy", "default,opt", "--json"]);
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""));
    let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&object["schema"], &object["format"]), (&"overdrive.sim/1".into(), &"csv".into()));
    assert_eq!((&object["complete"], &object["count"]), (&true.into(), &"all".into()));
    assert_eq!((&object["footprint_blocks"], &object["others"]), (&4.into(), &1.into()));
    let runs = object["runs"].as_array().expect("runs");
    // LRU of three slots misses in a loop of four except for the first block, which the write has
    // just brought in.
    let expected =
        [("default", 12288, 12), ("default", 16384, 4), ("opt", 12288, 6), ("opt", 16384, 4)];
    assert_eq!(runs.len(), expected.len());
    for (run, (policy, bytes, misses)) in runs.iter().zip(expected) {
        assert_eq!((&run["policy"], &run["memory_bytes"]), (&policy.into(), &bytes.into()));
        assert_eq!((&run["trace"], &run["requests"]), (&path.into(), &13.into()));
        assert_eq!((&run["block_accesses"], &run["block_misses"]), (&13.into(), &misses.into()));
        let ratio = run["miss_ratio"].as_f64().expect("a number");
        assert!((ratio - f64::from(misses) / 13.0).abs() < 1e-12, "{ratio}");
    }
}

#[test]
fn compression_is_simulated_beside_the_cache_without_it() {
    let home = tempfile::tempdir().expect("a directory");
    let loops = (0..960).map(|read| format!("R,{},4096\n", read % 96 * 4096));
    let path = file(home.path(), "loop.csv", &loops.collect::<String>());
    let page = home.path().join("page.html");
    let words = ["--trace", path.to_str().expect("plain"), "--memory", "256K"];
    let policies = ["--policy", "lru,opt", "--compress", "4"];
    let json = sim(&[&words[..], &policies, &["--json"]].concat());
    let object: Value = serde_json::from_slice(&json.stdout).expect("one object");
    let [lru, optimum] = [0, 1].map(|run| &object["runs"][run]);
    // The slots hold a part of the loop, and the tier the rest.
    assert_eq!((&lru["block_misses"], &lru["compress"]), (&960.into(), &"4".into()));
    assert_eq!(lru["compress_block_misses"], 96, "{lru}");
    assert!(lru["compressed_blocks"].as_u64() > lru["compressed_slots"].as_u64(), "{lru}");
    assert_eq!((&optimum["compress"], &optimum["compressed_hits"]), (&Value::Null, &Value::Null));
    let report = ["--report", page.to_str().expect("plain")];
    let table = sim(&[&words[..], &policies, &report].concat());
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("lru compressed\n") && table.contains("0.1000 (-90.0 %)"), "{table}");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("With compression") && page.contains("0.1000 (-90.0 %)"));
    for bad in ["0.5", "auto-of:", "lz4"] {
        let refused = sim(&[&words[..], &["--compress", bad]].concat());
        assert_eq!(refused.status.code(), Some(2), "{bad}");
        assert!(errors(&refused).contains("auto-of:FILE"), "{}", errors(&refused));
    }
}

#[test]
fn a_map_is_simulated_beside_the_cache_without_it() {
    let home = tempfile::tempdir().expect("a directory");
    // Eight blocks of a database in a loop, and a film that is read once: three blocks of it for
    // each of the database.
    let read = |number: u64| match number % 4 {
        0 => number / 4 % 8,
        _ => 1000 + number,
    };
    let reads = (0..8000).map(|number| format!("R,{},4096\n", read(number) * 4096));
    let path = file(home.path(), "film.csv", &reads.collect::<String>());
    let map = file(home.path(), "map", "0 8 databases # the tables\n1000 9000 big-media\n");
    let page = home.path().join("page.html");
    let words = ["--trace", path.to_str().expect("plain"), "--memory", "64K"];
    let policies = ["--policy", "lru,opt", "--map", map.to_str().expect("plain")];
    let json = sim(&[&words[..], &policies, &["--json"]].concat());
    let object: Value = serde_json::from_slice(&json.stdout).expect("one object");
    let [lru, optimum] = [0, 1].map(|run| &object["runs"][run]);
    assert_eq!((&lru["block_misses"], &lru["map_block_misses"]), (&8000.into(), &6008.into()));
    assert_eq!((&lru["map_followed"], &optimum["map_followed"]), (&true.into(), &Value::Null));
    let classes = lru["map_classes"].as_array().expect("classes");
    let databases = &classes[0];
    assert_eq!((classes.len(), &databases["class"]), (2, &"databases".into()));
    assert_eq!(
        (&databases["block_accesses"], &databases["block_misses"]),
        (&2000.into(), &8.into())
    );
    let report = ["--report", page.to_str().expect("plain")];
    let table = sim(&[&words[..], &policies, &report].concat());
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("lru with map\n") && table.contains("0.7510 (-24.9 %)"), "{table}");
    assert!(table.contains("databases") && table.contains("0.0040"), "{table}");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("With a map of the files") && page.contains("<td>big-media</td>"));
    let wrong = file(home.path(), "wrong", "0 8 film\n");
    for (name, status) in [(&wrong, 7), (&home.path().join("absent"), 1)] {
        let output = sim(&[&words[..], &["--map", name.to_str().expect("plain")]].concat());
        assert_eq!(output.status.code(), Some(status), "{}", errors(&output));
        assert!(errors(&output).contains("--map"), "{}", errors(&output));
    }
}

#[test]
fn the_table_has_a_row_for_each_size_and_a_column_for_each_policy() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), "loop.csv", &looped());
    let path = path.to_str().expect("plain");
    let output =
        sim(&["--trace", path, "--memory", "12K,50%", "--policy", "lru,opt", "--count", "reads"]);
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let table: Vec<&str> = stdout.lines().skip_while(|line| !line.is_empty()).skip(1).collect();
    assert_eq!(
        table,
        [
            "memory    size     lru     opt",
            "        12 KiB  1.0000  0.5000",
            "   50%   8 KiB  1.0000  0.6667",
        ]
    );
    for line in [
        "requests   12: 12 reads, 1 writes, which do not count; 1 others touch no block",
        "accesses   12 blocks of 4 KiB",
        "footprint  4 blocks, 16 KiB",
    ] {
        assert!(stdout.lines().any(|other| other == line), "{line}: {stdout}");
    }
}

/// Returns a trace of 20,000 accesses to 8,000 blocks, each as often as any other.
fn scattered() -> String {
    let mut text = String::new();
    for number in 0..20_000u64 {
        let block = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        text += &format!("R,{},4096\n", block % 8000 * 4096);
    }
    text
}

#[test]
fn a_sample_is_marked_as_one_wherever_its_figures_stand() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), "scattered.csv", &scattered());
    let path = path.to_str().expect("plain");
    let base = ["--trace", path, "--memory", "8M,75%", "--policy", "lru,opt"];
    let with = |more: &[&str]| {
        let output = sim(&[&base[..], more].concat());
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let object =
        |more: &[&str]| -> Value { serde_json::from_str(&with(more)).expect("one object") };
    let exact = object(&["--json"]);
    assert_eq!((&exact["sample_rate"], &exact["footprint_exact"]), (&1.0.into(), &true.into()));
    assert_eq!(exact["sampled_block_accesses"], exact["block_accesses"]);
    for same in [["--json", "--sample", "1"], ["--json", "--sample", "auto"]] {
        assert_eq!(object(&same), exact);
    }
    let near = object(&["--json", "--sample", "0.25"]);
    assert_eq!(near["sample_rate"], 0.25);
    assert_eq!(near["footprint_blocks"], exact["footprint_blocks"]);
    assert!(near["sampled_block_accesses"].as_u64() < exact["block_accesses"].as_u64());
    let runs = |object: &Value| object["runs"].as_array().expect("runs").clone();
    for (run, exact) in runs(&near).iter().zip(runs(&exact)) {
        assert_eq!(run["memory_bytes"], exact["memory_bytes"]);
        let whole = exact["memory_bytes"].as_u64().expect("a size") / 4096;
        assert_eq!((&exact["sampled_slots"], &exact["trusted"]), (&whole.into(), &true.into()));
        let slots = run["sampled_slots"].as_u64().expect("slots");
        assert_eq!(run["trusted"], slots >= 1000);
        let ratio = |run: &Value| run["miss_ratio"].as_f64().expect("a ratio");
        assert!((ratio(run) - ratio(&exact)).abs() < 0.05, "{run} for {exact}");
    }
    let stdout = with(&["--sample", "0.25"]);
    assert!(stdout.contains("\nsample     0.25 of the blocks, "), "{stdout}");
    let rows: Vec<&str> = stdout.lines().skip_while(|line| !line.starts_with("memory")).collect();
    assert!(rows[0].starts_with("memory      size  sampled      lru      opt"), "{stdout}");
    assert!(rows[1].contains("? 512  ~0."), "{stdout}");
    assert!(!rows[2].contains('?') && rows[2].contains("  ~0."), "{stdout}");
    assert_eq!(rows[3], "? fewer than 1,000 sampled slots: too few for reliable results");
    assert!(!with(&[]).contains(['~', '?']));
}

#[test]
fn a_page_is_written_when_there_is_something_to_report_and_what_was_there_stays_till_then() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), "loop.csv", &looped());
    let bad = file(home.path(), "bad.csv", "R,0,4096\nR,0,oops\n");
    let page = file(home.path(), "page.html", "before");
    let with = |trace: &Path| {
        let names = [trace, &page].map(|path| path.to_str().expect("plain"));
        let memory = ["--memory", "12K,16K", "--policy", "lru,sieve,opt"];
        sim(&[&["--trace", names[0], "--report", names[1]][..], &memory].concat())
    };
    assert_eq!(with(&bad).status.code(), Some(7));
    assert_eq!(std::fs::read_to_string(&page).expect("there"), "before");
    let output = with(&path);
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""));
    assert!(!output.stdout.is_empty(), "the table is printed, too");
    let text = std::fs::read_to_string(&page).expect("there");
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"), "{text}");
    assert!(text.contains("Of 2 policies") && text.contains("overdrive.sim/1"), "{text}");
    let count = std::fs::read_dir(home.path()).expect("a directory").count();
    assert_eq!(count, 3, "nothing else is left");
}

#[test]
fn devices_and_shards_are_chosen() {
    let home = tempfile::tempdir().expect("a directory");
    let text = "7,259,x,Read,0,4096,1\n8,259,1,Read,0,4096,1\n".replace(",x,", ",0,");
    let path = file(home.path(), "trace", &text);
    let path = path.to_str().expect("plain");
    let base = ["--trace", path, "--memory", "64K", "--json"];
    let with = |more: &[&str]| sim(&[&base[..], more].concat());
    let object: Value =
        serde_json::from_slice(&with(&["--device", "259:1", "--shards", "8"]).stdout).expect("one");
    assert_eq!((&object["requests"], &object["shards"]), (&1.into(), &8.into()));
    assert_eq!(object["devices"], serde_json::json!(["259:0", "259:1"]));
    for (more, says) in [
        (["--device", "259:2"], "--device 259:2"),
        (["--shards", "3"], "write a power of two"),
        (["--shards", "32"], "too few for 32 shards"),
    ] {
        let output = with(&more);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{more:?}");
        assert!(errors(&output).contains(says), "{}", errors(&output));
    }
}

#[test]
fn five_columns_are_refused_with_both_readings_until_the_format_is_named() {
    let home = tempfile::tempdir().expect("a directory");
    let path = file(home.path(), "tpcc.trace", "5 0 8 8 1\n6 0 16 8 1\n7 1 8 8 0\n");
    let path = path.to_str().expect("plain");
    let output = sim(&["--trace", path, "--memory", "1M"]);
    assert_eq!(output.status.code(), Some(2));
    let told = errors(&output);
    assert!(
        told.contains(
            "66.7 % of the first 3 requests are reads if 1 is a read (--format ssdsim, or mqsim)"
        ),
        "{told}"
    );
    assert!(told.contains("33.3 % if 0 is one (--format ssdsim-0-reads)"), "{told}");
    for (format, reads) in [("mqsim", 2), ("ssdsim", 2), ("ssdsim-0-reads", 1)] {
        let output = sim(&["--trace", path, "--memory", "1M", "--format", format, "--json"]);
        let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!((&object["reads"], &object["format"]), (&reads.into(), &format.into()));
    }
}

#[test]
fn what_is_wrong_gets_one_sentence_and_a_status() {
    let home = tempfile::tempdir().expect("a directory");
    let good = file(home.path(), "good", "R,0,4096\n");
    let bad = file(home.path(), "bad", "R,0,4096\nR,0,oops\n");
    let zeros = file(home.path(), "zeros", &"\0".repeat(5000));
    let cut = home.path().join("cut.gz");
    std::fs::write(&cut, [0x1f, 0x8b, 8, 0]).expect("written");
    let [good, bad, zeros, cut] =
        [&good, &bad, &zeros, &cut].map(|path| path.to_str().expect("plain"));
    for (arguments, status, says) in [
        (vec!["--trace", good], 2, "--memory"),
        (vec!["--trace", good, "--memory", "x"], 2, "not a size"),
        (vec!["--trace", good, "--memory", "0%"], 2, "is not a share"),
        (vec!["--trace", good, "--memory", "1K"], 2, "blocks of 4 KiB"),
        (
            vec!["--trace", good, "--memory", "1M", "--policy", "best"],
            2,
            "choose one of default, opt, lru",
        ),
        (
            vec!["--trace", good, "--memory", "1M", "--format", "x"],
            2,
            "choose one of recording, vscsi",
        ),
        (vec!["--trace", good, "--memory", "1M", "--sample", "0"], 2, "it is not a share"),
        (vec!["--trace", good, "--memory", "1M", "--sample", "1.01"], 2, "it is not a share"),
        (vec!["--trace", good, "--memory", "1M", "--sample=-0.1"], 2, "it is not a share"),
        (vec!["--trace", good, "--memory", "1M", "--sample", "NaN"], 2, "it is not a share"),
        (vec!["--trace", good, "--memory", "1M", "--sample", "x"], 2, "like 0.1, or auto"),
        (vec!["--trace", good, "--memory", "1M", "--sample", "0.001"], 2, "leaves none"),
        (vec!["--trace", "/no/such", "--memory", "1M"], 1, "/no/such"),
        // The page's path is checked before the trace.
        (
            vec!["--trace", "/no/such", "--memory", "1M", "--report", "/no/such/page.html"],
            2,
            "--report /no/such/page.html: ",
        ),
        (vec!["--trace", bad, "--memory", "1M"], 7, "line 2: not 'op offset length'"),
        (
            vec!["--trace", good, "--memory", "1M", "--format", "vscsi"],
            7,
            "byte 0: the file is truncated: it ends 9 bytes",
        ),
        (vec!["--trace", zeros, "--memory", "1M"], 7, "neither text nor in a known binary format"),
        (
            vec!["--trace", cut, "--memory", "1%"],
            7,
            "the gzip data is damaged before byte 4: the file is truncated",
        ),
    ] {
        let output = sim(&arguments);
        let stderr = errors(&output);
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(status), 0),
            "{arguments:?}: {stderr}"
        );
        assert!(stderr.contains(says), "{arguments:?}: {stderr}");
        assert!(status == 2 || stderr.lines().count() == 1, "{stderr}");
    }
}

#[test]
fn joined_texts_are_read_whole_and_what_is_skipped_is_shown() {
    let home = tempfile::tempdir().expect("a directory");
    let part = |count: u64| -> String {
        let line = |at| format!("8,0 0 {at} 0.{at:09} 42 Q R {} + 8 [fio]\n", at * 8);
        let lines: String = (1..=count).map(line).collect();
        lines + "CPU0 (sda):\n Reads Queued: 1, 4KiB\nInput file sda.blktrace.0 added\n"
    };
    let joined = file(home.path(), "joined.txt", &(part(20) + &part(7)));
    let joined = joined.to_str().expect("plain");
    let output = sim(&["--trace", joined, "--memory", "1M", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["reads"], &json["complete"]), (&27.into(), &true.into()), "{json}");
    assert_eq!((&json["joined"], &json["skipped_lines"]), (&1.into(), &6.into()));
    let output = sim(&["--trace", joined, "--memory", "1M"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 outputs of blkparse follow the first"), "{stdout}");
    assert!(stdout.contains("6 lines without a request were skipped"), "{stdout}");
}

#[test]
fn files_that_hold_a_trace_in_another_form_are_named_with_their_conversion() {
    let home = tempfile::tempdir().expect("a directory");
    for (name, start, says) in [
        (
            "t.csv.bz2",
            &b"BZh91AY&SY\0\0"[..],
            "compressed by bzip2, which is not supported; convert it: bzip2",
        ),
        (
            "sda.blktrace.0",
            b"\x07tae\0\0",
            "blktrace's binary output, which is not supported; convert it: blkparse",
        ),
    ] {
        let path = home.path().join(name);
        std::fs::write(&path, start).expect("written");
        for more in [&[][..], &["--format", "csv"]] {
            let path = path.to_str().expect("plain");
            let output = sim(&[&["--trace", path, "--memory", "1M"][..], more].concat());
            let stderr = errors(&output);
            assert_eq!(output.status.code(), Some(7), "{stderr}");
            assert!(stderr.contains(says) && stderr.contains(path), "{stderr}");
        }
    }
}
