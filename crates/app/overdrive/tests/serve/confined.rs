//! A daemon that serves has given up what it does not need: calls of the system, and files.
//!
//! The other tests of this program run confined as well: nothing turns the confinement off.

use crate::common::{Ended, Server, image, place};
use crate::home::Home;
use crate::programs::{install_overdrive, install_script};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Returns the lines of /proc/PID/task/TID/status of each thread of a process.
fn threads(process: Pid) -> Vec<BTreeMap<String, String>> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let status = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("status")).ok()?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Some(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    };
    tasks.expect("it runs").flatten().filter_map(status).collect()
}

/// Capabilities of a daemon with files or devices by FUSE, as bits: CAP_DAC_OVERRIDE,
/// CAP_DAC_READ_SEARCH, CAP_NET_BIND_SERVICE, CAP_IPC_LOCK, CAP_SYS_RESOURCE and CAP_LEASE.
const CAPABILITIES: u64 = 1 << 1 | 1 << 2 | 1 << 10 | 1 << 14 | 1 << 24 | 1 << 28;

/// Asserts that each thread has one filter of calls and few capabilities, and that no program gives
/// it other rights.
pub(crate) fn assert_filtered(process: Pid) {
    for thread in threads(process) {
        let field = |name: &str| thread.get(name).map(String::as_str).unwrap_or_default();
        assert_eq!(field("Seccomp"), "2", "{}: a filter", field("Name"));
        assert_eq!(field("Seccomp_filters"), "1", "{}: one filter", field("Name"));
        assert_eq!(field("NoNewPrivs"), "1", "{}", field("Name"));
        // The kernel's workers of a ring carry out its requests and run no code of the process.
        // Some were made before it was confined.
        if field("Name").starts_with("iou-") {
            continue;
        }
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let rights = u64::from_str_radix(field(set), 16).expect("a number");
            assert_eq!(rights & !CAPABILITIES, 0, "{}: {set}", field("Name"));
        }
    }
}

/// Returns the report of a daemon that is confined in all parts.
pub(crate) fn all_parts() -> serde_json::Value {
    serde_json::json!({ "calls": true, "files": "yes", "rights": true })
}

fn confined(server: &Server) -> serde_json::Value {
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    stats["process"]["confined"].clone()
}

#[test]
fn all_threads_are_confined_and_an_upgrade_adds_no_filter() {
    let place = place();
    let image = image(&place, 8);
    let server = Server::start(&image, &["--memory", "2M", "--threads", "3"]);
    for _ in 0..3 {
        assert!(threads(server.pid()).len() >= 3, "home and two further lanes");
        assert_filtered(server.pid());
        assert_eq!(confined(&server), all_parts());
        server.home.overdrive(&["upgrade"]).well();
    }
    let people = server.volume(&["stats"]).well().stdout;
    assert!(people.contains("confined  system calls, files, capabilities"), "{people}");
    server.end().well();
}

/// A program that a daemon runs in its confinement. It tries what is forbidden, and appends the
/// errors to a file.
const ATTEMPTS: &str = r#"#!/usr/bin/python3
import ctypes, errno, mmap, os, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
outside, report = OUTSIDE, REPORT
clone = 56 if os.uname().machine == "x86_64" else 220
results = []

def result(name, call):
    try:
        call()
        results.append(name + " done")
    except OSError as error:
        results.append(name + " " + errno.errorcode[error.errno])

def check(returned):
    if returned == -1:
        raise OSError(ctypes.get_errno(), "refused")

def cloned():
    child = libc.syscall(clone, 0x10000000 | 17, None, None, None, None)
    if child == 0:
        os._exit(0)
    check(child)

def opened(path, flags):
    os.close(os.open(path, flags, 0o600))

result("shadow", lambda: opened("/etc/shadow", os.O_RDONLY))
result("ptrace", lambda: check(libc.ptrace(16, 0, None, None)))
result("unshare", lambda: check(libc.unshare(0x10000000)))
result("mount", lambda: check(libc.mount(b"none", b"/nowhere", b"tmpfs", 0, None)))
result("unmount", lambda: check(libc.umount2(b"/nowhere", 0)))
result("chroot", lambda: os.chroot("/"))
result("personality", lambda: check(libc.personality(0xffffffff)))
result("name space", lambda: check(libc.setns(0, 0)))
result("clone", cloned)
result("clone3", lambda: check(libc.syscall(435, None, 0)))
result("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
result("code", lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC))
result("read", lambda: opened(outside + "/secret", os.O_RDONLY))
result("write", lambda: opened(outside + "/secret", os.O_WRONLY))
result("create", lambda: opened(outside + "/new", os.O_WRONLY | os.O_CREAT))
result("list", lambda: os.listdir(outside))
result("remove", lambda: os.remove(outside + "/secret"))
result("other program", lambda: subprocess.run([outside + "/program"]))
result("own program", lambda: opened(sys.argv[0], os.O_RDONLY))
result("own program's text", lambda: opened(sys.argv[0], os.O_WRONLY))
result("fork", lambda: os._exit(0) if os.fork() == 0 else os.wait())
with open(report, "w") as file:
    file.write("\n".join(results) + "\n")
sys.exit(1)
"#;

#[test]
fn forbidden_calls_and_files_are_refused_to_a_daemon_and_to_the_programs_that_it_runs() {
    if !Path::new("/usr/bin/python3").exists() {
        println!("skipped: no /usr/bin/python3");
        return;
    }
    let (images, programs, outside) = (place(), place(), place());
    let image = image(&images, 8);
    let program = programs.path().join("overdrive");
    install_overdrive(&program);
    let home = Home::new();
    let mut command = Command::new(&program);
    command.arg("serve").arg(&image).args(["--memory", "2M"]);
    let server = Server::spawn_in(&home, command);
    assert_attempts_fail(&home, &program, outside.path());
    server.volume(&["flush"]).well();
    server.end().well();
}

/// Replaces the program of a home's daemon by one that tries what is forbidden, also outside of the
/// daemon's directories, and asserts that all of it is refused.
pub(crate) fn assert_attempts_fail(home: &Home, program: &Path, outside: &Path) {
    // These need no rights that a user does not have, but the domain of the daemon lacks them.
    fs::write(outside.join("secret"), "secret").expect("room");
    install_script(&outside.join("program"), "#!/bin/sh\n");
    let report = home.runtime().join("overdrive/report");
    let attempts = ATTEMPTS.replace("OUTSIDE", &format!("{outside:?}"));
    install_script(program, &attempts.replace("REPORT", &format!("{report:?}")));
    // Before an upgrade, the daemon runs the program that is now at its path.
    home.overdrive(&["upgrade"]).refused(2, &["does not run", "not upgraded"]);
    let found = fs::read_to_string(&report).expect("the program can write to the daemon's files");
    let expected = [
        "shadow EACCES",
        "ptrace EPERM",
        "unshare EPERM",
        "mount EPERM",
        "unmount EPERM",
        "chroot EPERM",
        "personality EPERM",
        "name space EPERM",
        "clone EPERM",
        "clone3 ENOSYS",
        "packets EPERM",
        "code EPERM",
        "read EACCES",
        "write EACCES",
        "create EACCES",
        "list EACCES",
        "remove EACCES",
        "other program EACCES",
        "own program done",
        "own program's text EACCES",
        "fork done",
    ];
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    assert_eq!(fs::read_to_string(outside.join("secret")).expect("it stays"), "secret");
}

/// A daemon with a configuration file, which lies in another directory than its image.
struct Configured {
    place: TempDir,
    config: PathBuf,
    server: Server,
}

impl Configured {
    fn start() -> Configured {
        let (home, place) = (Home::new(), place());
        let directory = place.path().join("settings");
        fs::create_dir(&directory).expect("room");
        // A name in a directory of its own leads to the file.
        let (config, link) = (directory.join("disk.toml"), place.path().join("names/disk.toml"));
        fs::create_dir(place.path().join("names")).expect("room");
        std::os::unix::fs::symlink(&config, &link).expect("room");
        let images = place.path().join("images");
        fs::create_dir(&images).expect("room");
        write_config(&home, &config, &image_at(&images), "");
        let arguments = ["serve", "--config", link.to_str().expect("plain")];
        let server = Server::run_in(&home, home.command(&arguments));
        Configured { place, config, server }
    }

    /// Returns an image in a directory.
    fn image(&self, directory: &str) -> PathBuf {
        let directory = self.place.path().join(directory);
        fs::create_dir_all(&directory).expect("room");
        image_at(&directory)
    }

    fn configure(&self, image: &Path, more: &str) {
        write_config(&self.server.home, &self.config, image, more);
    }

    fn upgrade(&self) -> Ended {
        self.server.home.overdrive(&["upgrade"])
    }

    fn backing(&self) -> PathBuf {
        let rows = self.server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        PathBuf::from(rows["volumes"][0]["backing"].as_str().expect("a path"))
    }
}

fn image_at(directory: &Path) -> PathBuf {
    let path = directory.join("disk.img");
    fs::File::create(&path).and_then(|file| file.set_len(8 << 20)).expect("room");
    path
}

fn write_config(home: &Home, config: &Path, image: &Path, more: &str) {
    let text = format!(
        "nbd = 'unix:{}'\n[volume.disk]\nbacking = '{}'\nmemory = '2M'\n{more}",
        home.socket().display(),
        image.display()
    );
    fs::write(config, text).expect("room");
}

#[test]
fn an_upgrade_goes_on_with_what_the_confinement_permits() {
    let daemon = Configured::start();
    daemon.upgrade().well();
    // An image beside the former one.
    let first = daemon.backing();
    let beside = first.with_file_name("beside.img");
    fs::copy(&first, &beside).expect("room");
    daemon.configure(&beside, "");
    daemon.upgrade().well();
    assert_eq!(daemon.backing(), beside);
    daemon.server.end().well();
}

#[test]
fn an_upgrade_whose_program_could_not_start_is_refused() {
    let daemon = Configured::start();
    let first = daemon.backing();
    let elsewhere = daemon.image("elsewhere");
    // The directory of the configuration may be read only.
    let readable = daemon.image("settings/images");
    for image in [&elsewhere, &readable] {
        daemon.configure(image, "");
        daemon.upgrade().refused(4, &["disk: needs", "disk.img", "not upgraded"]);
    }
    daemon.configure(&first.with_file_name("none.img"), "");
    daemon.upgrade().refused(6, &["none.img", "No such file", "not upgraded"]);
    daemon.configure(&first, "bogus = 3\n");
    daemon.upgrade().refused(2, &["disk.toml:5", "bogus", "not upgraded"]);
    daemon.configure(&first, "attach = true\n");
    daemon.upgrade().refused(4, &["disk: needs a device or a mount", "not upgraded"]);
    daemon.configure(&first, &format!("nbd = 'unix:{}.sock'\n", elsewhere.display()));
    daemon.upgrade().refused(4, &["disk.img.sock", "not upgraded"]);
    daemon.configure(&first, "");
    daemon.upgrade().well();
    assert_eq!(daemon.backing(), first);
    daemon.server.end().well();
}
