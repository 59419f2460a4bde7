//! Two operations on a device at the same moment: all answered data is on its image in the end, and
//! it can be attached and detached as before.

use super::{Disk, have_devices, is_alive, parent_of, text};
use crate::common::{pause, run, wait_until};
use crate::dice::Dice;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const BYTES: usize = 1 << 20;

/// Writes a pattern to the device, and returns once it is answered.
fn write(device: &Path, byte: u8) {
    let mut file = File::options().write(true).open(device).expect("it is attached");
    file.write_all(&vec![byte; BYTES]).expect("it is served");
    file.sync_all().expect("it is served");
}

/// Detaches until nothing is left to detach, and nothing that would restart a daemon, and checks
/// the image.
fn ends_whole(disk: &Disk, supervisor: Pid, byte: u8) {
    let link = Path::new("/dev/overdrive").join(&disk.name);
    wait_until("it is detached", || {
        disk.detach();
        !is_alive(supervisor) && !link.is_symlink()
    });
    let image = fs::read(&disk.image).expect("ours");
    assert!(image[..BYTES].iter().all(|found| *found == byte), "not what was written");
    let loops = run("losetup", &["--list", "--noheadings", "--output", "BACK-FILE"]).well().stdout;
    assert!(!loops.contains(&disk.name), "{loops}");
}

#[test]
fn a_daemon_is_killed_while_its_device_is_detached() {
    let Some(disk) = Disk::with_tools(8, &["losetup"]) else { return };
    let mut dice = Dice::new();
    for byte in 1..=12 {
        write(&disk.attach(), byte);
        let daemon = disk.daemon();
        let supervisor = parent_of(daemon);
        let delay = Duration::from_millis(dice.between(0, 60));
        std::thread::scope(|scope| {
            let detach = scope.spawn(|| disk.detach());
            pause(delay);
            // It may have ended by itself.
            let _ = kill_process(daemon, Signal::KILL);
            detach.join().expect("it ends, well or not");
        });
        ends_whole(&disk, supervisor, byte);
    }
}

/// Returns the daemon of this device, even if it does not serve yet.
fn daemon_that_starts(disk: &Disk) -> Option<Pid> {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found = pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let has = |word: &str| words.contains(&word.as_bytes());
        has("attach") && has("--foreground") && has(&disk.name) && !has("supervise")
    });
    Pid::from_raw(found.next()?)
}

#[test]
fn a_daemon_is_killed_while_its_device_is_attached() {
    let Some(disk) = Disk::with_tools(8, &["losetup"]) else { return };
    let mut dice = Dice::new();
    for byte in 1..=10 {
        let delay = Duration::from_millis(dice.between(0, 120));
        std::thread::scope(|scope| {
            let attach = scope.spawn(|| disk.try_attach(&[]));
            wait_until("its daemon starts", || daemon_that_starts(&disk).is_some());
            pause(delay);
            if let Some(daemon) = daemon_that_starts(&disk) {
                let _ = kill_process(daemon, Signal::KILL);
            }
            attach.join().expect("no panic").well();
        });
        wait_until("it serves", || disk.find_daemon().is_some());
        wait_until("it has its device", || {
            disk.row()["device"].as_str().is_some_and(|node| !node.is_empty())
        });
        write(&Path::new("/dev/overdrive").join(&disk.name), byte);
        ends_whole(&disk, parent_of(disk.daemon()), byte);
    }
}

#[test]
fn a_device_is_detached_while_it_is_attached() {
    let Some(disk) = Disk::with_tools(8, &["losetup"]) else { return };
    let link = Path::new("/dev/overdrive").join(&disk.name);
    for byte in 1..=12 {
        std::thread::scope(|scope| {
            let attach = scope.spawn(|| disk.try_attach(&[]));
            // From the first moment at which its daemon receives requests.
            while !attach.is_finished() && disk.detach().status != 0 {}
            attach.join().expect("it ends, well or not");
        });
        wait_until("it is detached", || {
            disk.detach();
            daemon_that_starts(&disk).is_none() && !link.is_symlink()
        });
        write(&disk.attach(), byte);
        ends_whole(&disk, parent_of(disk.daemon()), byte);
    }
}

#[test]
fn a_device_is_detached_while_its_daemon_is_upgraded() {
    let Some(disk) = Disk::with_tools(8, &["losetup"]) else { return };
    let mut dice = Dice::new();
    for byte in 1..=8 {
        write(&disk.attach(), byte);
        let supervisor = parent_of(disk.daemon());
        let delay = Duration::from_millis(dice.between(0, 80));
        let mut upgrade = disk.home.command(&["upgrade"]);
        upgrade.stdout(Stdio::null()).stderr(Stdio::null());
        let mut upgrade = upgrade.spawn().expect("it starts");
        pause(delay);
        disk.detach();
        // If the daemon has ended for the detach, the upgrade waits half a minute for the next one.
        wait_until("the upgrade or the daemon has ended", || {
            upgrade.try_wait().expect("a child").is_some() || !is_alive(supervisor)
        });
        ends_whole(&disk, supervisor, byte);
        let _ = upgrade.kill();
        upgrade.wait().expect("a child");
    }
}

#[test]
fn of_two_that_attach_by_one_name_at_once_one_gets_it() {
    if !have_devices(&["losetup"]) {
        return;
    }
    let (disk, other) = (Disk::new(8), Disk::among_namespaces(8));
    for byte in 1..=6 {
        let image = text(&other.image);
        // Another user's daemon, and another image.
        let attach = ["attach", image, "--name", &disk.name, "--memory", "64M"];
        let (one, two) = std::thread::scope(|scope| {
            let one = scope.spawn(|| disk.try_attach(&[]));
            let two = scope.spawn(|| other.home.overdrive(&attach));
            (one.join().expect("it ends"), two.join().expect("it ends"))
        });
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [0, 5], "{}{}", one.stderr, two.stderr);
        write(&Path::new("/dev/overdrive").join(&disk.name), byte);
        if one.status == 0 {
            ends_whole(&disk, parent_of(disk.daemon()), byte);
        } else {
            other.home.overdrive(&["detach", &disk.name]).well();
            assert!(
                fs::read(&other.image).expect("ours")[..BYTES].iter().all(|found| *found == byte)
            );
        }
    }
}

#[test]
fn of_two_that_attach_one_image_at_once_one_gets_it() {
    let Some(disk) = Disk::with_tools(8, &["losetup"]) else { return };
    for byte in 1..=4 {
        let (one, two) = std::thread::scope(|scope| {
            let one = scope.spawn(|| disk.try_attach(&[]));
            let two = scope.spawn(|| disk.try_attach(&[]));
            (one.join().expect("it ends"), two.join().expect("it ends"))
        });
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [0, 5], "{}{}", one.stderr, two.stderr);
        write(&Path::new("/dev/overdrive").join(&disk.name), byte);
        ends_whole(&disk, parent_of(disk.daemon()), byte);
    }
}
