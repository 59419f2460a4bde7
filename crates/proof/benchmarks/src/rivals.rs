//! The other NBD servers of this machine.

use crate::client::BLOCK;
use crate::client::VOLUME;
use crate::processors::pinned;
use crate::program::{Program, paint};
use anyhow::{Context, Result};
use std::path::Path;

/// Starts nbdkit with a disk in its own memory, and writes every block: nbdkit answers reads of
/// unwritten blocks without a lookup.
///
/// # Errors
/// If it is not installed.
pub(crate) fn nbdkit_memory(processors: &str, socket: &Path, bytes: u64) -> Result<Program> {
    nbdkit_disk(processors, socket, bytes, &[])
}

/// Same as [`nbdkit_memory`], with the certificates of a directory for clients that start TLS.
///
/// # Errors
/// If it is not installed.
pub(crate) fn nbdkit_memory_tls(
    processors: &str,
    socket: &Path,
    bytes: u64,
    certificates: &Path,
) -> Result<Program> {
    let certificates = format!("--tls-certificates={}", certificates.display());
    nbdkit_disk(processors, socket, bytes, &["--tls=on", &certificates])
}

fn nbdkit_disk(processors: &str, socket: &Path, bytes: u64, options: &[&str]) -> Result<Program> {
    let mut command = pinned("nbdkit", processors);
    command.args(["--foreground", "--exit-with-parent", "--unix"]).arg(socket).args(options);
    command.args(["memory", &bytes.to_string()]);
    let program = Program::start(command, socket).context("nbdkit (apt-get install nbdkit)")?;
    let mut client = program.connect()?;
    let mut chunk = vec![0; 64 * BLOCK];
    for offset in (0..bytes).step_by(chunk.len()) {
        paint(&mut chunk, offset);
        client.write(offset, &chunk)?;
    }
    Ok(program)
}

/// Starts nbdkit with its filter `cache` over a file; blocks that are read stay in the filter's
/// cache, which is a file in TMPDIR.
///
/// # Errors
/// If it is not installed.
pub(crate) fn nbdkit_cache(processors: &str, socket: &Path, file: &Path) -> Result<Program> {
    let mut command = pinned("nbdkit", processors);
    command.args(["--foreground", "--exit-with-parent", "--filter=cache", "--unix"]).arg(socket);
    command.arg("file").arg(file).arg("cache-on-read=true");
    warmed(Program::start(command, socket).context("nbdkit (apt-get install nbdkit)")?)
}

/// Starts nbdkit over a file as the far end of a link: with its filters `rate` and `delay`, and
/// these parameters of theirs.
///
/// # Errors
/// If it is not installed.
pub(crate) fn nbdkit_link(
    processors: &str,
    socket: &Path,
    file: &Path,
    parameters: &[String],
) -> Result<Program> {
    let mut command = pinned("nbdkit", processors);
    // A delayed request occupies a thread.
    command.args(["--foreground", "--exit-with-parent", "--threads", "256"]);
    command.args(["--filter=rate", "--filter=delay", "--unix"]).arg(socket);
    command.arg("file").arg(file).args(parameters);
    Program::start(command, socket).context("nbdkit (apt-get install nbdkit)")
}

/// Starts qemu-nbd over a file in the host's page cache.
///
/// # Errors
/// If it is not installed.
pub(crate) fn qemu_nbd(processors: &str, socket: &Path, file: &Path) -> Result<Program> {
    let mut command = pinned("qemu-nbd", processors);
    command.args(["--persistent", "--format=raw", "--read-only", "--cache=writeback"]);
    command.args(["--export-name", VOLUME, "--socket"]).arg(socket).arg(file);
    warmed(Program::start(command, socket).context("qemu-nbd (apt-get install qemu-utils)")?)
}

/// Starts qemu-storage-daemon over a file in the host's page cache.
///
/// # Errors
/// If it is not installed.
pub(crate) fn storage_daemon(processors: &str, socket: &Path, file: &Path) -> Result<Program> {
    let mut command = pinned("qemu-storage-daemon", processors);
    let (file, socket_words) = (file.display(), socket.display());
    command.arg("--blockdev");
    command.arg(format!("driver=file,node-name=disk,read-only=on,filename={file}"));
    command.arg("--nbd-server").arg(format!("addr.type=unix,addr.path={socket_words}"));
    command.arg("--export").arg(format!("type=nbd,id=disk,node-name=disk,name={VOLUME}"));
    let program = Program::start(command, socket);
    warmed(program.context("qemu-storage-daemon (apt-get install qemu-system-common)")?)
}

fn warmed(program: Program) -> Result<Program> {
    program.connect()?.read_all()?;
    Ok(program)
}
