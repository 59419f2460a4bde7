//! The disk of a guest, served by Overdrive on the host; the daemon is killed and restarted.

use super::image::disk;
use crate::cargo;
use anyhow::{Context, ensure};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The daemon that serves a guest's root, with a holder.
pub(super) struct Served {
    place: PathBuf,
    daemon: Child,
    /// Destination of its later output; a closed pipe would cause an error in the daemon.
    _output: BufReader<ChildStdout>,
}

impl Served {
    /// # Errors
    /// The disk cannot be served.
    pub(super) fn start(place: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(place.join("runtime"))?;
        let (daemon, output) = daemon(place)?;
        Ok(Self { place: place.to_owned(), daemon, _output: output })
    }

    /// Returns the argument for QEMU's `-blockdev`.
    pub(super) fn blockdev(&self) -> String {
        let socket = socket(&self.place).display().to_string().replace(',', ",,");
        format!(
            "driver=nbd,node-name=root,server.type=unix,server.path={socket},export=root,reconnect-delay=60"
        )
    }

    /// Kills the daemon, and starts another one.
    ///
    /// # Errors
    /// The new daemon cannot serve.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.daemon.kill()?;
        self.daemon.wait()?;
        (self.daemon, self._output) = daemon(&self.place)?;
        Ok(())
    }

    /// Stops the daemon, which writes all data back.
    ///
    /// # Errors
    /// Writeback failed.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        let detached = command(&self.place).args(["volume", "detach", "root"]).status()?;
        ensure!(detached.success(), "what the guest has written cannot be written out");
        let status = self.daemon.wait()?;
        ensure!(status.success(), "the daemon has ended with {status}");
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn socket(place: &Path) -> PathBuf {
    place.join("runtime/root.sock")
}

/// Returns the program's command, with a separate runtime directory.
fn command(place: &Path) -> Command {
    let mut command = Command::new(cargo::target().join("release/overdrive"));
    command.env("XDG_RUNTIME_DIR", place.join("runtime"));
    command.env("XDG_STATE_HOME", place.join("state"));
    command
}

/// Starts a daemon and waits until it serves.
fn daemon(place: &Path) -> anyhow::Result<(Child, BufReader<ChildStdout>)> {
    let mut command = command(place);
    command.arg("serve").arg(disk(place, "root")).args(["--name", "root", "--memory", "256M"]);
    command.arg("--nbd").arg(format!("unix:{}", socket(place).display()));
    let mut daemon = command.stdout(Stdio::piped()).spawn().context("cannot start overdrive")?;
    let mut line = String::new();
    let mut output = BufReader::new(daemon.stdout.take().context("a pipe")?);
    output.read_line(&mut line)?;
    ensure!(line.contains("nbd"), "overdrive does not serve the guest's root");
    Ok((daemon, output))
}
