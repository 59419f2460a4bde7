//! The daemon of a device is confined, and a broker makes the calls that it must not make.

use super::{Disk, have_devices, text};
use crate::common::{place, run, wait_until};
use crate::confined::{all_parts, assert_attempts_fail, assert_filtered};
use crate::programs::{install_overdrive, install_script};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};

/// Returns the broker of a daemon, which is its child.
fn broker_of(daemon: Pid) -> Option<Pid> {
    let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.as_raw_nonzero())).ok()?;
    let children: Vec<String> = tasks.flatten().filter_map(children).collect();
    let pids = children.iter().flat_map(|list| list.split_whitespace());
    let is_broker = |pid: &i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.starts_with(b"od-broker")
    };
    pids.filter_map(|pid| pid.parse().ok()).find(is_broker).and_then(Pid::from_raw)
}

fn assert_confined(disk: &Disk) {
    let stats = disk.home.overdrive(&["volume", "stats", "--json"]);
    let stats = stats.json("overdrive.volume-stats/1");
    assert_eq!(stats["process"]["confined"], all_parts());
    assert_filtered(disk.daemon());
}

#[test]
fn forbidden_calls_and_files_are_refused_to_the_daemon_of_a_device() {
    if !have_devices(&["python3"]) {
        return;
    }
    let (disk, programs, outside) = (Disk::new(16), place(), place());
    let program = programs.path().join("overdrive");
    install_overdrive(&program);
    let variable = format!("XDG_RUNTIME_DIR={}", disk.home.runtime().display());
    let attach = ["attach", text(&disk.image), "--name", &disk.name, "--memory", "8M"];
    run("env", &[&[variable.as_str(), text(&program)], &attach[..]].concat()).well();
    assert_confined(&disk);
    assert_attempts_fail(&disk.home, &program, outside.path());
    // A program of an earlier version runs, and has no such command.
    install_script(&program, "#!/bin/sh\n[ \"$1\" = --version ]\n");
    disk.home.overdrive(&["upgrade"]).refused(4, &["cannot use the broker", "restart"]);
    disk.detach().well();
}

#[test]
fn a_confined_daemon_finds_users_of_its_device_and_removes_it_also_after_an_upgrade() {
    if !have_devices(&["mkfs.ext4"]) {
        return;
    }
    let disk = Disk::new(64);
    let device = disk.attach();
    let (daemon, own) = (disk.daemon(), std::process::id().to_string());
    let broker = broker_of(daemon);
    assert!(broker.is_some(), "it has a broker");
    for _ in 0..2 {
        assert_confined(&disk);
        let open = File::open(&device).expect("root may");
        disk.detach().refused(5, &["is open in process", &own]);
        drop(open);
        disk.home.overdrive(&["upgrade"]).well();
    }
    assert_eq!((disk.daemon(), broker_of(daemon)), (daemon, broker), "the same processes");
    disk.make_and_mount(&device).unmount();
    let mount = disk.home.runtime().join("overdrive/devices").join(&disk.name);
    assert!(super::is_mounted(&mount));
    disk.detach().well();
    assert!(!super::is_mounted(&mount) && !mount.exists(), "nothing is left");
    let broker = broker.expect("it was there");
    wait_until("the broker ends with its daemon", || !super::is_alive(broker));
}

#[test]
fn a_device_whose_broker_has_ended_is_removed_by_the_next_daemon() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::new(16);
    disk.attach();
    let broker = broker_of(disk.daemon()).expect("it has a broker");
    kill_process(broker, Signal::KILL).expect("it runs");
    wait_until("the broker has ended", || !super::is_alive(broker));
    disk.detach().refused(6, &["kill the daemon", "stays retained"]);
    disk.kill_daemon();
    disk.detach().well();
}

#[test]
fn an_upgrade_whose_device_was_removed_by_another_program_is_refused() {
    if !have_devices(&["losetup"]) {
        return;
    }
    let disk = Disk::new(16);
    let device = disk.attach();
    let node = fs::canonicalize(&device).expect("a link");
    run("losetup", &["--detach", text(&node)]).well();
    disk.home.overdrive(&["upgrade"]).refused(4, &["its device, which was removed", "restart"]);
    assert!(super::is_alive(disk.daemon()), "it continues");
    disk.detach().well();
    // No daemon removes a link to a device that is not its own.
    fs::remove_file(&device).expect("it leads to a free loop device");
}
