//! The members of a pool are trimmed through the pool's volume.

use crate::scene::{Loop, can_run, drive, overdrive, sh};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A volume that is detached at the end, also of a test that fails.
struct Attached<'a> {
    home: &'a Path,
    name: String,
    directory: PathBuf,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        // Another test's program may look at all mounted file systems just now.
        sh(&format!(
            "for attempt in $(seq 100)
             do
                 mountpoint -q {0} || break
                 umount {0} && break
                 sleep 0.1
             done",
            self.directory.display()
        ));
        let detached = overdrive(self.home, &["detach", &self.name, "--force"]);
        let said = String::from_utf8_lossy(&detached.stderr);
        assert!(detached.status.success() || std::thread::panicking(), "{said}");
    }
}

#[test]
fn the_members_of_a_pool_are_trimmed_through_its_volume_only() {
    if !can_run() || !Path::new("/dev/fuse").exists() {
        return;
    }
    let members = [Loop::new(48), Loop::new(48)];
    let home = members[0].place.path();
    let [one, two] = [&members[0].device, &members[1].device];
    let made = overdrive(home, &["pool", "create", one, two, "--overwrite"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let name = format!("trim-{}", std::process::id());
    let directory = members[0].directory("mounted");
    let volume = Attached { home, name: name.clone(), directory };
    let pool = format!("pool:{one},{two}");
    let attached = overdrive(home, &["attach", &pool, "--name", &name, "--memory", "8M"]);
    assert!(attached.status.success(), "{}", String::from_utf8_lossy(&attached.stderr));
    let unused = drive(home, &["trim", &name]);
    assert_eq!(unused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unused.stderr).contains("is mounted here"));
    let place = volume.directory.display();
    sh(&format!(
        "mkfs.ext4 -q -E nodiscard /dev/overdrive/{name}; mount /dev/overdrive/{name} {place}
         dd if=/dev/urandom of={place}/file bs=1M count=40 status=none; sync; rm {place}/file; sync"
    ));
    let allocated = || -> Vec<u64> {
        use std::os::unix::fs::MetadataExt;
        let blocks = |member: &Loop| fs::metadata(&member.image).expect("ours").blocks() * 512;
        members.iter().map(blocks).collect()
    };
    let before = allocated();
    let dry = drive(home, &["trim", &name, "--dry-run", "--json"]);
    let dry: Value = serde_json::from_slice(&dry.stdout).expect("one object");
    assert_eq!(dry["places"][0]["trimmed_bytes"], Value::Null);
    let trimmed = drive(home, &["trim", &name, "--json"]);
    let object: Value = serde_json::from_slice(&trimmed.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&trimmed.stderr)));
    assert!(object["places"][0]["trimmed_bytes"].as_u64() > Some(40 << 20), "{object}");
    let after = allocated();
    for (number, member) in members.iter().enumerate() {
        let found = &object["members"][number];
        assert_eq!(found["name"], member.device.as_str());
        assert!(found["discards"].as_u64() > Some(0), "{object}");
        // The loop device makes holes in its file: the discards have arrived.
        assert!(after[number] + (10 << 20) < before[number], "{before:?} {after:?}");
        // Only the pool can determine the free blocks of its members.
        let refused = drive(home, &["trim", &member.device]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(5) && said.contains("above it"), "{said}");
        let whole = ["trim", &member.device, "--whole", "--confirm", member.name()];
        assert_eq!(drive(home, &whole).status.code(), Some(5));
    }
    drop(volume);
    // Members of a pool that nothing serves.
    let contents = members[0].contents();
    let whole = drive(home, &["trim", one, "--whole", "--confirm", members[0].name()]);
    let said = String::from_utf8_lossy(&whole.stderr);
    assert!(!whole.status.success() && said.contains("a member of a pool of Overdrive"), "{said}");
    assert!(members[0].contents() == contents, "it has changed");
}
