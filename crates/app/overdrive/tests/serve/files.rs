//! A file system through kills of the daemon.

use crate::common::{Server, have_libnbd, image, place, run, wait_until};
use crate::dice::Dice;
use crate::mounted::{Mounted, can_mount, kill_and_restart, plain};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};

/// Arguments: a directory to work in, a file that ends the work, a file for notes outside of it.
/// Makes files, syncs them, notes their contents, renames and deletes some.
const WORK: &str = r#"
import hashlib, os, random, sys
where, end, notes = sys.argv[1:]
random.seed(5)
notes = open(notes, "w")
alive = []
number = 0
while not os.path.exists(end):
    number += 1
    data = random.randbytes(random.choice([0, 100, 4096, 70000, 1 << 20]))
    path = os.path.join(where, f"file{number}")
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    renamed = path + ".kept"
    os.rename(path, renamed)
    alive.append(renamed)
    print("made", renamed, hashlib.sha256(data).hexdigest(), file=notes, flush=True)
    if len(alive) > 40:
        gone = alive.pop(random.randrange(len(alive)))
        print("gone", gone, "-", file=notes, flush=True)
        os.unlink(gone)
"#;

/// Arguments: the notes. Every file that was made and not deleted is present and correct.
const CHECK: &str = r#"
import hashlib, os, sys
files = {}
for line in open(sys.argv[1]):
    what, path, digest = line.split()
    if what == "made": files[path] = digest
    else: del files[path]
assert files, "nothing was made: this proves nothing"
for path, digest in files.items():
    found = hashlib.sha256(open(path, "rb").read()).hexdigest()
    if found != digest: sys.exit(f"{path} is not what was written")
"#;

/// A worker that a file stops, and that ends with its test.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn start(place: &Path, work: &Path) -> Worker {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", WORK]).arg(work).arg(place.join("end")).arg(place.join("notes"));
        Worker(command.spawn().expect("Debian's Python"))
    }

    pub(crate) fn end(mut self, place: &Path) {
        fs::write(place.join("end"), "").expect("room");
        let mut status = None;
        wait_until("the worker ends", || {
            status = self.0.try_wait().expect("our child");
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "the worker met an error");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_mounted_file_system_outlives_kills_of_the_daemon() {
    if !can_mount() || !have_libnbd() {
        return;
    }
    let mut dice = Dice::new();
    let place = place();
    let image = image(&place, 256);
    let memory = dice.pick(&["16M", "4M", "64M", "300M"]);
    let write = dice.pick(&["back", "back-now", "through"]);
    let age = dice.pick(&["1000s", "100ms", "2s"]);
    let options = ["--memory", memory, "--write", write, "--dirty-age", age];
    let durability = dice.pick(&["flush", "ordered"]);
    let options = [&options[..], &["--durability", durability]].concat();
    let mut server = Server::start(&image, &options);
    let mounted = Mounted::new(&server);
    let worker = Worker::start(place.path(), &mounted.mount_point());
    server = kill_and_restart(server, 4, &mut dice);
    mounted.trim();
    server = kill_and_restart(server, 4, &mut dice);
    worker.end(place.path());
    mounted.check();
    mounted.mount();
    let notes = place.path().join("notes");
    run("/usr/bin/python3", &["-c", CHECK, plain(&notes)]).well();
    mounted.unmount();
    drop(mounted);
    server.end().well();
    // The same from the backing alone.
    run("e2fsck", &["-fn", plain(&image)]).well();
}
