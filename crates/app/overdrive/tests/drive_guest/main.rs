//! Health and erasing of the NVMe drive that QEMU emulates, erasing of the kernel's simulated SCSI
//! disk, which has neither FORMAT UNIT nor SANITIZE, and of a simulated one that has both, in a
//! guest: the step of `xtask/src/steps.rs` with `overdrive:drive_guest`.
//!
//! The tests refuse every drive but those of the guest, which they know by serial number and model.

mod simulated;

use serde_json::Value;
use simulated::{SERIAL as SIMULATED, Simulated, name_of_model, wait_for};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const DRIVE: &str = "/dev/nvme0n1";
const SERIAL: &str = "OVERDRIVE-TEST";

/// Requires the drive of the guest.
fn check_guest() {
    let serial = fs::read_to_string("/sys/class/nvme/nvme0/serial").unwrap_or_default();
    assert_eq!(serial.trim(), SERIAL, "run this in a guest: see the head of this file");
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("drive").args(arguments).stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", "/run/test").env("XDG_STATE_HOME", "/run/test");
    // Without smartctl: the drive is asked by commands.
    command.env("PATH", "/nowhere");
    command
}

fn drive(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
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

#[test]
#[ignore = "needs the SCSI disk of a guest"]
fn a_scsi_disk_is_erased_by_unmap_and_by_zeros() {
    let name = name_of_model("scsi_debug").expect("run this in a guest: see the head of this file");
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

#[test]
#[ignore = "needs the SCSI disk of a guest"]
fn a_disk_without_the_commands_is_not_erased_by_them() {
    let name = name_of_model("scsi_debug").expect("run this in a guest: see the head of this file");
    for method in ["format", "sanitize", "sanitize-block", "sanitize-overwrite", "sanitize-key"] {
        let output = drive(&["erase", &name, "--method", method, "--dry-run"]);
        assert_eq!(output.status.code(), Some(2), "{method}");
        assert!(said(&output).contains("does not report"), "{}", said(&output));
    }
}

/// Returns the simulated disk, as a new one, for one test at a time.
fn simulated() -> MutexGuard<'static, Simulated> {
    static DISK: Mutex<Option<&'static Mutex<Simulated>>> = Mutex::new(None);
    let mut disk = DISK.lock().unwrap_or_else(PoisonError::into_inner);
    let disk = disk.get_or_insert_with(|| Box::leak(Box::new(Mutex::new(Simulated::new()))));
    let disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
    disk.lock().renew();
    disk
}

fn erase(disk: &Simulated, more: &[&str]) -> Output {
    let begin = ["erase", &disk.name, "--confirm", SIMULATED, "--json"];
    drive(&[&begin[..], more].concat())
}

#[test]
#[ignore = "needs the SCSI target of a guest"]
fn a_scsi_disk_erases_itself_by_each_of_its_commands() {
    let disk = simulated();
    for (method, name, command) in [
        (None, "scsi-sanitize-block", vec![0x48, 0x82]),
        (Some("sanitize-overwrite"), "scsi-sanitize-overwrite", vec![0x48, 0x81]),
        (Some("sanitize-key"), "scsi-sanitize-key", vec![0x48, 0x83]),
        (Some("format"), "scsi-format", vec![0x04, 0x10]),
    ] {
        disk.lock().renew();
        disk.lock().takes = Duration::from_secs(2);
        let more: Vec<&str> = method.into_iter().flat_map(|method| ["--method", method]).collect();
        let plan =
            object(&drive(&[&["erase", &disk.name, "--dry-run", "--json"], &more[..]].concat()));
        assert_eq!((&plan["method"], &plan["confirm"]), (&name.into(), &SIMULATED.into()));
        assert!(disk.lock().begun.is_empty());
        let begin = ["erase", &disk.name, "--confirm", SIMULATED, "--json"];
        let mut erase = crate::command(&[&begin[..], &more[..]].concat());
        let output = erase.env("OVERDRIVE_PROGRESS", "json").output().expect("it runs");
        let certificate = object(&output);
        assert_eq!(certificate["method"], name, "{}", said(&output));
        assert_eq!(
            (&certificate["clean"], &certificate["blocks_with_data_before"]),
            (&true.into(), &64.into())
        );
        assert_eq!(certificate["blocks_zero_after"], 64, "{certificate}");
        assert!(disk.lock().is_blank());
        let begun = disk.lock().begun.clone();
        assert_eq!(begun.len(), 1, "{begun:?}");
        assert_eq!(begun[0][..2], command);
        let shares: Vec<f64> = said(&output)
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["share"].as_f64())
            .collect();
        assert!(shares.iter().any(|share| (0.2..0.99).contains(share)), "{shares:?}");
    }
}

#[test]
#[ignore = "needs the SCSI target of a guest"]
fn a_scsi_disk_in_use_is_not_erased() {
    let disk = simulated();
    let open = File::open(format!("/dev/{}", disk.name)).expect("root");
    assert_eq!(erase(&disk, &[]).status.code(), Some(5));
    drop(open);
    let wrong = drive(&["erase", &disk.name, "--confirm", &disk.name]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(disk.lock().begun.is_empty());
}

#[test]
#[ignore = "needs the SCSI target of a guest"]
fn a_scsi_disk_in_use_by_another_path_is_not_erased() {
    let disk = simulated();
    let path = disk.add_path();
    let node = format!("/dev/{}", path.name);
    let open = File::open(&node).expect("root");
    let refused = erase(&disk, &[]);
    let words = format!("is on the same drive as {node} (t10.SIMULATED-DISK), which is open in");
    assert_eq!(refused.status.code(), Some(5), "{}", said(&refused));
    assert!(said(&refused).contains(&words), "{}", said(&refused));
    drop(open);
    let claimed = host::ClaimedDevice::claim(Path::new(&node)).expect("it is idle");
    let refused = erase(&disk, &[]);
    assert_eq!(refused.status.code(), Some(5), "{}", said(&refused));
    assert!(said(&refused).contains("which is open exclusively"), "{}", said(&refused));
    drop(claimed);
    assert!(disk.lock().begun.is_empty());
    // The path alone is no reason.
    let certificate = object(&erase(&disk, &[]));
    assert_eq!(certificate["clean"], true, "{certificate}");
    assert!(disk.lock().is_blank());
}

#[test]
#[ignore = "needs the SCSI target of a guest"]
fn a_scsi_disk_that_rejects_the_command_or_lies_has_not_been_erased() {
    let disk = simulated();
    disk.lock().rejects = true;
    let certificate = std::path::Path::new("/run/test-certificate.json");
    let path = certificate.to_str().expect("text");
    for method in ["sanitize", "format"] {
        let output = erase(&disk, &["--method", method, "--certificate", path]);
        assert_eq!(output.status.code(), Some(6), "{}", said(&output));
        assert!(said(&output).contains("does not have this command"), "{}", said(&output));
        assert!(!certificate.exists(), "nothing was erased");
    }
    assert!(!disk.lock().is_blank());
    disk.lock().rejects = false;
    disk.lock().lies = true;
    for method in ["sanitize", "format"] {
        let output = erase(&disk, &["--method", method]);
        assert_eq!(output.status.code(), Some(7), "{}", said(&output));
        let found = object(&output);
        assert_eq!((&found["clean"], &found["blocks_unchanged"]), (&false.into(), &64.into()));
    }
}

/// Begins to erase a disk, and waits until it has begun.
fn begin(disk: &Simulated, method: &str) -> Child {
    let arguments = ["erase", &disk.name, "--confirm", SIMULATED, "--json", "--method", method];
    let mut command = command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    wait_for(|| (!disk.lock().begun.is_empty()).then_some(()));
    child
}

#[test]
#[ignore = "needs the SCSI target of a guest"]
fn a_power_cut_while_a_scsi_disk_erases_itself() {
    let disk = simulated();
    disk.lock().takes = Duration::from_secs(4);
    let sanitizing = begin(&disk, "sanitize");
    disk.lock().cut_power();
    let output = sanitizing.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
    assert!(disk.lock().is_blank(), "it continues after the cut");
    disk.lock().renew();
    disk.lock().takes = Duration::from_secs(600);
    let formatting = begin(&disk, "format");
    disk.lock().cut_power();
    let output = formatting.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("format it again"), "{}", said(&output));
    // It has no data and no format now, and the next command says so.
    let next = erase(&disk, &[]);
    assert_eq!(next.status.code(), Some(6), "{}", said(&next));
    assert!(said(&next).contains("earlier erasure was not completed"), "{}", said(&next));
}

#[test]
#[ignore = "needs the SCSI target of a guest"]
fn a_disk_whose_command_was_killed_continues_and_says_so() {
    let disk = simulated();
    disk.lock().takes = Duration::from_secs(600);
    let mut sanitizing = begin(&disk, "sanitize");
    sanitizing.kill().expect("it runs");
    sanitizing.wait().expect("it ends");
    let next = erase(&disk, &[]);
    assert_eq!(next.status.code(), Some(5), "{}", said(&next));
    // On a busy machine it may already be some per cent.
    assert!(said(&next).contains("is erasing itself at present, "), "{}", said(&next));
    assert!(said(&next).contains(" %, and cannot be read"), "{}", said(&next));
    let disk = disk.lock();
    assert_eq!((disk.begun.len(), disk.is_blank()), (1, false));
}
