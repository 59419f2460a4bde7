//! `ordered` durability under real clients, over a disk that forgets unflushed data, through power
//! cuts: the recovered state is one that a disk could have shown a little earlier (C2, C6). Of
//! numbered commits, the first ones are present, without a gap.

use crate::common::{Server, have, have_libnbd, run, wait_until};
use crate::databases::{Writer, notes_of};
use crate::dice::{Dice, scaled};
use crate::mounted::{Mounted, can_mount, plain};
use crate::power::Host;
use killtest::lossy::{Flushes, LATE_FLUSHES};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Power cuts of each test.
pub(crate) const CUTS: u64 = 3;
/// Minimum number of commits by a client before the power is cut.
const COMMITS_MIN: usize = 30;

/// Returns further options of a daemon.
pub(crate) fn options<'a>(dice: &mut Dice) -> Vec<&'a str> {
    let mut all = vec!["--durability", "ordered"];
    all.extend(["--memory", dice.pick(&["16M", "2M", "200M"])]);
    all.extend(["--write", dice.pick(&["back-now", "back", "through"])]);
    all.extend(["--dirty-age", dice.pick(&["5s", "200ms", "1s"])]);
    all
}

/// Whether such tests can be run here, with these tools.
pub(crate) fn can_run(tools: &[&str]) -> bool {
    can_mount() && have_libnbd() && have(tools)
}

/// Commits of clients, through all cuts.
pub(crate) struct Commits {
    notes: PathBuf,
    /// The last commit that was present after the last cut.
    pub(crate) kept: u64,
    /// Notes from before that cut.
    judged: usize,
}

impl Commits {
    pub(crate) fn new(notes: PathBuf) -> Commits {
        Commits { notes, kept: 0, judged: 0 }
    }

    /// Waits for enough commits since the last cut.
    pub(crate) fn wait(&self, writer: &mut Writer) {
        let before = notes_of(&self.notes).len();
        wait_until("commits", || {
            let ended = writer.0.try_wait().expect("our child");
            assert!(ended.is_none(), "the writer met an error");
            notes_of(&self.notes).len() > before + COMMITS_MIN
        });
    }

    /// Checks the commits after a power cut at this time, of which those up to `last` are present.
    /// A commit that could not be noted any more may be; commits from before must be.
    pub(crate) fn judge(&mut self, what: &str, last: u64, cut: f64) {
        let notes = notes_of(&self.notes);
        let last_noted = notes.last().expect("there are").0;
        assert!(
            last <= last_noted + 1,
            "{what}: commit {last} is there, but {last_noted} was the last"
        );
        assert!(last >= self.kept, "{what}: {} was there after the last cut", self.kept);
        // Numbers that were lost in an earlier cut are used again.
        let lost = notes[self.judged..].iter().find(|note| note.0 == last + 1);
        let age = lost.map_or(0.0, |note| (cut - note.1).max(0.0));
        println!(
            "{what}: {last} of {last_noted} commits are left, the first lost is {age:.3} s old"
        );
        (self.kept, self.judged) = (last, notes.len());
    }
}

/// Arguments: a directory to work in, a file for notes outside of it. Every commit is a file that
/// is made under another name, then a block of a ring that is overwritten; both are synced.
const WORK: &str = r#"
import os, struct, sys, time
where, notes = sys.argv[1:]
notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
directory = os.open(where, os.O_RDONLY)
ring = os.open("ring", os.O_RDWR | os.O_CREAT, dir_fd=directory)
if os.fstat(ring).st_size == 0:
    os.pwrite(ring, bytes(16 * 4096), 0)
    os.fsync(ring)
    os.fsync(directory)
def durably(name, data):
    file = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=directory)
    os.write(file, data)
    os.fsync(file)
    os.close(file)
    os.rename("new", name, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)
number = max([int(name) for name in os.listdir(where) if name.isdecimal()], default=0)
if number > 0:
    # A power cut may have left the file without its block.
    os.pwrite(ring, struct.pack("<Q", number) * 64, number % 16 * 4096)
    os.fdatasync(ring)
while True:
    number += 1
    word = struct.pack("<Q", number)
    durably(str(number), word * (1 + number * 37 % 3000))
    # One sector: a file system with smaller blocks than 4096 bytes writes more in parts.
    os.pwrite(ring, word * 64, number % 16 * 4096)
    os.fdatasync(ring)
    os.write(notes, struct.pack("<Qd", number, time.time()))
    if number > 64:
        os.unlink(str(number - 64), dir_fd=directory)
"#;

/// Argument: the directory. Prints the number of commits, if they are the first ones: no gap in the
/// files, none in the ring, and nothing torn.
const CHECK: &str = r#"
import os, struct, sys
where = sys.argv[1]
there = {int(name) for name in os.listdir(where) if name.isdecimal()}
last = max(there, default=0)
missing = set(range(max(1, last - 63), last + 1)) - there
assert not missing, f"files up to {last} are there, but not {missing}"
for number in there:
    data = open(os.path.join(where, str(number)), "rb").read()
    whole = struct.pack("<Q", number) * (1 + number * 37 % 3000)
    # One that is being deleted is whole or gone.
    assert data == whole, f"file {number} of {last} is not what was written"
path = os.path.join(where, "ring")
ring = open(path, "rb").read() if os.path.exists(path) else b""
assert last == 0 or len(ring) == 16 * 4096, "the ring is gone"
words = [struct.unpack("<64Q", ring[at:at + 512]) for at in range(0, len(ring), 4096)]
assert all(len(set(block)) == 1 for block in words), "a sector of the ring is torn"
numbers = [block[0] for block in words]
newest = max(numbers, default=0)
expected = sorted([max(0, newest - before) for before in range(16)]) if words else []
assert sorted(numbers) == expected, f"the ring has holes: {sorted(numbers)}"
assert newest in (last, last - 1), f"{last} files, but {newest} blocks"
print(last)
"#;

fn worker(mounted: &Mounted, notes: &Path) -> Writer {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", WORK]).arg(mounted.mount_point()).arg(notes);
    // Its last messages are about the error that ended it.
    Writer(command.stderr(Stdio::null()).spawn().expect("Debian's Python"))
}

/// A type of file system, with its tools.
struct Kind {
    mib: u64,
    make: fn(&Server) -> Mounted,
    mount: fn(&Mounted),
    check: fn(&Mounted),
}

const EXT4: Kind =
    Kind { mib: 96, make: Mounted::new, mount: Mounted::mount, check: Mounted::check };
const XFS: Kind =
    Kind { mib: 320, make: Mounted::new_xfs, mount: Mounted::mount_xfs, check: Mounted::check_xfs };

/// A journalling file system through power cuts: it recovers by its own means, its own checker
/// finds nothing, and of the commits the first ones are present.
fn recovers(kind: &Kind, flushes: Flushes, options: &[&str], dice: &mut Dice, cuts: u64) {
    let mut host = Host::start(flushes, kind.mib, options, dice);
    let notes = tempfile::NamedTempFile::new().expect("room");
    let mut commits = Commits::new(notes.path().to_owned());
    let mut mounted = (kind.make)(host.server());
    // A power cut could remove the file system itself, although mkfs was answered. So often that a
    // late disk has flushed it, too.
    for _ in 0..=LATE_FLUSHES {
        fs::write(mounted.mount_point().join("made"), "").expect("room");
        run("sync", &["-f", plain(&mounted.mount_point())]).well();
        host.server().volume(&["flush"]).well();
    }
    for round in 0..cuts {
        let mut writer = worker(&mounted, notes.path());
        commits.wait(&mut writer);
        if round % 2 == 1 {
            // The next daemon continues with the epochs of this one.
            host.kill_and_restart();
            commits.wait(&mut writer);
        }
        let cut = host.cut(mounted, dice);
        drop(writer);
        host.power_on();
        mounted = Mounted::attach(host.server());
        (kind.mount)(&mounted);
        let ended = run("/usr/bin/python3", &["-c", CHECK, plain(&mounted.mount_point())]).well();
        commits.judge("files", ended.stdout.trim().parse().expect("a number"), cut);
        (kind.check)(&mounted);
        (kind.mount)(&mounted);
    }
    assert!(commits.kept > 0, "nothing was ever kept: this proves nothing");
    mounted.unmount();
    drop(mounted);
    host.end();
}

#[test]
fn ext4_recovers_from_power_cuts_without_a_hole() {
    if can_run(&[]) {
        let mut dice = Dice::new();
        recovers(&EXT4, Flushes::Honest, &options(&mut dice), &mut dice, scaled(CUTS));
    }
}

#[test]
fn xfs_recovers_from_power_cuts_without_a_hole() {
    if !can_run(&["mkfs.xfs", "xfs_repair"]) {
        return;
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.trim() == "xfs") {
        // A kernel, not a program: build servers may lack it, too.
        println!("skipped: this kernel has no xfs");
        return;
    }
    let mut dice = Dice::new();
    recovers(&XFS, Flushes::Honest, &options(&mut dice), &mut dice, scaled(CUTS));
}

/// Tests the test: a disk that does each flush some flushes late breaks the order, which the
/// recovery detects. Without a write buffer: behind one it takes still more cuts, because few of
/// them happen where a file system would notice.
#[test]
fn a_disk_that_is_late_is_found() {
    if !can_run(&[]) {
        return;
    }
    let options = ["--durability", "ordered", "--memory", "16M", "--write", "through"];
    let found = std::panic::catch_unwind(|| {
        recovers(&EXT4, Flushes::Late, &options, &mut Dice::new(), 100);
    });
    let why = found.expect_err("100 power cuts have shown nothing");
    let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
    // By the commits, by the checker, by mount, or by the kernel, whose errors a writer gets.
    let signs = ["AssertionError", "is there", "was there", "e2fsck", "mount: ", "met an error"];
    assert!(signs.iter().any(|sign| why.contains(sign)), "found by something else: {why}");
}
