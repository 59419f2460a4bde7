//! The processors of clients and servers.

use anyhow::{Context, Result, bail};
use rustix::thread::CpuSet;
use std::path::Path;
use std::process::Command;

/// The processors of this machine, divided between the two sides: the client has the last one for
/// itself, servers have the others. If the scheduler chose, they would sometimes share one and
/// sometimes not, which changes every figure by more than the measured effect.
#[derive(Clone)]
pub(crate) struct Processors {
    servers: String,
    client: usize,
}

impl Processors {
    /// Returns all processors that this program may use.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn all() -> Result<Vec<usize>> {
        let set = rustix::thread::sched_getaffinity(None)?;
        Ok((0..CpuSet::MAX_CPU).filter(|&one| set.is_set(one)).collect())
    }

    /// Divides the processors.
    ///
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

    /// Returns the servers' as a list for `taskset`.
    pub(crate) fn of_servers(&self) -> String {
        self.servers.clone()
    }

    /// Returns the client's as a list for `taskset`.
    pub(crate) fn of_client(&self) -> String {
        self.client.to_string()
    }

    /// Moves the calling thread to the client's processor.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn take_clients(&self) -> Result<()> {
        pin_thread(&[self.client])
    }

    /// Moves the calling thread to those of the servers.
    ///
    /// # Errors
    /// Those of the system.
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

/// Returns a command that runs on these processors only.
pub(crate) fn pinned(program: impl AsRef<Path>, processors: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", processors]).arg(program.as_ref());
    command
}
