//! An image that becomes larger or smaller under a device that is in use.

use super::lost::Direct;
use super::{Disk, MIB, have_devices, is_alive, text};
use crate::common::{run, wait_until};
use rustix::process::{Signal, kill_process};
use std::fs::File;

const BLOCK: u64 = 4096;

impl Disk {
    fn set_image(&self, mib: u64) {
        let image = File::options().write(true).open(&self.image).expect("ours");
        image.set_len(mib * MIB).expect("sparse");
    }

    /// Ends the daemon as an operator does, and attaches the volume again.
    fn restart(&self, options: &[&str]) {
        let daemon = self.daemon();
        kill_process(daemon, Signal::TERM).expect("it runs");
        wait_until("it has ended", || !is_alive(daemon));
        self.attach_with(options);
    }

    /// Ends the supervisor and the daemon.
    fn leave_waiting(&self) {
        let daemon = self.daemon();
        self.without_supervisor(daemon);
        kill_process(daemon, Signal::KILL).expect("it runs");
        wait_until("it has ended", || !is_alive(daemon));
    }
}

/// Returns a load over the first 64 MiB that verifies its writes, for some seconds.
fn verified_load(device: &str, seconds: u32) -> String {
    format!(
        "fio --name=t --filename={device} --size=64M --rw=randwrite --bs=4k --iodepth=32 --ioengine=libaio --direct=1 \
         --fsync=256 --time_based --runtime={seconds} --verify=crc32c --verify_backlog=500 --output-format=terse"
    )
}

#[test]
fn a_device_grows_under_load_whatever_is_dirty_and_however_its_daemon_ends() {
    if !have_devices(&["fio"]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let options = ["--write", "back-now", "--dirty-age", "1000s"];
    let device = disk.attach_with(&options);
    let open = Direct::open(&device);
    let load = verified_load(text(&device), 8);
    let fio = std::thread::spawn(move || run("sh", &["-c", &load]));
    let mut mib = 64;
    for round in 0..4 {
        wait_until("something is dirty", || disk.row()["dirty_bytes"].as_u64() > Some(0));
        let beyond = mib * MIB / BLOCK;
        mib += 32;
        disk.set_image(mib);
        match round % 2 {
            0 => disk.kill_daemon(),
            _ => disk.restart(&options),
        }
        assert_eq!(disk.says("size"), (mib * MIB / 512).to_string());
        assert_eq!(open.read(beyond).expect("it is there at once"), 0);
        open.write(beyond, b'G').expect("it is there at once");
    }
    fio.join().expect("it ran").well();
    open.sync().expect("nothing is lost");
    drop(open);
    disk.detach().well();
    let image = std::fs::read(&disk.image).expect("it is there");
    assert_eq!(image[64 << 20], b'G');
    assert_eq!(image.len() as u64, mib * MIB);
}

#[test]
fn a_device_grows_while_discards_are_under_way() {
    if !have_devices(&["blkdiscard"]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let device = disk.attach_with(&[]);
    let discards = [8, 16, 24, 32].map(|mib: u64| {
        let command = format!("blkdiscard -f -o {mib}M -l 8M {}", text(&device));
        let load = format!(
            "end=$(($(date +%s) + 20)); while [ $(date +%s) -lt $end ]; do {command} || exit; done"
        );
        std::thread::spawn(move || run("sh", &["-c", &load]))
    });
    let open = Direct::open(&device);
    for mib in [96, 128, 160, 192] {
        disk.set_image(mib);
        disk.kill_daemon();
        wait_until("it has grown", || disk.says("size") == (mib * MIB / 512).to_string());
        open.write(mib * MIB / BLOCK - 1, b'G').expect("it is there at once");
    }
    for load in discards {
        load.join().expect("it ran").well();
    }
    drop(open);
    disk.detach().well();
}

#[test]
fn what_is_dirty_is_taken_over_by_a_larger_image_again_and_again() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let options = ["--write", "back-now", "--dirty-age", "1000s"];
    let open = Direct::open(&disk.attach_with(&options));
    for round in 1..4 {
        let last = (64 + 32 * (round - 1)) * MIB / BLOCK - 1;
        open.write(3, b'a' + round as u8).expect("it serves");
        open.write(last, b'A' + round as u8).expect("it serves");
        disk.set_image(64 + 32 * round);
        disk.kill_daemon();
        assert_eq!(open.read(3).expect("it serves"), b'a' + round as u8);
        assert_eq!(open.read(last).expect("it serves"), b'A' + round as u8);
    }
    open.sync().expect("nothing is lost");
    drop(open);
    disk.detach().well();
}

#[test]
fn a_device_goes_on_with_less_memory_than_was_dirty() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let options = ["--write", "back-now", "--dirty-age", "1000s", "--flush-target", "0"];
    let open = Direct::open(&disk.attach_with(&options));
    (0..3000).for_each(|block| open.write(block, b'D').expect("it serves"));
    disk.leave_waiting();
    let less = ["attach", text(&disk.image), "--name", &disk.name, "--memory", "4M"];
    disk.home.overdrive(&less).well();
    (0..3000).for_each(|block| assert_eq!(open.read(block).expect("nothing is lost"), b'D'));
    open.sync().expect("nothing is lost");
    drop(open);
    disk.detach().well();
}

/// Returns a device whose image was truncated, written to, and extended to its former size.
fn cut_and_made_whole(attach: &[&str]) -> (Disk, Direct) {
    let disk = Disk::among_namespaces(64);
    let open = Direct::open(&disk.attach_with(&[attach, &["--retry-time", "1s"]].concat()));
    open.write(0, b'N').and_then(|()| open.sync()).expect("it serves");
    disk.set_image(32);
    let _ = open.write(1, b'D');
    open.sync().expect_err("data beyond the smaller size is lost");
    wait_until("it has failed", || disk.row()["state"] == "failed");
    disk.set_image(64);
    open.sync().expect_err("the bytes have not come back");
    (disk, open)
}

/// Options with which a volume may be truncated: with dirty data, with a cache, without one.
const MODES: [&[&str]; 3] = [
    &["--write", "back-now", "--dirty-age", "1000s"],
    &["--write", "through"],
    &["--write", "none"],
];

#[test]
fn an_image_that_was_cut_and_is_whole_again_can_be_gone_on_with() {
    if !have_devices(&[]) {
        return;
    }
    for mode in MODES {
        for way in ["--retry", "--discard-dirty"] {
            let (disk, open) = cut_and_made_whole(mode);
            disk.home.overdrive(&["volume", "clear-error", &disk.name, way]).well();
            assert!(disk.log().contains("beyond the smaller size is lost"), "{}", disk.log());
            open.write(2, b'E').and_then(|()| open.sync()).expect("it serves again");
            drop(open);
            disk.detach().well();
        }
    }
}

#[test]
fn a_failed_volume_is_detached_by_force_and_upgraded() {
    if !have_devices(&[]) {
        return;
    }
    for mode in MODES {
        let (disk, open) = cut_and_made_whole(mode);
        disk.home.overdrive(&["upgrade"]);
        assert!(["failed", "serving"].contains(&disk.row()["state"].as_str().expect("text")));
        disk.set_image(32);
        let _ = open.write(3, b'D');
        open.sync().expect_err("it is cut again");
        drop(open);
        disk.detach().refused(6, &["cannot be flushed", "clear-error", "--force"]);
        disk.home.overdrive(&["detach", &disk.name, "--force"]).refused(6, &["backing"]);
        wait_until("nothing serves it", || disk.find_daemon().is_none());
        disk.set_image(64);
        let device = disk.attach_with(mode);
        if disk.row()["state"] == "failed" {
            disk.home.overdrive(&["volume", "clear-error", &disk.name, "--retry"]).well();
        }
        let open = Direct::open(&device);
        assert_eq!(open.read(0).expect("it serves"), b'N');
        open.write(4, b'F').and_then(|()| open.sync()).expect("it serves again");
        drop(open);
        disk.detach().well();
    }
}

#[test]
fn a_device_that_waits_is_not_served_from_a_smaller_image() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let open = Direct::open(&disk.attach_with(&["--write", "through"]));
    open.write(0, b'N').and_then(|()| open.sync()).expect("it serves");
    disk.leave_waiting();
    disk.set_image(32);
    disk.try_attach(&["--write", "through"]).well();
    assert_eq!(disk.row()["state"], "lost");
    open.read(0).expect_err("a disk that was pulled out");
    open.sync().expect_err("a disk that was pulled out");
    drop(open);
    disk.detach().refused(7, &["has shrunk from 64 MiB"]);
    // From now on it is a smaller disk.
    let open = Direct::open(&disk.attach_with(&["--write", "through"]));
    assert_eq!(open.read(0).expect("it serves"), b'N');
    drop(open);
    disk.detach().well();
}

/// Dirty data beyond the end of a truncated image is retained, until the image has its size again.
#[test]
fn what_is_dirty_is_not_written_to_a_smaller_image() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let options = ["--write", "back-now", "--dirty-age", "1000s", "--retry-time", "1s"];
    let open = Direct::open(&disk.attach_with(&options));
    let last = 64 * MIB / BLOCK - 1;
    open.write(0, b'F').and_then(|()| open.write(last, b'L')).expect("it serves");
    disk.set_image(32);
    let daemon = disk.daemon();
    kill_process(daemon, Signal::KILL).expect("it runs");
    // Its supervisor tries repeatedly, and ends.
    wait_until("it is refused for good", || disk.log().contains("refuses repeatedly"));
    disk.try_attach(&options)
        .refused(7, &["has 33554432 bytes, but had 67108864", "restore its size"]);
    assert_eq!(disk.row()["state"], "waiting");
    disk.set_image(64);
    disk.try_attach(&options).well();
    assert_eq!(
        (open.read(0).expect("it serves"), open.read(last).expect("it serves")),
        (b'F', b'L')
    );
    open.sync().expect("nothing is lost");
    drop(open);
    disk.detach().well();
    let image = std::fs::read(&disk.image).expect("it is there");
    assert_eq!((image[0], image[(last * BLOCK) as usize]), (b'F', b'L'));
}
