//! Volumes as block devices: `attach`, `detach`, `mount`, `umount`.

mod absent;
mod attached;
mod broker;
mod claimed;
mod faces;
mod killed;
mod lifecycle;
mod loads;
mod lost;
mod mapped;
mod mounting;
mod races;
mod refused;
mod replaced;
mod routes;
mod saved;
mod sizes;
mod unshared;

use crate::common::{Ended, have, image, is_root, no_namespaces, place, run, wait_until};
use crate::home::Home;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLockReadGuard};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Time after which a daemon gives up flushing a device that is being detached.
const FLUSH_TIME: Duration = Duration::from_secs(60);

/// Whether we may make devices, with these programs. Prints the reason if not.
fn have_devices(tools: &[&str]) -> bool {
    let may =
        is_root() && ["/dev/fuse", "/dev/loop-control"].iter().all(|path| Path::new(path).exists());
    if !may {
        // A privilege, not a program: build servers may lack it, too.
        println!("skipped: not root, or no /dev/fuse or loop devices");
    }
    may && have(tools)
}

/// An image that is attached now and then, under a name that no other test uses.
struct Disk {
    home: Arc<Home>,
    name: String,
    image: PathBuf,
    _place: TempDir,
    /// No other test has a mount namespace, so unmounting here unmounts its file system.
    _alone: Option<RwLockReadGuard<'static, ()>>,
}

/// Whether this kernel was built to find partitions: those of an image under an ordinary loop
/// device.
fn kernel_knows_tables() -> bool {
    let place = place();
    let image = image(&place, 8);
    run("sh", &["-c", &format!("echo 'start=2048' | sfdisk -q {}", image.display())]).well();
    let device = run("losetup", &["--find", "--show", "--partscan", text(&image)]).well().stdout;
    let device = device.trim();
    let is_found = Path::new(&format!("{device}p1")).exists();
    run("losetup", &["--detach", device]).well();
    is_found
}

/// Whether a file system is mounted there.
fn is_mounted(place: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("Linux");
    mounts.contains(&format!(" {} ", place.display()))
}

impl Disk {
    /// Returns a disk of this size. None: devices or a tool are missing, so the test is skipped.
    fn with_tools(mib: u64, tools: &[&str]) -> Option<Disk> {
        have_devices(tools).then(|| Disk::new(mib))
    }

    fn new(mib: u64) -> Disk {
        let mut disk = Disk::among_namespaces(mib);
        disk._alone = Some(no_namespaces());
        disk
    }

    /// Makes a disk for a test that itself makes sure that others have nothing mounted.
    fn among_namespaces(mib: u64) -> Disk {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let place = place();
        let image = image(&place, mib);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        Disk { home: Home::new(), name, image, _place: place, _alone: None }
    }

    /// Runs `overdrive attach` with these further arguments.
    fn try_attach(&self, options: &[&str]) -> Ended {
        let image = self.image.display().to_string();
        let fixed = ["attach", &image, "--name", &self.name, "--memory", "64M"];
        self.home.overdrive(&[&fixed, options].concat())
    }

    fn attach(&self) -> PathBuf {
        self.attach_with(&[])
    }

    fn attach_with(&self, options: &[&str]) -> PathBuf {
        let printed = self.try_attach(options).well().stdout;
        let device = PathBuf::from(printed.trim());
        assert_eq!(device, Path::new("/dev/overdrive").join(&self.name));
        device
    }

    fn detach(&self) -> Ended {
        let detach = || self.home.overdrive(&["detach", &self.name]);
        #[allow(clippy::disallowed_methods, reason = "a test of processes")]
        let begun = Instant::now();
        let ended = detach();
        // A flush may have waited that long for other programs' writes to the test's disk.
        match ended.stderr.contains("cannot be flushed") && begun.elapsed() > FLUSH_TIME {
            true => detach(),
            false => ended,
        }
    }

    /// Returns its row of `volume list --json`.
    fn row(&self) -> Value {
        let listed = self.home.overdrive(&["volume", "list", "--json"]);
        listed.json("overdrive.volumes/1")["volumes"][0].clone()
    }

    /// Returns the daemon. On a busy machine it may not answer in time, and is queried again.
    fn daemon(&self) -> Pid {
        let mut found = None;
        wait_until("it serves", || {
            found = self.find_daemon();
            found.is_some()
        });
        found.expect("it serves")
    }

    /// Returns the daemon, if one answers.
    fn find_daemon(&self) -> Option<Pid> {
        let listed = self.home.overdrive(&["volume", "list", "-n", "-o", "state,pid"]).stdout;
        let pid = listed.lines().find_map(|line| line.strip_prefix("serving"))?;
        Pid::from_raw(pid.trim().parse().ok()?)
    }

    /// Kills the daemon, and waits for the next one.
    fn kill_daemon(&self) {
        let daemon = self.daemon();
        kill_process(daemon, Signal::KILL).expect("it runs");
        wait_until("another one serves", || {
            self.find_daemon().is_some_and(|found| found != daemon)
        });
    }

    /// Returns the processes of its holders: of the memory, and of the mount under its device.
    fn all_holders(&self) -> Vec<i32> {
        let ours = format!("XDG_RUNTIME_DIR={}", self.home.runtime().display());
        let is_ours = |pid: &i32| {
            let of = |file| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let environment = of("environ");
            let mut words = environment.split(|byte| *byte == 0);
            of("cmdline").starts_with(b"od-holder") && words.any(|word| word == ours.as_bytes())
        };
        let entries = fs::read_dir("/proc").expect("Linux").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }

    /// Returns a counter of the volume.
    fn counted(&self, name: &str) -> u64 {
        let stats = self.home.overdrive(&["volume", "stats", "--json"]);
        let stats = stats.json("overdrive.volume-stats/1");
        stats["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    /// Reads a file of its device in /sys/block.
    fn says(&self, what: &str) -> String {
        let node = fs::canonicalize(Path::new("/dev/overdrive").join(&self.name)).expect("a link");
        let name = node.file_name().expect("a node").to_string_lossy().into_owned();
        let text = fs::read_to_string(format!("/sys/block/{name}/{what}"));
        text.expect("it is there").trim().to_owned()
    }

    /// Makes a directory to mount on.
    fn directory(&self) -> PathBuf {
        let directory = self.home.path().join("mounted");
        fs::create_dir_all(&directory).expect("room");
        directory
    }

    /// Makes a file system on the device, and mounts it.
    fn make_and_mount(&self, device: &Path) -> Mounted {
        run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0", text(device)]).well();
        self.mount(device)
    }

    fn mount(&self, device: &Path) -> Mounted {
        let directory = self.directory();
        run("mount", &[text(device), text(&directory)]).well();
        Mounted(directory)
    }

    /// Returns the messages of its daemons.
    fn log(&self) -> String {
        let log = self.home.runtime().join("overdrive/logs").join(&self.name);
        fs::read_to_string(log).unwrap_or_default()
    }

    /// Waits until a signal has ended the supervisor, so that a daemon that dies is not restarted.
    fn without_supervisor(&self, daemon: Pid) {
        let parent = parent_of(daemon);
        kill_process(parent, Signal::KILL).expect("it supervises");
        wait_until("the supervisor is gone", || parent_of(daemon) != parent);
    }
}

fn parent_of(process: Pid) -> Pid {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(path).expect("it runs");
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a line of it");
    Pid::from_raw(parent.trim().parse().expect("a number")).expect("not 0")
}

fn is_alive(process: Pid) -> bool {
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    fs::read_to_string(path).is_ok_and(|stat| !stat.contains(") Z "))
}

impl Drop for Disk {
    /// A test that has failed leaves nothing behind.
    fn drop(&mut self) {
        if !self.detach().stdout.contains("detached") {
            self.home.overdrive(&["detach", &self.name, "--force"]);
        }
    }
}

/// A mounted file system, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn unmount(self) {
        run("umount", &[text(&self.0)]).well();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if is_mounted(&self.0) {
            run("umount", &["-l", text(&self.0)]);
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a test's path is text")
}
