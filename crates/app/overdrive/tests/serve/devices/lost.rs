//! A daemon and the holder of its memory are killed together under a device that is in use:
//! programs get errors, and never older data.

use super::{Disk, MIB, have_devices, is_alive, text};
use crate::common::{Server, place, wait_until};
use crate::home::Home;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

const BLOCK: usize = 4096;

/// Absorb from the first write on, and write nothing back by age.
const ABSORB: [&str; 4] = ["--write", "back-now", "--dirty-age", "1000s"];

/// A block with space before it, so that it can be aligned for direct I/O.
struct Aligned(Vec<u8>);

impl Aligned {
    fn of(byte: u8) -> Aligned {
        Aligned(vec![byte; 2 * BLOCK])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let skip = self.0.as_ptr().align_offset(BLOCK);
        &mut self.0[skip..skip + BLOCK]
    }
}

/// An open file or device that bypasses the page cache.
pub(super) struct Direct(OwnedFd);

impl Direct {
    pub(super) fn open(path: &Path) -> Direct {
        Direct::try_open(path).expect("it is there")
    }

    fn try_open(path: &Path) -> io::Result<Direct> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        Ok(Direct(rustix::fs::open(path, flags, Mode::empty())?))
    }

    pub(super) fn write(&self, block: u64, byte: u8) -> io::Result<()> {
        let mut from = Aligned::of(byte);
        let written = rustix::io::pwrite(&self.0, from.bytes(), block * BLOCK as u64)?;
        assert_eq!(written, BLOCK);
        Ok(())
    }

    pub(super) fn read(&self, block: u64) -> io::Result<u8> {
        let mut into = Aligned::of(0xee);
        match rustix::io::pread(&self.0, into.bytes(), block * BLOCK as u64)? {
            BLOCK => Ok(into.bytes()[0]),
            // The device is being made, and has no size yet.
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes a block that begins with these bytes.
    pub(super) fn write_header(&self, block: u64, header: &[u8]) -> io::Result<()> {
        let mut from = Aligned::of(0);
        from.bytes()[..header.len()].copy_from_slice(header);
        let written = rustix::io::pwrite(&self.0, from.bytes(), block * BLOCK as u64)?;
        assert_eq!(written, BLOCK);
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Writes a block and flushes it, then writes it again without a flush.
    fn write_twice(&self) {
        self.write(0, b'N').expect("it serves");
        self.sync().expect("it serves");
        self.write(0, b'D').expect("it serves");
    }

    /// Asserts that it answers every request with an error.
    fn is_pulled(&self) {
        self.read(0).expect_err("what is there is not what was written");
        self.sync().expect_err("what was written is lost");
        self.write(1, b'X').expect_err("a disk that was pulled out");
    }
}

/// Kills processes at the same moment, as far as they could notice.
fn kill_together(pids: &[Pid]) {
    for signal in [Signal::STOP, Signal::KILL] {
        pids.iter().for_each(|pid| kill_process(*pid, signal).expect("it runs"));
    }
    wait_until("they have ended", || !pids.iter().any(|pid| is_alive(*pid)));
}

impl Disk {
    /// Returns the holders of its memory, without those of mounts.
    fn memory_holders(&self) -> Vec<Pid> {
        self.home.holders().iter().filter_map(|holder| Pid::from_raw(holder.holder_pid)).collect()
    }

    /// Returns its state and its daemon. None: no daemon answers.
    fn standing(&self) -> Option<(String, Pid)> {
        let listed = self.home.overdrive(&["volume", "list", "-n", "-o", "state,pid"]).stdout;
        let mut words = listed.split_whitespace();
        let state = words.next()?.to_owned();
        Some((state, Pid::from_raw(words.next()?.parse().ok()?)?))
    }

    /// Kills the daemon and the holders of its memory; waits for the next daemon.
    fn lose_memory(&self) {
        let (_, daemon) = self.standing().expect("it serves");
        kill_together(&[&[daemon], &self.memory_holders()[..]].concat());
        wait_until("another one serves", || {
            self.standing().is_some_and(|(state, pid)| pid != daemon && state != "orphaned")
        });
    }

    /// Asserts that it is reported as lost; returns its daemon.
    fn is_lost(&self) -> Pid {
        let is_served = |state: &str| !["orphaned", "waiting"].contains(&state);
        let served = || self.standing().filter(|(state, _)| is_served(state));
        wait_until("a daemon answers", || served().is_some());
        let (state, daemon) = served().expect("it stays so");
        assert_eq!(state, "lost", "{}", self.log());
        daemon
    }
}

#[test]
fn a_device_whose_memory_is_lost_answers_with_errors_until_it_is_attached_again() {
    if have_devices(&[]) {
        is_lost_with_its_memory(&[]);
    }
}

/// A device by some route is in use while its daemon and its holder are killed.
pub(super) fn is_lost_with_its_memory(attach: &[&str]) {
    let disk = Disk::among_namespaces(64);
    let device = disk.attach_with(&[attach, &ABSORB].concat());
    let open = Direct::open(&device);
    open.write_twice();
    disk.lose_memory();
    disk.is_lost();
    open.is_pulled();
    Direct::open(&device).is_pulled();
    disk.home.overdrive(&["volume", "flush", &disk.name]).refused(7, &["memory was lost"]);
    assert!(disk.log().contains("until it is detached"), "{}", disk.log());
    disk.detach().refused(5, &[]);
    // The loss stays known after another daemon, and after one that ended in order.
    let daemon = disk.is_lost();
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    let daemon = disk.is_lost();
    open.is_pulled();
    kill_process(daemon, Signal::TERM).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    disk.try_attach(&[attach, &ABSORB].concat()).well();
    disk.is_lost();
    open.is_pulled();
    drop(open);
    let image = text(&disk.image).to_owned();
    disk.detach().refused(7, &["memory was lost", &image, "power cut"]);
    let device = disk.attach_with(attach);
    let open = Direct::open(&device);
    assert_eq!(open.read(0).expect("it serves"), b'N', "what was flushed is there");
    open.write(0, b'E').expect("it serves");
    open.sync().expect("it serves");
    drop(open);
    disk.detach().well();
    assert_eq!(fs::read(&disk.image).expect("it is there")[0], b'E');
}

/// The holder of the mount ends with the daemon: the kernel ends the device's file, and the next
/// device is another one.
#[test]
fn a_device_whose_mount_is_lost_is_made_anew_over_what_was_kept() {
    if !have_devices(&[]) {
        return;
    }
    for (with_memory, left) in [(false, b'D'), (true, b'N')] {
        let disk = Disk::among_namespaces(64);
        let device = disk.attach_with(&[&["--via", "fuse"], &ABSORB[..]].concat());
        let open = Direct::open(&device);
        open.write_twice();
        let daemon = disk.daemon();
        let of_memory = disk.memory_holders();
        let holders = disk.all_holders().into_iter().filter_map(Pid::from_raw);
        let holders = holders.filter(|pid| with_memory || !of_memory.contains(pid));
        kill_together(&holders.chain([daemon]).collect::<Vec<_>>());
        wait_until("another one serves", || {
            disk.find_daemon().is_some_and(|found| found != daemon)
        });
        open.is_pulled();
        drop(open);
        // The link leads to the new device a moment after the daemon serves.
        let reads = || Direct::try_open(&device).and_then(|open| open.read(0));
        wait_until("there is another device", || reads().is_ok());
        let fresh = Direct::open(&device);
        assert_eq!(fresh.read(0).expect("it serves"), left);
        drop(fresh);
        disk.detach().well();
        assert_eq!(fs::read(&disk.image).expect("it is there")[0], left);
    }
}

#[test]
fn a_device_that_absorbed_nothing_loses_nothing() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let open = Direct::open(&disk.attach_with(&["--write", "through"]));
    open.write_twice();
    let daemon = disk.daemon();
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("another one serves", || disk.find_daemon().is_some_and(|found| found != daemon));
    assert_eq!(open.read(0).expect("it serves"), b'D', "it was on the backing");
    open.sync().expect("nothing is lost");
    // From now on it absorbs, and may lose data.
    disk.home.overdrive(&["volume", "set", &disk.name, "write=back-now"]).well();
    open.write_twice();
    disk.lose_memory();
    disk.is_lost();
    open.is_pulled();
    drop(open);
    disk.detach().refused(7, &["memory was lost"]);
}

/// No holder retains the memory of a read-only volume, since no data in it can be missing.
#[test]
fn a_device_that_is_only_read_loses_nothing() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    fs::write(&disk.image, vec![b'R'; 64 << 20]).expect("room");
    let device = disk.attach_with(&["--read-only"]);
    let open = fs::File::open(&device).expect("root may");
    for mode in ["write=through", "write=back-now"] {
        disk.home.overdrive(&["volume", "set", &disk.name, mode]).well();
        disk.kill_daemon();
        // Not from the kernel's cache.
        let mut byte = [0];
        crate::common::run("blockdev", &["--flushbufs", text(&device)]).well();
        open.read_exact_at(&mut byte, 4096).expect("nothing is lost");
        assert_eq!(byte, *b"R");
    }
    drop(open);
    disk.detach().well();
}

#[test]
fn a_daemon_that_is_killed_alone_loses_nothing_whatever_it_held() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let open = Direct::open(&disk.attach_with(&ABSORB));
    let kill = || {
        let daemon = disk.daemon();
        kill_process(daemon, Signal::KILL).expect("it runs");
        wait_until("another one serves", || {
            disk.find_daemon().is_some_and(|found| found != daemon)
        });
    };
    kill();
    open.write_twice();
    kill();
    assert_eq!(open.read(0).expect("it serves"), b'D');
    open.sync().expect("nothing is lost");
    kill();
    // Its holder has ended, because nothing was dirty.
    assert_eq!(open.read(0).expect("it serves"), b'D');
    // With a different memory size, retained data is written back first.
    open.write(0, b'E').expect("it serves");
    let daemon = disk.daemon();
    disk.without_supervisor(daemon);
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    let image = text(&disk.image).to_owned();
    disk.home.overdrive(&["attach", &image, "--name", &disk.name, "--write", "none"]).well();
    assert_eq!(open.read(0).expect("it serves"), b'E');
    open.sync().expect("nothing is lost");
    drop(open);
    disk.detach().well();
}

#[test]
fn a_device_over_a_pool_is_lost_with_its_daemon() {
    if !have_devices(&[]) {
        return;
    }
    let (disk, place) = (Disk::among_namespaces(64), place());
    let other = place.path().join("other.img");
    fs::File::create(&other).and_then(|file| file.set_len(64 * MIB)).expect("sparse");
    let pool = format!("pool:{},{}", disk.image.display(), other.display());
    disk.home.overdrive(&["pool", "create", text(&disk.image), text(&other)]).well();
    for memory in ["0", "4M"] {
        let attach = ["attach", &pool, "--name", &disk.name, "--memory", memory];
        let warned = disk.home.overdrive(&attach).well().stderr;
        assert!(warned.contains("all requests then fail"), "{warned}");
        let open = Direct::open(&Path::new("/dev/overdrive").join(&disk.name));
        open.write_twice();
        disk.lose_memory();
        disk.is_lost();
        open.is_pulled();
        drop(open);
        disk.detach().refused(7, &["memory was lost"]);
    }
}

/// A start that fails has served nothing, so no data is missing when the next one succeeds.
#[test]
fn a_start_that_fails_leaves_the_records_as_they_were() {
    if !have_devices(&[]) {
        return;
    }
    let (disk, other, place) = (Disk::among_namespaces(16), Disk::among_namespaces(16), place());
    let spare = place.path().join("spare.img");
    fs::File::create(&spare).and_then(|file| file.set_len(16 * MIB)).expect("sparse");
    // The memory of a cache over several files ends with its daemon.
    let config = disk.home.path().join("host.toml");
    let volumes = format!(
        "[volume.{}]\nbacking = \"stripe:{},{}\"\nmemory = \"4M\"\nwrite = \"back-now\"\nattach = true\n\
         nbd = \"unix:{}\"\n\
         [volume.other]\nbacking = \"{}\"\nmemory = \"4M\"\n",
        disk.name,
        disk.image.display(),
        spare.display(),
        disk.home.socket().display(),
        other.image.display()
    );
    fs::write(&config, volumes).expect("room");
    let serve = || {
        let mut command = Command::new(crate::common::OVERDRIVE);
        command.arg("serve").arg("--config").arg(&config);
        command
    };
    let server = Server::run_in(&disk.home, serve());
    let open = Direct::open(&Path::new("/dev/overdrive").join(&disk.name));
    open.write_twice();
    server.end();
    let records = disk.home.runtime().join("overdrive/served");
    let before = notes(&records);
    assert_eq!(before.len(), 2, "of both files below the device that waits: {before:?}");
    // The record of the other volume cannot be written.
    let found = fs::metadata(&other.image).expect("ours");
    let key = format!("file-{}-{}", found.dev(), found.ino());
    let obstacle = records.join(&key);
    fs::create_dir(&obstacle).expect("room");
    disk.home
        .overdrive(&["serve", "--config", text(&config)])
        .refused(6, &["the record of what is served cannot be written"]);
    fs::remove_dir(&obstacle).expect("it is empty");
    assert_eq!(notes(&records), before);
    let server = Server::run_in(&disk.home, serve());
    assert_eq!(open.read(0).expect("nothing is lost"), b'D');
    open.sync().expect("nothing is lost");
    drop(open);
    server.end().well();
    assert_eq!(notes(&records), []);
}

/// Returns the records of backings, by their keys.
fn notes(records: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(records).into_iter().flatten().flatten();
    let note = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).expect("a record");
        (entry.file_name().to_string_lossy().into_owned(), text)
    };
    let mut notes: Vec<_> = entries.map(note).collect();
    notes.sort();
    notes
}

/// A program that has a file open: writes, waits for a line, then prints the results of reading and
/// flushing.
///
/// A separate process, because the test starts the next server: a child would close the file before
/// it becomes that server, and wait for an answer.
const FILE_USER: &str = r"
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, b'N' * 4096, 0)
os.fsync(fd)
os.pwrite(fd, b'D' * 4096, 0)
print('written', flush=True)
sys.stdin.readline()
for name, act in (('read', lambda: os.pread(fd, 1, 0)), ('sync', lambda: os.fsync(fd))):
    try:
        print(name, act())
    except OSError as error:
        print(name, error.errno)
";

#[test]
fn a_file_whose_memory_is_lost_answers_with_errors_until_it_is_unmounted() {
    if !have_devices(&[]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let image = crate::common::image(&place, 8);
    let directory = home.path().join("files");
    let options =
        [&["--name", "disk", "--memory", "4M", "--fuse", text(&directory)], &ABSORB[..]].concat();
    let server = Server::start_in(&home, &image, &options);
    let mut user = Command::new("/usr/bin/python3");
    user.args(["-c", FILE_USER, text(&directory.join("disk"))]);
    let mut user =
        user.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Debian has it");
    let mut said = BufReader::new(user.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert_eq!(line, "written\n");
    let holders = home.holders();
    let holders = holders.iter().filter_map(|holder| Pid::from_raw(holder.holder_pid));
    let pids: Vec<_> = holders.chain([server.pid()]).collect();
    for signal in [Signal::STOP, Signal::KILL] {
        pids.iter().for_each(|pid| kill_process(*pid, signal).expect("it runs"));
    }
    server.wait();
    let server = Server::start_in(&home, &image, &options);
    server.says("memory was lost");
    drop(user.stdin.take());
    let mut answers = String::new();
    said.read_to_string(&mut answers).expect("text");
    assert_eq!(answers, "read 5\nsync 5\n", "EIO");
    assert!(user.wait().expect("ours").success());
    assert_eq!(server.end().status, 7);
    let server = Server::start_in(&home, &image, &options);
    let first = fs::File::open(directory.join("disk")).and_then(|file| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, 0).map(|()| byte[0])
    });
    assert_eq!(first.expect("it serves"), b'N', "what was flushed is there");
    server.end().well();
}
