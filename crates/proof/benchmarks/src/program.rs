//! Servers as separate programs: their processors, their processor time, their end.

use crate::client::{Client, VOLUME};
use crate::sides::wall_ns;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The measured program, and the directory for its files.
#[derive(clap::Args)]
pub(crate) struct ProgramOptions {
    /// The overdrive program; by default the one next to this.
    #[arg(long)]
    overdrive: Option<PathBuf>,
    /// Directory for the files that are served; on a disk, not in memory.
    #[arg(long, default_value = "target")]
    place: PathBuf,
}

impl ProgramOptions {
    /// Returns the overdrive program.
    ///
    /// # Errors
    /// If it was not built.
    pub(crate) fn overdrive(&self) -> Result<PathBuf> {
        let beside = std::env::current_exe()?.with_file_name("overdrive");
        let program = self.overdrive.clone().unwrap_or(beside);
        ensure!(
            program.is_file(),
            "{}: not there; build it with: cargo build --release --package overdrive",
            program.display()
        );
        Ok(program)
    }

    /// Returns a file on the disk that is removed when it is dropped.
    pub(crate) fn file(&self, name: &str) -> TemporaryPath {
        TemporaryPath(self.place.join(format!("figures-{}-{name}.img", std::process::id())))
    }
}

/// A path that is removed at the end.
pub(crate) struct TemporaryPath(PathBuf);

impl TemporaryPath {
    /// Returns a path that is removed at the end.
    pub(crate) fn of(path: PathBuf) -> TemporaryPath {
        TemporaryPath(path)
    }

    /// Creates a directory for sockets, which is also the runtime directory of the servers started
    /// here: no other program finds their retained data. Its path is short, as required for
    /// sockets.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn runtime() -> Result<TemporaryPath> {
        let path = std::env::temp_dir().join(format!("od-figures-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(TemporaryPath(path))
    }

    /// Creates another directory, for mounts.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn directory(name: &str) -> Result<TemporaryPath> {
        let path = std::env::temp_dir().join(format!("od-figures-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(TemporaryPath(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        // It is either a directory or a file, and may never have been created.
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A running server; killed when dropped.
pub(crate) struct Program {
    child: Child,
    socket: PathBuf,
}

impl Program {
    /// Starts a server, and waits until it serves a client of its unix socket. At most a minute:
    /// before that it allocates memory and recovers retained data.
    ///
    /// # Errors
    /// If it ends, or serves no client within a minute.
    pub(crate) fn start(mut command: Command, socket: &Path) -> Result<Program> {
        let child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut program = Program { child, socket: socket.to_owned() };
        let end = wall_ns() + 60_000_000_000;
        loop {
            let Err(error) = program.connect() else { return Ok(program) };
            if let Some(status) = program.child.try_wait()? {
                bail!("{command:?} ended, {status}");
            }
            ensure!(wall_ns() < end, "{command:?} does not serve: {error:#}");
            pause_ms(1);
        }
    }

    /// Returns its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Connects a client.
    ///
    /// # Errors
    /// Those of the client.
    pub(crate) fn connect(&self) -> Result<Client> {
        Client::connect(&self.socket, VOLUME)
    }

    /// Returns its unix socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the URI for clients that need one.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///{VOLUME}?socket={}", self.socket.display())
    }

    /// Returns the processor time that all its threads have used, in nanoseconds.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn used_ns(&self) -> Result<u64> {
        self.scheduled_ns(0)
    }

    /// Returns the time that all its threads have waited for a processor, in nanoseconds.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn waited_ns(&self) -> Result<u64> {
        self.scheduled_ns(1)
    }

    /// Returns the sum over all threads of a field of `schedstat`: "running waiting slices".
    fn scheduled_ns(&self, field: usize) -> Result<u64> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut sum = 0;
        for task in std::fs::read_dir(tasks)? {
            // A thread that has just ended has none.
            let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let number = text.split(' ').nth(field).and_then(|number| number.parse::<u64>().ok());
            sum += number.unwrap_or(0);
        }
        Ok(sum)
    }

    /// Returns how often its threads have slept so far.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn wake_ups(&self) -> Result<u64> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut sum = 0;
        for task in std::fs::read_dir(tasks)? {
            let text = std::fs::read_to_string(task?.path().join("status")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum += line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    /// Ends it by SIGTERM, and returns the last line of its output.
    ///
    /// # Errors
    /// If its exit status is a failure.
    pub(crate) fn stop(mut self) -> Result<String> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let mut said = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            std::io::Read::read_to_string(&mut stdout, &mut said)?;
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended, {status}");
        Ok(said.lines().last().unwrap_or_default().to_owned())
    }

    /// Ends it as `kill -9` does, and waits until it is gone.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sleeps.
pub(crate) fn pause_ms(ms: u64) {
    #[allow(clippy::disallowed_methods, reason = "a benchmark's own thread, not a lane")]
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

/// Creates a file with all blocks allocated on the disk (a sparse one would be read without it),
/// each with different contents.
///
/// # Errors
/// If there is no space.
pub(crate) fn fill(path: &Path, bytes: u64) -> Result<()> {
    let mut file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    let mut chunk = vec![0; 1 << 20];
    for number in 0..bytes >> 20 {
        paint(&mut chunk, number << 20);
        std::io::Write::write_all(&mut file, &chunk)
            .with_context(|| format!("{} needs {} MiB", path.display(), bytes >> 20))?;
    }
    file.sync_all()?;
    Ok(())
}

/// Fills `bytes` with the contents of a filled volume at this offset: every block differs from
/// every other.
pub(crate) fn paint(bytes: &mut [u8], offset: u64) {
    for (index, block) in bytes.chunks_mut(4096).enumerate() {
        block.fill(index as u8 | 1);
        let number = offset / 4096 + index as u64;
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
}
