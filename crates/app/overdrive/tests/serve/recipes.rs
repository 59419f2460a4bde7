//! The lines that docs/USE.md tells users to copy, run as they stand there.

use crate::common::{OVERDRIVE, have, image, place, run};
use crate::home::Home;
use crate::mounted::{can_mount, plain};
use std::path::Path;

/// A block of the page, by the word after its `sh`.
fn block(word: &str) -> String {
    let page = include_str!("../../../../../docs/USE.md");
    let start = format!("```sh {word}\n");
    let (_, rest) = page.split_once(&start).expect("the page has this block");
    rest.split_once("```").expect("it ends").0.to_owned()
}

/// A shell script with the program in PATH, in this home.
fn shell(home: &Home, script: &str) -> crate::common::Ended {
    let directory = Path::new(OVERDRIVE).parent().expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("PATH={}:{path}:/usr/sbin:/sbin", directory.display());
    let runtime = format!("XDG_RUNTIME_DIR={}", home.runtime().display());
    // What stays in the background has its own output, or nothing would end.
    let script = format!("exec < /dev/null; set -e\n{script}");
    run("env", &[&path, &runtime, "sh", "-c", &script])
}

#[test]
fn the_mount_recipe_mounts_survives_a_kill_and_leaves_nothing() {
    if !can_mount() || !have(&["nbdkit", "nbdfuse", "fusermount3", "losetup"]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let image = image(&place, 64);
    let (mountpoint, run_place) = (home.path().join("mnt"), home.path().join("sockets"));
    run("mkfs.ext4", &["-q", plain(&image)]).well();
    let own = format!(
        "image={} mountpoint={} run={}",
        plain(&image),
        plain(&mountpoint),
        plain(&run_place)
    );
    let mount = block("mount");
    let (first, mount) = mount.split_once('\n').expect("lines");
    assert!(first.starts_with("image="), "the first line says what is whose: {first}");
    let mount = mount.replace("--memory 2G", "--memory 16M");
    let serve = mount.lines().find(|line| line.starts_with("overdrive serve")).expect("a line");
    let script = format!(
        "{own}\nexec 9>&1 >/dev/null 2>&1\n{mount}\n\
         echo before > $mountpoint/file\nsync -f $mountpoint/file\n\
         kill -9 $(overdrive volume list -n -o pid)\n\
         (sleep 1; exec {}) &\n\
         echo after > $mountpoint/other\nsync -f $mountpoint/other\n\
         cat $mountpoint/file $mountpoint/other >&9\n{}\n[ ! -e $run ]",
        serve.trim_end_matches(" &"),
        block("unmount")
    );
    let ended = shell(&home, &script).well();
    assert_eq!(ended.stdout, "before\nafter\n");
    run("e2fsck", &["-fn", plain(&image)]).well();
}

#[test]
fn the_line_for_virtual_machines_is_understood() {
    if !have(&["qemu-io"]) {
        return;
    }
    let home = Home::new();
    let page = block("qemu");
    let options = page.split_whitespace().find(|word| word.starts_with("driver=nbd")).expect("one");
    assert!(options.contains("reconnect-delay="), "{options}");
    let options = options
        .replace("/run/overdrive-db/db.sock", plain(&home.socket()))
        .replace("node-name=db,", "");
    let script = format!(
        "overdrive serve ram:8M --name db --memory 1M --nbd unix:{} --run \
         'qemu-io --image-opts {options} -c \"write -P 7 0 64k\" -c \"read -P 7 0 64k\"'",
        plain(&home.socket())
    );
    let ended = shell(&home, &script).well();
    assert!(!ended.stdout.contains("failed"), "{}", ended.stdout);
}
