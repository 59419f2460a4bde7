//! The properties of a device, and its requests to the volume.

use super::{Disk, MIB, have_devices, kernel_knows_tables, text};
use crate::common::run;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

#[test]
fn a_device_is_a_disk_with_a_volatile_cache() {
    let Some(disk) = Disk::with_tools(64, &["blockdev"]) else { return };
    let device = disk.attach();
    let row = disk.row();
    assert_eq!((&row["route"], &row["mounted"]), (&"fuse".into(), &serde_json::json!([])));
    assert_eq!(
        fs::canonicalize(&device).expect("a link"),
        Path::new(row["device"].as_str().expect("text"))
    );
    let says = |what| disk.says(what);
    assert_eq!((says("queue/write_cache"), says("loop/dio")), ("write back".into(), "1".into()));
    assert_eq!(says("size"), (64 * MIB / 512).to_string());
    // Written data is present, and an fsync is a flush of the volume.
    let file = File::options().read(true).write(true).open(&device).expect("root may");
    file.write_all_at(&[7; 8192], MIB).expect("room");
    let before = disk.counted("flushes");
    file.sync_all().expect("a flush");
    assert!(disk.counted("flushes") > before, "the engine has heard of it");
    drop(file);
    let ended = disk.detach().well();
    let all = "detached; every write acknowledged since its daemon began is on ";
    assert!(ended.stdout.contains(all), "{}", ended.stdout);
    let logs = disk.home.runtime().join("overdrive/logs");
    assert_eq!(fs::read_dir(logs).expect("a directory").count(), 0, "its log goes with it");
    assert!(!device.exists() && !device.is_symlink());
    let mut found = [0; 8192];
    File::open(&disk.image).expect("it is there").read_exact_at(&mut found, MIB).expect("inside");
    assert_eq!(found, [7; 8192]);
    assert_eq!(run("losetup", &["--noheadings", "-j", text(&disk.image)]).stdout, "");
}

#[test]
fn what_was_never_synced_is_on_the_image_after_a_detach() {
    let Some(disk) = Disk::with_tools(32, &["dd", "cmp"]) else { return };
    let device = disk.attach_with(&["--write", "back-now"]);
    // Into the page cache of the device, without a sync: a detach flushes both.
    let random = disk.home.path().join("random");
    let (from, to) = (format!("of={}", random.display()), format!("of={}", device.display()));
    run("dd", &["if=/dev/urandom", &from, "bs=1M", "count=32", "status=none"]).well();
    run("dd", &[&format!("if={}", random.display()), &to, "bs=1M", "status=none"]).well();
    disk.detach().well();
    run("cmp", &[text(&random), text(&disk.image)]).well();
}

#[test]
fn a_table_of_partitions_is_found() {
    let Some(disk) = Disk::with_tools(64, &["sfdisk", "partx", "mkfs.ext4"]) else { return };
    let table = format!(
        "printf 'label: gpt\\nsize=16M\\nsize=32M\\n' | sfdisk -q {}",
        disk.image.display()
    );
    run("sh", &["-c", &table]).well();
    let device = disk.attach();
    if !kernel_knows_tables() {
        run("partx", &["--add", text(&fs::canonicalize(&device).expect("a link"))]).well();
    }
    let second = format!("{}p2", disk.row()["device"].as_str().expect("text"));
    let mounted = disk.make_and_mount(Path::new(&second));
    fs::write(mounted.path("file"), "on a partition").expect("room");
    // The message names the partition's mount, which holds the device.
    assert_eq!(disk.row()["mounted"], serde_json::json!([mounted.0]));
    disk.detach().refused(5, &["has the partition", text(&mounted.0)]);
    disk.kill_daemon();
    run("sync", &["-f", text(&mounted.0)]).well();
    assert_eq!(fs::read(mounted.path("file")).expect("it goes on"), b"on a partition");
    disk.detach().refused(5, &["has the partition", text(&mounted.0)]);
    mounted.unmount();
    disk.detach().well();
    // The table is on the image, for any later reader.
    let read = run("sfdisk", &["--json", text(&disk.image)]).well().stdout;
    assert!(read.contains("\"size\": 65536"), "{read}");
}

#[test]
fn a_trim_of_a_file_system_frees_the_image() {
    if !have_devices(&["mkfs.ext4", "fstrim"]) {
        return;
    }
    use std::os::unix::fs::MetadataExt;
    let disk = Disk::new(256);
    let mounted = disk.make_and_mount(&disk.attach());
    fs::write(mounted.path("file"), vec![1; 100 << 20]).expect("room");
    run("sync", &["-f", text(&mounted.0)]).well();
    let used = || fs::metadata(&disk.image).expect("it is there").blocks() * 512;
    disk.home.overdrive(&["volume", "flush"]).well();
    assert!(used() > 100 * MIB);
    fs::remove_file(mounted.path("file")).expect("it was there");
    // Blocks that the journal has not committed are not free.
    run("sync", &["-f", text(&mounted.0)]).well();
    // The next daemon frees them as well.
    disk.kill_daemon();
    run("fstrim", &[text(&mounted.0)]).well();
    mounted.unmount();
    disk.detach().well();
    assert!(used() < 60 * MIB, "{}", used());
}

#[test]
fn a_volume_that_is_only_read_is_a_device_that_is() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    let device = disk.attach_with(&["--read-only"]);
    assert_eq!(disk.says("ro"), "1");
    let refused =
        File::options().write(true).open(&device).and_then(|file| file.write_at(&[1; 512], 0));
    refused.expect_err("it is read only");
    disk.detach().well();
}
