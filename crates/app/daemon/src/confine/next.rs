//! The check, before an upgrade, that the next program can start in this process. It has this
//! process's confinement, and reads the configuration file again. If it cannot start, the former
//! program cannot go on either, for the same reasons.

use super::{may_mount_on, state};
use crate::broker;
use crate::config::{self, Config};
use crate::control::statistics::ConfinedFiles;
use crate::front;
use crate::plan::{ConfigFile, MetricsAddress, NbdAddress, TlsPlan};
use block::Spec;
use nbd::client::{ExportAddress, ServerSocket};
use rustix::fs::{Mode, OFlags, open};
use stack::{Exit, Failure};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time for which a server may keep a connection waiting.
const CONNECT: Duration = Duration::from_secs(1);

/// Checks the configuration file of the daemon or, if it has none, the volumes that it serves and
/// its certificates. Keys that only the next program has are left to that one. `devices` are the
/// volumes that are devices now.
///
/// # Errors
/// Usage: the next program refuses the file. Permission: a volume needs what the confinement
/// forbids. Io: a backing cannot be opened.
pub(crate) fn check_next(
    program: &Path,
    file: Option<&ConfigFile>,
    tls: &TlsPlan,
    served: &[(String, Spec)],
    devices: &[String],
) -> Result<(), Failure> {
    if broker::present().is_some() && !broker::serves_daemons(program) {
        let message = "the next program cannot use the broker of this process, which removes its \
                       devices and mounts; not upgraded: restart the daemon instead (under \
                       systemd: systemctl restart)";
        return Err(Failure::new(Exit::Permission, message));
    }
    let Some(file) = file else {
        check_certificates(tls)?;
        return check_backings(served);
    };
    check_file(program, &file.path)?;
    let Ok(mut config) = config::read(&file.path) else { return Ok(()) };
    config.volumes.retain(|it| file.volume.as_ref().is_none_or(|only| *only == it.name));
    check_mounts(&config, devices)?;
    check_certificates(&config.tls)?;
    check_sockets(&config)?;
    let specs = config.volumes.iter().filter_map(|it| Some((it.name.clone(), it.spec().ok()?)));
    check_backings(&specs.collect::<Vec<_>>())
}

/// Has the next program check the file. An older program has no such command, and says nothing
/// about the file then.
fn check_file(program: &Path, file: &Path) -> Result<(), Failure> {
    let mut command = Command::new(program);
    command.args(["config", "check", "--json"]).arg(file).stdin(Stdio::null());
    let said = command.output().map(|output| output.stdout).unwrap_or_default();
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap_or_default();
    match said["mistakes"][0].as_str() {
        Some(mistake) if said["good"] == false => Err(not_upgraded(Exit::Usage, mistake)),
        _ => Ok(()),
    }
}

/// Checks that a confined process has the devices and the mounts already.
fn check_mounts(config: &Config, devices: &[String]) -> Result<(), Failure> {
    if state().files == ConfinedFiles::No && state().may_mount() {
        return Ok(());
    }
    let is_missing = |name: &String| !devices.contains(name);
    let attached = config.volumes.iter().find(|it| it.attach && is_missing(&it.name));
    let directory = config.fuse.as_deref();
    let may_mount = |directory| front::mountpoint(directory).is_some_and(|it| may_mount_on(&it));
    let is_forbidden = directory.is_some_and(|directory| !may_mount(directory));
    let mounted = config.volumes.first().filter(|_| is_forbidden);
    match attached.or(mounted) {
        Some(volume) => Err(forbidden(&volume.name, "a device or a mount")),
        None => Ok(()),
    }
}

fn check_certificates(tls: &TlsPlan) -> Result<(), Failure> {
    tls.open().map(drop).map_err(|failure| not_upgraded(failure.exit, &failure.message))
}

/// Makes a socket for a moment in the directory of each socket.
fn check_sockets(config: &Config) -> Result<(), Failure> {
    let addresses = config.nbd.iter().chain(config.volumes.iter().flat_map(|one| &one.nbd));
    let sockets = addresses.filter_map(|address| match address {
        NbdAddress::Unix(path) => Some(path.as_path()),
        NbdAddress::Tcp(_) => None,
    });
    let sockets = sockets.chain(config.metrics.as_ref().and_then(MetricsAddress::path));
    for socket in sockets {
        let probe = socket.with_file_name(format!(".overdrive.{}", std::process::id()));
        let bound = UnixListener::bind(&probe);
        let _ = fs::remove_file(&probe);
        if let Err(error) = bound {
            return Err(unusable("the socket", &socket.display().to_string(), &error));
        }
    }
    Ok(())
}

fn check_backings(volumes: &[(String, Spec)]) -> Result<(), Failure> {
    let own = open_files();
    for (name, spec) in volumes {
        for spec in spec.walk() {
            let (what, checked) = match spec {
                Spec::File { path, read_only, .. } => {
                    (path.display().to_string(), check_path(path, *read_only, &own))
                }
                Spec::Nbd { uri, .. } => (uri.clone(), connect(uri)),
                _ => continue,
            };
            checked.map_err(|error| unusable(name, &what, &error))?;
        }
    }
    Ok(())
}

/// Returns the file systems and numbers of the files that this process has open.
fn open_files() -> Vec<(u64, u64)> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| fs::metadata(entry.path()).ok());
    found.map(|found| (found.dev(), found.ino())).collect()
}

/// Opens a backing, unless this process has it open: the end of a writable handle would look like a
/// change by another program to the holder.
fn check_path(path: &PathBuf, read_only: bool, own: &[(u64, u64)]) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if own.contains(&(found.dev(), found.ino())) {
        return Ok(());
    }
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
    open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    Ok(())
}

fn connect(uri: &str) -> io::Result<()> {
    let parsed = ExportAddress::parse(uri);
    match parsed.map_err(|why| io::Error::new(ErrorKind::InvalidInput, why))?.socket {
        ServerSocket::Unix(path) => UnixStream::connect(path).map(drop),
        ServerSocket::Tcp { host, port } => {
            let mut last = io::Error::from(ErrorKind::NotFound);
            for address in (host.as_str(), port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT) {
                    Ok(_) => return Ok(()),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

fn unusable(name: &str, what: &str, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::PermissionDenied => forbidden(name, what),
        _ => not_upgraded(Exit::Io, &format!("{name}: {what}: {error}")),
    }
}

/// Returns the failure of an upgrade whose program would need what the confinement forbids.
pub(crate) fn forbidden(name: &str, what: &str) -> Failure {
    let message = format!(
        "{name}: needs {what}, which this process must not use since it serves; not upgraded: \
         restart the daemon instead (under systemd: systemctl restart)"
    );
    Failure::new(Exit::Permission, message)
}

fn not_upgraded(exit: Exit, why: &str) -> Failure {
    Failure::new(exit, format!("{why}; not upgraded: the running program continues"))
}
