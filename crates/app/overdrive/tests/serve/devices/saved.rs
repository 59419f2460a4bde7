//! The configuration file that an attach writes: its volume is raw by declaration.

use super::{Disk, text};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// First bytes of a qcow2 image, version 3.
const QCOW2: &[u8] = b"QFI\xfb\0\0\0\x03";

#[test]
fn an_attached_volume_is_saved_as_raw_whatever_a_guest_writes_into_it() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    let file = disk.home.path().join("saved.toml");
    let save = format!("--save={}", file.display());
    // Nothing is written if nothing is attached.
    let taken = ["attach", "/no/such/image", "--name", &disk.name, &save];
    disk.home.overdrive(&taken).refused(1, &["/no/such/image"]);
    assert!(!file.exists());
    let device = disk.attach_with(&["--wait-time", "5s", &save]);
    let saved = fs::read_to_string(&file).expect("it is saved");
    for line in [
        &format!("backing = \"{}\"\n", text(&disk.image)),
        "format = \"raw\"\n",
        "memory = \"64M\"\n",
        "attach = true\n",
        "wait_time = \"5s\"\n",
    ] {
        assert!(saved.contains(line), "{line}: {saved}");
    }
    let reload = || disk.home.overdrive(&["config", "reload", text(&file)]).well().stdout;
    assert_eq!(reload(), format!("{}: unchanged\n", disk.name), "it declares what is served");
    // The guest makes its disk look like an image, which a command line refuses.
    let guest = File::options().write(true).open(&device).expect("root may");
    guest.write_all_at(&[QCOW2, &[0; 504]].concat(), 0).expect("room");
    guest.sync_all().expect("a flush");
    drop(guest);
    disk.detach().well();
    let config = ["serve", "--config", text(&file), "--run", "test -e \"$NODE\""];
    let mut command = disk.home.command(&config);
    command.env("NODE", &device);
    let served = command.output().expect("it starts");
    assert!(served.status.success(), "{}", String::from_utf8_lossy(&served.stderr));
    // The same attach again finds its own file; with other options it changes nothing.
    disk.attach_with(&["--wait-time", "5s", "--raw", &save]);
    disk.detach().well();
    disk.try_attach(&["--wait-time", "6s", "--raw", &save]).refused(2, &["exists with other"]);
    assert_eq!(fs::read_to_string(&file).expect("there"), saved);
}
