//! Servers as programs of their own: where they run, what they have used, how they end.

use crate::client::Client;
use crate::sides::wall_ns;
use anyhow::{Context, Result, bail, ensure};
use rustix::thread::CpuSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Which program is measured, and where its files may lie.
#[derive(clap::Args)]
pub(crate) struct Site {
    /// The overdrive program; by default the one beside this.
    #[arg(long)]
    overdrive: Option<PathBuf>,
    /// Where to make the files that are served; on a disk, not in memory.
    #[arg(long, default_value = "target")]
    place: PathBuf,
}

impl Site {
    /// The overdrive program.
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

    /// A file on the disk that goes when it is dropped.
    pub(crate) fn file(&self, name: &str) -> Passing {
        Passing(self.place.join(format!("figures-{}-{name}.img", std::process::id())))
    }
}

/// A path that is taken away in the end.
pub(crate) struct Passing(PathBuf);

impl Passing {
    /// A directory for sockets, which is also the runtime directory of the servers started here:
    /// what they keep is found by no other. Its path is short, as those of sockets must be.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn runtime() -> Result<Passing> {
        let path = std::env::temp_dir().join(format!("od-figures-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Passing(path))
    }

    /// Another directory, for mounts.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn directory(name: &str) -> Result<Passing> {
        let path = std::env::temp_dir().join(format!("od-figures-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Passing(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // One of the two is wrong, and it may never have been made.
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The processors of this machine as the two sides share them: the client has the last one for
/// itself, servers have the others. Left to the scheduler, the two now share one and now do not,
/// which changes every figure by more than what is to be measured.
#[derive(Clone)]
pub(crate) struct Processors {
    servers: String,
    client: usize,
}

impl Processors {
    /// All that this program may use.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn all() -> Result<Vec<usize>> {
        let set = rustix::thread::sched_getaffinity(None)?;
        Ok((0..CpuSet::MAX_CPU).filter(|&one| set.is_set(one)).collect())
    }

    /// # Errors
    /// If there is only one.
    pub(crate) fn split() -> Result<Processors> {
        let all = Processors::all()?;
        let Some((&client, servers)) = all.split_last().filter(|(_, rest)| !rest.is_empty()) else {
            bail!("client and server need a processor each, and there is only one");
        };
        let servers: Vec<String> = servers.iter().map(usize::to_string).collect();
        Ok(Processors { servers: servers.join(","), client })
    }

    /// As a list for `taskset`: the servers'.
    pub(crate) fn of_servers(&self) -> String {
        self.servers.clone()
    }

    /// As a list for `taskset`: the client's.
    pub(crate) fn of_client(&self) -> String {
        self.client.to_string()
    }

    /// From now on the calling thread runs on the client's processor.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn take_clients(&self) -> Result<()> {
        pin_thread(&[self.client])
    }

    /// From now on the calling thread runs on those of the servers.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn take_servers(&self) -> Result<()> {
        let servers: Vec<usize> =
            self.servers.split(',').filter_map(|one| one.parse().ok()).collect();
        pin_thread(&servers)
    }
}

fn pin_thread(processors: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|&one| set.set(one));
    rustix::thread::sched_setaffinity(None, &set).context("this thread cannot be pinned")
}

/// A command that runs on these processors only.
pub(crate) fn pinned(program: impl AsRef<Path>, processors: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", processors]).arg(program.as_ref());
    command
}

/// The name that every volume has here.
pub(crate) const VOLUME: &str = "figures";

/// A server that runs; killed when dropped.
pub(crate) struct Program {
    child: Child,
    socket: PathBuf,
}

impl Program {
    /// Starts a server, and waits until a client of the unix socket it is told to listen at is
    /// served. A minute: memory is made, and what is kept is recovered, before that.
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

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Connects a client.
    ///
    /// # Errors
    /// What the client says.
    pub(crate) fn connect(&self) -> Result<Client> {
        Client::connect(&self.socket, VOLUME)
    }

    /// The URI for clients that want one.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///{VOLUME}?socket={}", self.socket.display())
    }

    /// Time of processors that all its threads have used, in nanoseconds.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn used_ns(&self) -> Result<u64> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut sum = 0;
        for task in std::fs::read_dir(tasks)? {
            // "running waiting slices"; a thread that has just ended has none.
            let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let running = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
            sum += running.unwrap_or(0);
        }
        Ok(sum)
    }

    /// How often its threads have slept so far.
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

    /// Ends it by the signal that asks, and returns the last line it has said.
    ///
    /// # Errors
    /// If it did not end well.
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
    /// What the system says.
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

/// Lets time pass.
pub(crate) fn pause_ms(ms: u64) {
    #[allow(clippy::disallowed_methods, reason = "a benchmark's own thread, not a lane")]
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

/// A file of blocks that the disk really holds (a sparse one would be read from nowhere), each of
/// another content.
///
/// # Errors
/// If there is no room.
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

/// What stands at this place of a filled volume: every block differs from every other.
pub(crate) fn paint(bytes: &mut [u8], offset: u64) {
    for (index, block) in bytes.chunks_mut(4096).enumerate() {
        block.fill(index as u8 | 1);
        let number = offset / 4096 + index as u64;
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
}
