//! `overdrive drive erase` and `trim` on loop devices: what may be erased is erased, and everything
//! that is in use, or that something depends on, is refused and stays as it is.

mod pool;
mod scene;

use scene::{Loop, MIB, OVERDRIVE, Running, can_run, drive, sh};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[test]
fn an_unused_device_is_erased_with_a_certificate() {
    if !can_run() {
        return;
    }
    for method in ["discard", "zero"] {
        let disk = Loop::new(8);
        let certificate = disk.place.path().join("certificate.json");
        let path = certificate.to_str().expect("text");
        let arguments = [
            "erase",
            &disk.device,
            "--confirm",
            disk.name(),
            "--method",
            method,
            "--certificate",
            path,
        ];
        let plan = drive(disk.place.path(), &["erase", &disk.device, "--dry-run", "--json"]);
        let plan: Value = serde_json::from_slice(&plan.stdout).expect("one object");
        assert_eq!(
            (&plan["confirm"], &plan["schema"]),
            (&disk.name().into(), &"overdrive.drive.erase-plan/1".into())
        );
        let output = drive(disk.place.path(), &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{method}: {said}");
        assert!(disk.contents().iter().all(|byte| *byte == 0), "{method}");
        let text = fs::read_to_string(&certificate).expect("written");
        let object: Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(object["schema"], "overdrive.drive.erase/1");
        assert_eq!((&object["method"], &object["clean"]), (&method.into(), &true.into()));
        assert_eq!(
            (&object["blocks_with_data_before"], &object["blocks_zero_after"]),
            (&64.into(), &64.into())
        );
        // A certificate is never replaced, and without one nothing is erased.
        disk.write(0, &[7; 4096]);
        let again = drive(disk.place.path(), &arguments);
        assert_eq!(again.status.code(), Some(2));
        assert_eq!(disk.contents()[0], 7);
    }
}

#[test]
fn nothing_is_erased_without_the_right_word() {
    if !can_run() {
        return;
    }
    let disk = Loop::new(4);
    let before = disk.contents();
    for words in [&[][..], &["--confirm", ""], &["--confirm", "yes"], &["--confirm", "loop"]] {
        for verb in [&["erase", &disk.device][..], &["trim", &disk.device, "--whole"]] {
            let certificate = disk.place.path().join("c.json");
            let output = drive(disk.place.path(), &[verb, words].concat());
            assert_eq!(output.status.code(), Some(2), "{words:?}");
            assert!(!certificate.exists());
        }
    }
    assert!(disk.contents() == before);
}

#[test]
fn a_device_that_is_mounted_anywhere_is_refused() {
    if !can_run() {
        return;
    }
    let disk = Loop::new(8);
    // The kernel must not write to it later by itself.
    sh(&format!("mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {}", disk.device));
    let directory = disk.directory("mounted");
    sh(&format!("mount -o commit=600 {} {}; sync", disk.device, directory.display()));
    let link = disk.place.path().join("link");
    std::os::unix::fs::symlink(&disk.device, &link).expect("room");
    disk.is_refused(&disk.device, "is mounted at");
    disk.is_refused(link.to_str().expect("text"), "is mounted at");
    let trimmed = drive(disk.place.path(), &["trim", directory.to_str().expect("text"), "--json"]);
    let object: Value = serde_json::from_slice(&trimmed.stdout).expect("one object");
    assert!(object["places"][0]["trimmed_bytes"].as_u64() > Some(0), "{object}");
    let dry = drive(disk.place.path(), &["trim", &disk.device, "--dry-run"]);
    assert!(String::from_utf8_lossy(&dry.stdout).contains("would be discarded"));
    sh(&format!("umount {}", directory.display()));
    // Another name space, of which this one sees nothing.
    let other = Running::start(&format!(
        "exec unshare --mount --propagation private sh -ec 'mount {} {}; echo ready; read line || true'",
        disk.device,
        directory.display()
    ));
    disk.is_refused(&disk.device, "");
    drop(other);
    // The kernel unmounts it some time after the last process of that name space.
    let trim = || drive(disk.place.path(), &["trim", &disk.device]);
    let trim = (0..500).map(|_| trim()).find(|ended| ended.status.code() != Some(5));
    let trim = trim.expect("it is unmounted with its name space");
    assert_eq!(trim.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&trim.stderr).contains("is mounted here"));
}

#[test]
fn a_device_that_is_open_or_below_another_is_refused() {
    if !can_run() {
        return;
    }
    let disk = Loop::new(4);
    for flags in ["<", "<>"] {
        let script = format!("exec 3{flags}{}; echo ready; read line || true", disk.device);
        let open = Running::start(&script);
        disk.is_refused(&disk.device, "is open in process");
        drop(open);
    }
    let upper = sh(&format!("losetup --find --show {}", disk.device));
    disk.is_refused(&disk.device, "is attached to");
    sh(&format!("losetup --detach {upper}"));
    // The file below is the backing of a served volume: the device over it must not be erased.
    let mut served = Command::new(OVERDRIVE);
    served.args(["serve", &disk.device, "--memory", "8M", "--run"]);
    served.env("XDG_RUNTIME_DIR", disk.place.path()).env("XDG_STATE_HOME", disk.place.path());
    served.arg("echo ready; read line || true").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = served.spawn().expect("it serves");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("text");
    assert_eq!(line.trim(), "ready");
    let served = Running(child);
    disk.is_refused(&disk.device, "");
    drop(served);
    let output = drive(disk.place.path(), &["erase", &disk.device, "--dry-run"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn members_of_pools_arrays_and_groups_and_swap_are_refused() {
    if !can_run() {
        return;
    }
    for (at, mark, words) in [
        (0x218, &b"LVM2 001"[..], "a physical volume of LVM"),
        (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a Linux RAID"),
        (8, b"odpool01", "a member of a pool of Overdrive"),
        (0xff6, b"SWAPSPACE2", "swap space"),
        (0x1018, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "bcache"),
    ] {
        let disk = Loop::new(4);
        disk.write(at, mark);
        disk.is_refused(&disk.device, words);
    }
    // Two marks: a journal and a device of a file system that is on another device, too.
    for (marks, words) in [
        ([(0x438, &[0x53, 0xef][..]), (0x460, &[8, 0, 0, 0])], "a journal of another"),
        ([(0x1_0040, b"_BHRfS_M"), (0x1_0088, &[3, 0, 0, 0, 0, 0, 0, 0])], "on several"),
    ] {
        let disk = Loop::new(4);
        marks.iter().for_each(|(at, mark)| disk.write(*at, mark));
        disk.is_refused(&disk.device, words);
    }
    // As the last bytes, where old metadata of arrays is.
    let disk = Loop::new(4);
    disk.write(4 * MIB as u64 - 65536, &[0xfc, 0x4e, 0x2b, 0xa9]);
    disk.is_refused(&disk.device, "a member of a Linux RAID");
    let swap = Loop::new(4);
    sh(&format!("mkswap -q {}", swap.device));
    if Command::new("swapon").arg(&swap.device).output().is_ok_and(|it| it.status.success()) {
        // The kernel writes pages to it as it needs room; the header is never its to change.
        let header = swap.contents()[..4096].to_vec();
        swap.commands_are_refused(&swap.device, "is used as swap");
        assert!(swap.contents()[..4096] == header, "a refused swap device has changed");
    }
}

#[test]
fn a_disk_is_refused_for_each_of_its_partitions_and_a_partition_is_no_disk() {
    if !can_run() || Command::new("sfdisk").arg("--version").output().is_err() {
        return;
    }
    let disk = Loop::new(16);
    let script = "label: gpt\nsize=4MiB\nsize=4MiB\n";
    sh(&format!("printf '{script}' | sfdisk -q {}; losetup --detach {}", disk.device, disk.device));
    sh(&format!("losetup --partscan {} {}", disk.device, disk.image.display()));
    let (first, second) = (format!("{}p1", disk.device), format!("{}p2", disk.device));
    if !Path::new(&second).exists() {
        eprintln!("skipped: this kernel shows no partitions of loop devices");
        return;
    }
    disk.is_refused(&first, "is a partition; name its disk");
    let empty = drive(disk.place.path(), &["erase", &disk.device, "--dry-run", "--json"]);
    let plan: Value = serde_json::from_slice(&empty.stdout).expect("one object");
    assert!(plan["contents"].to_string().contains("partition table (GPT)"), "{plan}");
    let file = File::options().write(true).open(&second).expect("ours");
    file.write_all_at(b"LVM2 001", 0x218).expect("room");
    file.sync_all().expect("it answers");
    drop(file);
    disk.is_refused(&disk.device, "a physical volume of LVM");
    sh(&format!("mkfs.ext4 -q {first}"));
    let directory = disk.directory("mounted");
    sh(&format!("mount {first} {}", directory.display()));
    disk.is_refused(&disk.device, "which is mounted at");
    sh(&format!("umount {}", directory.display()));
}

#[test]
fn files_unknown_names_and_read_only_devices_are_refused() {
    if !can_run() {
        return;
    }
    let disk = Loop::with(4, "--read-only");
    disk.is_refused(&disk.device, "read-only");
    let home = disk.place.path();
    for (name, words) in [
        (disk.image.to_str().expect("text"), "is no block device"),
        ("/dev/null", "is no block device"),
        ("/", "is no block device"),
        ("no-such-drive", "no such"),
    ] {
        let output = drive(home, &["erase", name, "--confirm", "x"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
    // A name without a slash is one of /dev, also if a file here has it.
    let mut here = Command::new(OVERDRIVE);
    here.args(["drive", "erase", "disk.img", "--dry-run"]).current_dir(home);
    let said = here.output().expect("it runs").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("is a file, not a drive"), "{said}");
    for method in ["sanitize", "format"] {
        let disk = Loop::new(4);
        let output = drive(home, &["erase", &disk.device, "--method", method, "--dry-run"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("does not report"), "{said}");
    }
}

#[test]
fn a_part_of_a_drive_is_left_unused() {
    if !can_run() || Command::new("sfdisk").arg("--version").output().is_err() {
        return;
    }
    let disk = Loop::new(64);
    let home = disk.place.path();
    let named =
        |arguments: &[&str]| drive(home, &[&["overprovision", &disk.device], arguments].concat());
    let object = |output: &Output| -> Value {
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"))
    };
    sh(&format!("blkdiscard {}", disk.device));
    let shown = object(&named(&["--json", "--model", "samsung-840-evo-250"]));
    assert_eq!((&shown["partitions"], &shown["done"]), (&0.into(), &Value::Null));
    let [without, with] = [&shown["effect"]["without"], &shown["effect"]["with"][2]];
    assert!(without["write_amplification"].as_f64() > with["write_amplification"].as_f64());
    // Nothing is changed without the word.
    let before = disk.contents();
    assert_eq!(named(&["--set", "10"]).status.code(), Some(2));
    assert_eq!(named(&["--set", "10", "--confirm", "x"]).status.code(), Some(2));
    assert!(named(&["--set", "10", "--dry-run"]).status.success());
    assert!(disk.contents() == before);
    let set = object(&named(&["--set", "10", "--confirm", disk.name(), "--json"]));
    assert_eq!((&set["done"], &set["partitions"]), (&true.into(), &2.into()), "{set}");
    assert!(
        set["unused_share"].as_f64().is_some_and(|share| (0.09..0.13).contains(&share)),
        "{set}"
    );
    let again = named(&["--set", "10", "--confirm", disk.name()]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("has an unused partition"));
    let word = format!("sfdisk --delete {} 2", disk.device);
    assert!(String::from_utf8_lossy(&again.stderr).contains(&word), "{word}");
    // The same command makes room for another size.
    sh(&word);
    let more = named(&["--set", "5", "--confirm", disk.name()]);
    let said = String::from_utf8_lossy(&more.stderr);
    assert!(more.status.success(), "{said}");
    assert!(said.contains("effect"), "it is shown before: {said}");
    assert!(!String::from_utf8_lossy(&more.stdout).contains("effect"), "once");
    // Data of a partition stays; a full table is refused.
    let full = Loop::new(64);
    sh(&format!("printf 'label: gpt\\nsize=60MiB\\n' | sfdisk -q {}", full.device));
    let before = full.contents();
    let refused =
        drive(home, &["overprovision", &full.device, "--set", "20", "--confirm", full.name()]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("shrink the last partition first"), "{said}");
    let set = drive(home, &["overprovision", &full.device, "--set", "3", "--confirm", full.name()]);
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let after = full.contents();
    let data = MIB..61 * MIB;
    assert!(after[data.clone()] == before[data], "the data of the partition has changed");
    let with_data = Loop::new(8);
    sh(&format!("mkfs.ext4 -q {}", with_data.device));
    let refused = drive(
        home,
        &["overprovision", &with_data.device, "--set", "10", "--confirm", with_data.name()],
    );
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("and no partitions"));
}

/// Makes a program with this name in a directory.
fn put_program(directory: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("room");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
}

/// Returns a directory with an sfdisk that runs a script before the real one changes a table.
/// `$device` is the disk of the table.
fn put_sfdisk(disk: &Loop, script: &str) -> PathBuf {
    let programs = disk.directory("programs");
    let script = format!(
        "for device; do :; done
         case \" $* \" in *\" --quiet \"*)
             {script}
         esac
         exec {} \"$@\"",
        real_sfdisk()
    );
    put_program(&programs, "sfdisk", &script);
    programs
}

fn real_sfdisk() -> String {
    sh("PATH=$PATH:/usr/sbin:/sbin; command -v sfdisk")
}

/// Runs `overprovision --set 10` on a disk, with a script before its table is changed.
fn overprovision_with(disk: &Loop, script: &str) -> Output {
    let (home, programs) = (disk.place.path(), put_sfdisk(disk, script));
    let path = std::env::var("PATH").expect("a path");
    let mut command = Command::new(OVERDRIVE);
    command.args(["drive", "overprovision", &disk.device, "--set", "10"]);
    command.args(["--confirm", disk.name()]).stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", home).env("XDG_STATE_HOME", home);
    // As an operator may have set it: sfdisk must not wait for the lock of its caller.
    command.env("LOCK_BLOCK_DEVICE", "1");
    command.env("PATH", format!("{}:{path}", programs.display()));
    command.output().expect("the command runs")
}

#[test]
fn no_program_can_take_a_drive_while_its_table_is_changed() {
    if !can_run() || Command::new("sfdisk").arg("--version").output().is_err() {
        return;
    }
    let disk = Loop::new(64);
    sh(&format!("blkdiscard {}", disk.device));
    let found = disk.place.path().join("found");
    // Another program that would claim the drive, and one that honours the lock of udev.
    let script = format!(
        "({OVERDRIVE} drive erase $device --dry-run 2>&1; echo status $?
          flock --nonblock --shared $device true; echo locked $?) </dev/null >{} 2>&1",
        found.display()
    );
    let output = overprovision_with(&disk, &script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let found = fs::read_to_string(&found).expect("it was run");
    assert!(found.contains("status 5") && found.contains("exclusively"), "{found}");
    assert!(found.contains("locked 1"), "{found}");
    let table = sh(&format!("sfdisk --dump {}", disk.device));
    assert!(table.contains("overdrive-spare"), "{table}");
    sh(&format!("flock --nonblock --shared {} true", disk.device));
}

#[test]
fn a_table_that_another_program_changes_at_the_same_time_is_not_discarded_from() {
    if !can_run() || Command::new("sfdisk").arg("--version").output().is_err() {
        return;
    }
    let disk = Loop::new(64);
    sh(&format!("printf 'label: gpt\nsize=30MiB\n' | sfdisk -q {}", disk.device));
    let before = disk.contents();
    // A program that does not claim the drive.
    let script = format!(
        "printf 'start=40MiB, size=10MiB, name=more\\n' | LOCK_BLOCK_DEVICE=0 \
         {} --append --no-reread --no-tell-kernel $device >/dev/null",
        real_sfdisk()
    );
    let output = overprovision_with(&disk, &script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("nothing was discarded"), "{said}");
    let after = disk.contents();
    let data = MIB..63 * MIB;
    assert!(after[data.clone()] == before[data], "data has changed");
}

/// Runs a script in a mount namespace in which two loop devices have the same identifier.
fn with_same_id(id: &str, disks: [&Loop; 2], script: &str) -> Output {
    let sys = disks[0].directory("sys");
    let [one, two] = disks.map(Loop::name);
    let script = format!(
        "mount --bind /sys {sys}
         mount -t tmpfs none /sys/block
         for disk in {sys}/block/*; do ln -s $disk /sys/block/; done
         for name in {one} {two}; do
             rm /sys/block/$name
             mkdir /sys/block/$name
             ln -s {sys}/block/$name/* /sys/block/$name/
             echo {id} > /sys/block/$name/wwid
         done
         {script}",
        sys = sys.display()
    );
    let home = disks[0].place.path();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", &script]);
    command.env("XDG_RUNTIME_DIR", home).env("XDG_STATE_HOME", home).stdin(Stdio::null());
    command.output().expect("unshare")
}

#[test]
fn a_drive_whose_other_name_is_in_use_is_refused() {
    if !can_run() || Command::new("unshare").arg("--version").output().is_err() {
        return;
    }
    let disks = [Loop::new(8), Loop::new(8)];
    let [one, two] = [&disks[0], &disks[1]];
    sh(&format!("mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {}", two.device));
    let directory = one.directory("mounted");
    let (device, other) = (&one.device, &two.device);
    let confirm = format!("--confirm {}", one.name());
    let run = |id: &str, script: &str| {
        let output = with_same_id(id, [one, two], script);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let id = "naa.5000c500a1b2c3d4";
    let before = one.contents();
    let uses = [
        (format!("mount {other} {}", directory.display()), "which is mounted at"),
        (format!("exec 3<{other}"), "which is open in process"),
    ];
    for (begin, words) in &uses {
        for command in [
            format!("drive erase {device} --method zero {confirm}"),
            format!("drive trim {device} --whole {confirm}"),
            format!("drive overprovision {device} --set 10 {confirm}"),
        ] {
            let (status, said) = run(id, &format!("{begin}\n{OVERDRIVE} {command}"));
            assert_eq!(status, Some(5), "{command}: {said}");
            let other = format!("is on the same drive as {other} ({id}), {words}");
            assert!(said.contains(&other), "{command}: {said}");
        }
    }
    let (mounting, mounted) = &uses[0];
    let name = format!("same-{}", std::process::id());
    for command in [
        format!("serve {device} --memory 1M --no-holder --run true"),
        format!("attach {device} --memory 1M --name {name}"),
        format!("pool create {device} {other} --overwrite"),
    ] {
        let (status, said) = run(id, &format!("{mounting}\n{OVERDRIVE} {command}"));
        assert!(status == Some(5) && said.contains(mounted), "{command}: {said}");
    }
    assert!(one.contents() == before, "a refused device has changed");
    // A volume that is served by the other name.
    let serve = format!(
        "{OVERDRIVE} serve {other} --memory 1M --no-holder --run '{OVERDRIVE} drive erase {device} \
         --method zero {confirm}'"
    );
    let (status, said) = run(id, &serve);
    assert!(status == Some(5) && said.contains("which is open exclusively"), "{said}");
    // Nor can the other name be taken while the drive changes.
    sh(&format!("blkdiscard {device}"));
    let taken = one.place.path().join("taken");
    let mount = format!("mount {other} {} && touch {}", directory.display(), taken.display());
    let programs = put_sfdisk(one, &mount);
    let script = format!(
        "PATH={}:$PATH {OVERDRIVE} drive overprovision {device} --set 10 {confirm}",
        programs.display()
    );
    let (status, said) = run(id, &script);
    assert!(status == Some(0) && !taken.exists(), "{said}");
    // Identifiers that are none, and a drive whose names are idle.
    for (id, begin) in [("naa.0000000000000000", mounting.as_str()), (id, "true")] {
        let (status, said) =
            run(id, &format!("{begin}\n{OVERDRIVE} drive erase {device} --dry-run"));
        assert_eq!(status, Some(0), "{id}: {said}");
    }
}
