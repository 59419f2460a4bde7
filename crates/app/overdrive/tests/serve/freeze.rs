//! `overdrive volume freeze`: the backing is a consistent source of a snapshot.

use crate::common::{Server, have_libnbd, image, pause, place, python, run};
use crate::files::Worker;
use crate::mounted::{Mounted, can_mount, plain};
use std::time::Duration;

#[test]
fn an_image_that_is_copied_while_frozen_mounts_and_does_not_change_under_the_copy() {
    if !can_mount() || !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 128);
    let options = ["--memory", "32M", "--write", "back-now", "--dirty-age", "1000s"];
    let server = Server::start(&image, &options);
    let mounted = Mounted::new(&server);
    let worker = Worker::start(place.path(), &mounted.mount_point());
    for round in 0..3 {
        pause(Duration::from_millis(700));
        server.volume(&["freeze"]).well();
        let copy = place.path().join(format!("copy{round}"));
        run("cp", &["--sparse=always", plain(&image), plain(&copy)]).well();
        pause(Duration::from_millis(300));
        run("cmp", &[plain(&image), plain(&copy)]).well();
        server.volume(&["resume"]).well();
        check_snapshot(&copy);
        std::fs::remove_file(&copy).expect("ours");
    }
    worker.end(place.path());
    mounted.check();
    drop(mounted);
    server.end().well();
}

/// Checks the state that a machine finds after a power cut: once its journal is replayed, it is
/// consistent.
fn check_snapshot(copy: &std::path::Path) {
    let mount = copy.with_extension("mount");
    std::fs::create_dir(&mount).expect("room");
    run("mount", &["-o", "loop", plain(copy), plain(&mount)]).well();
    run("umount", &[plain(&mount)]).well();
    run("e2fsck", &["-fn", plain(copy)]).well();
    std::fs::remove_dir(&mount).expect("ours");
}

/// Arguments: URI, the program, its runtime directory.
const HELD_BACK: &str = r#"
import nbd, os, subprocess, sys, time
uri, program, runtime = sys.argv[1:]
def volume(*words): subprocess.run([program, "volume", *words], check=True, stdout=subprocess.DEVNULL,
                                   env={**os.environ, "XDG_RUNTIME_DIR": runtime})
h = nbd.NBD(); h.connect_uri(uri)
h.pwrite(b"1" * 4096, 0)
volume("freeze")
volume("freeze")
assert h.pread(4096, 0) == b"1" * 4096, "reads go on"
pending = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"2" * 4096)), n * 4096) for n in range(64)]
end = time.monotonic() + 1
while time.monotonic() < end: h.poll(50)
assert not any(h.aio_command_completed(cookie) for cookie in pending), "a change while frozen"
assert h.pread(4096, 0) == b"1" * 4096
volume("resume")
while pending:
    h.poll(1000)
    pending = [cookie for cookie in pending if not h.aio_command_completed(cookie)]
assert h.pread(4096, 63 * 4096) == b"2" * 4096
"#;

#[test]
fn changes_wait_while_reads_go_on_and_a_kill_ends_the_frost() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let mut server = Server::start(&image, &["--memory", "8M", "--write", "back-now"]);
    let runtime = server.home.runtime();
    python(HELD_BACK, &[&server.uri, crate::common::OVERDRIVE, plain(&runtime)]).well();
    server.volume(&["freeze"]).well();
    server = server.reborn();
    let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    assert_eq!(rows["volumes"][0]["state"], "serving");
    // A frozen volume ends like any other.
    server.volume(&["freeze"]).well();
    server.end().well();
}
