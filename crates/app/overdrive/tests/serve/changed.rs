//! Images changed by other programs while no daemon serves them, in each way that a user may (C9).
//!
//! ```text
//!   early programs open     one daemon serves all,        the changes,      the next daemon:
//!   their images        --> all blocks are cached     --> no daemon   --> equal to the images?
//! ```
//!
//! One daemon serves all images of the table, each the subject of one change.

use crate::common::{
    OVERDRIVE, PYTHON, Server, have, have_libnbd, is_root, pause, place, python, run, wait_until,
};
use crate::home::Home;
use crate::mounted::plain;
use crate::programs::{install_overdrive, install_script};
use holder::Keeper;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const BYTES: usize = 1 << 20;

/// A way to change an image.
struct Change {
    name: &'static str,
    /// Lines of the volume's configuration.
    settings: &'static str,
    /// Programs that the change requires.
    tools: &'static [&'static str],
    by: By,
}

enum By {
    /// A shell script, which finds the image in `$I`, older contents of the same size in `$O`, and
    /// room for its files at `$W`.
    Script(&'static str),
    /// The same, as root, with loop devices.
    Loop(&'static str),
    /// A Python program that opens the image, `sys.argv[1]`, before the daemon begins. It calls
    /// `wait()` once before the daemon ends and once before its change.
    Early(&'static str),
}

use By::{Early, Loop, Script};

const fn by_script(name: &'static str, script: &'static str) -> Change {
    Change { name, settings: "", tools: &[], by: Script(script) }
}

const fn by_early(name: &'static str, program: &'static str) -> Change {
    Change { name, settings: "", tools: &[], by: Early(program) }
}

const fn by_loop(name: &'static str, tools: &'static [&'static str], by: &'static str) -> Change {
    Change { name, settings: "", tools, by: Loop(by) }
}

/// The change of volumes with other settings.
const SHORT: &str = "dd if=$O of=$I bs=4k seek=3 count=1 conv=notrunc";

const CHANGES: [Change; 28] = [
    by_script("dd", "dd if=$O of=$I bs=4k seek=3 count=5 conv=notrunc"),
    by_script("dd-direct", "dd if=$O of=$I bs=4k seek=3 count=5 conv=notrunc oflag=direct"),
    by_script("dd-old-times", "cp -p $I $W; dd if=$O of=$I bs=4k conv=notrunc; touch -r $W $I"),
    by_script("restored-over", "cp $O $I"),
    by_script("restored-by-rename", "cp $O $W; mv $W $I"),
    by_script("moved-and-replaced", "mv $I $W; cp $O $I"),
    by_script("removed-and-restored", "rm $I; cp $O $I"),
    by_script("shrunk-and-grown", "truncate -s 512K $I; truncate -s 1M $I"),
    by_script(
        "shrunk-and-grown-by-path",
        "/usr/bin/python3 -c 'import os, sys
for size in (1 << 19, 1 << 20): os.truncate(sys.argv[1], size)' $I",
    ),
    by_script("shrunk", "truncate -s 512K $I"),
    by_script("grown", "truncate -s 2M $I; dd if=$O of=$I bs=4k seek=250 count=10 conv=notrunc"),
    by_script("hole-punched", "fallocate --punch-hole --offset 64K --length 128K $I"),
    by_script("hard-link", "ln $I $W; dd if=$O of=$W bs=4k seek=9 count=1 conv=notrunc"),
    by_script("linked-and-renamed", "ln $I $W; mv $W $W.2; dd if=$O of=$W.2 bs=4k conv=notrunc"),
    by_script("other-mount-namespace", "unshare -rm dd if=$O of=$I bs=4k count=2 conv=notrunc"),
    by_script(
        "mapped",
        "/usr/bin/python3 -c 'import mmap, sys
with open(sys.argv[1], \"r+b\") as file, mmap.mmap(file.fileno(), 0) as memory:
    memory[5000:5003] = b\"new\"' $I",
    ),
    by_script(
        "copied-by-the-kernel",
        "/usr/bin/python3 -c 'import os, sys
old, image = os.open(sys.argv[2], os.O_RDONLY), os.open(sys.argv[1], os.O_WRONLY)
os.copy_file_range(old, image, 8192, 0, 8192)' $I $O",
    ),
    Change { settings: "read_only = true\n", ..by_script("read-only", SHORT) },
    Change { settings: "durability = 'ordered'\n", ..by_script("ordered", SHORT) },
    Change { settings: "write = 'through'\n", ..by_script("write-through", SHORT) },
    Change {
        name: "qemu-img-commit",
        settings: "",
        tools: &["qemu-img", "qemu-io"],
        // The holder's lock would refuse it.
        by: Script(
            r#"file="{\"driver\":\"file\",\"filename\":\"$I\",\"locking\":\"off\"}"
            base="json:{\"driver\":\"raw\",\"file\":$file}"
            qemu-img create -q -f qcow2 -F raw -b "$base" $W
            qemu-io -c 'write -P 7 64k 64k' $W
            qemu-img commit -q $W"#,
        ),
    },
    by_loop(
        "loop",
        &["losetup", "dd"],
        "L=$(losetup --find --show $I); dd if=$O of=$L bs=4k count=3 conv=fsync; losetup -d $L",
    ),
    by_loop(
        "mounted",
        &["losetup", "mkfs.ext4", "mount", "umount"],
        "mkdir $W; mount -o loop $I $W; dd if=$O of=$W/file bs=4k count=9; umount $W",
    ),
    by_early("early-write", "wait(); wait(); os.pwrite(image, b'new', 9000)"),
    by_early("early-direct", "wait(); wait(); direct(); os.pwritev(image, [page(b'n')], 8192)"),
    by_early(
        "early-inherited",
        "wait(); wait()
subprocess.run(['dd', 'if=/dev/zero', 'count=9', 'conv=notrunc'], stdout=image)",
    ),
    // The page is dirty already, so this store changes no time of the file.
    by_early(
        "early-mapped",
        "memory = mmap.mmap(image, 0); os.close(image); wait(); memory[9:10] = memory[9:10]
wait(); memory[9:12] = b'new'",
    ),
    by_early("early-closed", "wait(); wait(); os.pwrite(image, b'new', 9000); os.close(image)"),
];

/// Start of each early program.
const PRELUDE: &str = r#"
import fcntl, mmap, os, subprocess, sys
image = os.open(sys.argv[1], os.O_RDWR)
def wait():
    print("done", flush=True)
    sys.stdin.readline()
def direct(): fcntl.fcntl(image, fcntl.F_SETFL, os.O_DIRECT)
def page(byte):
    memory = mmap.mmap(-1, 4096); memory.write(byte * 4096); return memory
"#;

/// Arguments: a socket, then names of volumes, each followed by the file that it must equal.
const COMPARE: &str = r#"
import nbd, sys
socket, rest = sys.argv[1], sys.argv[2:]
for name, path in zip(rest[::2], rest[1::2]):
    h = nbd.NBD(); h.connect_uri(f"nbd+unix:///{name}?socket={socket}")
    with open(path, "rb") as file: expected = file.read()
    if h.get_size() != len(expected): sys.exit(f"{name}: {h.get_size()} bytes")
    for at in range(0, len(expected), 4096):
        if h.pread(4096, at) != expected[at:at + 4096]: sys.exit(f"{name}: byte {at} is old")
    h.shutdown()
"#;

/// How the daemon ends before the changes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Stopped,
    Killed,
    /// The changes begin once the holders have noted the states of their images. The next daemon
    /// has another amount of memory.
    KilledLongBefore,
    /// As a reboot: the holders are gone, and their directory.
    Rebooted,
    Upgraded,
}

/// A program that has its image open since before the daemon began.
struct EarlyProgram {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl EarlyProgram {
    fn start(image: &Path, program: &str) -> EarlyProgram {
        // The last `wait` keeps the image open until the end of the test.
        let program = format!("{PRELUDE}\n{program}\nwait()");
        let mut command = Command::new(PYTHON);
        command.args(["-c", &program, plain(image)]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python");
        let input = child.stdin.take().expect("piped");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        wait_for_step(&mut output);
        EarlyProgram { child, input, output }
    }

    /// Runs the program until it waits again.
    fn go_on(&mut self) {
        self.input.write_all(b"\n").expect("it waits");
        wait_for_step(&mut self.output);
    }
}

fn wait_for_step(output: &mut impl BufRead) {
    let mut line = String::new();
    output.read_line(&mut line).expect("text");
    assert_eq!(line, "done\n", "an early program has failed");
}

impl Drop for EarlyProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The images of a list of changes, and one that nothing changes.
struct Scene<'a> {
    place: &'a Path,
    home: Arc<Home>,
    changes: Vec<&'static Change>,
}

/// Name of the volume that nothing changes.
const UNCHANGED: &str = "unchanged";

impl Scene<'_> {
    fn new(place: &Path, changes: impl Iterator<Item = &'static Change>) -> Scene<'_> {
        let has_loop = is_root() && Path::new("/dev/loop-control").exists();
        let can =
            |change: &&Change| (has_loop || !matches!(change.by, Loop(_))) && have(change.tools);
        let scene = Scene { place, home: Home::new(), changes: changes.filter(can).collect() };
        for (number, name) in scene.names().enumerate() {
            let blocks = (0..BYTES / 512).flat_map(|at| [(at % 251) as u8 + 1; 512]);
            fs::write(scene.image(name), blocks.collect::<Vec<u8>>()).expect("room");
            fs::write(scene.old(name), vec![number as u8 + 128; BYTES]).expect("room");
            if name == "mounted" {
                run("mkfs.ext4", &["-q", "-F", plain(&scene.image(name))]).well();
            }
        }
        scene.write_config("2M");
        scene
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        let names: Vec<_> = self.changes.iter().map(|change| change.name).collect();
        names.into_iter().chain([UNCHANGED])
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.place.join(format!("{name}.{ending}"))
    }

    fn image(&self, name: &str) -> PathBuf {
        self.path(name, "img")
    }

    fn old(&self, name: &str) -> PathBuf {
        self.path(name, "old")
    }

    fn config(&self) -> PathBuf {
        self.place.join("overdrive.toml")
    }

    fn write_config(&self, memory: &str) {
        let mut text = format!("nbd = 'unix:{}'\n", self.home.socket().display());
        let settings = self.changes.iter().map(|change| change.settings).chain([""]);
        for (name, settings) in self.names().zip(settings) {
            let backing = self.image(name);
            // On a busy machine, the guard could bypass the cache.
            text += &format!(
                "[volume.{name}]\nbacking = '{}'\nmemory = '{memory}'\nguard = 'off'\n{settings}",
                backing.display()
            );
        }
        fs::write(self.config(), text).expect("room");
    }

    /// Returns the program of the daemons: one that can be replaced.
    fn program(&self) -> PathBuf {
        self.place.join("overdrive")
    }

    fn start(&self) -> Server {
        let mut command = Command::new(self.program());
        command.args(["serve", "--config", plain(&self.config())]);
        Server::run_in(&self.home, command)
    }

    /// Reads all volumes; asserts that each equals its file with this ending.
    fn compare(&self, ending: &str) {
        let socket = self.home.socket();
        let files: Vec<_> = self.names().map(|name| (name, self.path(name, ending))).collect();
        let pairs = files.iter().flat_map(|(name, path)| [*name, plain(path)]);
        let arguments: Vec<&str> = [plain(&socket)].into_iter().chain(pairs).collect();
        python(COMPARE, &arguments).well();
    }

    /// Returns the script that makes all changes but those of early programs.
    fn script(&self) -> String {
        let scripts = self.changes.iter().filter_map(|change| {
            let (Script(script) | Loop(script)) = change.by else { return None };
            let (image, old) = (self.image(change.name), self.old(change.name));
            let work = self.path(change.name, "work");
            let names = [("I", &image), ("O", &old), ("W", &work)];
            let names = names.map(|(name, path)| format!("{name}='{}'\n", path.display()));
            Some(format!("{}{script}\n", names.concat()))
        });
        format!(
            "set -e\nexec > /dev/null 2>> {}/errors\n{}",
            self.place.display(),
            scripts.collect::<String>()
        )
    }

    /// Makes the holders stay, however long the changes take on a busy machine.
    fn approach(&self) -> Vec<holder::Approach> {
        let runtime = self.home.runtime().join("overdrive");
        let keys = self.names().map(|name| holder::key_at(&self.image(name)).expect("a file"));
        keys.filter_map(|key| Keeper::approach(&runtime, &key).expect("it answers")).collect()
    }

    /// Has all images changed in the daemon's absence. Returns the next daemon.
    fn changed(&self, server: Server, end: End, early: &mut [EarlyProgram]) -> Server {
        let mut change = || {
            let ended = run("sh", &["-c", &self.script()]);
            let errors = fs::read_to_string(self.place.join("errors")).unwrap_or_default();
            assert_eq!(ended.status, 0, "{errors}");
            early.iter_mut().for_each(EarlyProgram::go_on);
        };
        let _approaches = self.approach();
        match end {
            End::Stopped => _ = server.end().well(),
            End::Killed => _ = server.kill(),
            End::KilledLongBefore => {
                server.kill();
                wait_until("all holders have noted the states of their images", || {
                    self.home.holders().iter().all(|holder| holder.has_only_clean)
                });
                pause(Duration::from_millis(50));
                self.write_config("3M");
            }
            End::Rebooted => {
                let holders = self.home.holders();
                server.kill();
                for holder in holders {
                    let pid = Pid::from_raw(holder.holder_pid).expect("a process");
                    kill_process(pid, Signal::KILL).expect("it lives");
                }
                fs::remove_dir_all(self.home.runtime()).expect("ours");
            }
            End::Upgraded => return self.upgraded(server, &mut change),
        }
        change();
        self.start()
    }

    /// Has the images changed between the end of the former program and the start of the next one:
    /// the next one is a script that waits for the changes first.
    fn upgraded(&self, server: Server, change: &mut dyn FnMut()) -> Server {
        // Where a daemon may create files, and execute programs.
        let own = self.home.runtime().join("overdrive");
        let (waits, done) = (own.join("waits"), own.join("done"));
        let real = self.program().with_extension("real");
        install_overdrive(&real);
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = serve ]; then\ntouch '{}'\n\
             while [ ! -e '{}' ]; do sleep 0.02; done\nfi\nexec '{}' \"$@\"\n",
            waits.display(),
            done.display(),
            real.display(),
        );
        install_script(&self.program(), &script);
        std::thread::scope(|scope| {
            let upgrade = scope.spawn(|| self.home.overdrive(&["upgrade"]).well());
            wait_until("the next program starts", || waits.exists());
            change();
            fs::write(&done, "").expect("room");
            upgrade.join().expect("it succeeds");
        });
        server
    }

    /// Returns a counter of each volume.
    fn counters(&self, name: &str) -> Vec<(&'static str, u64)> {
        let count = |volume: &'static str| {
            let stats = self.home.overdrive(&["volume", "stats", volume, "--json"]);
            let stats = stats.json("overdrive.volume-stats/1");
            (volume, stats["counters"][name].as_u64().expect("a counter"))
        };
        self.names().map(count).collect()
    }
}

/// Serves an image for each change, all of it cached; ends the daemon, changes the images, and
/// asserts that the next daemon returns no old byte.
fn no_old_byte_is_read(place: &Path, changes: impl Iterator<Item = &'static Change>, end: End) {
    let scene = Scene::new(place, changes);
    install_overdrive(&scene.program());
    let start = |change: &&Change| match change.by {
        Early(program) => Some(EarlyProgram::start(&scene.image(change.name), program)),
        _ => None,
    };
    let mut early: Vec<_> = scene.changes.iter().filter_map(start).collect();
    let server = scene.start();
    scene.compare("img");
    early.iter_mut().for_each(EarlyProgram::go_on);
    scene.names().for_each(|name| {
        _ = fs::copy(scene.image(name), scene.path(name, "before")).expect("room")
    });
    let server = scene.changed(server, end, &mut early);
    for change in &scene.changes {
        let contents = |ending| fs::read(scene.path(change.name, ending)).expect("a file");
        assert_ne!(contents("img"), contents("before"), "{} changes nothing", change.name);
    }
    scene.compare("img");
    for (name, retained) in scene.counters("blocks_retained") {
        let expected = match (name, end) {
            (UNCHANGED, End::Killed | End::KilledLongBefore | End::Upgraded) => BYTES as u64 / 4096,
            _ => 0,
        };
        assert_eq!(retained, expected, "{name}");
    }
    server.end().well();
}

fn no_old_byte_is_read_after(end: End) {
    if have_libnbd() && have(&["dd", "fallocate", "truncate", "unshare"]) {
        // The daemon of a read-only volume, which no holder retains, is restarted instead.
        let changes = CHANGES.iter().filter(|it| end != End::Upgraded || it.name != "read-only");
        no_old_byte_is_read(place().path(), changes, end);
    }
}

#[test]
fn images_changed_while_the_daemon_is_stopped_are_read_anew() {
    no_old_byte_is_read_after(End::Stopped);
}

#[test]
fn images_changed_right_after_a_kill_are_read_anew() {
    no_old_byte_is_read_after(End::Killed);
}

#[test]
fn images_changed_some_time_after_a_kill_are_read_anew() {
    no_old_byte_is_read_after(End::KilledLongBefore);
}

#[test]
fn images_changed_before_a_reboot_ends_are_read_anew() {
    no_old_byte_is_read_after(End::Rebooted);
}

#[test]
fn images_changed_during_an_upgrade_are_read_anew() {
    no_old_byte_is_read_after(End::Upgraded);
}

/// A file system of its own for a test's images.
struct OtherFileSystem(TempDir);

impl OtherFileSystem {
    fn new(make: &str) -> OtherFileSystem {
        let directory = place();
        let (disk, mount) = (directory.path().join("disk"), directory.path().join("mount"));
        // Smaller ones are refused by mkfs.xfs.
        fs::File::create(&disk).and_then(|file| file.set_len(320 << 20)).expect("sparse");
        run(make, &["-q", plain(&disk)]).well();
        fs::create_dir(&mount).expect("a fresh directory");
        run("mount", &["-o", "loop", plain(&disk), plain(&mount)]).well();
        OtherFileSystem(directory)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("mount")
    }
}

impl Drop for OtherFileSystem {
    fn drop(&mut self) {
        run("umount", &["--lazy", plain(&self.path())]);
    }
}

const REFLINKS: [Change; 3] = [
    by_script("reflink-over", "cp --reflink=always $O $I"),
    by_script("reflink-renamed", "cp --reflink=always $O $W; mv $W $I"),
    by_script("reflink-written", "cp --reflink=always $I $W; dd if=$O of=$I conv=notrunc"),
];

#[test]
fn images_restored_by_reflinks_are_read_anew() {
    let is_able = is_root() && Path::new("/dev/loop-control").exists();
    if !is_able || !have_libnbd() || !have(&["mkfs.xfs", "mkfs.btrfs", "mount", "umount"]) {
        return;
    }
    for make in ["mkfs.xfs", "mkfs.btrfs"] {
        let other = OtherFileSystem::new(make);
        let mount = crate::common::no_namespaces();
        no_old_byte_is_read(&other.path(), REFLINKS.iter(), End::Killed);
        drop(mount);
    }
}

/// Programs that read an image, and have ended before the next daemon starts.
const READERS: [&str; 4] =
    ["dd if=$I of=/dev/null", "cp $I $I.copy", "qemu-img info -U $I", "touch -c -a $I.none"];

#[test]
fn programs_that_only_read_an_image_do_not_cost_its_cached_blocks() {
    if !have_libnbd() || !have(&["dd", "qemu-img"]) {
        return;
    }
    let place = place();
    let scene = Scene::new(place.path(), std::iter::empty());
    install_overdrive(&scene.program());
    let image = scene.image(UNCHANGED);
    let read = || {
        let script = READERS.join("\n");
        run("sh", &["-ec", &format!("I='{}'\n{script}", image.display())]).well();
    };
    let server = scene.start();
    scene.compare("img");
    read();
    server.kill();
    read();
    let server = scene.start();
    assert_eq!(scene.counters("blocks_retained"), [(UNCHANGED, BYTES as u64 / 4096)]);
    scene.compare("img");
    // One that still has it open cannot be distinguished from a writer.
    let reader = fs::File::open(&image).expect("a file");
    server.kill();
    let server = scene.start();
    assert_eq!(scene.counters("blocks_retained"), [(UNCHANGED, 0)]);
    drop(reader);
    server.end().well();
}

/// Arguments: URI, what to do. Blocks are filled with their numbers.
const POOLED: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for at in range(200):
    block = at.to_bytes(8, "big") * 512
    if sys.argv[2] == "write": h.pwrite(block, at * 4096)
    else:
        found = h.pread(4096, at * 4096)
        if found != (block if at != 55 else b"new data" * 512): sys.exit(f"block {at}: {found[:8]}")
h.flush()
"#;

#[test]
fn a_member_of_a_pool_that_is_changed_after_a_kill_is_read_anew() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let members = ["a.img", "b.img"].map(|name| place.path().join(name));
    for member in &members {
        fs::File::create(member).and_then(|file| file.set_len(64 << 20)).expect("sparse");
    }
    let [first, second] = members.each_ref().map(|path| plain(path));
    run(OVERDRIVE, &["pool", "create", first, second]).well();
    let home = Home::new();
    let pool = format!("pool:{first},{second}");
    let serve = || Server::start_in(&home, &pool, &["--memory", "4M"]);
    let server = serve();
    python(POOLED, &[&server.uri, "write"]).well();
    server.end().well();
    let server = serve();
    run("timeout", &["60", "nbdcopy", &server.uri, "null:"]).well();
    server.kill();
    let changed = members.iter().filter(|path| replace_block(path, 55)).count();
    assert_eq!(changed, 1);
    let server = serve();
    python(POOLED, &[&server.uri, "check"]).well();
    server.end().well();
}

/// Replaces the block with this number as its contents, if a file has it.
fn replace_block(path: &Path, number: u64) -> bool {
    let block: Vec<u8> = number.to_be_bytes().repeat(512);
    let mut bytes = fs::read(path).expect("a member");
    let Some(at) = bytes.chunks(4096).position(|chunk| chunk == block) else { return false };
    bytes[at * 4096..][..4096].copy_from_slice(&b"new data".repeat(512));
    let file = fs::File::options().write(true).open(path).expect("ours");
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at * 4096..][..4096], at as u64 * 4096)
        .expect("room");
    true
}
