//! Health and erasing of the NVMe drive that QEMU emulates, and erasing of the kernel's simulated
//! SCSI disk, in a guest: the step of `xtask/src/steps.rs` with `overdrive:drive_guest`.
//!
//! The tests refuse every drive but those of the guest, which they know by serial number and model.

use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Command, Output, Stdio};

const DRIVE: &str = "/dev/nvme0n1";
const SERIAL: &str = "OVERDRIVE-TEST";

/// Requires the drive of the guest.
fn check_guest() {
    let serial = fs::read_to_string("/sys/class/nvme/nvme0/serial").unwrap_or_default();
    assert_eq!(serial.trim(), SERIAL, "run this in a guest: see the head of this file");
}

fn drive(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("drive").args(arguments).stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", "/run/test").env("XDG_STATE_HOME", "/run/test");
    // Without smartctl: the drive is asked by commands.
    command.env("PATH", "/nowhere");
    command.output().expect("the command runs")
}

fn object(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no object: {said}"))
}

#[test]
#[ignore = "needs the NVMe drive of a guest"]
fn health_is_read_by_commands_and_recorded() {
    check_guest();
    let output = drive(&["health", "nvme0n1", "--json"]);
    let health = object(&output);
    assert!(output.status.success(), "{health}");
    assert_eq!(health["serial"], SERIAL);
    assert_eq!(health["model"], "QEMU NVMe Ctrl");
    assert_eq!((&health["verdict"], &health["passed"]), (&"good".into(), &true.into()));
    assert_eq!(
        (&health["temperature_c"], &health["capacity_bytes"]),
        (&50.into(), &(64 << 20).into())
    );
    assert!(health["attributes"].as_array().is_some_and(|all| all.len() > 10), "{health}");
    assert!(health["forecast_missing"].as_str().is_some_and(|why| why.contains("too short")));
    let history = object(&drive(&["history", SERIAL, "--json"]));
    assert_eq!(history["samples"].as_array().map(Vec::len), Some(1), "{history}");
    let controller = object(&drive(&["health", "/dev/nvme0", "--json", "--no-history"]));
    assert_eq!(controller["serial"], SERIAL);
}

/// The daemon is confined by then, and cannot query the drive itself.
#[test]
#[ignore = "needs the NVMe drive of a guest"]
fn a_daemon_samples_the_drive_below_its_volume() {
    check_guest();
    let file = "/run/test/samples-of-a-daemon.sqlite3";
    let mut serve = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    serve.args(["serve", DRIVE, "--memory", "1M", "--no-holder", "--history", file]);
    let read = format!(
        "for i in $(seq 100); do [ -e {file} ] && break; sleep 0.1; done; sleep 0.3; \
         cat /proc/[0-9]*/comm | grep -c od-drives"
    );
    serve.args(["--drive-samples", "1s", "--run", &read]).stdin(Stdio::null());
    serve.env("XDG_RUNTIME_DIR", "/run/test").env("XDG_STATE_HOME", "/run/test");
    let output = serve.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1", "one process: {said}");
    let history = object(&drive(&["history", SERIAL, "--history", file, "--json"]));
    assert_eq!(history["device"], DRIVE);
    assert_eq!(history["samples"][0]["temperature_c"], 50, "{history}");
    // It ends with its daemon.
    let is_left = || {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut names = all.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
        names.any(|name| name.trim() == "od-drives")
    };
    let begun = std::time::SystemTime::now();
    while is_left() {
        assert!(begun.elapsed().is_ok_and(|elapsed| elapsed.as_secs() < 10), "it stays");
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "needs the NVMe drive of a guest"]
fn a_drive_is_erased_by_a_format() {
    check_guest();
    let file = File::options().write(true).open(DRIVE).expect("root");
    let data = vec![0xa5; 1 << 20];
    (0..64).for_each(|mib| file.write_all_at(&data, mib << 20).expect("it answers"));
    file.sync_all().expect("it answers");
    drop(file);
    let plan = object(&drive(&["erase", "nvme0n1", "--dry-run", "--json"]));
    assert_eq!((&plan["method"], &plan["confirm"]), (&"nvme-format".into(), &SERIAL.into()));
    let wrong = drive(&["erase", "nvme0n1", "--confirm", "nvme0n1"]);
    assert_eq!(wrong.status.code(), Some(2));
    // Another program has it open.
    let open = File::open(DRIVE).expect("root");
    let busy = drive(&["erase", "nvme0n1", "--confirm", SERIAL]);
    assert_eq!(busy.status.code(), Some(5), "{}", String::from_utf8_lossy(&busy.stderr));
    drop(open);
    let certificate = object(&drive(&["erase", "nvme0n1", "--confirm", SERIAL, "--json"]));
    assert_eq!(certificate["method"], "nvme-format");
    assert_eq!(
        (&certificate["clean"], &certificate["blocks_with_data_before"]),
        (&true.into(), &64.into())
    );
    let sanitize = drive(&["erase", "nvme0n1", "--method", "sanitize", "--dry-run"]);
    println!("sanitize: {}", String::from_utf8_lossy(&sanitize.stderr));
    let discarded = drive(&["trim", "nvme0n1", "--whole", "--confirm", SERIAL]);
    assert!(discarded.status.success(), "{}", String::from_utf8_lossy(&discarded.stderr));
}

/// Returns the simulated SCSI disk.
fn scsi_disk() -> String {
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let is_it = |name: &String| {
        let model = fs::read_to_string(format!("/sys/block/{name}/device/model"));
        model.is_ok_and(|model| model.trim() == "scsi_debug")
    };
    let mut names = disks.filter_map(|disk| disk.file_name().into_string().ok());
    names.find(is_it).expect("run this in a guest: see the head of this file")
}

#[test]
#[ignore = "needs the SCSI disk of a guest"]
fn a_scsi_disk_is_erased_by_unmap_and_by_zeros() {
    let name = scsi_disk();
    let path = format!("/dev/{name}");
    for method in [None, Some("zero")] {
        let file = File::options().write(true).open(&path).expect("root");
        let data = vec![0xa5; 1 << 20];
        (0..64).for_each(|mib| file.write_all_at(&data, mib << 20).expect("it answers"));
        file.sync_all().expect("it answers");
        drop(file);
        let plan = object(&drive(&["erase", &name, "--dry-run", "--json"]));
        let serial = plan["serial"].as_str().expect("text");
        assert!(!serial.is_empty() && plan["confirm"] == serial, "{plan}");
        assert_eq!((&plan["method"], &plan["model"]), (&"discard".into(), &"scsi_debug".into()));
        let mut arguments = vec!["erase", &name, "--confirm", serial, "--json"];
        arguments.extend(method.into_iter().flat_map(|method| ["--method", method]));
        let certificate = object(&drive(&arguments));
        assert_eq!(certificate["method"], method.unwrap_or("discard"));
        assert_eq!(
            (&certificate["clean"], &certificate["blocks_with_data_before"]),
            (&true.into(), &64.into())
        );
        assert_eq!(certificate["blocks_zero_after"], 64, "{certificate}");
    }
}
