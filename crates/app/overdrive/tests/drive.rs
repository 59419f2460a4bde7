//! `overdrive drive` as users run it.

use serde_json::Value;
use std::fs::{set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str], path: Option<&Path>) -> Output {
    let runtime = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("drive").args(arguments).env("XDG_RUNTIME_DIR", runtime.path());
    command.env("XDG_STATE_HOME", runtime.path());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().expect("overdrive can be started")
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn object(output: &Output) -> Value {
    serde_json::from_str(&text(output)).expect("one JSON object")
}

fn failure(output: &Output, status: i32) -> String {
    let said = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(output.stdout.is_empty() && said.lines().count() == 1, "{said}");
    said
}

#[test]
fn every_preset_is_listed_in_the_columns_that_are_asked_for() {
    let all = object(&run(&["models", "--json"], None));
    assert_eq!(all["schema"], "overdrive.drive.models/1");
    let models = all["models"].as_array().expect("a list");
    let stdout = text(&run(&["models", "-nb", "-o", "name,capacity,year"], None));
    let lines: Vec<Vec<&str>> =
        stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), models.len());
    for (line, model) in lines.iter().zip(models) {
        assert_eq!(line[0], model["name"]);
        assert_eq!(line[1], model["capacity_bytes"].to_string());
        assert_eq!(line[2], model["year"].to_string());
        assert!(model["interface"].as_str().is_some_and(|word| !word.is_empty()), "{model}");
        let is_flash = model["kind"] == "flash";
        assert_eq!(
            is_flash,
            model["nand"].as_str().is_some_and(|word| !word.is_empty()),
            "{model}"
        );
        assert_eq!(is_flash, model["spare"].as_f64().is_some_and(|spare| spare > 0.01), "{model}");
    }
}

#[test]
fn a_preset_shows_each_number_with_its_source() {
    let stdout = text(&run(&["models", "samsung-840-evo-250"], None));
    assert!(stdout.contains("dies                   16               AnandTech 7173 p2"));
    assert!(stdout.contains("planes                 2                assumed"), "{stdout}");
    assert!(stdout.contains("by theory: greedy"), "{stdout}");
    let object = object(&run(&["models", "samsung-840-evo-250", "--json"], None));
    for fact in object["facts"].as_array().expect("a list") {
        assert!(fact["source"].as_str().is_some_and(|source| !source.is_empty()), "{fact}");
    }
    let unknown = failure(&run(&["models", "samsung-840-ev"], None), 1);
    assert!(unknown.contains("did you mean samsung-840-evo-120 or"), "{unknown}");
}

#[test]
fn a_preset_shows_what_was_published_beside_what_the_model_makes() {
    let stdout = text(&run(&["models", "samsung-840-evo-250"], None));
    let line = stdout.lines().find(|line| line.starts_with("random 4 KiB write, QD1, mean "));
    let line = line.unwrap_or_else(|| panic!("no such row in {stdout}"));
    for word in ["new", "43.5 us", "circular"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    let object = object(&run(&["models", "samsung-840-evo-250", "--json"], None));
    let compared = object["compared"].as_array().expect("a list");
    assert!(compared.len() > 5, "{compared:?}");
    // Each state is present, and each modelled row has its deviation from the published figure.
    for state in ["new", "worn", "trimmed"] {
        assert!(compared.iter().any(|row| row["state"] == state), "{state}: {compared:?}");
    }
    for row in compared {
        assert_eq!(row["modelled"].is_null(), row["error"].is_null(), "{row}");
        assert!(row["source"].as_str().is_some_and(|source| !source.is_empty()), "{row}");
    }
}

const SMALL: &str = r#"
like = "samsung-840-pro-256"
title = "A small one"

[capacity]
user_bytes = [64_000_000, "assumed"]

[nand]
dies = [1, "assumed"]
channels = [1, "assumed"]
blocks = [300, "assumed"]
pages = [16, "assumed"]
"#;

#[test]
fn a_users_file_is_checked_and_what_follows_is_printed() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("mine.toml");
    write(&file, SMALL).expect("written");
    let name = file.to_str().expect("text");
    let stdout = text(&run(&["models", "--check", name], None));
    assert!(stdout.contains(": sound;") && stdout.contains("Derived values"), "{stdout}");
    for (from, to, parts) in [
        (
            "dies = [1,",
            "dies = [0,",
            ["mine.toml: line 9: nand.dies: 0 is out of range", "give 1 to"],
        ),
        ("channels =", "channel =", ["line 10: nand.channel: no such key", "did you mean"]),
        ("blocks = [300,", "blocks = [30,", ["line 8: nand: too little flash", "more blocks"]),
        ("title = \"A", "title = A", ["line 3", "correct the TOML"]),
    ] {
        write(&file, SMALL.replace(from, to)).expect("written");
        let said = failure(&run(&["models", "--check", name], None), 1);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    write(&file, [0xff, 0xfe]).expect("written");
    assert!(failure(&run(&["models", "--check", name], None), 1).contains("not UTF-8"));
    assert!(failure(&run(&["models", "--check", "/no/such.toml"], None), 1).contains("/no/such"));
    failure(&run(&["models", "--age"], None), 2);
}

#[test]
fn an_aged_drive_amplifies_as_theory_says() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("mine.toml");
    write(&file, SMALL).expect("written");
    let arguments = ["models", "--check", file.to_str().expect("text"), "--age", "--json"];
    let aged = &object(&run(&arguments, None))["aged"];
    let number = |key: &str| aged[key].as_f64().expect("a number");
    assert_eq!(aged["steady"], true);
    assert!(number("predicted") > 1.5, "it has little to spare: {aged}");
    let off = number("write_amplification") / number("predicted") - 1.0;
    assert!(off.abs() < 0.06, "{off}");
    let life = number("nand_written_bytes") / number("host_written_bytes");
    assert!((life - number("write_amplification_life")).abs() < 0.01);
    let attributes = aged["attributes"].as_array().expect("a list");
    let written =
        attributes.iter().find(|one| one["name"] == "Total_LBAs_Written").expect("it tells");
    let sectors: f64 = written["raw"].as_str().expect("text").parse().expect("a number");
    assert_eq!(sectors * 512.0, number("host_written_bytes"));
}

#[test]
fn the_machines_devices_are_listed_or_it_has_none() {
    let list = object(&run(&["list", "--all", "--json"], None));
    assert_eq!(list["schema"], "overdrive.drive.list/1");
    let seen = std::fs::read_dir("/sys/block").map_or(0, Iterator::count);
    assert_eq!(list["drives"].as_array().map(Vec::len), Some(seen));
    let stdout = text(&run(&["list", "-a", "-o", "name,size"], None));
    assert_eq!(stdout.lines().count(), seen + 1);
}

#[test]
fn health_is_read_by_smartctl_and_its_absence_is_said() {
    let place = tempfile::tempdir().expect("a directory");
    let program = place.path().join("smartctl");
    let says = |json: &str| {
        write(&program, format!("#!/bin/sh\n/bin/cat <<'END'\n{json}\nEND\nexit 0\n"))
            .expect("written");
        set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("permitted");
    };
    says(
        r#"{ "smartctl": { "exit_status": 0 }, "model_name": "Samsung SSD 840 EVO 250GB",
             "smart_status": { "passed": false },
             "ata_smart_attributes": { "table": [ { "id": 241, "name": "Total_LBAs_Written",
               "value": 99, "raw": { "value": 2048, "string": "2048" } } ] } }"#,
    );
    let health = |arguments: &[&str]| run(arguments, Some(place.path()));
    let failing = health(&["health", "/dev/null"]);
    assert_eq!(failing.status.code(), Some(1), "the drive says that it fails");
    let stdout = String::from_utf8(failing.stdout).expect("text");
    assert!(stdout.contains("its own verdict      FAILING"), "{stdout}");
    assert!(stdout.contains("verdict              failing\n"), "{stdout}");
    assert!(stdout.contains("the drive itself reports that it is failing"), "{stdout}");
    assert!(stdout.contains("forecast             none: the drive does not report its wear"));
    assert!(stdout.contains("data that the host has written\n"), "{stdout}");
    assert!(stdout.contains("host writes          1 MiB"), "{stdout}");
    assert!(stdout.contains("241 Total_LBAs_Written             099 2048"), "{stdout}");
    assert!(stdout.contains("NAND writes          not reported"), "{stdout}");
    says(r#"{ "smartctl": { "exit_status": 1 } }"#);
    assert!(failure(&health(&["health", "/dev/null"]), 1).contains("offers no SMART"));
    says("no JSON");
    assert!(failure(&health(&["health", "/dev/null"]), 6).contains("install smartmontools"));
    assert!(failure(&health(&["health", "/etc/passwd"]), 2).contains("is not a device"));
    assert!(failure(&health(&["health", "nosuchdevice"]), 1).contains("no such device or volume"));
}

/// A home with a smartctl that prints what a test wants.
struct Smart(tempfile::TempDir);

impl Smart {
    fn new() -> Smart {
        Smart(tempfile::tempdir().expect("a directory"))
    }

    fn prints(&self, object: &Value) {
        let program = self.0.path().join("smartctl");
        let script = format!("#!/bin/sh\n/bin/cat <<'END'\n{object}\nEND\n");
        write(&program, script).expect("written");
        set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("permitted");
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
        command.arg("drive").args(arguments).env("XDG_RUNTIME_DIR", self.0.path());
        command.env("XDG_STATE_HOME", self.0.path()).env("PATH", self.0.path());
        command.output().expect("overdrive can be started")
    }
}

fn nvme(spare: u64, written: u64, passed: bool) -> Value {
    serde_json::json!({
        "smartctl": { "exit_status": 0 }, "model_name": "Some NVMe", "serial_number": "S-1",
        "smart_status": { "passed": passed }, "nvme_total_capacity": 500_000_000_000u64,
        "nvme_smart_health_information_log": {
            "critical_warning": 0, "temperature": 45, "available_spare": spare,
            "available_spare_threshold": 10, "percentage_used": 4, "media_errors": 0,
            "data_units_written": written, "power_on_hours": 20_000 },
    })
}

#[test]
fn a_drive_that_lies_about_itself_gets_a_verdict_of_its_figures() {
    let smart = Smart::new();
    smart.prints(&nvme(5, 1000, true));
    let output = smart.run(&["health", "/dev/null", "--json"]);
    assert_eq!(output.status.code(), Some(1), "it is failing");
    let health: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&health["verdict"], &health["passed"]), (&"failing".into(), &true.into()));
    let reason = health["reasons"][0].as_str().expect("a sentence");
    assert!(reason.contains("although it reports no failure"), "{reason}");
    // More than its interface can have transferred in its hours.
    smart.prints(&nvme(100, u64::MAX, true));
    let health = object(&smart.run(&["health", "/dev/null", "--json", "--no-history"]));
    assert_eq!((&health["host_written_bytes"], &health["verdict"]), (&Value::Null, &"good".into()));
    // Names of another vendor's world mean nothing, whatever their numbers are.
    smart.prints(&serde_json::json!({
        "model_name": "Other", "ata_smart_attributes": { "table": [
            { "id": 197, "name": "Unknown_Attribute", "value": 1, "raw": { "value": 99 } },
            { "id": 231, "name": "Vendor_Magic", "value": 1, "raw": { "value": 1 } } ] },
    }));
    let health = object(&smart.run(&["health", "/dev/null", "--json", "--no-history"]));
    assert_eq!((&health["verdict"], &health["pending"]), (&"unknown".into(), &Value::Null));
    assert_eq!(health["attributes"][1]["meaning"], Value::Null);
    for empty in ["{}", "[]", "null"] {
        smart.prints(&serde_json::from_str(empty).expect("an object"));
        assert_eq!(smart.run(&["health", "/dev/null"]).status.code(), Some(1), "{empty}");
    }
}

#[test]
fn a_drive_that_does_not_answer_has_a_partial_report_after_a_bounded_time() {
    let smart = Smart::new();
    let program = smart.0.path().join("smartctl");
    write(&program, "#!/bin/sh\nexec /bin/sleep 60\n").expect("written");
    set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("permitted");
    let begun_ns = host::now_ns();
    let output = smart.run(&["health", "/dev/null", "--json", "--timeout", "1"]);
    assert!(host::now_ns() - begun_ns < 20_000_000_000);
    assert_eq!(output.status.code(), Some(6));
    let health: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&health["verdict"], &health["answered"]), (&"unknown".into(), &false.into()));
    assert!(health["reasons"][0].as_str().is_some_and(|why| why.contains("within 1 s")));
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not answer within 1 s"));
    // Nothing of it is recorded.
    assert!(!smart.0.path().join("overdrive").exists());
}

#[test]
fn a_usb_bridge_that_hides_smart_is_named() {
    let smart = Smart::new();
    smart.prints(&serde_json::json!({ "smartctl": { "exit_status": 1, "messages": [
        { "string": "/dev/sdb: Unknown USB bridge [0x152d:0x0583 (0x209)]" } ] } }));
    let said = failure(&smart.run(&["health", "/dev/null"]), 1);
    assert!(said.contains("its USB bridge hides SMART") && said.contains("0x152d"), "{said}");
}

#[cfg(feature = "history")]
#[test]
fn health_is_recorded_forecast_and_compared_with_the_past() {
    let smart = Smart::new();
    smart.prints(&nvme(100, 2000, true));
    let health = object(&smart.run(&["health", "/dev/null", "--json", "--no-history"]));
    assert!(health["forecast_missing"].as_str().is_some_and(|why| why.contains("too short")));
    assert!(!smart.0.path().join("overdrive").exists(), "nothing was recorded");
    let path = smart.0.path().join("overdrive/samples.sqlite3");
    let mut samples = history::Samples::open(&path).expect("made");
    let drive = history::DriveIdentity {
        model: "Some NVMe".to_owned(),
        serial: "S-1".to_owned(),
        device: "/dev/elsewhere".to_owned(),
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now.expect("after 1970").as_secs() as i64;
    let record = |samples: &mut history::Samples, day: i64, units: i64| {
        let figures = history::DriveFigures {
            worn_percent: Some(4),
            host_written_bytes: Some(units * 512_000),
            ..Default::default()
        };
        let sample = history::DriveSample { at_s: now_s - day * 86_400, figures };
        samples.record_drive(&drive, &sample).expect("written");
    };
    for day in 1..=10 {
        record(&mut samples, day, 2000 - day * 10);
    }
    drop(samples);
    // 2,000 units are 4 %, and 10 units are written each day: 0.02 % of the life.
    let health = object(&smart.run(&["health", "/dev/null", "--json"]));
    let days = health["forecast"]["days_left"].as_f64().expect("a forecast");
    assert!((days - 4800.0).abs() < 100.0, "{health}");
    let shown = text(&smart.run(&["history", "null", "--last", "36h"]));
    assert_eq!(shown.lines().count(), 3, "the drive has moved to its new device: {shown}");
    smart.prints(&nvme(100, 10, true));
    let health = object(&smart.run(&["health", "/dev/null", "--json"]));
    assert_eq!(health["verdict"], "watch");
    assert!(health["reasons"].to_string().contains("have gone back"), "{health}");
}
