//! A served volume, and the programs that use it.

use crate::dice::scaled;
use crate::home::Home;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const OVERDRIVE: &str = env!("CARGO_BIN_EXE_overdrive");
/// Debian's Python, for which its libnbd module is built.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// No client of these tests takes longer, in seconds, unless something hangs.
fn patience_s() -> String {
    scaled(120).to_string()
}

/// Whether all of these programs are installed. If not, the test prints why it is skipped; on a
/// build server, where everything is installed, it fails.
pub(crate) fn have(tools: &[&str]) -> bool {
    let is_there = |tool: &&&str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&paths).chain(["/usr/sbin".into(), "/sbin".into()]);
        places.any(|place| place.join(tool).is_file())
    };
    let missing: Vec<_> = tools.iter().filter(|tool| !is_there(tool)).collect();
    missing.is_empty() || skip(&format!("{missing:?} not installed"))
}

/// Whether Debian's Python has libnbd.
pub(crate) fn have_libnbd() -> bool {
    let imported = Command::new(PYTHON).args(["-c", "import nbd"]).output();
    imported.is_ok_and(|output| output.status.success()) || skip("python3-libnbd not installed")
}

/// A mount namespace begins as a copy: mounts of other tests stay in use by it after the tests have
/// unmounted them.
static NAMESPACES: RwLock<()> = RwLock::new(());

/// While this is held, no test has its own mount namespace.
pub(crate) fn no_namespaces() -> RwLockReadGuard<'static, ()> {
    NAMESPACES.read().unwrap_or_else(PoisonError::into_inner)
}

/// While this is held, no other test has a mount whose unmounting must be the last.
pub(crate) fn no_mounts() -> RwLockWriteGuard<'static, ()> {
    NAMESPACES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Whether we may mount, in a new mount namespace; if not, prints that it skips.
pub(crate) fn have_mounts() -> bool {
    let _alone = no_mounts();
    let mounted =
        Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    let may = mounted.is_ok_and(|output| output.status.success());
    if !may {
        // A privilege, not a program: build servers may lack it, too.
        println!("skipped: no mounts in a namespace of our own");
    }
    may
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn skip(why: &str) -> bool {
    assert!(std::env::var_os("CI").is_none(), "{why}, and this is CI");
    println!("skipped: {why}");
    false
}

/// Makes a directory for images, next to the build, so more likely on a disk than in memory.
pub(crate) fn place() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's directory takes files")
}

/// Makes a directory on another disk than [`place`]: in memory, so only for small files.
pub(crate) fn other_disk() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("Linux has shared memory")
}

/// Makes a sparse image of this many MiB.
pub(crate) fn image(place: &TempDir, mib: u64) -> PathBuf {
    let path = place.path().join("disk.img");
    let file = File::create(&path).expect("the directory takes files");
    file.set_len(mib << 20).expect("sparse");
    path
}

/// The end of a server.
pub(crate) struct Ended {
    /// Its status, as a shell reports it.
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

fn shell_status(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).expect("one of the two")
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            status: shell_status(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// Returns its output, as JSON of this schema.
    pub(crate) fn json(self, schema: &str) -> serde_json::Value {
        let ended = self.well();
        let value: serde_json::Value =
            serde_json::from_str(&ended.stdout).expect("one JSON object");
        assert_eq!(value["schema"], schema);
        value
    }

    /// Asserts that it succeeded.
    pub(crate) fn well(self) -> Ended {
        assert_eq!(self.status, 0, "{}{}", self.stdout, self.stderr);
        self
    }

    /// Asserts a refusal: this status, one line on stderr with these words, nothing on stdout.
    pub(crate) fn refused(self, status: i32, words: &[&str]) -> Ended {
        assert_eq!(self.status, status, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "stdout is for data");
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no '{word}' in {}", self.stderr);
        }
        self
    }
}

/// Runs `overdrive serve` with these arguments, to its end, in a new home.
pub(crate) fn serve(backing: impl AsRef<Path>, options: &[&str]) -> Ended {
    serve_in(&Home::new(), backing, options)
}

/// Runs it in an existing home.
pub(crate) fn serve_in(home: &Home, backing: impl AsRef<Path>, options: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.args([&patience_s(), OVERDRIVE, "serve"]).env("XDG_RUNTIME_DIR", home.runtime());
    command.env("XDG_STATE_HOME", home.state());
    command.arg(backing.as_ref()).args(options);
    // Not a pipe: a holder that stays has it open as well, and it would never end.
    let errors = tempfile::NamedTempFile::new().expect("a place for it");
    command.stderr(errors.reopen().expect("just made"));
    let mut ended: Ended = command.stdin(Stdio::null()).output().expect("coreutils").into();
    ended.stderr = fs::read_to_string(errors.path()).expect("text");
    ended
}

/// Serves while a shell script runs, which finds the volume in `$uri`.
pub(crate) fn captive(backing: impl AsRef<Path>, options: &[&str], script: &str) -> Ended {
    let script = format!("set -e\n{script}");
    serve(backing, &[options, &["--run", &script]].concat())
}

/// Runs a program with these arguments, to its end.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.args([&patience_s(), program]).args(arguments);
    command.output().expect("timeout is part of coreutils").into()
}

/// Runs a Python program over libnbd.
pub(crate) fn python(program: &str, arguments: &[&str]) -> Ended {
    run(PYTHON, &[&["-c", program], arguments].concat())
}

/// A server in the background.
pub(crate) struct Server {
    child: Child,
    /// How it was started, for another start.
    program: OsString,
    arguments: Vec<OsString>,
    /// The URI of its first volume, for clients.
    pub(crate) uri: String,
    pub(crate) socket: PathBuf,
    errors: PathBuf,
    pub(crate) home: Arc<Home>,
}

impl Server {
    /// Serves in a new home.
    pub(crate) fn start(backing: impl AsRef<Path>, options: &[&str]) -> Server {
        Server::start_in(&Home::new(), backing, options)
    }

    /// Serves in an existing home, at its socket.
    pub(crate) fn start_in(
        home: &Arc<Home>,
        backing: impl AsRef<Path>,
        options: &[&str],
    ) -> Server {
        let mut command = Command::new(OVERDRIVE);
        command.arg("serve").arg(backing.as_ref()).args(options);
        Server::spawn_in(home, command)
    }

    /// Starts a command that becomes `overdrive serve`; the socket is added to its arguments.
    pub(crate) fn spawn(command: Command) -> Server {
        Server::spawn_in(&Home::new(), command)
    }

    pub(crate) fn spawn_in(home: &Arc<Home>, mut command: Command) -> Server {
        command.arg("--nbd").arg(format!("unix:{}", home.socket().display()));
        Server::run_in(home, command)
    }

    /// Starts a command that becomes `overdrive serve` with its own listener.
    pub(crate) fn run_in(home: &Arc<Home>, mut command: Command) -> Server {
        let errors = home.path().join("stderr");
        command.env("XDG_RUNTIME_DIR", home.runtime()).stdout(Stdio::piped());
        command.env("XDG_STATE_HOME", home.state());
        // Messages of earlier lives stay in front.
        let appended = File::options().create(true).append(true).open(&errors);
        command.stderr(appended.expect("the home takes files"));
        let mut child = command.spawn().expect("the binary under test");
        let stdout = child.stdout.take().expect("piped");
        let mut uri = String::new();
        if command.get_args().any(|argument| argument == "--json") {
            // Then stdout is for the object at the end.
            uri = format!("nbd+unix:///?socket={}", home.socket().display());
            wait_until("it serves", || UnixStream::connect(home.socket()).is_ok());
        } else {
            BufReader::new(stdout).read_line(&mut uri).expect("text");
        }
        let server = Server {
            child,
            program: command.get_program().to_owned(),
            arguments: command.get_args().map(OsString::from).collect(),
            uri: uri.trim().to_owned(),
            socket: home.socket(),
            errors,
            home: home.clone(),
        };
        assert!(server.uri.starts_with("nbd"), "{}", server.stderr());
        server
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns all messages of this server, and of the servers before it.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Waits until it has printed these words.
    pub(crate) fn says(&self, words: &str) {
        wait_until(words, || self.stderr().contains(words));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it still runs");
    }

    pub(crate) fn wait(mut self) -> Ended {
        let status = self.child.wait().expect("our child");
        Ended { status: shell_status(status), stdout: String::new(), stderr: self.stderr() }
    }

    /// Ends it as an operator does.
    pub(crate) fn end(self) -> Ended {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Ends it as a crash does. Its unwritten data stays with its holder, in its home.
    pub(crate) fn kill(self) -> Arc<Home> {
        let home = self.home.clone();
        self.signal(Signal::KILL);
        assert_eq!(self.wait().status, 137);
        home
    }

    /// Ends it as a crash does, and starts it again in the same way.
    pub(crate) fn reborn(self) -> Server {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        let home = self.kill();
        Server::run_in(&home, command)
    }

    /// Runs an operator's command on it.
    pub(crate) fn volume(&self, arguments: &[&str]) -> Ended {
        self.home.overdrive(&[&["volume"], arguments].concat())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `wait` there is nothing to end.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits for an effect of another process.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    // Longer than any step takes on a busy machine.
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        pause(Duration::from_millis(20));
    }
    panic!("a minute over, and still not: {what}");
}

#[allow(clippy::disallowed_methods, reason = "no lane here: other processes are waited for")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
