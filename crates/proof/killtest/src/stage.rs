//! The processes around the daemon: the backing, its mount, and the daemon itself.

use crate::backing::{self, DiskOptions};
use crate::time::{here, now, wait_until};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest time for steps that normally take moments.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends a child of ours in any case.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The backing's process.
pub struct Backing {
    /// None: it is a thread of ours, which ends when its commands end.
    child: Option<Child>,
    commands: UnixStream,
    answers: Receiver<String>,
    reached: Arc<AtomicBool>,
}

impl Backing {
    /// Starts it: this program, as `backing`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(options: &DiskOptions<'_>) -> Result<Backing> {
        let (ours, theirs) = UnixStream::pair()?;
        let DiskOptions { socket, bytes, seed, flushes } = options;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("backing").arg("--socket").arg(socket);
        command.args(["--bytes", &bytes.to_string(), "--seed", &seed.to_string()]);
        let flushes = flushes.to_possible_value().context("none of them is hidden")?;
        command.args(["--flushes", flushes.get_name()]);
        let child = command.stdin(OwnedFd::from(theirs)).spawn()?;
        Backing::at(ours, Some(child))
    }

    /// Starts it as a thread, for programs that cannot be run as a backing.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_here(options: &DiskOptions<'_>) -> Result<Backing> {
        let (ours, theirs) = UnixStream::pair()?;
        let DiskOptions { bytes, seed, flushes, .. } = *options;
        let socket = options.socket.to_owned();
        std::thread::spawn(move || {
            let options = DiskOptions { socket: &socket, bytes, seed, flushes };
            // The thread that waits for its first line notices a failure.
            let _ = backing::serve(&options, OwnedFd::from(theirs));
        });
        Backing::at(ours, None)
    }

    fn at(ours: UnixStream, child: Option<Child>) -> Result<Backing> {
        let (sender, answers) = channel();
        let reached = Arc::new(AtomicBool::new(false));
        let (lines, flag) = (BufReader::new(ours.try_clone()?), reached.clone());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(|line| line.ok()) {
                if line == "reached" {
                    flag.store(true, Ordering::SeqCst);
                } else if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let backing = Backing { child, commands: ours, answers, reached };
        let said =
            backing.answers.recv_timeout(here(PATIENCE)).context("the backing did not start")?;
        ensure!(said == "ready", "the backing says {said}");
        Ok(backing)
    }

    /// Sends a command, and waits for its answer.
    ///
    /// # Errors
    /// If it has died, or the command is invalid.
    pub fn ask(&self, line: &str) -> Result<String> {
        writeln!(&self.commands, "{line}")?;
        let said = self.answers.recv_timeout(here(PATIENCE));
        let said = said.with_context(|| format!("the backing does not answer '{line}'"))?;
        ensure!(!said.starts_with("not understood"), "the backing: {said}");
        Ok(said)
    }

    /// Arms a point; see [`crate::backing`].
    ///
    /// # Errors
    /// As [`Backing::ask`].
    pub fn arm(&self, pid: u32, point: &str) -> Result<()> {
        self.reached.store(false, Ordering::SeqCst);
        self.ask(&format!("arm {pid} {point}")).map(drop)
    }

    /// Disarms all points, and forgets that one was reached.
    ///
    /// # Errors
    /// As [`Backing::ask`].
    pub fn disarm(&self) -> Result<()> {
        self.ask("disarm")?;
        self.reached.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Whether the armed point was reached.
    pub fn has_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst)
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // A thread reads until the end of the stream.
        let _ = self.commands.shutdown(std::net::Shutdown::Both);
        if let Some(child) = &mut self.child {
            end(child);
        }
    }
}

/// Checks that files can be mounted here.
///
/// # Errors
/// The reason why not.
pub fn can_mount() -> Result<()> {
    let tried = Command::new("nbdfuse").arg("--version").output();
    tried.context("cannot start nbdfuse (package libnbd-bin)")?;
    let opened = File::options().read(true).write(true).open("/dev/fuse");
    opened.map(drop).context("/dev/fuse")
}

/// The backing as a file, by nbdfuse.
pub struct Mount {
    child: Child,
    /// The file.
    pub path: PathBuf,
}

impl Mount {
    /// Mounts the backing over a file that is created if it is missing.
    ///
    /// # Errors
    /// If nbdfuse is missing or may not mount.
    pub fn start(path: &Path, socket: &Path, bytes: u64) -> Result<Mount> {
        if !path.exists() {
            File::create(path)?;
        }
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let mut command = Command::new("nbdfuse");
        // nbdfuse prints a message whenever the daemon tests what the file supports.
        let errors = path.with_extension("stderr");
        command.stderr(File::create(&errors)?);
        host::make_ordinary(&mut command);
        let child = command.arg(path).arg(uri).stdin(Stdio::null()).spawn();
        let child = child.context("cannot start nbdfuse; install libnbd-bin")?;
        let mut mount = Mount { child, path: path.to_owned() };
        let is_there = || fs::metadata(path).is_ok_and(|found| found.len() == bytes);
        let ended = || mount.child.try_wait().is_ok_and(|status| status.is_some());
        let mut gone = false;
        let mut ended = ended;
        let came = wait_until(PATIENCE, || {
            gone = ended();
            gone || is_there()
        });
        if gone || !came {
            let said = fs::read_to_string(errors).unwrap_or_default();
            bail!("{}: nbdfuse could not mount the backing here: {said}", path.display());
        }
        Ok(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The kernel ends requests in progress when /dev/fuse is not read any more.
        end(&mut self.child);
        if rustix::mount::unmount(&self.path, rustix::mount::UnmountFlags::DETACH).is_err() {
            // Only root may unmount; others use a helper.
            let helper = Command::new("fusermount3").arg("-uz").arg(&self.path).output();
            drop(helper);
        }
    }
}

/// Waits until a process has ended; zombies have.
fn wait_gone(pid: i32) -> bool {
    let is_gone = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
    };
    wait_until(PATIENCE, is_gone)
}

/// The paths of a run, and how `overdrive` is run.
pub struct Workspace {
    /// The directory; its path is short enough for sockets.
    pub directory: PathBuf,
    /// The `overdrive` program.
    pub program: PathBuf,
}

impl Workspace {
    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.path("n")
    }

    fn runtime(&self) -> PathBuf {
        self.directory.join("overdrive")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("XDG_RUNTIME_DIR", &self.directory).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.directory.join("state"));
        host::make_ordinary(&mut command);
        command
    }

    /// Runs `overdrive` to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn overdrive(&self, arguments: &[&str]) -> Result<Output> {
        let started = self.command().args(arguments).output();
        started.with_context(|| format!("{} {arguments:?}", self.program.display()))
    }

    /// Runs `overdrive`, which must succeed; returns its output.
    ///
    /// # Errors
    /// With its messages.
    pub fn well(&self, arguments: &[&str]) -> Result<String> {
        let output = self.overdrive(arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "overdrive {arguments:?}: {}: {said}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the volume's state, from `volume list`; empty: there is no such volume.
    pub fn state(&self) -> String {
        let listed = self.well(&["volume", "list", "--json"]).unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        value["volumes"][0]["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether nothing is dirty, and no epoch is being written, according to `volume stats`.
    pub fn is_clean(&self) -> bool {
        let counted = self.counters();
        counted["blocks_dirty"] == 0 && counted["epochs_closed"] == 0
    }

    /// Returns the counters of `volume stats`.
    pub fn counters(&self) -> serde_json::Value {
        let stats = self.well(&["volume", "stats", "v", "--json"]).unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(&stats).unwrap_or_default();
        value["counters"].clone()
    }

    /// Whether a holder retains memory for a daemon.
    pub fn has_holder(&self) -> bool {
        let holders = holder::Keeper::list(&self.runtime()).unwrap_or_default();
        holders.iter().any(|holder| holder.owner_pid.is_some())
    }

    /// Kills every holder; returns their number.
    ///
    /// # Errors
    /// If one does not end.
    pub fn kill_holders(&self) -> Result<usize> {
        let holders = holder::Keeper::list(&self.runtime()).unwrap_or_default();
        for holder in &holders {
            let pid = Pid::from_raw(holder.holder_pid).context("a holder without a process")?;
            let _ = kill_process(pid, Signal::KILL);
            ensure!(wait_gone(holder.holder_pid), "holder {pid:?} does not die");
        }
        Ok(holders.len())
    }

    /// Kills every process of `overdrive` that is left, as a power cut does. A holder that a daemon
    /// has just started does not listen yet, so it is in no list.
    ///
    /// # Errors
    /// If one does not end.
    pub fn kill_processes(&self) -> Result<()> {
        let own = format!("XDG_RUNTIME_DIR={}", self.directory.display()).into_bytes();
        let mut scans_without = 0;
        let ended = wait_until(PATIENCE, || {
            let left = processes_with(&own);
            for pid in left.iter().filter_map(|&pid| Pid::from_raw(pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
            // One that was made during a scan may not be in it.
            scans_without = if left.is_empty() { scans_without + 1 } else { 0 };
            scans_without == 2
        });
        ensure!(ended, "a process of the daemon does not die");
        Ok(())
    }
}

/// Returns the processes that have this variable in their environment.
fn processes_with(variable: &[u8]) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == variable)
    };
    pids.filter(has).collect()
}

/// A daemon.
pub struct Daemon {
    child: Child,
    started: Instant,
    lines: Receiver<Duration>,
    errors: PathBuf,
}

impl Daemon {
    /// Starts `overdrive serve` on the mounted backing.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(workspace: &Workspace, backing: &Path, arguments: &[String]) -> Result<Daemon> {
        let errors = workspace.path("stderr");
        let mut command = workspace.command();
        command.arg("serve").arg(backing).args(arguments);
        command.arg("--nbd").arg(format!("unix:{}", workspace.socket().display()));
        // A holder of an earlier life may still write to that life's file.
        let _ = fs::remove_file(&errors);
        let said = File::options().append(true).create(true).open(&errors)?;
        command.args(["--name", "v"]).stdout(Stdio::piped()).stderr(said);
        let started = now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", workspace.program.display()))?;
        let stdout = child.stdout.take().context("piped")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                if line.starts_with("nbd") && sender.send(started.elapsed()).is_err() {
                    return;
                }
            }
        });
        Ok(Daemon { child, started, lines, errors })
    }

    /// Returns its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the time of its start.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Returns the time until it served, if it has begun to since the last call.
    pub fn serving(&self) -> Option<Duration> {
        self.lines.try_recv().ok()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until it serves, and returns the time until then; None: it has ended before.
    pub fn wait_serving(&self) -> Option<Duration> {
        self.lines.recv_timeout(here(PATIENCE * 2)).ok()
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        // Once it was reaped, its number may be another process's.
        if !self.has_ended() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for its end; returns its status, or 128 plus the signal's number.
    ///
    /// # Errors
    /// If it does not end.
    pub fn wait(&mut self) -> Result<i32> {
        let mut status = None;
        let ended = wait_until(PATIENCE * 5, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        ensure!(ended, "the daemon does not end");
        let status = status.context("waited for")?;
        Ok(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1))
    }

    /// Returns its messages.
    pub fn messages(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Whether it reports that a flush was in progress when an earlier daemon was killed, so that
    /// clients must be notified.
    pub fn is_in_doubt(&self) -> bool {
        self.messages().contains("the first flush of every client fails")
    }

    /// Returns the number of bytes that it reports to have recovered from an earlier life.
    pub fn recovered_bytes(&self) -> u64 {
        self.messages().lines().filter_map(recovered).sum()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It would outlive this process.
        let _ = self.child.kill();
    }
}

/// Parses `overdrive: [PATH: ]1.5 MiB of acknowledged writes were retained ...`
fn recovered(line: &str) -> Option<u64> {
    let (before, _) = line.split_once(" of acknowledged writes were retained")?;
    let mut words = before.rsplit(' ');
    let unit = match words.next()? {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let number: f64 = words.next()?.parse().ok()?;
    Some((number * unit) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_ends_the_processes_of_its_run_only() {
        let start = |directory: &Path| {
            let mut command = Command::new("sleep");
            command.arg("600").env("XDG_RUNTIME_DIR", directory);
            command.spawn().expect("a process")
        };
        let directory = PathBuf::from(format!("/nowhere/{}", std::process::id()));
        let workspace = Workspace { program: PathBuf::new(), directory };
        let (mut own, mut other) = (start(&workspace.directory), start(Path::new("/nowhere")));
        workspace.kill_processes().expect("it ends");
        let ended = own.wait().expect("a child");
        let stays = other.try_wait().expect("a child").is_none();
        end(&mut other);
        assert_eq!((ended.signal(), stays), (Some(Signal::KILL.as_raw()), true));
    }

    #[test]
    fn what_a_daemon_has_found_is_read() {
        let line =
            "overdrive: 1.5 MiB of acknowledged writes were retained from an earlier life; they";
        assert_eq!(recovered(line), Some(3 << 19));
        let line = "overdrive: /tmp/x: 4 KiB of acknowledged writes were retained from an earlier";
        assert_eq!(recovered(line), Some(4096));
        assert_eq!(recovered("overdrive: something else"), None);
    }
}
